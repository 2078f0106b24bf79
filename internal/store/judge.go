package store

import (
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/seglog"
)

// olderManifest says that the mark knows of a later manifest than the one that there is.
func olderManifest(dir string, m *seglog.Manifest, known *seglog.Mark) error {
	return &seglog.CorruptError{File: filepath.Join(dir, seglog.ManifestName), Reason: fmt.Sprintf("it is manifest %x, and %s knows of %x: it is an older one", m.Edit, seglog.MarkName, known.Manifest)}
}

// missing says that a record which neither the file nor the ring holds has one behind it.
func missing(path string, t *seglog.TailReader, size, next int64) *seglog.CorruptError {
	reason := fmt.Sprintf("a record of %s is missing at offset %d, and a whole one follows at offset %d", filepath.Base(path), t.Offset, next)
	if size > t.Offset { // it was there, or the beginning of it
		return &seglog.CorruptError{File: path, Offset: t.Offset, Reason: reason + " in " + seglog.RingName}
	}
	return &seglog.CorruptError{File: t.Ring.Path, Offset: t.Ring.Place(t.Offset), Reason: reason}
}
