package seglog

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"

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
//
// The page behind the first line has the sequence number of the last record that was acknowledged.
// It is stored before the append returns. Recovery believes it only while the page cache has survived:
// then a log that ends before this number is damaged, and broken bytes behind it are those of
// a write that nobody was told of. A ring that is left says so there, for its number is not the last any more.
type ring struct {
	*laps.Ring[*Segment]
	id    uint64 // drawn at random; the manifest names it
	file  vfs.File
	path  string
	acked vfs.Region // the page with the last acknowledged number
	word  [AckedBytes]byte
}

// DefaultRingBytes is the size of the ring where Options do not say. It is a variable for the
// sake of tests that stand outside.
var DefaultRingBytes int64 = 4 << 20

// leastRingBytes is the size of the ring where there is little memory.
const leastRingBytes = 64 << 10

// RingFor is the size of the ring of a store that may use so much memory: not more than a sixteenth of
// it, unless that is less than a ring must have.
func RingFor(memory int64) int64 {
	size := DefaultRingBytes
	for size > memory/16 && size > leastRingBytes {
		size /= 2
	}
	return size
}

// RingShare is what a ring takes of the memory that a store may use. Where it is the least that there is, it comes on top.
func RingShare(ring, memory int64) int64 {
	if ring <= leastRingBytes || ring > memory/4 {
		return 0
	}
	return ring
}

// createRing makes the ring durably, in the place of one that an earlier process left. On an error
// there is none of the new one, unless its name could not be synced.
func createRing(fsys vfs.FS, dir string, store, id uint64, size int64) (_ *ring, err error) {
	temp := filepath.Join(dir, RingTemp)
	if err := files.Remove(fsys, temp); err != nil {
		return nil, err
	}
	f, err := fsys.Open(temp, vfs.Create)
	if err != nil {
		return nil, err
	}
	r := &ring{Ring: laps.New[*Segment](nil, size), id: id, file: f, path: filepath.Join(dir, RingName)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(), fsys.Remove(temp))
		}
	}()
	if err := f.Allocate(0, RingHead+size); err != nil {
		return nil, err
	}
	if err := f.Truncate(RingHead + size); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt((&RingHeader{Store: store, ID: id, Size: size, File: f.ID()}).Encode(), 0); err != nil {
		return nil, err
	}
	if r.acked, err = f.Map(RingLine, RingHead-RingLine); err != nil {
		return nil, err
	}
	if err := r.acked.Populate(0, RingHead-RingLine); err != nil {
		return nil, err
	}
	if r.Region, err = f.Map(RingHead, int(size)); err != nil {
		return nil, err
	}
	if err := fsys.Rename(temp, r.path); err != nil {
		return nil, err
	}
	return r, files.SyncDir(fsys, dir)
}

// acknowledge notes that the record with this number, and all before it, are acknowledged. The eight
// bytes are one store to memory, which a kill leaves done or not done.
func (r *ring) acknowledge(seq uint64) error {
	binary.BigEndian.PutUint64(r.word[:], seq)
	return r.acked.Store(0, r.word[:])
}

func (r *ring) close() error {
	var errs []error
	for _, m := range []vfs.Region{r.Region, r.acked} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(append(errs, r.file.Close())...)
}

// Leave notes that what is appended from now on passes the ring by.
func (r *ring) Leave() error { return r.acked.Store(AckedBytes, []byte{1}) }

// intact returns an error if somebody has changed the file's length: what was stored
// beyond its end, or will be, is not there.
func (r *ring) intact() error {
	switch size, err := r.file.Size(); {
	case err != nil:
		return err
	case size != RingHead+r.Size:
		return &CorruptError{File: r.path, Offset: size, Reason: ErrRingSize.Error()}
	}
	return nil
}

// needs is how far a segment that ends at off must have been drained before n more bytes may be stored. A
// block is taken as a whole; and a drain may end within a record, of which the file has only a part
// then: the rest of the longest one has to be there, too, or neither the file nor the ring would have it whole.
func (r *ring) needs(off, n int64) int64 { return min(r.Needs(off, n)+r.longest(), off) }

// longest is the length of the longest record that goes into the ring.
func (r *ring) longest() int64 { return r.Size / 4 }
