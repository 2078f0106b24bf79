package hybridlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// scan finds the end of an open segment that begins at r.at.
func (r *recovery) scan(s *segment) error {
	s.begin(r.at)
	s.bytes.End.Store(0)
	s.sums.End.Store(0 * frameBytes)
	s.patch.Store(nil)
	r.skipped = s.begins()
	if r.torn {
		return nil
	}
	x := &scanner{recovery: r, s: s, next: s.framerAt(r.skipped), sure: r.skipped.place}
	if err := x.openFiles(); err != nil {
		return err
	}
	defer x.close()
	if err := x.holdsSkipped(); err != nil {
		return err
	}
	if err := x.follows(); err != nil || r.torn {
		return err
	}
	if err := x.run(); err != nil {
		return err
	}
	s.bytes.End.Store(x.sure.end)
	s.sums.End.Store(x.sure.frames * frameBytes)
	x.keepPatch()
	r.at, r.before = s.last(), s
	return nil
}

// begins returns the place where recovery begins in an open segment: after the trimmed part, and
// after the durable part that the manifest states.
func (s *segment) begins() trimPlace {
	if s.known.frames > s.trimmed.frames {
		return s.known
	}
	return s.trimmed
}

// scanner goes through an open segment.
type scanner struct {
	*recovery
	s           *segment
	bytes, sums vfs.File
	start       Address // as the file of frames says
	begun       bool    // whether it does
	frameCount  int64   // in the file
	next        framer
	sure        place // after the last whole entry
	patch       patch
	buf         [blockBytes]byte
	frames      []byte // some of the file
	framesAt    int64  // number of the first
}

func (x *scanner) openFiles() (err error) {
	fsys := x.s.fsys
	if x.bytes, err = fsys.Open(x.s.path(), vfs.ReadOnly); err != nil {
		return missing(x.s.path(), err)
	}
	if x.sums, err = fsys.Open(x.s.sumsPath(), vfs.ReadOnly); err != nil {
		return errors.Join(missing(x.s.sumsPath(), err), x.bytes.Close())
	}
	size, err := x.sums.Size()
	if err = wrap(err); err == nil {
		x.start, x.begun, err = x.s.readHeader(x.sums)
	}
	if err != nil {
		x.close()
		return err
	}
	x.frameCount = max(size-headerBytes, 0) / frameBytes
	return nil
}

// holdsSkipped checks that the files reach the place where recovery begins: the part before it is
// not read, but must exist.
func (x *scanner) holdsSkipped() error {
	if at := x.skipped.frames; x.frameCount < at {
		return corrupt(x.s.sumsPath(), headerBytes+x.frameCount*frameBytes, fmt.Sprintf("the file ends here, and has %x frames says MANIFEST", at))
	}
	size, err := x.bytes.Size()
	if err != nil {
		return wrap(err)
	}
	if at := x.skipped.end; size < at {
		return x.s.corrupt(size, fmt.Sprintf("the file ends here, and has %x bytes says MANIFEST", at))
	}
	return nil
}

func (x *scanner) close() {
	x.bytes.Close()
	x.sums.Close()
}

func (x *scanner) run() error {
	if m := x.mark; m != nil && m.Segment == x.s.id && int64(m.Seq) > x.skipped.frames {
		if err := x.skip(m); err != nil {
			return err
		}
	}
	for {
		ok, err := x.step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
	}
	if x.next.slot < x.frameCount {
		return x.breakOff(x.next.end, true, x.s.corrupt(x.next.end, "there is a frame, but not what was written here"))
	}
	if x.laterInRing() {
		return x.breakOff(x.next.end, false, x.s.corrupt(x.next.end, "there is a later entry, but not what was written here"))
	}
	return nil
}

// follows finds out whether the segment begins where the one before it ends.
func (x *scanner) follows() error {
	if x.begun {
		if x.start == x.at {
			return nil
		}
		if x.s == x.unsealed {
			return corrupt(x.s.sumsPath(), lineBytes, fmt.Sprintf("the segment begins at %x, and at %x says MANIFEST", int64(x.start), int64(x.at)))
		}
		return x.breakOff(0, false, x.before.endsEarly(x.s, x.start))
	}
	size, err := x.bytes.Size()
	if err != nil {
		return wrap(err)
	}
	if size == 0 && x.frameCount == 0 || !x.sameCache {
		return nil
	}
	return corrupt(x.s.sumsPath(), lineBytes, "the segment holds something, and its beginning is not here")
}

// endsEarly is the error of a segment whose end is not where the next one begins.
func (s *segment) endsEarly(next *segment, start Address) error {
	return corrupt(s.sumsPath(), headerBytes+s.slots()*frameBytes, fmt.Sprintf("the frames end here, at %x, and the next segment begins at %x, says %s", int64(s.last()), int64(start), sumsName(next.id)))
}

// breakOff ends the log at an offset of the segment, though there is more. A power cut may leave
// that; while the page cache of the writer still exists it is damage. sure is false if a writer may
// have changed the bytes meanwhile.
func (x *scanner) breakOff(off int64, sure bool, damage error) error {
	at, l := x.s.start+Address(off), x.log
	x.torn = true
	if !sure && l.opts.readOnly && l.hole != at+1 {
		l.hole, l.again = at+1, true
		return nil
	}
	if x.judged(off) {
		return damage
	}
	return nil
}

// judged reports whether the bytes written at an offset of the segment must be present, in the
// files or in the ring: they were synced, or the cache has everything.
func (x *scanner) judged(off int64) bool {
	if m := x.mark; m != nil && (m.Segment > x.s.id || m.Segment == x.s.id && m.Offset > off) {
		return true
	}
	return x.sameCache
}

// skip goes to the mark: everything before it was synced, and readers verify it.
func (x *scanner) skip(m *files.Mark) error {
	end, frames := m.Offset, int64(m.Seq)
	list, err := x.candidates(frames - 1)
	if err != nil {
		return err
	}
	for _, b := range list {
		if b == nil {
			continue
		}
		begin := max(endIn(b)-1, 0)
		f, err := x.s.seal.parseFrame(b, frames-1, begin)
		if err == nil && f.end == end && f.entry {
			x.next.slot = frames - 1
			x.next.take(f, nil)
			x.sure = place{end, frames}
			x.presentUpTo()
			return nil
		}
	}
	reason := "the log was synced up to here, and there is no frame"
	if x.image != nil {
		reason += ", in RING neither"
	}
	return corrupt(x.s.sumsPath(), headerBytes+(frames-1)*frameBytes, reason)
}

// presentUpTo checks that the files have the synced part. Under AlwaysSync some of it may be only
// in the ring: then all of it is scanned.
func (x *scanner) presentUpTo() {
	if x.image != nil {
		x.next, x.sure = x.s.framerAt(x.skipped), x.skipped.place
		return
	}
	x.skipped = trimPlace{x.sure, x.next.block}
}

// candidates are the bytes that may be the n-th frame: the file's and the ring's, nil where there are none.
func (x *scanner) candidates(n int64) (list [2][]byte, err error) {
	if list[0], err = x.fromFile(n); x.image != nil {
		list[1] = x.image.frame(n)
	}
	return list, err
}

// fromFile reads the n-th frame, and some after it. It is nil where the file ends.
func (x *scanner) fromFile(n int64) ([]byte, error) {
	if n >= x.frameCount {
		return nil, nil
	}
	if n < x.framesAt || n >= x.framesAt+int64(len(x.frames)/frameBytes) {
		x.frames = append(x.frames[:0], make([]byte, min(x.frameCount-n, framesAtOnce)*frameBytes)...)
		got, err := x.sums.ReadAt(x.frames, headerBytes+n*frameBytes)
		if err != nil && err != io.EOF {
			return nil, wrap(err)
		}
		x.frames, x.framesAt = x.frames[:got/frameBytes*frameBytes], n
		if got < frameBytes {
			return nil, nil
		}
	}
	return x.frames[(n-x.framesAt)*frameBytes:][:frameBytes], nil
}

// step takes the next frame, and reports whether it counts.
func (x *scanner) step() (bool, error) {
	n := x.next.slot
	list, err := x.candidates(n)
	if err != nil {
		return false, err
	}
	for _, b := range list {
		f, err := x.s.seal.parseFrame(b, n, x.next.end)
		if err != nil {
			continue
		}
		if ok, err := x.take(f); err != nil {
			return false, err
		} else if !ok {
			continue
		}
		if string(b) != string(list[0]) {
			x.patch.frames.Add(n*frameBytes, b)
		}
		x.next.take(f, nil)
		if f.entry {
			x.sure = place{f.end, x.next.slot}
		}
		return true, nil
	}
	return false, nil
}

// take finds the bytes of a frame, in the file or else in the ring.
func (x *scanner) take(f frame) (bool, error) {
	off := x.next.end
	p := x.buf[:f.end-off]
	n, err := x.bytes.ReadAt(p, off)
	if err != nil && err != io.EOF {
		return false, wrap(err)
	}
	if n == len(p) && crc32.Update(x.next.block, castagnoli, p) == f.sum {
		return true, nil
	}
	if x.image == nil {
		return false, nil
	}
	x.image.load(p, off)
	if crc32.Update(x.next.block, castagnoli, p) != f.sum {
		return false, nil
	}
	x.patch.bytes.Add(off, p)
	return true, nil
}

// laterInRing reports whether the ring has the frame of an entry after the end of the log.
func (x *scanner) laterInRing() bool {
	if x.image == nil {
		return false
	}
	for n := x.next.slot; n < x.next.slot+int64(len(x.image.frames)/frameBytes); n++ {
		if x.later(x.image.frame(n), n) {
			return true
		}
	}
	return false
}

// later reports whether b is the frame of an entry that ends after the end of the log.
func (x *scanner) later(b []byte, n int64) bool {
	f, err := x.s.seal.parseFrame(b, n, max(endIn(b)-1, 0))
	return err == nil && f.entry && f.end > x.next.end
}

// keepPatch keeps the valid bytes that are only in the ring.
func (x *scanner) keepPatch() {
	p := &patch{bytes: x.patch.bytes.UpTo(x.sure.end)}
	if !x.begun && x.sure.end > 0 {
		p.frames.Add(lineBytes-headerBytes, x.s.beginning())
	}
	for _, more := range x.patch.frames.UpTo(x.sure.frames * frameBytes) {
		p.frames.Add(more.At, more.Bytes)
	}
	if len(p.bytes)+len(p.frames) > 0 {
		x.s.patch.Store(p)
	}
}
