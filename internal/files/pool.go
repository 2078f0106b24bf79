package files

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/copaldb/copal/internal/vfs"
)

// A Pool has many files open for its users, with few descriptors. A file of a pool is opened by its path when it is
// used, and closed when others are. That is for files that are durable and never change: the error of a failed
// write-back is reported once, to the descriptors that were open, so a file that is written keeps the one it has.
//
// A use waits while all descriptors are in use.
type Pool struct {
	fsys vfs.FS

	mu   sync.Mutex
	free sync.Cond
	open []*Pooled // those with a descriptor, the one used last at the end; guarded by mu, as the following fields
}

// PoolSize is how many descriptors a pool has at most.
const PoolSize = 20

// ErrNotOpened is the error of a use of a file that could not be opened again.
var ErrNotOpened = errors.New("the file cannot be opened again")

// NewPool returns a pool that has no files.
func NewPool(fsys vfs.FS) *Pool {
	p := &Pool{fsys: fsys}
	p.free.L = &p.mu
	return p
}

// Open opens a file.
func (p *Pool) Open(path string, mode vfs.Mode) (*Pooled, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roomLocked()
	f, err := p.fsys.Open(path, mode)
	if err != nil {
		p.free.Signal() // the room is for the next that waits
		return nil, err
	}
	return p.addLocked(f, path, mode), nil
}

// Adopt makes a file one of the pool that was opened with a mode under a path. It calls put with the file of the pool,
// which has its descriptor until put returns: from then on nothing uses f itself.
func (p *Pool) Adopt(f vfs.File, path string, mode vfs.Mode, put func(*Pooled)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roomLocked()
	put(p.addLocked(f, path, mode))
}

func (p *Pool) addLocked(f vfs.File, path string, mode vfs.Mode) *Pooled {
	x := &Pooled{pool: p, path: path, mode: mode, id: f.ID(), size: -1, file: f}
	if n, err := f.Size(); err == nil {
		x.size = n
	}
	p.open = append(p.open, x)
	p.free.Signal() // it is idle, so its descriptor is for the next that waits
	return x
}

// roomLocked waits until there may be one more descriptor. All that was written to the files is durable, so an error of
// closing one is of no account.
func (p *Pool) roomLocked() {
	for len(p.open) >= PoolSize {
		i := slices.IndexFunc(p.open, func(x *Pooled) bool { return x.users == 0 })
		if i < 0 {
			p.free.Wait()
			continue
		}
		x := p.open[i]
		x.file.Close()
		x.file, p.open = nil, slices.Delete(p.open, i, i+1)
	}
}

// Pooled is a file of a pool. It is a vfs.File.
type Pooled struct {
	pool *Pool
	path string
	mode vfs.Mode
	id   string
	size int64 // when it came to the pool; -1 if that could not be had

	file   vfs.File // nil without a descriptor; guarded by the pool's mu, as the following fields
	users  int
	closed bool
}

// use calls do with the file.
func (x *Pooled) use(do func(vfs.File) error) error {
	f, err := x.take()
	if err != nil {
		return err
	}
	defer x.leave()
	return do(f)
}

func (x *Pooled) take() (vfs.File, error) {
	p := x.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.file == nil && !x.closed {
		p.roomLocked()
	}
	switch { // its state may have changed meanwhile
	case x.closed:
		p.free.Signal()
		return nil, &fs.PathError{Op: "use", Path: x.path, Err: fs.ErrClosed}
	case x.file == nil:
		f, err := p.fsys.Open(x.path, x.reopens())
		if err != nil {
			p.free.Signal()
			return nil, fmt.Errorf("%w: %w", ErrNotOpened, err)
		}
		if id := f.ID(); id != x.id {
			p.free.Signal()
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrNotOpened, &fs.PathError{Op: "open", Path: x.path, Err: fs.ErrNotExist}), f.Close())
		}
		x.file = f
	default:
		i := slices.Index(p.open, x)
		p.open = slices.Delete(p.open, i, i+1)
	}
	p.open = append(p.open, x)
	x.users++
	return x.file, nil
}

// reopens is the mode in which a file is opened that is there.
func (x *Pooled) reopens() vfs.Mode {
	if x.mode == vfs.Create {
		return vfs.ReadWrite
	}
	return x.mode
}

func (x *Pooled) leave() {
	p := x.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	x.users--
	p.free.Signal()
}

// Close closes the file. A use that is under way may fail.
func (x *Pooled) Close() error {
	p := x.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.closed {
		return &fs.PathError{Op: "close", Path: x.path, Err: fs.ErrClosed}
	}
	x.closed = true
	if x.file == nil {
		return nil
	}
	f := x.file
	x.file = nil
	p.open = slices.DeleteFunc(p.open, func(o *Pooled) bool { return o == x })
	p.free.Signal()
	return f.Close()
}

func (x *Pooled) ID() string { return x.id }

func (x *Pooled) ReadAt(b []byte, off int64) (n int, err error) {
	err = x.use(func(f vfs.File) error { n, err = f.ReadAt(b, off); return err })
	return n, err
}

func (x *Pooled) WriteAt(b []byte, off int64) (n int, err error) {
	err = x.use(func(f vfs.File) error { n, err = f.WriteAt(b, off); return err })
	return n, err
}

// Size returns the size of the file. Where it cannot be opened again, that is the size that a reader has found, and
// which no other process changes.
func (x *Pooled) Size() (n int64, err error) {
	err = x.use(func(f vfs.File) error { n, err = f.Size(); return err })
	if errors.Is(err, ErrNotOpened) && x.mode == vfs.ReadOnly && x.size >= 0 {
		return x.size, nil
	}
	return n, err
}

func (x *Pooled) HasName(name string) (has bool, err error) {
	err = x.use(func(f vfs.File) error { has, err = f.HasName(name); return err })
	return has, err
}

func (x *Pooled) Truncate(n int64) error {
	return x.use(func(f vfs.File) error { return f.Truncate(n) })
}

func (x *Pooled) Sync() error { return x.use(vfs.File.Sync) }

func (x *Pooled) Allocate(off, n int64) error {
	return x.use(func(f vfs.File) error { return f.Allocate(off, n) })
}

func (x *Pooled) Map(off int64, n int) (r vfs.Region, err error) {
	err = x.use(func(f vfs.File) error { r, err = f.Map(off, n); return err })
	return r, err
}

func (x *Pooled) View(n int64) (v vfs.View, err error) {
	err = x.use(func(f vfs.File) error { v, err = f.View(n); return err })
	return v, err
}

// Prefetch asks for bytes that will be read. It is a hint.
func (x *Pooled) Prefetch(off, n int64) {
	x.use(func(f vfs.File) error {
		if f, ok := f.(interface{ Prefetch(off, n int64) }); ok {
			f.Prefetch(off, n)
		}
		return nil
	})
}
