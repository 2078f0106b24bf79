package hybridlog

import (
	"errors"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

const markName = tail.MarkName

// marks are those of a log of bytes: they count frames, up to their place in the segment.
var marks = &files.MarkFormat{
	Title: "hybridmark", Log: "log", Offset: "end", Seq: "frames",
	Possible: func(m *files.Mark) bool { return m.Offset >= 0 && m.Offset < maxEnd && m.Seq <= uint64(m.Offset) },
	Bad:      bad,
}

// readMark returns the newest mark of a log, or nil.
func readMark(fsys vfs.FS, dir string, log uint64) (*files.Mark, error) {
	m, err := marks.Read(fsys, filepath.Join(dir, markName), log)
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		err = wrap(err)
	}
	return m, err
}
