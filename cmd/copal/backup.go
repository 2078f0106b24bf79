package main

import (
	"bufio"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

const backupHelp = `Make a backup of a store in the directory TO, or bring the one that is there up to date.

The backup is one state of the store, which may be in use meanwhile, and is itself a
store: all commands that read take it, and copal restore makes a store of it again.
TO is created when it is missing; a directory with anything but an earlier backup of
this store is refused. After an error or an interruption the earlier backup is still
there, whole.

On the same file system files that do not change any more are shared, as hard links:
that costs little, and does not survive the disk.

With --json the output is {"bytes":…,"linked":…,"copied":…}: of the log, and of these
those that are shared, and those that were copied, by this call.`

const restoreHelp = `Make a store in DIR of the backup in FROM, which copal backup has made.

DIR must be missing or empty. Every record is verified, and no file is shared with the
backup. After an error or an interruption nothing is left in DIR.

With --json the output is {"bytes":…,"copied":…}.`

func newBackup(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "backup DIR TO",
		Short:             "Make a backup, of a live store, too",
		Long:              backupHelp,
		Example:           "  copal backup app.db /mnt/backup/app.db\n  copal check /mnt/backup/app.db",
		Args:              arguments(2, 2),
		ValidArgsFunction: completeDirs,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			if args[1] == "" {
				return errNoDir
			}
			defer a.catchSignals()()
			return a.view(args[0], func(db *copal.DB) error { return a.backup(db, args[1], asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	return cmd
}

func (a *app) backup(db *copal.DB, to string, asJSON bool, out *bufio.Writer) error {
	bar := a.newProgress("backing up")
	report, err := db.Backup(a.ctx, to, bar.show)
	bar.clear()
	switch {
	case err != nil:
		return err
	case asJSON:
		return writeJSON(out, struct {
			Bytes  int64 `json:"bytes"`
			Linked int64 `json:"linked"`
			Copied int64 `json:"copied"`
		}{report.Bytes, report.Linked, report.Copied})
	}
	_, err = fmt.Fprintf(out, "%s: a backup of %s bytes, of which %s were copied now and %s are shared with the store since now\n",
		to, showBytes(report.Bytes), showBytes(report.Copied), showBytes(report.Linked))
	return err
}

func newRestore(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "restore DIR FROM",
		Short:             "Make a store of a backup",
		Long:              restoreHelp,
		Example:           "  copal restore app.db /mnt/backup/app.db",
		Args:              arguments(2, 2),
		ValidArgsFunction: completeDirs,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			defer a.catchSignals()()
			return a.restore(args[0], args[1], asJSON, out)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	return cmd
}

func (a *app) restore(dir, from string, asJSON bool, out *bufio.Writer) error {
	if dir == "" {
		return errNoDir
	}
	if err := requireStore(from); err != nil {
		return fmt.Errorf("%w; the arguments are the store to make and the backup to make it of", err)
	}
	bar := a.newProgress("restoring")
	report, err := admin.Restore(a.ctx, from, dir, bar.show)
	bar.clear()
	switch {
	case err != nil:
		return err
	case asJSON:
		return writeJSON(out, struct {
			Bytes  int64 `json:"bytes"`
			Copied int64 `json:"copied"`
		}{report.Bytes, report.Copied})
	}
	_, err = fmt.Fprintf(out, "%s: a store of %s bytes\n", dir, showBytes(report.Bytes))
	return err
}
