package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const compactHelp = `Give back all the space that can be given back: of what was overwritten, deleted or has
expired. What the store holds stays as it is.

A store does that by itself while a program has it open, as soon as the log is twice as
long as what counts in it, and 32 MiB longer. This takes what is left, and needs room for
one file of the log at most. Files are replaced one by one, so it may be interrupted: what
it has given back by then stays given back. Less than 1 KiB is left as it is.

With --json the output is {"before":{…},"after":{…}}, each with logBytes, segments and
records.`

func newCompact(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "compact DIR",
		Short:             "Give back space",
		Long:              compactHelp,
		Example:           "  copal compact app.db\n  copal compact app.db --json | jq .after.logBytes",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			return a.Update(args[0], func(db *copal.DB) error { return upkeep.Compact(a, db, asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the sizes before and after as one JSON object")
	return cmd
}
