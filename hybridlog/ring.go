package hybridlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// The ring of this log has two parts, one for bytes and one for frames. Nothing in it is trusted by
// its place: a frame is recognized by its check, bytes by the frame's sum. It has the address up to
// which all was acknowledged, without which a damaged newest frame would look like one that a
// killed process has not finished.
//
// Under AlwaysSync the ring is synced instead of the files: one file, of which no block is new,
// instead of two that grow. Bytes that are durable only in the ring keep their place until the
// tail's files are synced. For that the ring is filled once before it is used: a sync must not
// depend on extents being converted.

const (
	ringName = tail.RingName
	maxRing  = 1 << 30
)

// rings is the spelling of the first line of the log's ring.
var rings = &tail.RingFormat{
	Title: "hybridring", Log: "log", ID: "ring", Parts: []string{"bytes", "frames"}, Unit: laps.Blocks * frameBytes, Most: maxRing, Acks: true,
}

// ringImage is a copy in memory of the ring that another process left.
type ringImage struct {
	tail.RingFound
	bytes, frames []byte
}

// readRing returns nil when there is no ring.
func readRing(fsys vfs.FS, dir string, log uint64) (*ringImage, error) {
	path := filepath.Join(dir, ringName)
	f, err := fsys.Open(path, vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err)
	}
	defer f.Close()
	r := &ringImage{}
	if r.RingFound, err = rings.Find(f, path, bad); r.ID != 0 && r.Log != log {
		return nil, corrupt(path, 0, fmt.Sprintf("it is the ring of log %016x, MANIFEST is of %016x", r.Log, log))
	}
	if err == nil {
		both := make([]byte, r.Sizes[0]+r.Sizes[1])
		r.bytes, r.frames = both[:r.Sizes[0]], both[r.Sizes[0]:]
		_, err = io.ReadFull(io.NewSectionReader(f, rings.Head(), int64(len(both))), both)
	}
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			err = wrap(err)
		}
		return nil, err
	}
	return r, nil
}

// blank reports whether the ring has no acknowledged write.
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
