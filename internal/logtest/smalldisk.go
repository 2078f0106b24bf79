package logtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// SmallDisk is a file system with few blocks: a write to a block that the file does not
// have takes one, as Allocate does in advance, and gets ErrNoSpace when there is none.
type SmallDisk struct {
	vfs.FS

	Block       int64 // bytes; set before the first write, if not the usual
	ShortWrites bool  // a write for which there is no room leaves its first half, if there is room for that
	CannotKeep  bool  // it has no Allocate

	mu    sync.Mutex
	free  int
	taken map[string]map[int64]bool // by file: its blocks

	OnTake func(name string) // called before blocks are taken, if not nil
}

const DiskBlock = 4096

func NewSmallDisk(fsys vfs.FS, blocks int) *SmallDisk {
	return &SmallDisk{FS: fsys, Block: DiskBlock, free: blocks, taken: map[string]map[int64]bool{}}
}

// take gives the file the blocks of [off, off+n), or none.
func (d *SmallDisk) take(name string, off, n int64) error {
	if d.OnTake != nil {
		d.OnTake(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	blocks := d.taken[name]
	if blocks == nil {
		blocks = map[int64]bool{}
		d.taken[name] = blocks
	}
	var fresh []int64
	for b := off / d.Block; b*d.Block < off+n; b++ {
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

// Give takes back the blocks of the file beyond size.
func (d *SmallDisk) Give(name string, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.taken[name] {
		if b*d.Block >= size {
			delete(d.taken[name], b)
			d.free++
		}
	}
}

// SetFree changes the number of free blocks.
func (d *SmallDisk) SetFree(n int) (before int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.free = d.free, n
	return before
}

func (d *SmallDisk) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := d.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, name: name}, nil
}

func (d *SmallDisk) Free(string) (bytes int64, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(d.free) * d.Block, true
}

func (d *SmallDisk) Remove(name string) error {
	err := d.FS.Remove(name)
	if err == nil {
		d.Give(name, 0)
	}
	return err
}

func (d *SmallDisk) Rename(from, to string) error {
	err := d.FS.Rename(from, to)
	if err == nil {
		d.Give(to, 0)
		d.mu.Lock()
		d.taken[to] = d.taken[from]
		delete(d.taken, from)
		d.mu.Unlock()
	}
	return err
}

type diskFile struct {
	vfs.File
	disk *SmallDisk
	name string
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.take(f.name, off, int64(len(p))); err != nil {
		if half := p[:len(p)/2]; f.disk.ShortWrites && f.disk.take(f.name, off, int64(len(half))) == nil {
			f.File.WriteAt(half, off)
		}
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *diskFile) Allocate(off, n int64) error {
	if f.disk.CannotKeep {
		return errors.ErrUnsupported
	}
	return f.disk.take(f.name, off, n)
}

func (f *diskFile) Truncate(size int64) error {
	f.disk.Give(f.name, size)
	return f.File.Truncate(size)
}

// FillDisk sets values of 1000 bytes under the keys "key 0", "key 1" and so on, until the error is
// full, and returns how many.
func FillDisk(t *testing.T, full error, set func(key, value []byte) error) (n int) {
	t.Helper()
	for ; ; n++ {
		err := set(fmt.Append(nil, "key ", n), make([]byte, 1000))
		if errors.Is(err, full) && n > 1000 {
			return n
		}
		if err != nil {
			t.Fatalf("after %d values: %v", n, err)
		}
	}
}
