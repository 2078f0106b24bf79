package laps

import (
	"sync"

	"github.com/copaldb/copal/internal/vfs"
)

// Blocks is how many blocks a ring has. Its size is a multiple of that.
const Blocks = 16

// Ring holds the newest bytes of owners, such as the files of a log, one after the other.
type Ring[O comparable] struct {
	Region vfs.Region
	Size   int64
	Block  int64 // size of a block
	blocks [Blocks]block[O]
}

type block[O comparable] struct {
	mu     sync.RWMutex // guards the following fields against readers; only the appender changes them
	of     O
	number int64 // which block of the owner
	taken  bool  // by any lap

	populated bool // the appender's

	_ [64]byte // a cache line apart from the next
}

// New makes a ring of the first size bytes of a region.
func New[O comparable](region vfs.Region, size int64) *Ring[O] {
	return &Ring[O]{Region: region, Size: size, Block: size / Blocks}
}

// Needs returns up to which offset bytes must be elsewhere before n bytes may be stored at off: a
// block is taken as a whole. It is negative if none must.
func (r *Ring[O]) Needs(off, n int64) int64 {
	return ((off+n-1)/r.Block - (Blocks - 1)) * r.Block
}

// Populate prepares the blocks for n bytes at off.
func (r *Ring[O]) Populate(off, n int64) error {
	for number := off / r.Block; number <= (off+n-1)/r.Block; number++ {
		b := &r.blocks[number%Blocks]
		if b.populated {
			continue
		}
		if err := r.Region.Populate(int(number%Blocks*r.Block), int(r.Block)); err != nil {
			return err
		}
		b.populated = true
	}
	return nil
}

// Store copies p to the place of offset off of the owner. Only the appender calls it.
func (r *Ring[O]) Store(of O, p []byte, off int64) error {
	for len(p) > 0 {
		number := off / r.Block
		b := &r.blocks[number%Blocks]
		if b.of != of || b.number != number || !b.taken {
			b.mu.Lock()
			b.of, b.number, b.taken = of, number, true
			b.mu.Unlock()
		}
		n := min(int(r.Block-off%r.Block), len(p))
		if err := r.Region.Store(int(off%r.Size), p[:n]); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Load copies the bytes at off of the owner to p. ok is false when some of them have been
// overwritten. They must have been stored before: only the appender knows the bytes beyond the end.
func (r *Ring[O]) Load(of O, p []byte, off int64) (ok bool, err error) {
	for len(p) > 0 {
		n := min(int(r.Block-off%r.Block), len(p))
		if ok, err := r.loadBlock(of, p[:n], off); !ok || err != nil {
			return ok, err
		}
		p, off = p[n:], off+int64(n)
	}
	return true, nil
}

// loadBlock is Load within one block.
func (r *Ring[O]) loadBlock(of O, p []byte, off int64) (ok bool, err error) {
	number := off / r.Block
	b := &r.blocks[number%Blocks]
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.of != of || b.number != number || !b.taken {
		return false, nil
	}
	if err := r.Region.Load(int(off%r.Size), p); err != nil {
		return false, err
	}
	return true, nil
}
