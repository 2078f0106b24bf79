package main

import (
	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

const rangeHelp = `Print the entries with keys in [FROM, TO), in order: FROM is among them, and TO is not.
Without TO it goes to the last key; an empty FROM begins with the first. With --reverse
FROM is still the smaller one.

Keys come in the order of their bytes, and the keys of a map in the order of their type:
if posts has integers as keys, posts:9 is before posts:12, and "range app.db posts:9
posts:12" prints 9, 10 and 11. A bound in such a map has to be a key of the type; of a
time, a date is one, too.

The output is that of copal scan.`

const rangeExample = `  copal range app.db log:2026-11-01 log:2026-12-01
  copal range app.db log: --limit 100
  copal range app.db '' users: --reverse --keys`

func newRange(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "range DIR FROM [TO]",
		Short:   "Print entries, in order, from a key up to another",
		Long:    rangeHelp,
		Example: rangeExample,
		Args:    cli.Arguments(2, 3),
	}
	makeScan(a, cmd, "FROM and TO", func(s *cli.Selection, keys [][]byte) {
		if s.From = keys[0]; len(keys) > 1 {
			s.To = keys[1]
		}
	})
	return cmd
}
