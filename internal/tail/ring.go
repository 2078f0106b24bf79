package tail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The ring has the newest bytes of a log first: it is a file, mapped into memory, so that bytes
// survive the death of the process at the cost of a copy, without a system call. They are written
// to the files soon after (drain.go), before their place is used again.
//
// It has a part for each file that grows at a time. The place of a byte in the part is its offset
// modulo the part's size. There are no pointers to be trusted: the log's checksums, which cover
// segment and offset, show whether the bytes at a place belong to an offset. Bytes of an older lap
// or another segment never count. Package laps keeps readers from the next lap.
//
// The ring promises: from the moment bytes are acknowledged, they are in the ring or in the file,
// and bytes that go into the ring at once are whole in one of the two. No byte is overwritten
// before it was drained, and all bytes of a segment are drained before the next one begins.
//
// The file is made before the first append of a process, as RING.tmp, synced, and renamed: so a
// file with the name has its first line. A log that was closed has none. Its space is reserved, and
// the pages are there before they are stored to. If any of that is refused the log writes to its
// files at once, and works the same otherwise.
//
// A log may have a page after the first line with the number that was acknowledged last. It is
// stored before the append returns. Recovery believes it only while the page cache has survived.
// Then a log that ends before is damaged, and broken bytes after it belong to a write that was not
// acknowledged. A ring that is left for good has a note there, as its number is not the last any
// more.

const (
	RingName  = "RING"
	RingTemp  = RingName + files.TempSuffix
	RingLine  = 4096        // bytes of the first line, so that the rest begins with a page
	PartUnit  = laps.Blocks // the size of a part is a multiple of it
	AckedSize = 8           // length of the number that was acknowledged last. The byte after it is 1 when the ring was left.
	mostParts = 2
)

// ErrRingSize is the reason why a ring with another size than its first line says is of no use.
var ErrRingSize = errors.New("its length differs from its first line")

// RingFormat is a log's spelling of the first line of its ring, and its errors for one that it
// cannot use.
type RingFormat struct {
	Title, Log, ID string   // words of the line
	Parts          []string // the word for the size of each part
	Unit, Most     int64    // a size is a multiple of the one, and not beyond the other
	Acks           bool     // there is a page for the number that was acknowledged last
}

// RingHeader is the content of the first line.
type RingHeader struct {
	Log, ID uint64 // identity of the log, and of the ring, which the manifest names; drawn at random, not 0
	Sizes   [mostParts]int64
	File    string // ID of the file itself, so that no copy passes for it; "" when unknown
}

// Encode returns the text of the line.
func (t *RingFormat) Encode(h *RingHeader) []byte {
	b := fmt.Appendf(nil, "%s %s %016x %s %016x", record.Title(t.Title), t.Log, h.Log, t.ID, h.ID)
	for i, word := range t.Parts {
		b = fmt.Appendf(b, " %s %x", word, h.Sizes[i])
	}
	return record.SealPadded(fmt.Sprintf("%s file %s", b, record.Name(h.File)), RingLine)
}

// Parse parses the text of Encode.
func (t *RingFormat) Parse(text []byte) (h RingHeader, err error) {
	f, err := record.UnsealPadded(text, t.Title)
	if err != nil {
		return h, err
	}
	h.Log, h.ID = f.Fixed(t.Log), f.Fixed(t.ID)
	for i, word := range t.Parts {
		h.Sizes[i] = int64(f.Hex(word))
	}
	h.File = f.Name("file")
	if err := f.End(); err != nil {
		return h, err
	}
	for i := range t.Parts {
		if n := h.Sizes[i]; h.ID == 0 || n <= 0 || n > t.Most || n%t.Unit != 0 {
			return h, fmt.Errorf("%w: ring %016x of %d bytes", record.ErrSyntax, h.ID, n)
		}
	}
	return h, nil
}

// Head returns the number of bytes before the parts.
func (t *RingFormat) Head() int64 {
	if t.Acks {
		return 2 * RingLine
	}
	return RingLine
}

// length is the length of the file.
func (t *RingFormat) length(h *RingHeader) int64 { return t.Head() + h.Sizes[0] + h.Sizes[1] }

// RingFound is the head of a ring of another process, dead or alive.
type RingFound struct {
	RingHeader        // zero where it cannot be read
	Copied     bool   // it is not the file that was made, or that is not known
	Acked      uint64 // the number that was acknowledged last, if the page cache has survived
	Left       bool   // that at least: the ring was left, and more may have been
}

// Find reads the head of a ring. bad makes the error of a file that is damaged at an offset, or of
// a newer version.
func (t *RingFormat) Find(f vfs.File, path string, bad func(path string, offset int64, err error) error) (found RingFound, err error) {
	text := make([]byte, t.Head())
	n, err := f.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return found, err
	}
	h, err := t.Parse(text[:min(n, RingLine)])
	if err != nil {
		return found, bad(path, 0, err)
	}
	found = RingFound{RingHeader: h, Copied: h.File == "" || h.File != f.ID()}
	if t.Acks {
		found.Acked, found.Left = binary.BigEndian.Uint64(text[RingLine:]), text[RingLine+AckedSize] != 0
	}
	length, err := f.Size()
	if err != nil {
		return found, err
	}
	if want := t.length(&h); length != want {
		return found, bad(path, min(length, want), ErrRingSize)
	}
	return found, nil
}

// Ring is the ring of this process.
type Ring struct {
	ID    uint64
	Parts [mostParts]Part

	file   vfs.File
	path   string
	length int64
	acked  vfs.Region // the page with the number that was acknowledged last, nil for none
	word   [AckedSize]byte
}

// Part is a part of the ring, for one file at a time.
type Part struct {
	*laps.Ring[*Tail]
	ring   *Ring
	enough int64 // how many bytes are worth a call of the system
}

// Make makes the ring durably, and puts it in the place of one that an earlier process left. It is
// filled with zeros if a sync of it must not depend on extents being converted. On an error there
// is none of the new one, unless the error is a files.ErrSyncDir.
func (t *RingFormat) Make(fsys vfs.FS, dir string, h RingHeader, fill bool) (_ *Ring, err error) {
	temp, length := filepath.Join(dir, RingTemp), t.length(&h)
	f, err := files.Make(fsys, temp, func(f vfs.File) error {
		if err := f.Truncate(length); err != nil {
			return err
		}
		probe, err := f.Map(0, RingLine) // before anything is reserved, which would only be given back
		if err != nil {
			return err
		}
		if err := probe.Close(); err != nil {
			return err
		}
		if err := f.Allocate(0, length); err != nil {
			return err
		}
		h.File = f.ID()
		_, err = f.WriteAt(t.Encode(&h), 0)
		if err == nil && fill {
			err = writeZeros(f, t.Head(), length)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &Ring{ID: h.ID, file: f, path: filepath.Join(dir, RingName), length: length}
	if err = r.mapParts(t, &h); err == nil {
		err = fsys.Rename(temp, r.path)
	}
	if err != nil {
		return nil, errors.Join(err, r.close(), fsys.Remove(temp))
	}
	if err := files.SyncDir(fsys, dir); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *Ring) mapParts(t *RingFormat, h *RingHeader) (err error) {
	if t.Acks {
		if r.acked, err = r.file.Map(RingLine, RingLine); err != nil {
			return err
		}
		if err := r.acked.Populate(0, RingLine); err != nil {
			return err
		}
	}
	at := t.Head()
	for i := range t.Parts {
		size := h.Sizes[i]
		region, err := r.file.Map(at, int(size))
		if err != nil {
			return err
		}
		r.Parts[i] = Part{Ring: laps.New[*Tail](region, size), ring: r, enough: min(DrainBytes, size/2)}
		at += size
	}
	return nil
}

// fillBytes is the number of zeros written at a time.
const fillBytes = 16 << 10

// writeZeros writes zeros in small pieces: large folios would make each later sync write a
// megabyte.
func writeZeros(f vfs.File, from, to int64) error {
	zeros := make([]byte, fillBytes)
	for ; from < to; from += fillBytes {
		if _, err := f.WriteAt(zeros[:min(to-from, fillBytes)], from); err != nil {
			return err
		}
	}
	return nil
}

// Acknowledge notes that the write with this number, and all before it, are acknowledged. The eight
// bytes are one store to memory, which a kill leaves done or not done.
func (r *Ring) Acknowledge(number uint64) error {
	binary.BigEndian.PutUint64(r.word[:], number)
	return r.acked.Store(0, r.word[:])
}

// Leave notes that later appends do not use the ring.
func (r *Ring) Leave() error {
	if r.acked == nil {
		return nil
	}
	return r.acked.Store(AckedSize, []byte{1})
}

// Sync makes the content of the ring durable.
func (r *Ring) Sync() error { return r.file.Sync() }

func (r *Ring) close() error {
	var errs []error
	for _, p := range r.Parts {
		if p.Ring != nil {
			errs = append(errs, p.Region.Close())
		}
	}
	if r.acked != nil {
		errs = append(errs, r.acked.Close())
	}
	return errors.Join(append(errs, r.file.Close())...)
}

// intact returns an error if another program has changed the file's length: stores beyond its end
// are lost.
func (r *Ring) intact(bad func(path string, offset int64, err error) error) error {
	switch size, err := r.file.Size(); {
	case err != nil:
		return err
	case size != r.length:
		return bad(r.path, size, ErrRingSize)
	}
	return nil
}

// Longest is the length of the longest piece that goes into the ring at once.
func (p *Part) Longest() int64 { return p.Size / 4 }

// Overwrites returns up to which offset a file that ends at off is overwritten when n more bytes
// are stored: a block is taken as a whole.
func (p *Part) Overwrites(off, n int64) int64 { return min(p.Ring.Needs(off, n), off) }

// Needs returns up to which offset a file that ends at off must have been drained before n more
// bytes may be stored. It is more than they overwrite: a drain may end within a piece, of which the
// file has only a part then. The rest of the longest one has to be there, too, or neither the file
// nor the ring would have it whole.
func (p *Part) Needs(off, n int64) int64 { return min(p.Ring.Needs(off, n)+p.Longest(), off) }
