package admin

import (
	"context"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
)

// Restore makes, in the directory into, a store with the contents of the backup in from. into must
// be empty or missing; after an error it is empty or missing again. Restore verifies every record,
// and shares no file with the backup. progress, which may be nil, is called with the bytes copied
// so far and the bytes of the backup. Of the options only copal.WithFileMode has an effect.
func Restore(ctx context.Context, from, into string, progress func(done, total int64), opts ...copal.Option) (copal.BackupReport, error) {
	return restore(ctx, from, into, backup.Options{Progress: progress}, opts)
}

// RestoreAsOf is Restore of the moment after record n, from a backup or a store: the entries that
// DB.AsOfSeq(n) shows. The new store has the past of that moment, as far as the old one has, and
// its sequence numbers continue from n. The error is copal.ErrHistoryLost if that moment cannot be
// read any more.
func RestoreAsOf(ctx context.Context, from, into string, n uint64, progress func(done, total int64), opts ...copal.Option) (copal.BackupReport, error) {
	at := seglog.AtSeq(n)
	return restore(ctx, from, into, backup.Options{At: &at, Progress: progress}, opts)
}

func restore(ctx context.Context, from, into string, how backup.Options, opts []copal.Option) (copal.BackupReport, error) {
	disk, err := opened.Disk(opts)
	if err == nil {
		how.FS = disk
		from, err = absolute(from)
	}
	if err == nil {
		into, err = absolute(into)
	}
	if err != nil {
		return copal.BackupReport{}, err
	}
	r, err := backup.Restore(ctx, from, into, how)
	return report(r), err
}

// BackupAsOf is DB.Backup of the moment after record n: the entries that DB.AsOfSeq(n) shows. The
// backup has the past of that moment, as far as the store has. dir must be missing or empty; a
// later DB.Backup brings it up to date. The error is copal.ErrHistoryLost if that moment cannot be
// read any more.
func BackupAsOf(ctx context.Context, db *copal.DB, n uint64, dir string, progress func(done, total int64)) (copal.BackupReport, error) {
	dir, err := absolute(dir)
	if err != nil {
		return copal.BackupReport{}, err
	}
	at := seglog.AtSeq(n)
	r, err := backup.Make(ctx, opened.Engine(db), dir, backup.Options{At: &at, Progress: progress})
	return report(r), err
}

func report(r backup.Report) copal.BackupReport {
	return copal.BackupReport{Bytes: r.Bytes, Linked: r.Linked, Copied: r.Copied}
}
