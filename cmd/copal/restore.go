package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const restoreHelp = `Make a store in DIR of the backup in FROM, which copal backup has made; or of a store.

DIR must be missing or empty. Every record is verified, and no file is shared with the
backup. After an error nothing is left in DIR. When restore is killed, DIR says that it is
unfinished, and the same command begins again. restore FROM DIR is understood when only
FROM exists.

--at MOMENT makes the store as it was then, with its maps and its past up to then. FROM
may be in use meanwhile, and is unchanged. Entries that have expired since are not there.

With --json the output is {"bytes":…,"copied":…}.`

func newRestore(a *cli.App) *cobra.Command {
	var asJSON bool
	var at *cli.MomentFlag
	cmd := &cobra.Command{
		Use:               "restore DIR FROM",
		Short:             "Make a store of a backup",
		Long:              restoreHelp,
		Example:           "  copal restore app.db /mnt/backup/app.db\n  copal restore yesterday.db app.db --at \"1 day ago\"",
		Args:              cli.Arguments(2, 2),
		ValidArgsFunction: cli.CompleteDirs,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			defer a.CatchSignals()()
			return upkeep.Restore(a, args[0], args[1], at.Moment, asJSON, out)
		}),
	}
	at = a.AddAt(cmd, "make")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	return cmd
}
