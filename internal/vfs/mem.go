package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Mem is a file system in memory. It serves stores that need no disk, and tests
// crash it: asked to Record, it keeps the bytes that a power cut would leave apart
// from those that only the cache holds (crash.go).
//
// It behaves as Unix does where platforms differ: an open file outlives its name,
// a rename replaces an open file, a lock belongs to its file. It leaves out
// permissions and times, and has no working directory: names are taken
// from the root, which always exists.
type Mem struct {
	rec *recorder // nil unless recording; its lock is taken before mu

	mu      sync.RWMutex                // taken before a node's
	dirs    map[string]map[string]*node // clean path -> base name -> file; nil for a directory
	locked  map[*node]bool
	cacheID string
}

var boots atomic.Int64

func nextCacheID() string { return "mem-cache-" + strconv.FormatInt(boots.Add(1), 10) }

// NewMem returns an empty file system.
func NewMem() *Mem {
	return &Mem{
		dirs:    map[string]map[string]*node{rootDir: {}},
		locked:  map[*node]bool{},
		cacheID: nextCacheID(),
	}
}

const rootDir = string(filepath.Separator)

func memPath(name string) string { return filepath.Join(rootDir, name) }

// node is a file apart from its names.
type node struct {
	mu   sync.RWMutex
	data content
	id   string // "" until the first call
}

var nodes atomic.Int64

func (m *Mem) Open(name string, mode Mode) (File, error) {
	if mode == Create {
		return m.create(name)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, _, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: n, name: name, writable: mode == ReadWrite}, nil
}

func (m *Mem) create(name string) (File, error) {
	f := &memFile{fs: m, node: &node{}, name: name, writable: true}
	err := m.step(Op{Kind: OpCreate, Name: name}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		entries, base, err := m.parent("open", name)
		if err != nil {
			return err
		}
		if _, taken := entries[base]; taken || base == rootDir {
			return pathError("open", name, fs.ErrExist)
		}
		entries[base] = f.node
		m.rec.note(change{kind: OpCreate, node: f.node, newName: memPath(name)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// find returns the file of that name and the directory that lists it.
func (m *Mem) find(op, name string) (*node, map[string]*node, error) {
	entries, base, err := m.parent(op, name)
	if err != nil {
		return nil, nil, err
	}
	n, there := entries[base]
	switch {
	case base == rootDir || there && n == nil:
		return nil, nil, pathError(op, name, errIsDir)
	case !there:
		return nil, nil, pathError(op, name, fs.ErrNotExist)
	}
	return n, entries, nil
}

func (m *Mem) parent(op, name string) (entries map[string]*node, base string, err error) {
	dir, base := splitName(memPath(name))
	entries, there := m.dirs[dir]
	if !there {
		return nil, "", pathError(op, name, fs.ErrNotExist)
	}
	return entries, base, nil
}

func splitName(path string) (dir, base string) { return filepath.Dir(path), filepath.Base(path) }

func (m *Mem) Rename(oldName, newName string) error {
	return m.step(Op{Kind: OpRename, Name: oldName, NewName: newName}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		n, from, err := m.find("rename", oldName)
		if err != nil {
			return err
		}
		to, base, err := m.parent("rename", newName)
		if err != nil {
			return err
		}
		if replaced, there := to[base]; base == rootDir || there && replaced == nil {
			return pathError("rename", newName, fs.ErrExist)
		}
		delete(from, filepath.Base(memPath(oldName)))
		to[base] = n
		m.rec.note(change{kind: OpRename, node: n, name: memPath(oldName), newName: memPath(newName)})
		return nil
	})
}

func (m *Mem) Remove(name string) error {
	return m.step(Op{Kind: OpRemove, Name: name}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		path := memPath(name)
		if _, isDir := m.dirs[path]; isDir {
			return m.removeDirLocked(name)
		}
		n, entries, err := m.find("remove", name)
		if err != nil {
			return err
		}
		delete(entries, filepath.Base(path))
		m.rec.note(change{kind: OpRemove, node: n, name: path})
		return nil
	})
}

func (m *Mem) removeDirLocked(name string) error {
	path := memPath(name)
	if len(m.dirs[path]) > 0 || path == rootDir {
		return pathError("remove", name, errNotEmpty)
	}
	delete(m.dirs, path)
	dir, base := splitName(path)
	delete(m.dirs[dir], base)
	m.rec.dirRemoved(path)
	return nil
}

var errNotEmpty = errors.New("directory not empty")

// Link gives a file another name. The crash model counts on it that no file with two names is renamed.
func (m *Mem) Link(oldName, newName string) error {
	return m.step(Op{Kind: OpLink, Name: oldName, NewName: newName}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		n, _, err := m.find("link", oldName)
		if err != nil {
			return err
		}
		to, base, err := m.parent("link", newName)
		if err != nil {
			return err
		}
		if _, taken := to[base]; taken || base == rootDir {
			return pathError("link", newName, fs.ErrExist)
		}
		to[base] = n
		m.rec.note(change{kind: OpLink, node: n, newName: memPath(newName)})
		return nil
	})
}

func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entries, there := m.dirs[memPath(dir)]
	if !there {
		if _, _, err := m.find("list", dir); err != nil {
			return nil, err
		}
		return nil, pathError("list", dir, errNotDir)
	}
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (m *Mem) MkdirAll(dir string) error {
	return m.step(Op{Kind: OpMkdir, Name: dir}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.mkdirLocked(dir, memPath(dir))
	})
}

func (m *Mem) mkdirLocked(name, path string) error {
	if _, there := m.dirs[path]; there {
		return nil
	}
	dir, base := splitName(path)
	if err := m.mkdirLocked(name, dir); err != nil {
		return err
	}
	if _, taken := m.dirs[dir][base]; taken {
		return pathError("mkdir", name, errNotDir)
	}
	m.dirs[path] = map[string]*node{}
	m.dirs[dir][base] = nil
	m.rec.dirMade(path)
	return nil
}

func (m *Mem) SyncDir(dir string) error {
	return m.step(Op{Kind: OpSyncDir, Name: dir}, func() error {
		m.mu.RLock()
		defer m.mu.RUnlock()
		if _, there := m.dirs[memPath(dir)]; !there {
			return pathError("syncdir", dir, fs.ErrNotExist)
		}
		m.rec.syncDir(memPath(dir))
		return nil
	})
}

// Lock counts the lock file as durable at once and writes nothing into it: the effect of a crash on
// it is of no interest and would double the states of every crash.
func (m *Mem) Lock(name string) (Lock, error) {
	var taken *node
	err := m.step(Op{Kind: OpLock, Name: name}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		entries, base, err := m.parent("lock", name)
		if err != nil {
			return err
		}
		n, there := entries[base]
		switch {
		case base == rootDir || there && n == nil:
			return pathError("lock", name, errIsDir)
		case !there:
			n = &node{}
			entries[base] = n
			m.rec.lockFileMade(memPath(name), n)
		case m.locked[n]:
			return &LockedError{Name: name, PID: os.Getpid(), Space: pidNamespace()}
		}
		m.locked[n] = true
		taken = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &memLock{fs: m, dir: filepath.Dir(name), node: taken}, nil
}

type memLock struct {
	fs       *Mem
	dir      string
	node     *node
	released atomic.Bool
}

func (l *memLock) SyncDir() error { return l.fs.SyncDir(l.dir) }

func (l *memLock) Close() error {
	if l.released.Swap(true) {
		return fs.ErrClosed
	}
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.node)
	return nil
}

func (m *Mem) CacheID(dir string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dirs[memPath(dir)] == nil {
		return ""
	}
	return m.cacheID
}

func (m *Mem) Free(string) (bytes int64, known bool) { return 0, false }

// SetCacheID pretends that the machine was restarted, or not.
func (m *Mem) SetCacheID(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cacheID = id
}

// memFile is one opening of a node.
type memFile struct {
	fs       *Mem
	node     *node
	name     string
	writable bool
	closed   atomic.Bool
}

func (f *memFile) check(op string, off int64) error {
	if f.closed.Load() {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if off < 0 {
		return pathError(op, f.name, errRange)
	}
	return nil
}

func (f *memFile) checkWrite(op string, off int64) error {
	if err := f.check(op, off); err != nil {
		return err
	}
	if !f.writable {
		return pathError(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", off); err != nil {
		return 0, err
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.data.readAt(p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.checkWrite("write", off); err != nil {
		return 0, err
	}
	if f.fs.rec != nil {
		f.fs.rec.write(Op{Kind: OpWrite, Name: f.name, Off: off, Len: int64(len(p))}, f.node, p, off)
	} else {
		f.node.write(p, off)
	}
	return len(p), nil
}

func (n *node) write(p []byte, off int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.writeAt(p, off)
}

func (n *node) read(size int, off int64) []byte {
	n.mu.RLock()
	defer n.mu.RUnlock()
	p := make([]byte, size)
	n.data.readAt(p, off)
	return p
}

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", 0); err != nil {
		return 0, err
	}
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.data.size, nil
}

// ID is kept by ProcessCrash and by PowerCuts.
func (f *memFile) ID() string { return f.node.name() }

func (n *node) name() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.id == "" {
		made := strconv.FormatInt(nodes.Add(1), 16)
		n.id = made + bornMark + made
	}
	return n.id
}

func (f *memFile) HasName(name string) (bool, error) {
	if err := f.check("stat", 0); err != nil {
		return false, err
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	n, _, err := f.fs.find("stat", name)
	return err == nil && n == f.node, nil // any error of find says that there is no such file
}

func (f *memFile) Truncate(size int64) error {
	if err := f.checkWrite("truncate", size); err != nil {
		return err
	}
	return f.fs.step(Op{Kind: OpTruncate, Name: f.name, Off: size}, func() error {
		f.node.mu.Lock()
		defer f.node.mu.Unlock()
		f.node.data.truncate(size)
		f.fs.rec.note(change{kind: OpTruncate, node: f.node, off: size})
		return nil
	})
}

func (f *memFile) Sync() error {
	if err := f.check("sync", 0); err != nil {
		return err
	}
	return f.fs.step(Op{Kind: OpSync, Name: f.name}, func() error {
		f.fs.rec.sync(f.node)
		return nil
	})
}

// Allocate has nothing to reserve: memory is not given out in advance.
func (f *memFile) Allocate(off, n int64) error {
	if err := f.checkWrite("allocate", off); err != nil {
		return err
	}
	return f.fs.step(Op{Kind: OpAllocate, Name: f.name, Off: off, Len: n}, func() error { return nil })
}

// Map also refuses, with errors.ErrUnsupported, a range that lies partly within
// an earlier one that is still mapped.
func (f *memFile) Map(off int64, n int) (Region, error) {
	if err := f.check("map", off); err != nil {
		return nil, err
	}
	if mappingOff() {
		return nil, pathError("map", f.name, errors.ErrUnsupported)
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if n <= 0 || off%pageSize != 0 || off > f.node.data.size-int64(n) {
		return nil, pathError("map", f.name, errRange)
	}
	s := f.node.data.pin(int(off>>pageShift), pagesOf(int64(n)))
	if s == nil {
		return nil, pathError("map", f.name, errors.ErrUnsupported)
	}
	from := int(off) - s.first*pageSize
	return &memRegion{file: f, span: s, off: off, buf: s.buf[from : from+n : from+n]}, nil
}

func (f *memFile) View(n int64) (View, error) {
	if err := f.check("map", n-1); err != nil {
		return nil, err
	}
	if mappingOff() {
		return nil, pathError("map", f.name, errors.ErrUnsupported)
	}
	v := &memView{node: f.node, name: f.name}
	v.n.Store(n)
	return v, nil
}

// memView reads the file, under its lock, so that a view shows the writes of others.
type memView struct {
	node *node
	name string
	n    atomic.Int64 // bytes that may be touched
}

func (v *memView) Load(off int64, p []byte) error {
	if off < 0 || off+int64(len(p)) > v.n.Load() {
		panic("vfs: load from beyond the view")
	}
	v.node.mu.RLock()
	defer v.node.mu.RUnlock()
	if n, _ := v.node.data.readAt(p, off); n < len(p) {
		return pathError("load", v.name, errRange)
	}
	return nil
}

func (v *memView) Bytes() []byte { return nil }

func (v *memView) Trim(n int64) { v.n.Store(min(n, v.n.Load())) }

func (v *memView) Close() error {
	v.n.Store(0)
	return nil
}

// memRegion shows a span of its file. Its bytes are the file's, so Store takes
// the file's lock: ReadAt may run meanwhile.
type memRegion struct {
	file *memFile
	span *span
	off  int64
	buf  []byte
}

func (r *memRegion) Bytes() []byte { return r.buf }

// Load copies without the lock, as a processor does. A reader of memory that another goroutine
// stores to has a race, which the detector shall see.
func (r *memRegion) Load(off int, p []byte) error {
	from := r.buf[off : off+len(p)]
	if err := r.holds("load", off, len(p)); err != nil {
		return err
	}
	copy(p, from)
	return nil
}

// Store fails where a mapped file would fault: beyond the end of a file that was
// cut, and in a file opened for reading.
func (r *memRegion) Store(off int, p []byte) error {
	into := r.buf[off : off+len(p)]
	if !r.file.writable {
		return pathError("store", r.file.name, fs.ErrPermission)
	}
	if err := r.holds("store", off, len(p)); err != nil {
		return err
	}
	n, at := r.file.node, r.off+int64(off)
	if rec := r.file.fs.rec; rec != nil {
		rec.write(Op{Kind: OpStore, Name: r.file.name, Off: at, Len: int64(len(p))}, n, p, at)
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	copy(into, p)
	return nil
}

// Populate finds all pages in place, unless the file was cut.
func (r *memRegion) Populate(off, n int) error { return r.holds("populate", off, n) }

// holds returns an error unless the file still has the given part of the region.
func (r *memRegion) holds(op string, off, n int) error {
	r.file.node.mu.RLock()
	defer r.file.node.mu.RUnlock()
	if r.off+int64(off+n) > r.file.node.data.size {
		return pathError(op, r.file.name, errRange)
	}
	return nil
}

func (r *memRegion) Sync() error {
	if r.buf == nil {
		return fs.ErrClosed
	}
	op := Op{Kind: OpMsync, Name: r.file.name, Off: r.off, Len: int64(len(r.buf))}
	return r.file.fs.step(op, func() error {
		r.file.fs.rec.syncRange(r.file.node, r.off, r.off+int64(len(r.buf)))
		return nil
	})
}

func (r *memRegion) Close() error {
	if r.buf == nil {
		return fs.ErrClosed
	}
	r.buf = nil
	n := r.file.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data.unpin(r.span)
	return nil
}
