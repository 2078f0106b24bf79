package files_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

func pooledFiles(t *testing.T, n int) (*logtest.OpenFiles, []*files.Pooled) {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	fsys := logtest.NewOpenFiles(mem)
	p := files.NewPool(fsys)
	var list []*files.Pooled
	for i := range n {
		path := filepath.Join("db", fmt.Sprint(i))
		f, err := fsys.Open(path, vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(path), 0); err != nil {
			t.Fatal(err)
		}
		p.Adopt(f, path, vfs.Create, func(x *files.Pooled) { list = append(list, x) })
	}
	return fsys, list
}

// TestPoolHasFewDescriptors: goroutines read many files, and never are more open than the pool may have.
func TestPoolHasFewDescriptors(t *testing.T) {
	fsys, list := pooledFiles(t, 3*files.PoolSize)
	fsys.Most() // of making them
	var all sync.WaitGroup
	for g := range 2 * files.PoolSize {
		all.Go(func() {
			for i := range list {
				x := list[(i*7+g)%len(list)]
				want := filepath.Join("db", fmt.Sprint((i*7+g)%len(list)))
				b := make([]byte, len(want))
				if _, err := x.ReadAt(b, 0); err != nil || string(b) != want {
					t.Errorf("%q, %v, want %q", b, err, want)
				}
			}
		})
	}
	all.Wait()
	if n := fsys.Most(); n > files.PoolSize {
		t.Errorf("%d files were open at once", n)
	}
	for _, x := range list {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if _, err := x.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
	}
	if left := len(fsys.Names()); left != 0 {
		t.Errorf("%d files are open at the end", left)
	}
}

// TestPoolTakesNoOtherFile: a file that has gone, or has been replaced, is not opened again.
func TestPoolTakesNoOtherFile(t *testing.T) {
	fsys, list := pooledFiles(t, files.PoolSize+2) // the first two have no descriptor
	if err := fsys.Remove(filepath.Join("db", "0")); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Rename(filepath.Join("db", "2"), filepath.Join("db", "1")); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if n, err := list[i].ReadAt(make([]byte, 1), 0); n > 0 || !errors.Is(err, files.ErrNotOpened) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("file %d: %d bytes, %v", i, n, err)
		}
	}
}

// TestPoolKnowsTheSizeOfWhatIsGone: a reader beside a process that has removed a file knows how long that was.
func TestPoolKnowsTheSizeOfWhatIsGone(t *testing.T) {
	fsys, list := pooledFiles(t, 1)
	path := filepath.Join("db", "0")
	p := files.NewPool(fsys)
	x, err := p.Open(path, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	want, err := list[0].Size()
	if err != nil {
		t.Fatal(err)
	}
	for range files.PoolSize { // which take its descriptor
		if _, err := p.Open(path, vfs.ReadOnly); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.Remove(path); err != nil {
		t.Fatal(err)
	}
	if n, err := x.Size(); n != want || err != nil {
		t.Errorf("it had %d bytes, %v; want %d", n, err, want)
	}
}

// A lackingFS has no descriptors while it lacks them, and its files are read when they may be.
type lackingFS struct {
	vfs.FS
	lacks atomic.Bool
	may   chan struct{}
}

type lackingFile struct {
	vfs.File
	of *lackingFS
}

func (x *lackingFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if x.lacks.Load() {
		return nil, syscall.EMFILE
	}
	f, err := x.FS.Open(name, mode)
	return lackingFile{f, x}, err
}

func (f lackingFile) ReadAt(b []byte, off int64) (int, error) {
	<-f.of.may
	return f.File.ReadAt(b, off)
}

// TestPoolWakesAllThatWait: a use that waited and then cannot open its file lets the next one try, and so does a file
// that is closed or adopted meanwhile.
func TestPoolWakesAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		fsys := &lackingFS{FS: mem, may: make(chan struct{})}
		p := files.NewPool(fsys)
		var list []*files.Pooled
		for i := range 4 * files.PoolSize {
			path := fmt.Sprint("db/", i)
			f, err := fsys.Open(path, vfs.Create)
			if err != nil {
				t.Fatal(err)
			}
			p.Adopt(f, path, vfs.ReadOnly, func(x *files.Pooled) { list = append(list, x) })
		}
		late, err := fsys.Open("db/late", vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		fsys.lacks.Store(true)
		var uses sync.WaitGroup
		use := func(x *files.Pooled) {
			uses.Go(func() {
				if _, err := x.ReadAt(make([]byte, 1), 0); err != io.EOF && !errors.Is(err, files.ErrNotOpened) && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
				}
			})
		}
		for _, x := range list[3*files.PoolSize:] { // which have descriptors
			use(x)
		}
		synctest.Wait()
		uses.Go(func() { p.Adopt(late, "db/late", vfs.ReadOnly, func(*files.Pooled) {}) })
		for _, x := range list[:3*files.PoolSize] {
			use(x)
		}
		synctest.Wait()
		list[0].Close()
		close(fsys.may)
		uses.Wait() // the bubble ends with a deadlock if one waits for ever
	})
}
