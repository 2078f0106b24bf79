package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The ring is where the newest records of the log stand first: a file, mapped into
// memory, so that a record which survives the death of the process costs a copy and
// no call of the system. What is in it is written to the tail soon after (drain.go);
// the segments remain plain text files without a tail of zeros.
//
// A byte of the tail has its place in the ring by its offset modulo the ring's size.
// There are no pointers to be trusted: whether the bytes at a place are the record of
// an offset is told by its checksum, which segment and offset are part of. What an
// older lap or another segment left there never counts.
//
// What the ring promises: from the moment a record is acknowledged, it stands whole
// in the ring or in the segment's file. Nothing is overwritten before it was drained,
// and everything of a segment is drained before the next one begins.
//
// Readers against the next lap: the ring is divided into blocks. The appender, alone,
// takes a block for a new lap under the lock of the block; a reader copies under it,
// shared, and looks whether the block still belongs to the lap it wants. If not, the
// bytes were drained and are in the file.
//
// The file is made before the first append of a process, as RING.tmp, and renamed, so
// that it is whole whenever it has its name; a store that was closed has none. Its
// space is reserved, and the pages are there before they are stored to. Where any of
// that is refused the log appends by WriteAt, and nothing else is different.
type ring struct {
	file   vfs.File
	path   string
	region vfs.Region
	size   int64 // of the data
	block  int64 // size of a block
	blocks [ringBlocks]ringBlock
}

type ringBlock struct {
	mu     sync.RWMutex // guards what follows against readers; only the appender changes it
	of     *segment
	number int64 // which block of the segment

	populated bool // the appender's

	_ [64]byte // a cache line apart from the next
}

const (
	ringName   = "RING"
	ringTemp   = "RING.tmp"
	ringHead   = 4096 // bytes of the header line, so that the data begins with a page
	ringBlocks = 16
)

// DefaultRingBytes is the size of the ring where Options do not say. It is a variable for the
// sake of tests that stand outside.
var DefaultRingBytes int64 = 4 << 20

// leastRingBytes is the size of the ring where there is little memory.
const leastRingBytes = 64 << 10

// ringFor is the size of the ring of a store that may use so much memory: not more than a sixteenth of
// it, unless that is less than a ring must have.
func ringFor(memory int64) int64 {
	size := DefaultRingBytes
	for size > memory/16 && size > leastRingBytes {
		size /= 2
	}
	return size
}

// ringShare is what the ring takes of MaxMemory. Where it is the least that there is, it comes on top.
func ringShare(o *Options) int64 {
	if o.ReadOnly || o.RingBytes <= leastRingBytes || o.RingBytes > o.MaxMemory/4 {
		return 0
	}
	return o.RingBytes
}

// errRingSize is the reason why a ring with another size than its header says is of no use.
var errRingSize = errors.New("its length is not what its first line says")

// ringHeader is the text of the first line.
func ringHeader(store uint64, size int64) []byte {
	line := fmt.Sprintf("%s store %016x size %x", record.Title("ring"), store, size)
	return record.Seal(append([]byte(line), bytes.Repeat([]byte(" "), max(ringHead-10-len(line), 0))...))
}

// parseRingHeader reads what ringHeader writes.
func parseRingHeader(text []byte) (store uint64, size int64, err error) {
	body, err := record.Unseal(text, "ring")
	if err != nil {
		return 0, 0, err
	}
	for len(body) > 0 && body[len(body)-1] == ' ' {
		body = body[:len(body)-1]
	}
	f := record.NewFields(body)
	store, size = f.Fixed("store"), int64(f.Hex("size"))
	if err := f.End(); err != nil {
		return 0, 0, err
	}
	if size <= 0 || size > maxSegmentBytes || size%ringBlocks != 0 {
		return 0, 0, fmt.Errorf("%w: a ring of %d bytes", record.ErrSyntax, size)
	}
	return store, size, nil
}

// createRing makes the ring, in the place of one that an earlier process left. On an
// error there is none of the new one.
func createRing(fsys vfs.FS, dir string, store uint64, size int64) (_ *ring, err error) {
	temp := filepath.Join(dir, ringTemp)
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := fsys.Open(temp, vfs.Create)
	if err != nil {
		return nil, err
	}
	r := &ring{file: f, path: filepath.Join(dir, ringName), size: size, block: size / ringBlocks}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(), fsys.Remove(temp))
		}
	}()
	if err := f.Allocate(0, ringHead+size); err != nil {
		return nil, err
	}
	if err := f.Truncate(ringHead + size); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(ringHeader(store, size), 0); err != nil {
		return nil, err
	}
	if r.region, err = f.Map(ringHead, int(size)); err != nil {
		return nil, err
	}
	return r, fsys.Rename(temp, r.path)
}

func (r *ring) close() error {
	var err error
	if r.region != nil {
		err = r.region.Close()
	}
	return errors.Join(err, r.file.Close())
}

// intact returns an error if somebody has changed the file's length: what was stored
// beyond its end, or will be, is not there.
func (r *ring) intact() error {
	switch size, err := r.file.Size(); {
	case err != nil:
		return err
	case size != ringHead+r.size:
		return &CorruptError{File: r.path, Offset: size, Reason: errRingSize.Error()}
	}
	return nil
}

// needs is how far a segment that ends at off must have been drained before n more bytes may be stored. A
// block is taken as a whole; and a drain may end within a record, of which the file has only a part
// then: the rest of the longest one has to be there, too, or neither the file nor the ring would have it whole.
func (r *ring) needs(off, n int64) int64 {
	return min(((off+n-1)/r.block-(ringBlocks-1))*r.block+r.longest(), off)
}

// longest is the length of the longest record that goes into the ring.
func (r *ring) longest() int64 { return r.size / 4 }

// populate prepares the blocks for n bytes at off.
func (r *ring) populate(off, n int64) error {
	for number := off / r.block; number <= (off+n-1)/r.block; number++ {
		b := &r.blocks[number%ringBlocks]
		if b.populated {
			continue
		}
		if err := r.region.Populate(int(number%ringBlocks*r.block), int(r.block)); err != nil {
			return err
		}
		b.populated = true
	}
	return nil
}

// store copies p to the place of offset off of the segment. Only the appender calls it.
func (r *ring) store(s *segment, p []byte, off int64) error {
	for len(p) > 0 {
		number := off / r.block
		b := &r.blocks[number%ringBlocks]
		if b.of != s || b.number != number {
			b.mu.Lock()
			b.of, b.number = s, number
			b.mu.Unlock()
		}
		n := min(int(r.block-off%r.block), len(p))
		if err := r.region.Store(int(off%r.size), p[:n]); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// load copies the bytes at off of the segment to p. ok is false when some of them have
// been overwritten, after they were drained.
func (r *ring) load(s *segment, p []byte, off int64) (ok bool, err error) {
	for len(p) > 0 {
		n := min(int(r.block-off%r.block), len(p))
		if ok, err := r.loadBlock(s, p[:n], off); !ok || err != nil {
			return ok, err
		}
		p, off = p[n:], off+int64(n)
	}
	return true, nil
}

// loadBlock is load within one block.
func (r *ring) loadBlock(s *segment, p []byte, off int64) (ok bool, err error) {
	number := off / r.block
	b := &r.blocks[number%ringBlocks]
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.of != s || b.number != number {
		return false, nil
	}
	if err := r.region.Load(int(off%r.size), p); err != nil {
		return false, err
	}
	return true, nil
}
