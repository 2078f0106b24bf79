package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const compactHelp = `Give back all space that can be given back: that of overwritten, deleted and expired
entries. The entries of the store stay.

A store does that by itself while a program has it open, as soon as the log is twice as
long as its live records, and 32 MiB longer. compact takes the rest, and needs room for one
file of the log at most. Files are replaced one by one, so an interruption keeps the space
that was given back by then. Less than 1 KiB is not given back.

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
