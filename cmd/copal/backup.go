package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const backupHelp = `Make a backup of a store in the directory TO, or bring the one that is there up to date.

The backup is one state of the store, which may be in use meanwhile, and is itself a
store: all commands that read take it, and copal restore makes a store of it again.
TO is created when it is missing; a directory with anything but an earlier backup of
this store is refused. After an error or an interruption the earlier backup is still
there, whole.

On the same file system files that do not change any more are shared, as hard links:
that costs little, and does not survive the disk.

--at MOMENT makes a backup of the store as it was then, with its past up to then, in a
directory that has none yet. Without --at it can be brought up to date later.

With --json the output is {"bytes":…,"linked":…,"copied":…}: of the log, and of these
those that are shared, and those that were copied, by this call.`

func newBackup(a *cli.App) *cobra.Command {
	var asJSON bool
	var at *cli.MomentFlag
	cmd := &cobra.Command{
		Use:               "backup DIR TO",
		Short:             "Make a backup, of a live store, too",
		Long:              backupHelp,
		Example:           "  copal backup app.db /mnt/backup/app.db\n  copal check /mnt/backup/app.db",
		Args:              cli.Arguments(2, 2),
		ValidArgsFunction: cli.CompleteDirs,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			if args[1] == "" {
				return cli.ErrNoDir
			}
			defer a.CatchSignals()()
			return a.View(args[0], func(db *copal.DB) error { return upkeep.Backup(a, db, args[1], at.Moment, asJSON, out) })
		}),
	}
	at = a.AddAt(cmd, "back up")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object")
	return cmd
}
