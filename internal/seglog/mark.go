package seglog

import (
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

const MarkName = tail.MarkName

var marks = &files.MarkFormat{
	Title: "synced", Log: "store", Offset: "offset", Seq: "seq",
	Possible: func(m *files.Mark) bool { return m.Offset >= 0 && m.Offset <= MaxSegmentBytes },
	Bad:      FormatError,
}

// ReadMark returns the newest mark of the given store, or nil.
func ReadMark(fsys vfs.FS, dir string, store uint64) (*files.Mark, error) {
	return marks.Read(fsys, filepath.Join(dir, MarkName), store)
}
