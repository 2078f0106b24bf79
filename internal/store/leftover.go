package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal/internal/seglog"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// removeLeftover removes a file that a crash left behind before the manifest named it.
func (l *log) removeLeftover(id record.SegmentID) error {
	if err := l.checkLeftover(id); err != nil {
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

// checkLeftover returns nil if a segment that no manifest has named yet may be removed:
// it holds at most a header, for nothing is appended before the manifest is durable.
func (l *log) checkLeftover(id record.SegmentID) error {
	path := filepath.Join(l.dir, id.FileName())
	text, err := seglog.ReadSmallFile(l.fsys, path, record.MaxHeaderBytes+1)
	if err != nil {
		return err
	}
	h, head, err := record.ParseSegmentHeader(text)
	switch {
	case errors.Is(err, record.ErrVersion):
		return seglog.FormatError(path, 0, err)
	case err == nil && len(text) == head:
		return nil
	case err != nil && len(text) <= maxTornHeader && !bytes.ContainsRune(text[:max(len(text)-1, 0)], '\n'):
		return nil // a line at most
	case err == nil && l.storeID != 0 && h.Store != l.storeID:
		return &seglog.CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", h.Store)}
	}
	return &seglog.CorruptError{File: filepath.Join(l.dir, seglog.ManifestName), Reason: "it does not name " + id.FileName() + ", which is more than the beginning of a segment"}
}

// maxTornHeader bounds the header as it is written here.
const maxTornHeader = 128
