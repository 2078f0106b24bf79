package copal

import (
	"context"
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/backup"
	"github.com/copaldb/copal/internal/files"
)

// BackupReport is the result of DB.Backup or admin.Restore.
type BackupReport struct {
	Bytes  int64 // bytes of the log in the backup
	Linked int64 // bytes in files that this call hard-linked to files of the store
	Copied int64 // bytes that this call wrote; the rest was in the backup before
}

// Backup makes a backup of the store in directory dir, and creates the directory when it is
// missing. The backup is one state of the store. It holds every write that was acknowledged before
// the call, whatever its durability, but no value of SetInMemory. Reading and writing go on
// meanwhile. When Backup returns, the backup is on the disk.
//
// Where the file system has hard links, the backup shares the finished files of the store. So a
// backup on the same disk costs little, and does not survive that disk. If dir holds an earlier
// backup of this store, Backup adds the missing files; after an error or a crash dir still holds
// that earlier backup, whole. Any other dir that is not empty is refused.
//
// A backup is a store: Open it with ReadOnly to look, or admin.Restore it. A backup that was
// written to is refused from then on.
//
// progress, which may be nil, is called with the bytes of the log that are in the backup so far and
// the bytes of the whole log. When ctx ends, Backup returns its error.
func (db *DB) Backup(ctx context.Context, dir string, progress func(done, total int64)) (BackupReport, error) {
	if dir == "" {
		return BackupReport{}, errors.New("copal: Backup needs the name of a directory")
	}
	opts := backup.Options{FS: db.config.backupTo, Progress: progress}
	if opts.FS == nil || opts.FS == db.config.disk() {
		var err error
		if dir, err = files.Path(dir); err != nil {
			return BackupReport{}, fmt.Errorf("copal: %w", err)
		}
	}
	r, err := backup.Make(ctx, db.store, dir, opts)
	return backupReport(r), err
}

func backupReport(r backup.Report) BackupReport {
	return BackupReport{Bytes: r.Bytes, Linked: r.Linked, Copied: r.Copied}
}
