package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const hasHelp = `Report by the exit code whether there are entries for all the keys: 0 if there are,
3 if one is missing. Nothing is printed.

With --json there is a line for each key: {"key":…,"exists":true}.`

func newHas(a *cli.App) *cobra.Command {
	var asJSON, quoted bool
	cmd := &cobra.Command{
		Use:               "has DIR KEY...",
		Short:             "Report by the exit code whether there is an entry",
		Long:              hasHelp,
		Example:           "  copal has app.db users:alice && echo welcome back\n  copal has app.db users:alice users:bob --json",
		Args:              cli.Arguments(2, cli.AnyNumber),
		ValidArgsFunction: a.CompleteKey(cli.AnyNumber),
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			keys, err := cli.ParseKeys(args[1:], quoted)
			if err != nil {
				return err
			}
			return a.View(args[0], func(db *copal.DB) error { return entries.Has(a, db, keys, asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each key")
	cmd.Flags().BoolVarP(&quoted, "quoted", "Q", false, cli.QuotedUsage)
	return cmd
}
