package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/exporting"
)

const exportHelp = `Write entries as lines of JSON, from which 'copal import' makes the same entries again.

A line holds an entry: its key, its deadline, and its value, as JSON where it is JSON,
as text where it is text, and else as base64. Encoded values stay encoded, and a line
names their codec and type; see docs/export-format.md. All of it is the store at
one moment, whatever a process writes meanwhile, in the order of the keys. --at MOMENT
takes an earlier one; see copal --help.

FILE "-", or none, is standard output. A file appears under its name when it is whole;
until then it is FILE.part. If the command is interrupted, or the disk is full, that
stays, and --continue goes on after its last whole line; also in a FILE that was cut.
If the store has changed since, --continue needs --mixed, for then the file is the store
at two moments, one part after the other.

The last line says that the export is whole, and has a checksum of it.

DIR may be a server: redis://host:port. A copal serve is exported as it is at one
moment, with all that its directory has. A plain Redis has no moments: writes during the
export may be in it or not, all its keys are in memory, and --continue needs --mixed. A
value of a module there is an error, unless --skip-bad leaves it out. Of a server one
collection at a time is in memory, and --seq and --at are refused.`

const exportExample = `  copal export app.db > dump.ndjson
  copal export app.db --map users users.ndjson
  copal export app.db dump.ndjson --continue
  copal export app.db | ssh host copal import app.db
  copal export redis://localhost:6379 dump.ndjson`

func newExport(a *cli.App) *cobra.Command {
	var f exporting.Flags
	cmd := &cobra.Command{
		Use:     "export DIR [FILE]",
		Short:   "Write entries as lines of JSON",
		Long:    exportHelp,
		Example: exportExample,
		Args:    cli.Arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return cli.CompleteDir(cmd, args, word)
		},
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		return f.Run(a, args, cmd.Flags().Changed("after"), out)
	})
	f.Bind(a, cmd)
	return cmd
}
