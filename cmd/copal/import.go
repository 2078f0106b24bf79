package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importing"
)

func newImport(a *cli.App) *cobra.Command {
	var f importing.Flags
	cmd := &cobra.Command{
		Use:     "import DIR [FILE]",
		Short:   "Read entries from a file or a server",
		Long:    importing.Help,
		Example: importing.Example,
		Args:    cli.Arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return cli.CompleteDir(cmd, args, word)
		},
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		return f.Run(a, args, cmd.Flags().Changed("map"), out)
	})
	f.Bind(cmd)
	return cmd
}
