package main

import (
	"bufio"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/built"
)

const versionHelp = `Print the version of this command, of the file format it writes, and of Go.

A command reads stores of its own format version and of every earlier one.`

func newVersion(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print versions",
		Long:              versionHelp,
		Example:           "  copal version\n  copal version --json",
		Args:              cli.Arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.Runs(func(_ []string, out *bufio.Writer) error {
			if asJSON {
				return cli.WriteJSON(out, built.Read())
			}
			_, err := fmt.Fprintln(out, built.Read())
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the versions as one JSON object")
	return cmd
}
