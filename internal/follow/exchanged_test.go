package follow_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// layered is a file system as overlayfs shows it. Before a writer has opened a file, it is the one
// of the lower layer. From then on an open file is the copy of the upper layer, with another ID,
// and a mapping stays of the lower one.
type layered struct {
	vfs.FS
	up atomic.Bool // writers have opened all files
}

func (l *layered) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := l.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &layeredFile{f, l}, nil
}

type layeredFile struct {
	vfs.File
	fs *layered
}

func (f *layeredFile) ID() string {
	if f.fs.up.Load() {
		return f.File.ID()
	}
	return "of the lower layer"
}

func (f *layeredFile) View(n int64) (vfs.View, error) {
	if f.fs.up.Load() {
		return f.File.View(n)
	}
	size, err := f.Size()
	b := make([]byte, min(size, n))
	if err == nil {
		_, err = f.ReadAt(b, 0)
	}
	return lowerView(b), err
}

// lowerView is the mapping of a lower file.
type lowerView []byte

var errFault = errors.New("fault")

func (v lowerView) Load(off int64, p []byte) error {
	if off+int64(len(p)) > int64(len(v)) {
		return errFault
	}
	copy(p, v[off:])
	return nil
}

func (v lowerView) Bytes() []byte { return nil }
func (v lowerView) Trim(int64)    {}
func (v lowerView) Close() error  { return nil }

// A reader goes on when the file that it reads becomes another one: overlayfs copies it for a writer, or somebody puts
// a copy in its place before a writer goes on there.
func TestFileExchangedUnderAReader(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for _, killed := range []bool{false, true} {
			for _, how := range []string{"copied up", "replaced by a copy"} {
				if killed && how != "copied up" {
					continue // a writer does that itself, and makes a new segment
				}
				t.Run(fmt.Sprintf("%s/killed %v", how, killed), func(t *testing.T) { exchanged(t, how, killed) })
			}
		}
	})
}

func exchanged(t *testing.T, how string, killed bool) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem)
	content := map[string]string{}
	set := func(i int) {
		key, value := fmt.Sprint("k", i%10), fmt.Sprint(i, strings.Repeat("v", 100))
		storetest.Set(t, s, key, value)
		content[key] = value
	}
	for i := range 10 {
		set(i)
	}
	if killed {
		mem = mem.ProcessCrash()
	} else {
		storetest.Close(t, s)
	}
	lower := &layered{FS: mem}
	reader := storetest.Open(t, lower, func(o *engine.Options) { o.ReadOnly = true })
	defer storetest.Close(t, reader)
	storetest.WantSame(t, reader, content)
	if how == "replaced by a copy" {
		if err := errors.Join(logtest.CopyFile(mem, mem, "db/00000001.log"), files.SyncDir(mem, "db")); err != nil {
			t.Fatal(err)
		}
	}
	lower.up.Store(true)
	for range 2 {
		s = storetest.Open(t, mem)
		if killed {
			if err := s.Sync(); err != nil { // which writes the bytes that were only in the ring
				t.Fatal(err)
			}
		}
		for i := range 60 {
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			storetest.WantSame(t, reader, content)
			set(i)
			if i%7 == 0 {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		storetest.Close(t, s)
	}
	if err := reader.Refresh(); err != nil {
		t.Fatal(err)
	}
	storetest.WantSame(t, reader, content)
}
