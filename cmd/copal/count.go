package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const countHelp = `Count the entries of a store, those whose keys begin with PREFIX if it is given, and that
--match stands for.

Without PREFIX, and for a whole map such as users: nothing is read; the store knows. ` + cli.MatchHelp + `

--at MOMENT counts those that there were then; see copal --help.

With --json the output is {"keys":…}.`

func newCount(a *cli.App) *cobra.Command {
	var asJSON bool
	var f cli.SelectionFlags
	var at *cli.MomentFlag
	var exists cli.ExistsFlag
	cmd := &cobra.Command{
		Use:               "count DIR [PREFIX]",
		Short:             "Count entries",
		Long:              countHelp,
		Example:           "  copal count app.db\n  copal count app.db users:\n  copal count app.db --match 'users:*@example.com'",
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		s, err := f.Parse(cmd, args[1:])
		if err != nil {
			return err
		}
		return at.View(args[0], func(from cli.Source) error {
			if err := exists.Check(a, from, s.Prefix); err != nil {
				return err
			}
			return entries.Count(a, from, s, asJSON, out)
		})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the number as JSON")
	f.AddMatch(cmd)
	f.AddQuoted(cmd, "PREFIX")
	exists.Add(cmd)
	at = a.AddAt(cmd, "read")
	return cmd
}
