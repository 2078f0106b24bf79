package upkeep

import (
	"bufio"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// WriteWindow prints how long the past is kept, and since when.
func WriteWindow(db *copal.DB, asJSON bool, out *bufio.Writer) error {
	w, some := admin.History(db)
	if asJSON {
		return writeWindowJSON(w, some, out)
	}
	kept := "nothing is kept of the past"
	switch {
	case w.Keep == copal.Forever:
		kept = "all of the past is kept"
	case w.Keep > 0:
		kept = "the past is kept for " + cli.ShowSpan(w.Keep)
	}
	if w.Bytes > 0 {
		kept += fmt.Sprintf(", until %s bytes of the log are behind it", cli.ShowBytes(w.Bytes))
	}
	since := "all of the store's life can be read"
	switch {
	case !some:
		since = "the present alone can be read"
	case !w.Time.IsZero():
		since = fmt.Sprintf("every moment since %s (record %d) can be read", cli.ShowTime(w.Time), w.Seq)
	case w.Keep == 0:
		since += " until it is compacted"
	}
	_, err := fmt.Fprintf(out, "%s; %s\n", kept, since)
	return err
}

func writeWindowJSON(w admin.Window, some bool, out *bufio.Writer) error {
	line := struct {
		Keep  any           `json:"keepMillis"`
		Bytes int64         `json:"keepBytes,omitempty"`
		Since *cli.JSONTime `json:"since,omitempty"`
		Seq   *uint64       `json:"seq,omitempty"`
	}{Bytes: w.Bytes}
	switch {
	case w.Keep == copal.Forever:
		line.Keep = "ever"
	case w.Keep > 0:
		line.Keep = w.Keep.Milliseconds()
	}
	if !w.Time.IsZero() {
		line.Since = (*cli.JSONTime)(&w.Time)
	}
	if some {
		line.Seq = &w.Seq
	}
	return cli.WriteJSON(out, line)
}
