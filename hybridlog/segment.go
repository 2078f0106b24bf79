package hybridlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// A segment is a file of bytes, exactly as they were written, and a file of frames. One segment at a time, the
// tail, is appended to; all others never change.
//
// A segment's files are opened at the first read: until then an open log of any length costs
// nothing.
type segment struct {
	fsys    vfs.FS
	id      record.SegmentID
	salt    uint64
	start   Address // set before the segment can be seen
	seal    seal
	trimmed trimPlace // set before the segment can be seen: the part that is not read any more
	known   trimPlace // the durable part in the manifest, if the segment was open when this process found it; set before it can be seen

	capacity int64       // up to where the file is mapped
	ended    atomic.Bool // nothing will be appended any more, and the sum of the last block is known
	synced   atomic.Bool // ended, and on the disk

	bytes tail.Tail // the appended bytes. Both files are open while the segment is the tail, and until they are durable
	sums  tail.Tail // their frames, after the header
	patch atomic.Pointer[patch]

	opening sync.Mutex // guards the opening of content
	content atomic.Pointer[content]
}

// trimPlace is the place where recovery goes on in a segment, without reading earlier bytes: the
// end of an entry, and the number of frames up to it. The sum is of the block up to there; the sum
// of the next frame continues it. Trimmed bytes of the first segment are not looked at any more,
// whatever has become of them.
type trimPlace struct {
	place
	sum uint32
}

func (t trimPlace) possible() bool {
	return t.end >= 0 && t.end < maxEnd && t.frames >= 0 && t.frames <= t.end && (t.frames > 0) == (t.end > 0) && (t.sum == 0 || t.end%blockBytes != 0)
}

// framer returns the framer for the frames of the segment, from the first that is not trimmed.
func (s *segment) framer() framer { return s.framerAt(s.trimmed) }

func (s *segment) framerAt(t trimPlace) framer {
	return framer{seal: s.seal, slot: t.frames, end: t.end, block: t.sum}
}

// trimmedAt returns the trimmed part of the segment if it is trimmed up to an offset, where an
// entry ends.
func (s *segment) trimmedAt(off int64) (t trimPlace, err error) {
	if off == s.trimmed.end {
		return s.trimmed, nil
	}
	r, err := s.readFrames()
	if err != nil {
		return t, err
	}
	defer r.close()
	f, err := r.find(off - 1)
	if err == nil && f.end != off {
		err = corrupt(s.sumsPath(), headerBytes+f.slot*frameBytes, fmt.Sprintf("no frame ends at %x", off))
	}
	t = trimPlace{place: place{off, f.slot + 1}}
	if off%blockBytes != 0 {
		t.sum = f.sum
	}
	return t, err
}

// content is the open files of a segment for reading.
type content struct {
	file   vfs.File // nil when the segment is mapped and not written to
	view   vfs.View // nil when it is not mapped
	mapped []byte   // nil when view.Load is the only way
	patch  *patch   // bytes that the file does not have; it is not mapped then
	sums   []uint32 // of the blocks
	trust  []atomic.Uint32
	until  int64 // all that it knows of, where that was fixed when it was opened: readers may have it still when the tail goes on. 0 for one that grows
}

// patch is the bytes and frames that recovery found only in the ring.
type patch struct {
	bytes  laps.Overlay
	frames laps.Overlay // offsets count from the end of the header
}

// newSegment makes a segment, whose place in the log is yet to be said.
func newSegment(fsys vfs.FS, dir string, id record.SegmentID, salt uint64) *segment {
	s := &segment{fsys: fsys, id: id, salt: salt}
	s.bytes.Path = filepath.Join(dir, id.FileName())
	s.sums.Path, s.sums.Base = filepath.Join(dir, sumsName(id)), headerBytes
	return s
}

func (s *segment) path() string { return s.bytes.Path }

func (s *segment) sumsPath() string { return s.sums.Path }

// slots returns the number of frames of the segment.
func (s *segment) slots() int64 { return s.sums.End.Load() / frameBytes }

// last returns the address after the segment.
func (s *segment) last() Address { return s.start + Address(s.bytes.End.Load()) }

// corrupt is the error of damage at an offset.
func (s *segment) corrupt(offset int64, reason string) error {
	return corrupt(s.path(), offset, reason)
}

// open returns the content, which is made when it is not there.
func (s *segment) open() (*content, error) {
	if c := s.content.Load(); c != nil {
		return c, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if c := s.content.Load(); c != nil {
		return c, nil
	}
	c, err := s.openContent(vfs.ReadOnly, nil)
	if err != nil {
		return nil, err
	}
	c.until = s.bytes.End.Load()
	s.content.Store(c)
	return c, nil
}

// openContent opens the file of bytes. Without sums they are read from the frames.
func (s *segment) openContent(mode vfs.Mode, sums []uint32) (*content, error) {
	f, err := s.fsys.Open(s.path(), mode)
	if err != nil {
		return nil, missing(s.path(), err)
	}
	c, err := s.contentOf(f, mode, sums)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

func (s *segment) contentOf(f vfs.File, mode vfs.Mode, sums []uint32) (c *content, err error) {
	length := max(s.capacity, s.bytes.End.Load())
	if sums == nil {
		m := s.framer()
		sums = make([]uint32, blocksOf(length))
		if err := s.readSums(&m, sums); err != nil {
			return nil, err
		}
		if s.ended.Load() && m.end%blockBytes != 0 {
			sums[m.end/blockBytes] = m.block
		}
	}
	c = &content{file: f, patch: s.patch.Load(), sums: sums, trust: make([]atomic.Uint32, (len(sums)+31)/32)}
	if length == 0 || c.patch != nil {
		return c, nil
	}
	if c.view, err = f.View(length); err != nil { // there is no mapping, or no room for one more
		return c, nil
	}
	c.mapped = c.view.Bytes()
	if mode == vfs.ReadOnly && c.mapped != nil {
		c.file = nil
		if err := f.Close(); err != nil {
			return nil, errors.Join(err, c.view.Close())
		}
	}
	return c, nil
}

// blocksOf returns the number of blocks of n bytes.
func blocksOf(n int64) int64 { return (n + blockBytes - 1) / blockBytes }

// readSums goes through the frames of a segment that is not the tail yet.
func (s *segment) readSums(m *framer, sums []uint32) error {
	for f, err := range s.frames(0) {
		if err != nil {
			return err
		}
		m.take(f.frame, sums)
	}
	if end := s.bytes.End.Load(); m.end != end {
		return corrupt(s.sumsPath(), headerBytes+m.slot*frameBytes, fmt.Sprintf("the frames end at %x, the segment at %x", m.end, end))
	}
	return nil
}

func (c *content) close() error {
	var err error
	if c.view != nil {
		err = c.view.Close()
	}
	if c.file != nil {
		err = errors.Join(err, c.file.Close())
	}
	return err
}

// close closes the files of the segment. It has no readers any more.
func (s *segment) close() error {
	if c := s.content.Swap(nil); c != nil {
		return c.close()
	}
	return nil
}

// inFile returns the offset up to which the file of bytes has the appended bytes.
func (s *segment) inFile() int64 {
	return s.bytes.InFile(s.bytes.End.Load())
}

// readAt fills p with the bytes at off, which have all been appended.
func (s *segment) readAt(c *content, p []byte, off int64) error {
	if s.inFile() < off+int64(len(p)) || c.patch.touches(off, int64(len(p))) {
		return s.readNewest(c, p, off)
	}
	return s.readFile(c, p, off)
}

// readNewest is readAt for bytes of which some may not be in the file.
func (s *segment) readNewest(c *content, p []byte, off int64) error {
	if c.patch != nil {
		return s.readPatched(c, p, off)
	}
	inFile, err := s.bytes.LoadNewest(p, off)
	if err != nil {
		return fmt.Errorf("hybridlog: %w", err)
	}
	if inFile == 0 {
		return nil
	}
	return s.readFile(c, p[:inFile], off)
}

// readPatched is readAt for bytes of which the ring alone had some. They are verified with the rest
// of their blocks in the file, which recovery may not have read.
func (s *segment) readPatched(c *content, p []byte, off int64) error {
	buf := blockPool.Get().(*[blockBytes]byte)
	defer blockPool.Put(buf)
	for len(p) > 0 {
		b := off / blockBytes
		lo, hi, _ := s.block(c, b)
		whole := buf[:hi-lo]
		if n, err := c.file.ReadAt(whole, lo); n < len(whole) && err != io.EOF {
			return fmt.Errorf("hybridlog: %w", err)
		}
		c.patch.over(whole, lo)
		if err := s.verify(c, b, whole); err != nil {
			return err
		}
		n := copy(p, whole[off-lo:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// touches reports whether bytes at off are in a block that is not whole in the file.
func (x *patch) touches(off, n int64) bool {
	if x == nil {
		return false
	}
	return x.bytes.Touches(off/blockBytes*blockBytes, blocksOf(off+n)*blockBytes)
}

// over replaces those of the bytes at off that were only in the ring.
func (x *patch) over(p []byte, off int64) {
	if x != nil {
		x.bytes.Patch(p, off)
	}
}

// readFile is readAt for bytes that the file has. They are verified, unless they were a short while ago.
func (s *segment) readFile(c *content, p []byte, off int64) error {
	if c.mapped == nil {
		return s.readBlocks(c, p, off)
	}
	return s.copyMapped(c, p, off)
}

func (s *segment) copyMapped(c *content, p []byte, off int64) (err error) {
	defer vfs.Caught(vfs.Catch(), c.mapped, &err)
	if err := s.verifyMapped(c, off, off+int64(len(p))); err != nil {
		return err
	}
	copy(p, c.mapped[off:])
	return nil
}

// verifyMapped verifies the blocks of [from, to). The caller has deferred vfs.Caught.
func (s *segment) verifyMapped(c *content, from, to int64) error {
	for b := from / blockBytes; b*blockBytes < to; b++ {
		if c.trusted(b) {
			continue
		}
		lo, hi, known := s.block(c, b)
		if !known {
			continue
		}
		if err := s.verify(c, b, c.mapped[lo:hi]); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the bytes of a block with its sum.
func (s *segment) verify(c *content, b int64, p []byte) error {
	sum := uint32(0)
	if t := &s.trimmed; t.end%blockBytes != 0 && t.end/blockBytes == b {
		sum, p = t.sum, p[t.end-b*blockBytes:]
	}
	if crc32.Update(sum, castagnoli, p) == c.sums[b] {
		c.setTrusted(b)
		return nil
	}
	if len(p) < blockBytes && !s.fixed(c) {
		return nil // the segment goes on since, and the block grows
	}
	return s.corrupt(b*blockBytes, "the sum of the block is wrong")
}

// block returns the bounds of a block in the file; known reports whether it has a sum, which a
// block that grows, or is only partly in the file, has not.
func (s *segment) block(c *content, b int64) (lo, hi int64, known bool) {
	lo, hi = b*blockBytes, (b+1)*blockBytes
	fixed := s.fixed(c) // before the end is asked for, which a segment that has ended has reached
	end := c.until
	if end == 0 {
		end = s.inFile()
	}
	if hi > end {
		return lo, end, fixed
	}
	return lo, hi, true
}

// fixed reports whether the last block of the content grows no more.
func (s *segment) fixed(c *content) bool { return c.until > 0 || s.ended.Load() }

func (c *content) trusted(b int64) bool { return c.trust[b/32].Load()&(1<<(b%32)) != 0 }

func (c *content) setTrusted(b int64) { c.trust[b/32].Or(1 << (b % 32)) }

// distrust forgets which blocks were verified, and reports whether any was.
func (c *content) distrust() (any bool) {
	for i := range c.trust {
		if c.trust[i].Load() != 0 {
			c.trust[i].Store(0)
			any = true
		}
	}
	return any
}

// readBlocks is readFile where the file is not mapped.
func (s *segment) readBlocks(c *content, p []byte, off int64) error {
	for len(p) > 0 {
		b := off / blockBytes
		lo, hi, known := s.block(c, b)
		n := min(int64(len(p)), (b+1)*blockBytes-off)
		if whole := n / blockBytes; whole == 0 && known && !c.trusted(b) {
			if err := s.readPart(c, p[:n], off, lo, hi); err != nil {
				return err
			}
		} else {
			n = s.stretch(c, int64(len(p)), off)
			if err := s.loadBytes(c, p[:n], off); err != nil {
				return err
			}
			if err := s.verifyRead(c, p[:n], off); err != nil {
				return err
			}
		}
		p, off = p[n:], off+n
	}
	return nil
}

// stretch returns how many of n bytes at off can be read at once: up to a block that must be
// verified and is wanted only in part.
func (s *segment) stretch(c *content, n, off int64) int64 {
	last := (off + n - 1) / blockBytes
	if _, hi, known := s.block(c, last); known && hi > off+n && !c.trusted(last) && last*blockBytes > off {
		return last*blockBytes - off
	}
	return n
}

// verifyRead verifies the blocks that are whole in p, except those that are trusted.
func (s *segment) verifyRead(c *content, p []byte, off int64) error {
	for b := blocksOf(off); b*blockBytes < off+int64(len(p)); b++ {
		lo, hi, known := s.block(c, b)
		if !known || hi > off+int64(len(p)) || c.trusted(b) {
			continue
		}
		if err := s.verify(c, b, p[lo-off:hi-off]); err != nil {
			return err
		}
	}
	return nil
}

var blockPool = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// readPart reads a block, verifies it, and gives a part of it.
func (s *segment) readPart(c *content, p []byte, off, lo, hi int64) error {
	buf := blockPool.Get().(*[blockBytes]byte)
	defer blockPool.Put(buf)
	b := buf[:hi-lo]
	if err := s.loadBytes(c, b, lo); err != nil {
		return err
	}
	if err := s.verify(c, lo/blockBytes, b); err != nil {
		return err
	}
	copy(p, b[off-lo:])
	return nil
}

// loadBytes reads bytes of the file without verification.
func (s *segment) loadBytes(c *content, p []byte, off int64) error {
	if c.view != nil {
		if err := c.view.Load(off, p); err != nil {
			if s.cut(off + int64(len(p))) {
				return s.corrupt(off, "the file ends here")
			}
			return fmt.Errorf("hybridlog: %s: %w", s.path(), err)
		}
		return nil
	}
	switch n, err := c.file.ReadAt(p, off); {
	case n == len(p):
		return nil
	case err == io.EOF:
		return s.corrupt(off+int64(n), "the file ends here")
	default:
		return fmt.Errorf("hybridlog: %w", err)
	}
}

// cut reports whether the file of bytes is shorter than end.
func (s *segment) cut(end int64) bool {
	size, err := sizeOf(s.fsys, s.path())
	return err == nil && size < end
}
