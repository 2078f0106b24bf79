package hybridlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/vfs"
)

// Recovery finds out what the log holds:
//
//  1. Read the manifest and the mark. Without a manifest the log is new, unless a segment holds something.
//  2. If there is a ring, the log was not closed: note how far the cache holds the log, then sync the ring and the open segments, drop them
//     from the cache, and read them from the device. So what is found is what is durable, also when an earlier
//     process ended with a sync that failed. (Not when the log is opened read-only.)
//  3. Sealed segments must have their length. They are not read.
//  4. Go through the frames of the open ones, from the mark on. A frame counts if its check is right, and the bytes up to
//     its end have its sum: in the files, or else in the ring. What is in the ring alone is kept in memory until the
//     first write puts it into the files. The log ends with the last entry before the first frame that does not count.
//  5. If the frame of a later entry is there, and the page cache has been there without a break since the mark was
//     written, and held no more than the disk, that is damage, and the log does not open. Else it is a torn tail.
//  6. The log must reach the mark, or it is damage.
//
// It writes in one case: when step 2 finds that a sync had failed, or its own fails, it notes in the mark that the cache is not to be
// trusted, or the next opening, which sees the disk alone, would call the loss damage.
//
// An error of a read is never taken for the end of the log: it ends the recovery.

// readTries is how often a read-only opening begins anew because the writer has replaced what it was reading.
const readTries = 20

func (l *Log) recover() error {
	var err error
	for range readTries {
		l.again = false
		err = l.recoverOnce()
		if !l.opts.readOnly || err == nil && !l.again || err != nil && !errors.Is(err, ErrCorrupt) {
			break
		}
	}
	return err
}

func (l *Log) recoverOnce() error {
	l.cacheID = l.opts.fsys.CacheID(l.dir)
	m, err := readManifest(l.opts.fsys, l.dir)
	if err != nil {
		return err
	}
	if m == nil {
		return l.recoverNew()
	}
	r := &recovery{log: l, recovered: &recovered{}}
	if r.mark, r.slot, err = marks(l.opts.fsys, l.dir, m.log); err != nil {
		return err
	}
	if err := r.readRing(m.log); err != nil {
		return err
	}
	l.manifest, l.logID = m, m.log
	if err := r.segments(m); err != nil {
		return err
	}
	if err := r.orphaned(m); err != nil {
		return err
	}
	l.set.Store(newSet(m.first, r.list))
	l.end.Store(int64(r.at))
	if !r.patched() {
		l.durable.Store(int64(r.at))
	}
	l.recovered = r.recovered
	return nil
}

// recoverNew is recovery of a directory without a manifest.
func (l *Log) recoverNew() error {
	names, err := l.opts.fsys.List(l.dir)
	if err != nil {
		return wrap(err)
	}
	r := &recovered{}
	for _, name := range names {
		if name == ringName {
			r.ring = true
		}
		if _, ok := parseName(name); !ok {
			continue
		}
		most := int64(0)
		if strings.HasSuffix(name, ".sum") {
			most = headerBytes
		}
		if n, err := sizeOf(l.opts.fsys, filepath.Join(l.dir, name)); err != nil {
			return wrap(err)
		} else if n > most {
			return corrupt(filepath.Join(l.dir, manifestName), 0, "the file is missing, and "+name+" holds something")
		}
		r.orphans = append(r.orphans, name)
	}
	l.noteHighest(names)
	l.set.Store(newSet(0, nil))
	l.recovered = r
	return nil
}

// noteHighest learns from names which numbers segments have had.
func (l *Log) noteHighest(names []string) {
	for _, name := range names {
		if id, ok := parseName(name); ok {
			l.highest = max(l.highest, id.Order())
		}
	}
}

func sizeOf(fsys vfs.FS, path string) (int64, error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// recovery is one look at a log.
type recovery struct {
	log *Log
	*recovered
	image *ringImage // what is in the ring, or nil
	list  []*segment
	at    Address // where the next segment begins
	torn  bool    // the log ends here, whatever the next segments hold

	cached Address // up to where the cache had the log
}

// patched reports whether something was found in the ring alone.
func (r *recovery) patched() bool {
	return slices.ContainsFunc(r.list, func(s *segment) bool { return s.patch.Load() != nil })
}

// readRing reads the ring. One that cannot be is damage only if the cache has been there all the time.
func (r *recovery) readRing(log uint64) (err error) {
	o := r.log.opts
	r.image, err = readRing(o.fsys, r.log.dir, log)
	if errors.Is(err, ErrCorrupt) && !r.mark.sameCache(r.log.cacheID) {
		r.ring, err = true, nil
	}
	r.ring = r.ring || r.image != nil
	return err
}

// refresh drops from the cache what the disk does not have. A sync that fails is told once: the next opening must know of it.
func (r *recovery) refresh(path string) error {
	f, err := r.log.opts.fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		return missing(path, err)
	}
	if err = f.Sync(); err != nil {
		err = errors.Join(err, r.distrustCache())
	} else {
		err = f.Evict()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("hybridlog: syncing what an earlier process left behind: %w", err)
	}
	return nil
}

// segments finds the bounds of all segments.
func (r *recovery) segments(m *manifest) error {
	r.at = m.begin
	var open []*segment
	for _, line := range m.segments {
		s := r.log.segmentFor(line)
		r.log.highest = max(r.log.highest, s.id.Order())
		if !line.sealed {
			open = append(open, s)
			continue
		}
		if err := checkSizes(s); err != nil {
			return err
		}
		r.list, r.at = append(r.list, s), s.last()
	}
	if len(open) == 0 {
		return nil
	}
	return r.openSegments(open)
}

// checkSizes finds out whether the files of a segment are as long as they must be.
func checkSizes(s *segment) error {
	for path, want := range map[string]int64{s.path(): s.end.Load(), s.sumsPath(): headerBytes + s.slots.Load()*frameBytes} {
		n, err := sizeOf(s.fsys, path)
		if err != nil {
			return missing(path, err)
		}
		if n < want {
			return corrupt(path, n, "the file ends here")
		}
	}
	return nil
}

func (r *recovery) openSegments(open []*segment) error {
	clean, err := r.clean(open)
	if err != nil {
		return err
	}
	if clean {
		s := open[0]
		s.begin(r.at)
		s.end.Store(r.mark.end)
		s.slots.Store(r.mark.frames)
		s.ended.Store(true) // until it goes on
		r.list, r.at, r.tail = append(r.list, s), s.last(), s
		return nil
	}
	if !r.log.opts.readOnly {
		if err := r.settle(open); err != nil {
			return err
		}
	}
	for _, s := range open {
		if err := r.scan(s); err != nil {
			return err
		}
		s.ended.Store(true)
		r.list = append(r.list, s)
	}
	r.open = open
	if r.at < r.cached {
		if err := r.distrustCache(); err != nil {
			return err
		}
	}
	return r.reached(open)
}

// settle notes how far the cache holds the log, and then makes the disk and the cache say the same.
func (r *recovery) settle(open []*segment) error {
	start := r.at
	for _, s := range open {
		if err := r.scan(s); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				return err
			}
			r.at = start // the cache says nothing
			break
		}
	}
	r.cached, r.at, r.torn = r.at, start, false
	var paths []string
	for _, s := range open {
		paths = append(paths, s.path(), s.sumsPath())
	}
	if r.image != nil {
		paths = append(paths, r.image.path)
	}
	for _, path := range paths {
		if err := r.refresh(path); err != nil {
			return err
		}
	}
	if r.image == nil {
		return nil
	}
	return r.readRing(r.log.logID)
}

// distrustCache notes in the mark that a sync had failed: what the cache will have from now on proves nothing about the disk of then.
func (r *recovery) distrustCache() error {
	if r.mark == nil {
		return nil
	}
	w, err := openMarker(r.log.opts.fsys, r.log.dir, r.mark, r.slot)
	if err != nil {
		return wrap(err)
	}
	m := *r.mark
	m.cache = ""
	err = errors.Join(w.write(&m), w.file.Close())
	r.mark, r.slot = &m, w.slot
	return wrap(err)
}

// clean reports whether the mark says that the only open segment was closed.
func (r *recovery) clean(open []*segment) (bool, error) {
	s := open[0]
	if len(open) > 1 || r.ring || r.mark == nil || r.mark.id != s.id {
		return false, nil
	}
	n, err := sizeOf(s.fsys, s.path())
	if err != nil {
		return false, missing(s.path(), err)
	}
	frames, err := sizeOf(s.fsys, s.sumsPath())
	if err != nil {
		return false, missing(s.sumsPath(), err)
	}
	return n == r.mark.end && frames == headerBytes+r.mark.frames*frameBytes, nil
}

// begin gives a segment its place in the log.
func (s *segment) begin(start Address) { s.start, s.seal = start, newSeal(s.salt, start) }

// reached finds out whether the log reaches the mark.
func (r *recovery) reached(open []*segment) error {
	for _, s := range open {
		if r.mark != nil && s.id == r.mark.id && s.end.Load() < r.mark.end {
			return s.corrupt(s.end.Load(), fmt.Sprintf("the log ends here, and was synced up to %x", r.mark.end))
		}
	}
	return nil
}

// scan finds the end of an open segment that begins at r.at.
func (r *recovery) scan(s *segment) error {
	s.begin(r.at)
	s.end.Store(0)
	s.slots.Store(0)
	s.patch.Store(nil)
	if r.torn {
		return nil
	}
	x := &scanner{recovery: r, s: s, next: framer{seal: s.seal}}
	if err := x.openFiles(); err != nil {
		return err
	}
	defer x.close()
	if err := x.run(); err != nil {
		return err
	}
	s.end.Store(x.sure.end)
	s.slots.Store(x.sure.frames)
	x.keepPatch()
	r.at = s.last()
	return nil
}

// scanner goes through an open segment.
type scanner struct {
	*recovery
	s           *segment
	bytes, sums vfs.File
	frameCount  int64 // in the file
	next        framer
	sure        place // behind the last whole entry
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
	if err == nil {
		err = x.s.checkHeader(x.sums)
	}
	if err != nil {
		x.close()
		return err
	}
	x.frameCount = max(size-headerBytes, 0) / frameBytes
	return nil
}

func (x *scanner) close() {
	x.bytes.Close()
	x.sums.Close()
}

func (x *scanner) run() error {
	if m := x.mark; m != nil && m.id == x.s.id && m.frames > 0 {
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
	inFile, inRing, err := x.hole()
	if err != nil || !inFile && !inRing {
		return err
	}
	x.torn = true
	at := x.s.start + Address(x.next.end)
	l := x.log
	if !inFile && l.opts.readOnly && l.hole != at+1 { // a writer may have stored it meanwhile
		l.hole, l.again = at+1, true
		return nil
	}
	if x.mark.sameCache(l.cacheID) && at >= x.cached {
		return x.s.corrupt(x.next.end, "there is a later entry, but not what was written here")
	}
	return nil
}

// skip goes to where the mark is: what stands before was synced, and readers verify it.
func (x *scanner) skip(m *mark) error {
	list, err := x.candidates(m.frames - 1)
	if err != nil {
		return err
	}
	for _, b := range list {
		if b == nil {
			continue
		}
		begin := max(endIn(b)-1, 0)
		f, err := x.s.seal.parseFrame(b, m.frames-1, begin)
		if err == nil && f.end == m.end && f.entry {
			x.next.slot = m.frames - 1
			x.next.take(f, nil)
			x.sure = place{m.end, m.frames}
			return x.presentUpTo(m)
		}
	}
	return corrupt(x.s.sumsPath(), headerBytes+(m.frames-1)*frameBytes, "the log was synced up to here, and there is no frame")
}

// presentUpTo sees to it that the files have what was synced. Under AlwaysSync some of it may be in the ring alone: all is gone through then.
func (x *scanner) presentUpTo(m *mark) error {
	if x.image != nil {
		x.next, x.sure = framer{seal: x.s.seal}, place{}
	}
	return nil
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
			x.patch.frames = append(x.patch.frames, piece{n * frameBytes, append([]byte(nil), b...)})
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
	x.patch.pieces = append(x.patch.pieces, piece{off, append([]byte(nil), p...)})
	return true, nil
}

// hole reports whether there is the frame of an entry behind where the log ends.
func (x *scanner) hole() (inFile, inRing bool, err error) {
	for n := x.next.slot; n < x.frameCount && !inFile; n++ {
		b, err := x.fromFile(n)
		if err != nil {
			return false, false, err
		}
		inFile = x.later(b, n)
	}
	if x.image == nil {
		return inFile, false, nil
	}
	for n := x.next.slot; n < x.next.slot+int64(len(x.image.frames)/frameBytes) && !inRing; n++ {
		inRing = x.later(x.image.frame(n), n)
	}
	return inFile, inRing, nil
}

// later reports whether b is the frame of an entry that ends behind where the log does.
func (x *scanner) later(b []byte, n int64) bool {
	if b == nil {
		return false
	}
	f, err := x.s.seal.parseFrame(b, n, max(endIn(b)-1, 0))
	return err == nil && f.entry && f.end > x.next.end
}

// keepPatch keeps what the ring alone has of what counts.
func (x *scanner) keepPatch() {
	keep := func(list []piece, end int64) (kept []piece) {
		for _, p := range list {
			if p.off < end {
				kept = append(kept, p)
			}
		}
		return kept
	}
	p := &patch{keep(x.patch.pieces, x.sure.end), keep(x.patch.frames, x.sure.frames*frameBytes)}
	if len(p.pieces)+len(p.frames) > 0 {
		x.s.patch.Store(p)
	}
}

// orphaned finds the files that no manifest names. A crash leaves those of a segment that was to be added, which hold nothing,
// and of segments that compaction has replaced or was making, or that were trimmed.
func (r *recovery) orphaned(m *manifest) error {
	names, err := r.log.opts.fsys.List(r.log.dir)
	if err != nil {
		return wrap(err)
	}
	r.log.noteHighest(names)
	live := map[string]bool{}
	for _, line := range m.segments {
		live[line.id.FileName()], live[sumsName(line.id)] = true, true
	}
	for _, name := range names {
		if _, ok := parseName(name); ok && !live[name] {
			r.orphans = append(r.orphans, name)
		}
	}
	return nil
}
