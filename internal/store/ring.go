package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/laps"
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
// Readers against the next lap: package laps has the places. If a place belongs to another lap
// by now, the bytes were drained and are in the file.
//
// The file is made before the first append of a process, as RING.tmp, and renamed, so
// that it is whole whenever it has its name; a store that was closed has none. Its
// space is reserved, and the pages are there before they are stored to. Where any of
// that is refused the log appends by WriteAt, and nothing else is different.
type ring struct {
	*laps.Ring[*segment]
	file vfs.File
	path string
}

const (
	ringName   = "RING"
	ringTemp   = "RING.tmp"
	ringHead   = 4096 // bytes of the header line, so that the data begins with a page
	ringBlocks = laps.Blocks
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
	r := &ring{Ring: laps.New[*segment](nil, size), file: f, path: filepath.Join(dir, ringName)}
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
	if r.Region, err = f.Map(ringHead, int(size)); err != nil {
		return nil, err
	}
	return r, fsys.Rename(temp, r.path)
}

func (r *ring) close() error {
	var err error
	if r.Region != nil {
		err = r.Region.Close()
	}
	return errors.Join(err, r.file.Close())
}

// intact returns an error if somebody has changed the file's length: what was stored
// beyond its end, or will be, is not there.
func (r *ring) intact() error {
	switch size, err := r.file.Size(); {
	case err != nil:
		return err
	case size != ringHead+r.Size:
		return &CorruptError{File: r.path, Offset: size, Reason: errRingSize.Error()}
	}
	return nil
}

// needs is how far a segment that ends at off must have been drained before n more bytes may be stored. A
// block is taken as a whole; and a drain may end within a record, of which the file has only a part
// then: the rest of the longest one has to be there, too, or neither the file nor the ring would have it whole.
func (r *ring) needs(off, n int64) int64 { return min(r.Needs(off, n)+r.longest(), off) }

// longest is the length of the longest record that goes into the ring.
func (r *ring) longest() int64 { return r.Size / 4 }
