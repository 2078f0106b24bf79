package seglog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
)

// removeLeftover removes a file that a crash left before the manifest named it.
func (l *Log) removeLeftover(id record.SegmentID) error {
	if err := CheckLeftover(l.FS, l.Dir, id, l.StoreID); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return l.FS.Remove(filepath.Join(l.Dir, id.FileName()))
}

// isUnfinished reports whether a file is the beginning of a copy of a segment, or of a ring, that
// never got its name.
func isUnfinished(name string) bool {
	rest, temp := strings.CutSuffix(name, files.TempSuffix)
	_, segment := record.ParseFileName(rest)
	return temp && segment || name == tail.RingTemp
}

// removeUnfinishedLocked removes such files of earlier processes, before anything needs their room.
// The caller holds l.mu, as do those that make them.
func (l *Log) removeUnfinishedLocked() {
	for _, name := range l.temps {
		l.ReportError("removing a file that was not finished", files.Remove(l.FS, filepath.Join(l.Dir, name)))
	}
	l.temps = nil
}
