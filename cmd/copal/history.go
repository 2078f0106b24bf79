package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

const historyHelp = `Show how far back the past of a store can be read, or change how long it is kept.

TIME is a time such as 36h or 7d: for so long what is overwritten and deleted stays in the
log. ever keeps all; none keeps nothing any more, and the next compaction gives back its
space. The store remembers it for whoever opens it. A program says the same by
copal.WithHistory, which wins when it opens the store. A longer time does not bring back
what has gone.

What is kept, copal log tells, and --at shows the store as it was.

With --json the output is {"keepMillis":…,"since":"…","seq":…}: every moment from that
record and that time on can be read. keepMillis is "ever" for ever, and null where no
history is kept; without "since" all of the store's life can be read, and without "seq"
the present alone. With "keepBytes" the past goes when so many bytes of the log are behind
it, as copal.WithHistoryBytes asks. TIME ends that.`

func newHistory(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history DIR [TIME]",
		Short:   "Show or change how long the past is kept",
		Long:    historyHelp,
		Example: "  copal history app.db\n  copal history app.db 7d\n  copal get app.db users:alice --at \"10 minutes ago\"",
		Args:    arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"7d", "ever", "none"}, cobra.ShellCompDirectiveNoFileComp
			}
			return completeDir(cmd, args, word)
		},
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			show := func(db *copal.DB) error { return writeWindow(db, asJSON, out) }
			if len(args) == 1 {
				return a.view(args[0], show)
			}
			keep, err := parseKeep(args[1])
			if err != nil {
				return err
			}
			return a.update(args[0], func(db *copal.DB) error {
				if err := admin.BeginHistory(db); err != nil {
					return err
				}
				return show(db)
			}, copal.WithHistory(keep))
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON object")
	return cmd
}

// parseKeep is how long history is to be kept.
func parseKeep(text string) (time.Duration, error) {
	switch text {
	case "ever":
		return copal.Forever, nil
	case "none":
		return 0, nil
	}
	d, err := parseTTL(text)
	if err != nil {
		return 0, usageError{fmt.Sprintf("%q is no time to keep history; one is written like 36h or 7d, or it is ever or none", text)}
	}
	return d, nil
}

func writeWindow(db *copal.DB, asJSON bool, out *bufio.Writer) error {
	w, some := admin.History(db)
	if asJSON {
		return writeWindowJSON(w, some, out)
	}
	kept := "nothing is kept of the past"
	switch {
	case w.Keep == copal.Forever:
		kept = "all of the past is kept"
	case w.Keep > 0:
		kept = "the past is kept for " + showSpan(w.Keep)
	}
	if w.Bytes > 0 {
		kept += fmt.Sprintf(", until %s bytes of the log are behind it", showBytes(w.Bytes))
	}
	since := "all of the store's life can be read"
	switch {
	case !some:
		since = "the present alone can be read"
	case !w.Time.IsZero():
		since = fmt.Sprintf("every moment since %s (record %d) can be read", showTime(w.Time), w.Seq)
	case w.Keep == 0:
		since += " until it is compacted"
	}
	_, err := fmt.Fprintf(out, "%s; %s\n", kept, since)
	return err
}

func writeWindowJSON(w admin.Window, some bool, out *bufio.Writer) error {
	line := struct {
		Keep  any       `json:"keepMillis"`
		Bytes int64     `json:"keepBytes,omitempty"`
		Since *jsonTime `json:"since,omitempty"`
		Seq   *uint64   `json:"seq,omitempty"`
	}{Bytes: w.Bytes}
	switch {
	case w.Keep == copal.Forever:
		line.Keep = "ever"
	case w.Keep > 0:
		line.Keep = w.Keep.Milliseconds()
	}
	if !w.Time.IsZero() {
		line.Since = (*jsonTime)(&w.Time)
	}
	if some {
		line.Seq = &w.Seq
	}
	return writeJSON(out, line)
}

// showSpan is a time as parseTTL reads it, from two days on with its days: 36h, 2d, 3d1h30m.
func showSpan(d time.Duration) string {
	const day = 24 * time.Hour
	days := ""
	if d >= 2*day || d == day {
		days, d = fmt.Sprintf("%dd", d/day), d%day
	}
	if d == 0 && days != "" {
		return days
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} { // 2h0m0s
		if short, is := strings.CutSuffix(text, zero); is {
			text = short + zero[:1]
		}
	}
	return days + text
}
