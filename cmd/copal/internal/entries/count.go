package entries

import (
	"bufio"
	"bytes"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Count prints the number of the selected entries.
func Count(a *cli.App, from cli.Source, s cli.Selection, asJSON bool, out *bufio.Writer) error {
	n, err := countKeys(a, from, s, "counting")
	if err != nil {
		return err
	}
	if asJSON {
		return cli.WriteJSON(out, struct {
			Keys int64 `json:"keys"`
		}{n})
	}
	_, err = fmt.Fprintln(out, n)
	return err
}

// countKeys counts the selected entries. On a terminal it shows its progress, with a label.
func countKeys(a *cli.App, from cli.Source, s cli.Selection, what string) (n int64, err error) {
	if s.Everything() {
		return int64(from.Raw().Len()), nil
	}
	if s.Pattern == nil {
		for name, keys := range from.Maps() {
			if bytes.Equal(s.Prefix, copal.MapPrefix(name)) {
				return int64(keys), nil
			}
		}
	}
	meter := a.NewMeter(what, "keys", -1)
	defer meter.End()
	for range a.Keys(from, s) {
		n++
		meter.Add()
	}
	return n, a.Ctx.Err()
}
