package hybridlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The ring is where the newest writes stand first: a mapped file, so that a write which survives the death of the
// process costs a copy and no call of the system. It has two parts, one for bytes and one for frames. What is in it is written to
// the tail's files soon after (drain.go), before its place is used again.
//
// Nothing in it is trusted by its place: a frame is told by its check, bytes by the frame's sum.
//
// Under AlwaysSync the ring is also what is synced: one file, of which no block is new, instead of two that grow. What
// is durable in the ring alone keeps its place until the tail's files are synced. For that the ring is filled once before it is used: a sync must not
// depend on extents being converted.
//
// The file is made before the first write of a process, as RING.tmp, and renamed; then the manifest names it, by a number in its first line. A log that was closed has none.
// Where it cannot be made, or mapped, or its room reserved, the log writes to the files at once.
type ring struct {
	id     uint64
	file   vfs.File
	path   string
	bytes  *laps.Ring[*segment]
	frames *laps.Ring[*segment]
}

const (
	ringName = "RING"
	ringTemp = ringName + files.TempSuffix
	ringHead = 4096 // bytes of the header line, so that the parts begin with a page
	maxRing  = 1 << 30
)

// ringHeader is the text of the first line.
type ringHeader struct {
	log           uint64
	id            uint64 // drawn when the ring was made; the manifest names it
	bytes, frames int64  // sizes of the parts
	file          string // the ring's own, see vfs.File; "" when it is not known
}

func (h *ringHeader) encode() []byte {
	return record.SealPadded(fmt.Sprintf("%s log %016x ring %016x bytes %x frames %x file %s", record.Title("hybridring"), h.log, h.id, h.bytes, h.frames, record.Name(h.file)), ringHead)
}

func (h *ringHeader) size() int64 { return ringHead + h.bytes + h.frames }

func parseRingHeader(text []byte) (h ringHeader, err error) {
	f, err := record.UnsealPadded(text, "hybridring")
	if err != nil {
		return h, err
	}
	h = ringHeader{log: f.Fixed("log"), id: f.Fixed("ring"), bytes: int64(f.Hex("bytes")), frames: int64(f.Hex("frames")), file: f.Name("file")}
	if err := f.End(); err != nil {
		return h, err
	}
	if h.id == 0 {
		return h, fmt.Errorf("%w: a ring without a name", record.ErrSyntax)
	}
	for _, n := range []int64{h.bytes, h.frames} {
		if n <= 0 || n > maxRing || n%(laps.Blocks*frameBytes) != 0 {
			return h, fmt.Errorf("%w: a ring of %d bytes", record.ErrSyntax, n)
		}
	}
	return h, nil
}

// createRing makes the ring, where no other is. It has its name when its first line is durable. On an error there is none.
func createRing(o *options, dir string, log uint64) (_ *ring, err error) {
	path, temp := filepath.Join(dir, ringName), filepath.Join(dir, ringTemp)
	h := &ringHeader{log: log, id: max(o.random(), 1), bytes: o.dataRing, frames: o.frameRing}
	f, err := files.Make(o.fsys, temp, func(f vfs.File) error { // what has the name has its first line
		if err := f.Allocate(0, h.size()); err != nil {
			return err
		}
		if err := f.Truncate(h.size()); err != nil {
			return err
		}
		h.file = f.ID()
		_, err := f.WriteAt(h.encode(), 0)
		if err == nil && o.policy == AlwaysSync {
			err = fill(f, ringHead, h.size())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &ring{id: h.id, file: f, path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(), o.fsys.Remove(temp))
		}
	}()
	if r.bytes, err = mapRing(f, ringHead, h.bytes); err != nil {
		return nil, err
	}
	if r.frames, err = mapRing(f, ringHead+h.bytes, h.frames); err != nil {
		return nil, err
	}
	if err := o.fsys.Rename(temp, path); err != nil {
		return nil, err
	}
	return r, nil
}

func mapRing(f vfs.File, off, size int64) (*laps.Ring[*segment], error) {
	region, err := f.Map(off, int(size))
	if err != nil {
		return nil, err
	}
	return laps.New[*segment](region, size), nil
}

// fill writes zeros, in small pieces: large folios would make each later sync write a megabyte.
func fill(f vfs.File, from, to int64) error {
	zeros := make([]byte, 16<<10)
	for ; from < to; from += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from); err != nil {
			return err
		}
	}
	return nil
}

func (r *ring) close() error {
	var err error
	for _, part := range []*laps.Ring[*segment]{r.bytes, r.frames} {
		if part != nil {
			err = errors.Join(err, part.Region.Close())
		}
	}
	return errors.Join(err, r.file.Close())
}

// intact returns an error if somebody has changed the file's length.
func (r *ring) intact() error {
	switch size, err := r.file.Size(); {
	case err != nil:
		return err
	case size != ringHead+r.bytes.Size+r.frames.Size:
		return corrupt(r.path, size, "its length is not what it was")
	}
	return nil
}

// ringImage is what another process left in its ring, in memory.
type ringImage struct {
	path          string
	id            uint64
	original      bool // it is not the copy of a ring
	bytes, frames []byte
}

// readRing returns nil when there is no ring.
func readRing(fsys vfs.FS, dir string, log uint64) (*ringImage, error) {
	path := filepath.Join(dir, ringName)
	text, id, err := files.Read(fsys, path, 2*maxRing)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hybridlog: %w", err)
	}
	if len(text) < ringHead {
		return nil, corrupt(path, int64(len(text)), "the ring ends in its first line")
	}
	h, err := parseRingHeader(text[:ringHead])
	if err != nil {
		return nil, bad(path, 0, err)
	}
	if h.log != log {
		return nil, corrupt(path, 0, fmt.Sprintf("it is the ring of log %016x, MANIFEST is of %016x", h.log, log))
	}
	if h.size() != int64(len(text)) {
		return nil, corrupt(path, int64(len(text)), "its length is not what its first line says")
	}
	return &ringImage{path: path, id: h.id, original: id != "" && id == h.file, bytes: text[ringHead:][:h.bytes], frames: text[ringHead+h.bytes:]}, nil
}

// blank reports whether nothing was ever acknowledged that stands in the ring.
func (r *ringImage) blank() bool {
	return !slices.ContainsFunc(r.frames, func(b byte) bool { return b != 0 })
}

// frame returns the place of the n-th frame of any segment.
func (r *ringImage) frame(n int64) []byte {
	at := n * frameBytes % int64(len(r.frames))
	return r.frames[at:][:frameBytes]
}

// load copies the bytes that would be those at off of a segment.
func (r *ringImage) load(p []byte, off int64) {
	for len(p) > 0 {
		n := copy(p, r.bytes[off%int64(len(r.bytes)):])
		p, off = p[n:], off+int64(n)
	}
}
