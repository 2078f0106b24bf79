package seglog

import (
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
)

// OlderManifest says that the mark knows of a later manifest than the one that there is.
func OlderManifest(dir string, m *Manifest, known *files.Mark) error {
	return &CorruptError{File: filepath.Join(dir, ManifestName), Reason: fmt.Sprintf("it is manifest %x, and %s knows of %x: it is an older one", m.Edit, MarkName, known.Manifest)}
}

// MissingRecord says that a record which neither the file nor the ring holds has one behind it.
func MissingRecord(path string, t *TailReader, size, next int64) *CorruptError {
	reason := fmt.Sprintf("a record of %s is missing at offset %d, and a whole one follows at offset %d", filepath.Base(path), t.Offset, next)
	if size > t.Offset { // it was there, or the beginning of it
		return &CorruptError{File: path, Offset: t.Offset, Reason: reason + " in " + RingName}
	}
	return &CorruptError{File: t.Ring.Path, Offset: t.Ring.Place(t.Offset), Reason: reason}
}
