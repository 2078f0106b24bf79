package seglog

import (
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
)

// OlderManifest is the error of a manifest that is older than the one in the mark.
func OlderManifest(dir string, m *Manifest, known *files.Mark) error {
	return &CorruptError{File: filepath.Join(dir, ManifestName), Reason: fmt.Sprintf("it is manifest %x, and %s knows of %x: it is an older one", m.Edit, MarkName, known.Manifest)}
}

// accepts returns ErrCopied for a manifest that was copied from a store which was not closed, unless the caller accepts
// such a copy.
func (l *Log) accepts(m *Manifest) error {
	if l.AcceptCopy || !m.Copied() {
		return nil
	}
	return Copied(l.Dir)
}

// Copied returns the ErrCopied of the store in dir.
func Copied(dir string) error {
	return Known(ErrCopied, "%s is a copy of a store that was not closed, and may lack the last writes that were acknowledged there: make another by a backup, or when the store is closed; copal.AcceptCopy, or --copied of the command, opens this one as it is", dir)
}

// MissingRecord is the error of a record that neither the file nor the ring holds, though a later
// one exists.
func MissingRecord(path string, t *TailReader, size, next int64) *CorruptError {
	reason := fmt.Sprintf("a record of %s is missing at offset %d, and a whole one follows at offset %d", filepath.Base(path), t.Offset, next)
	if size > t.Offset { // the record existed, or its beginning
		return &CorruptError{File: path, Offset: t.Offset, Reason: reason + " in " + RingName}
	}
	return &CorruptError{File: t.Ring.Path, Offset: t.Ring.Place(t.Offset), Reason: reason}
}
