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

--at MOMENT makes a backup of the store as it was then, with its past up to then, in a
directory that has none yet. Without --at it can be brought up to date later.

With --json the output is {"bytes":…,"linked":…,"copied":…}: of the log, and of these
those that are shared, and those that were copied, by this call.`

const restoreHelp = `Make a store in DIR of the backup in FROM, which copal backup has made; or of a store.

DIR must be missing or empty. Every record is verified, and no file is shared with the
backup. After an error nothing is left in DIR. When restore is killed, DIR says that it is
unfinished, and the same command begins again. restore FROM DIR is understood when only
FROM exists.

--at MOMENT makes the store as it was then, with its maps and its past up to then. FROM
may be in use meanwhile, and stays as it is. What has expired since is not there.

With --json the output is {"bytes":…,"copied":…}.`

func newBackup(a *app) *cobra.Command {
	var asJSON bool
	var at *momentFlag
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
			return a.view(args[0], func(db *copal.DB) error { return a.backup(db, args[1], at.moment, asJSON, out) })
		}),
	}
	at = a.addAt(cmd, "back up")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	return cmd
}

func (a *app) backup(db *copal.DB, to string, at *moment, asJSON bool, out *bufio.Writer) error {
	seq, past, err := at.record(db)
	if err != nil {
		return err
	}
	bar := a.newProgress("backing up")
	var report copal.BackupReport
	if past {
		report, err = admin.BackupAsOf(a.ctx, db, seq, to, bar.show)
		err = explainLost(db, err)
	} else {
		report, err = db.Backup(a.ctx, to, bar.show)
	}
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
	var at *momentFlag
	cmd := &cobra.Command{
		Use:               "restore DIR FROM",
		Short:             "Make a store of a backup",
		Long:              restoreHelp,
		Example:           "  copal restore app.db /mnt/backup/app.db\n  copal restore yesterday.db app.db --at \"1 day ago\"",
		Args:              arguments(2, 2),
		ValidArgsFunction: completeDirs,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			defer a.catchSignals()()
			return a.restore(args[0], args[1], at.moment, asJSON, out)
		}),
	}
	at = a.addAt(cmd, "make")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	return cmd
}

func (a *app) restore(dir, from string, at *moment, asJSON bool, out *bufio.Writer) error {
	if dir == "" {
		return errNoDir
	}
	again := isRestoreOf(from, dir)
	if err := requireStore(from); err != nil || again {
		if !again && (from == "" || exists(from) || requireStore(dir) != nil) {
			return fmt.Errorf("%w; the arguments are DIR, the store to make, and FROM, the backup to make it of", err)
		}
		dir, from = from, dir // only one of them can be meant
		a.note("making " + dir + " of " + from + ": the arguments of restore are DIR FROM")
	}
	report, err := a.restoreAt(dir, from, at)
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

// restoreAt makes a store of a backup, or of the moment of a store.
func (a *app) restoreAt(dir, from string, at *moment) (report copal.BackupReport, err error) {
	bar := a.newProgress("restoring")
	defer bar.clear()
	if at == nil || at.isNow() {
		return admin.Restore(a.ctx, from, dir, bar.show, a.withMode())
	}
	err = a.with(from, func(db *copal.DB) error {
		seq, _, err := at.record(db)
		if err == nil {
			report, err = admin.RestoreAsOf(a.ctx, from, dir, seq, bar.show, a.withMode())
		}
		return explainLost(db, err)
	}, copal.ReadOnly())
	return report, err
}
