package store

import (
	"sync"

	"github.com/copaldb/copal/internal/vfs"
)

// smallDisk is a file system with few blocks: a write to a block that the file does not
// have takes one, as Allocate does in advance, and gets ErrNoSpace when there is none.
type smallDisk struct {
	vfs.FS

	mu    sync.Mutex
	free  int
	taken map[string]map[int64]bool // by file: its blocks

	onTake func(name string) // called before blocks are taken, if not nil
}

const diskBlock = 4096

func newSmallDisk(fsys vfs.FS, blocks int) *smallDisk {
	return &smallDisk{FS: fsys, free: blocks, taken: map[string]map[int64]bool{}}
}

// take gives the file the blocks of [off, off+n), or none.
func (d *smallDisk) take(name string, off, n int64) error {
	if d.onTake != nil {
		d.onTake(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks := d.taken[name]
	if blocks == nil {
		blocks = map[int64]bool{}
		d.taken[name] = blocks
	}
	var fresh []int64
	for b := off / diskBlock; b*diskBlock < off+n; b++ {
		if !blocks[b] {
			fresh = append(fresh, b)
		}
	}
	if len(fresh) > d.free {
		return vfs.ErrNoSpace
	}
	d.free -= len(fresh)
	for _, b := range fresh {
		blocks[b] = true
	}
	return nil
}

// give takes back what the file has beyond size.
func (d *smallDisk) give(name string, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.taken[name] {
		if b*diskBlock >= size {
			delete(d.taken[name], b)
			d.free++
		}
	}
}

// setFree changes how many blocks there are to be had.
func (d *smallDisk) setFree(n int) (before int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.free = d.free, n
	return before
}

func (d *smallDisk) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := d.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, name: name}, nil
}

func (d *smallDisk) Free(string) (bytes int64, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(d.free) * diskBlock, true
}

func (d *smallDisk) Remove(name string) error {
	err := d.FS.Remove(name)
	if err == nil {
		d.give(name, 0)
	}
	return err
}

func (d *smallDisk) Rename(from, to string) error {
	err := d.FS.Rename(from, to)
	if err == nil {
		d.give(to, 0)
		d.mu.Lock()
		d.taken[to] = d.taken[from]
		delete(d.taken, from)
		d.mu.Unlock()
	}
	return err
}

type diskFile struct {
	vfs.File
	disk *smallDisk
	name string
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.take(f.name, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Allocate(off, n int64) error { return f.disk.take(f.name, off, n) }

func (f *diskFile) Truncate(size int64) error {
	f.disk.give(f.name, size)
	return f.File.Truncate(size)
}
