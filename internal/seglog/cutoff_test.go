package seglog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// Another program has cut the tail of a live store, where everything was durable: to give back the
// room after it would fill in zeros, unnoticed. So whatever ends a tail checks its length first,
// and reports that durable records are gone.
func TestTailCutBeforeItEnds(t *testing.T) { logtest.BothWays(t, tailCutBeforeItEnds) }

func tailCutBeforeItEnds(t *testing.T) {
	value := strings.Repeat("v", 3000)
	for name, fsys := range map[string]vfs.FS{"heap": vfs.NewMem(), "disk": vfs.OS()} {
		for how, end := range map[string]func(s *logbook) error{
			"closing": func(s *logbook) error { return nil },
			"ending":  (*logbook).EndTail,
			"rolling": func(s *logbook) (err error) {
				for i := 0; i < 40 && err == nil; i++ {
					err = s.setKey("more", value)
				}
				return err
			},
		} {
			dir := filepath.Join(t.TempDir(), "db")
			s, err := openLog(fsys, func(o *logSettings) { o.Dir, o.Inline, o.SegmentBytes = dir, true, 100_000 })
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				setIn(t, s, "key", value)
			}
			syncLog(t, s)
			f, err := fsys.Open(s.Tail.Path, vfs.ReadWrite)
			if err == nil {
				err = errors.Join(f.Truncate(20_000), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			if how == "rolling" && s.Ring == nil {
				s.close() // the next append is a write after the cut, which fills it in: a check before each would cost more than the write
				continue
			}
			if err := end(s); how != "closing" && !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			var failed *FailedError
			if err := s.close(); !errors.As(err, &failed) || !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s, then closing: %v", name, how, err)
			}
		}
	}
}

// cutter cuts a file just before an operation after the cut, or before its length is read.
type cutter struct {
	vfs.FS
	path string
	to   int64 // 0 for not now
	look bool
}

func (c *cutter) Open(path string, mode vfs.Mode) (vfs.File, error) {
	f, err := c.FS.Open(path, mode)
	if err != nil {
		return nil, err
	}
	return &cutFile{f, path, c}, nil
}

type cutFile struct {
	vfs.File
	path string
	by   *cutter
}

func (f *cutFile) cut(look bool) error {
	to := f.by.to
	if f.path != f.by.path || to == 0 || look != f.by.look {
		return nil
	}
	f.by.to = 0
	return f.File.Truncate(to)
}

func (f *cutFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.cut(true); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *cutFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.cut(false); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *cutFile) Truncate(size int64) error { return errors.Join(f.cut(false), f.File.Truncate(size)) }

// TestTailCutWhileItIsWritten: the tail is cut between the check of its length and the operation
// after its end, which fills the cut in with zeros.
func TestTailCutWhileItIsWritten(t *testing.T) {
	value := strings.Repeat("v", 3000)
	for how, act := range map[string]func(s *logbook) error{
		"draining": func(s *logbook) error { return s.SyncTo(s.Last()) },
		"ending":   (*logbook).EndTail,
	} {
		for _, look := range []bool{false, true} {
			fsys := &cutter{FS: vfs.NewMem(), look: look}
			s, err := openLog(fsys, func(o *logSettings) { o.Dir, o.Inline, o.SegmentBytes = "db", true, 100_000 })
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				setIn(t, s, "key", value)
			}
			syncLog(t, s)
			if how == "draining" {
				if s.Ring == nil {
					t.Skip("there is no ring")
				}
				setIn(t, s, "key", value)
			}
			fsys.path, fsys.to = s.Tail.Path, 20_000
			if err := act(s); !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, cut before the look: %v: %v", how, look, err)
			}
			s.close()
		}
	}
}
