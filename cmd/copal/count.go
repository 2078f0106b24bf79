package main

import (
	"bufio"
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const countHelp = `Count the entries of a store, those whose keys begin with PREFIX if it is given, and that
--match stands for.

Without PREFIX, and for a whole map such as users: nothing is read; the store knows. ` + matchHelp + `

--at MOMENT counts those that there were then; see copal --help.

With --json the output is {"keys":…}.`

func newCount(a *app) *cobra.Command {
	var asJSON bool
	var f selectionFlags
	var at *momentFlag
	var exists existsFlag
	cmd := &cobra.Command{
		Use:               "count DIR [PREFIX]",
		Short:             "Count entries",
		Long:              countHelp,
		Example:           "  copal count app.db\n  copal count app.db users:\n  copal count app.db --match 'users:*@example.com'",
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeKey(1),
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		s, err := f.parse(cmd, args[1:])
		if err != nil {
			return err
		}
		return at.view(args[0], func(from source) error {
			if err := exists.check(a, from, s.prefix); err != nil {
				return err
			}
			return a.count(from, s, asJSON, out)
		})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the number as JSON")
	f.addMatch(cmd)
	f.addQuoted(cmd, "PREFIX")
	exists.add(cmd)
	at = a.addAt(cmd, "read")
	return cmd
}

func (a *app) count(from source, s selection, asJSON bool, out *bufio.Writer) error {
	n, err := a.countKeys(from, s, "counting")
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(out, struct {
			Keys int64 `json:"keys"`
		}{n})
	}
	_, err = fmt.Fprintln(out, n)
	return err
}

// countKeys counts the selected entries. On a terminal it shows how far it is, as what.
func (a *app) countKeys(from source, s selection, what string) (n int64, err error) {
	if s.everything() {
		return int64(from.raw().Len()), nil
	}
	if s.pattern == nil {
		for name, keys := range from.maps() {
			if bytes.Equal(s.prefix, copal.MapPrefix(name)) {
				return int64(keys), nil
			}
		}
	}
	meter := a.newMeter(what, "keys", -1)
	defer meter.end()
	for range a.keys(from, s) {
		n++
		meter.add()
	}
	return n, a.ctx.Err()
}
