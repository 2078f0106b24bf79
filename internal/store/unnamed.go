package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// maxTornHeader bounds the header as it is written here.
const maxTornHeader = 128

// checkLeftover returns nil if a segment that no manifest has named yet may be removed:
// it holds at most a header, for nothing is appended before the manifest is durable. store is 0 where it is not known.
func checkLeftover(fsys vfs.FS, dir string, id record.SegmentID, store uint64) error {
	path := filepath.Join(dir, id.FileName())
	text, err := seglog.ReadSmallFile(fsys, path, record.MaxHeaderBytes+1)
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
	case err == nil && store != 0 && h.Store != store:
		return &seglog.CorruptError{File: path, Reason: fmt.Sprintf("it belongs to store %016x", h.Store)}
	}
	return &seglog.CorruptError{File: filepath.Join(dir, seglog.ManifestName), Reason: "it does not name " + id.FileName() + ", which is more than the beginning of a segment"}
}
