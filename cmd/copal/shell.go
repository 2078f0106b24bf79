package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/shell"
)

const shellExample = `  copal shell app.db
  echo 'incr visits' | copal shell app.db
  copal shell app.db < change.copal`

func newShell(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:               "shell DIR",
		Short:             "Work in a store interactively, or by a script",
		Long:              shell.Help,
		Example:           shellExample,
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: a.Runs(func(args []string, _ *bufio.Writer) error {
			if !cli.IsServer(args[0]) {
				if err := cli.RequireStore(args[0]); err != nil {
					return err
				}
			}
			return shell.Run(a, args[0], newRoot)
		}),
	}
}
