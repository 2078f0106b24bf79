package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const checkHelp = `Read every byte of a store and verify every checksum.

Nothing is changed and no lock is taken; it may run beside the process that writes.
Each problem is listed with its file, the offset of its first byte, and what is wrong.
A torn tail, the end of a record that a crash cut short, is no problem: it was never
acknowledged as durable. A copy of a store that was not closed may lack the last writes
of that: it is not called sound, and the exit code is 1 without --copied.

The exit code is 0 when the store is sound and 6 when it is corrupt.`

func newCheck(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "check DIR",
		Short:             "Verify that nothing is damaged",
		Long:              checkHelp,
		Example:           "  copal check app.db\n  copal check app.db --json | jq .problems",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			return upkeep.Check(a, args[0], asJSON, out)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	return cmd
}
