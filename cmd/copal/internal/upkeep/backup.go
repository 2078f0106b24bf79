package upkeep

import (
	"bufio"
	"fmt"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Backup makes a backup in a directory, or updates the one that is there.
func Backup(a *cli.App, db *copal.DB, to string, at *cli.Moment, asJSON bool, out *bufio.Writer) error {
	seq, past, err := at.Record(db)
	if err != nil {
		return err
	}
	bar := a.NewProgress("backing up")
	var report copal.BackupReport
	if past {
		report, err = admin.BackupAsOf(a.Ctx, db, seq, to, bar.Show)
		err = cli.ExplainLost(db, err)
	} else {
		report, err = db.Backup(a.Ctx, to, bar.Show)
	}
	bar.Clear()
	switch {
	case err != nil:
		return err
	case asJSON:
		return cli.WriteJSON(out, struct {
			Bytes  int64 `json:"bytes"`
			Linked int64 `json:"linked"`
			Copied int64 `json:"copied"`
		}{report.Bytes, report.Linked, report.Copied})
	}
	_, err = fmt.Fprintf(out, "%s: a backup of %s bytes, of which %s were copied now and %s are shared with the store since now\n",
		to, cli.ShowBytes(report.Bytes), cli.ShowBytes(report.Copied), cli.ShowBytes(report.Linked))
	return err
}

// Restore makes a store of a backup, or of a store.
func Restore(a *cli.App, dir, from string, at *cli.Moment, asJSON bool, out *bufio.Writer) error {
	if dir == "" {
		return cli.ErrNoDir
	}
	again := cli.IsRestoreOf(from, dir)
	if err := cli.RequireStore(from); err != nil || again {
		if !again && (from == "" || cli.Exists(from) || cli.RequireStore(dir) != nil) {
			return fmt.Errorf("%w; the arguments are DIR, the store to make, and FROM, the backup to make it of", err)
		}
		dir, from = from, dir // only one of them can be meant
		a.Note("making " + dir + " of " + from + ": the arguments of restore are DIR FROM")
	}
	report, err := restoreAt(a, dir, from, at)
	switch {
	case err != nil:
		return err
	case asJSON:
		return cli.WriteJSON(out, struct {
			Bytes  int64 `json:"bytes"`
			Copied int64 `json:"copied"`
		}{report.Bytes, report.Copied})
	}
	_, err = fmt.Fprintf(out, "%s: a store of %s bytes\n", dir, cli.ShowBytes(report.Bytes))
	return err
}

// restoreAt makes a store of a backup, or of the moment of a store.
func restoreAt(a *cli.App, dir, from string, at *cli.Moment) (report copal.BackupReport, err error) {
	bar := a.NewProgress("restoring")
	defer bar.Clear()
	if at == nil || at.IsNow() {
		return admin.Restore(a.Ctx, from, dir, bar.Show, a.WithMode())
	}
	err = a.With(from, func(db *copal.DB) error {
		seq, _, err := at.Record(db)
		if err == nil {
			report, err = admin.RestoreAsOf(a.Ctx, from, dir, seq, bar.Show, a.WithMode())
		}
		return cli.ExplainLost(db, err)
	}, copal.ReadOnly())
	return report, err
}
