package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// removeLeftover removes a file that a crash left behind before the manifest named it.
func (l *log) removeLeftover(id record.SegmentID) error {
	if err := seglog.CheckLeftover(l.fsys, l.dir, id, l.storeID); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return l.fsys.Remove(filepath.Join(l.dir, id.FileName()))
}

// isUnfinished reports whether a file is the beginning of a copy of a segment, or of a ring, that
// never got its name.
func isUnfinished(name string) bool {
	rest, temp := strings.CutSuffix(name, redoTemp)
	_, segment := record.ParseFileName(rest)
	return temp && segment || name == seglog.RingTemp
}

// removeUnfinishedLocked removes such files of earlier processes, before anything needs their room.
// The caller holds l.mu, as do those that make them.
func (l *log) removeUnfinishedLocked() {
	for _, name := range l.temps {
		if err := l.fsys.Remove(filepath.Join(l.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			l.reportError("removing a file that was not finished", err)
		}
	}
	l.temps = nil
}

// removeIfThere removes a file that a compaction has left behind which never came to its end.
func removeIfThere(fsys vfs.FS, dir string, id record.SegmentID) error {
	err := fsys.Remove(filepath.Join(dir, id.FileName()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
