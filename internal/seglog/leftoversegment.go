package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// DefaultSegmentBytes is the nominal size of a segment without one in Options. It is a variable for
// tests of other packages.
var DefaultSegmentBytes int64 = 64 << 20

// MaxTornHeader bounds the header that this version writes.
const MaxTornHeader = 128

// CheckLeftover returns nil if a segment that no manifest has named yet may be removed: it has at most a
// header, as nothing is appended before the manifest is durable. store is 0 if unknown.
func CheckLeftover(fsys vfs.FS, dir string, id record.SegmentID, store uint64) error {
	path := filepath.Join(dir, id.FileName())
	text, _, err := files.Read(fsys, path, record.MaxHeaderBytes+1)
	if err != nil {
		return err
	}
	h, head, err := record.ParseSegmentHeader(text)
	switch {
	case errors.Is(err, record.ErrVersion):
		return FormatError(path, 0, err)
	case err == nil && len(text) == head:
		return nil
	case err != nil && len(text) <= MaxTornHeader && !bytes.ContainsRune(text[:max(len(text)-1, 0)], '\n'):
		return nil // a line at most
	case err == nil && store != 0 && h.Store != store:
		return &CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", h.Store)}
	}
	return &CorruptError{File: filepath.Join(dir, ManifestName), Reason: "it does not name " + id.FileName() + ", which is more than the beginning of a segment"}
}
