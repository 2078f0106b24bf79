package copal

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/vfs"
)

// BackupReport says what DB.Backup or admin.Restore has done.
type BackupReport struct {
	Bytes  int64 // of the log
	Linked int64 // of these, in files that the backup shares with the store since now, as hard links
	Copied int64 // of these, written now; the rest was there
}

// Backup makes a backup of the store in directory dir, which is created when it is missing. It holds every
// write that was acknowledged before the call, of any durability, but not what SetInMemory has put over an
// entry; and it is one state of the store. Reading and writing go on meanwhile. When Backup returns, the
// backup is on the disk.
//
// Files that do not change any more are shared with the store where the file system has hard links. So a
// backup on the same disk costs little, and does not survive the disk. A dir that holds an earlier backup of
// this store gets what it lacks; after an error or a crash it holds that earlier backup, whole. Any other
// dir that is not empty is refused.
//
// A backup is a store: Open it with ReadOnly to look, or admin.Restore it. One that was written to is
// refused from then on.
//
// progress, which may be nil, is told how many bytes of the log, of all, the backup has. When ctx ends, so
// does Backup, with its error.
func (db *DB) Backup(ctx context.Context, dir string, progress func(done, total int64)) (BackupReport, error) {
	opts := backup.Options{FS: db.config.backupTo, Progress: progress}
	if opts.FS == nil || opts.FS == vfs.OS() {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return BackupReport{}, fmt.Errorf("copal: %w", err)
		}
	}
	r, err := backup.Make(ctx, db.store, dir, opts)
	return backupReport(r), err
}

func backupReport(r backup.Report) BackupReport {
	return BackupReport{Bytes: r.Bytes, Linked: r.Linked, Copied: r.Copied}
}
