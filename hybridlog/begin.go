package hybridlog

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Opening a log changes nothing. The first write of a process carries out the findings of recovery:
//
//  1. the files of the open segments are copied, with the bytes in the ring of an earlier process alone (redo.go);
//  2. a new segment is made, and a manifest that seals the old ones where recovery has found their ends, adds the
//     new one, and names no ring: the old ring no longer counts;
//  3. the old ring is removed, a new one is made, and the manifest names that;
//  4. torn tails are cut off, only for readability, because the manifest has the ends of the
//     segments; and files that no manifest names are removed;
//  5. the mark says how far the log is durable.
//
// A log that was closed has neither ring nor torn tail, and its tail goes on: instead of 1 and 2,
// the manifest of step 3 opens it again, and keeps stating where it ended. Recovery goes on from
// there: a read judges earlier bytes, as in a sealed segment. A tail with damage in its frames, or
// in the block that the next entry would share, stays sealed, and a new segment begins.
//
// The first append comes after that. So a ring that the manifest names is there, one that it does not name holds
// nothing that counts, and a log that is said to be closed ends where the manifest says.
//
// A crash between any two leaves a log of the same content. When there is no room for a step, the write is
// refused, and the next tries again.

// recovered is the work that Open leaves to the first write.
type recovered struct {
	tail     *segment   // goes on; nil if none does
	next     framer     // at its end, when its frames have been read
	sums     []uint32   // and those of its blocks
	open     []*segment // otherwise: to be sealed
	doubtful []doubt    // those of them that may be on the disk in part only
	orphans  []string   // files that no manifest names
	ring     bool       // there is a file of that name, which is not this process's
	running  bool       // the manifest says that this process writes
	accepted bool       // the log is the copy of one that was not closed, and is closed as its own
	mark     *files.Mark

	sameCache bool // the page cache has been there without a break since the log was written, and no sync has failed
}

// beginLocked makes the log ready for the first write.
func (l *Log) beginLocked() error {
	if err := l.tails.Failure(); err != nil {
		return err
	}
	r := l.recovered
	if err := l.redoLocked(); err != nil {
		return err
	}
	err := l.readTail(r)
	if err != nil {
		return err
	}
	if err := l.beginManifest(r); err != nil {
		return err
	}
	if err := l.tails.OpenMark(l.logID); err != nil {
		return noSpace(fmt.Errorf("opening the mark: %w", err))
	}
	if r.tail != nil {
		err = l.continueLocked(r)
	} else {
		err = l.beginSegmentLocked(r)
	}
	if err != nil {
		return err
	}
	l.tails.BeginMark(uint64(l.end.Load()), l.markAt(l.tail, place{l.next.end, l.next.slot}))
	l.synced = place{l.next.end, l.next.slot}
	l.unsynced = nil
	l.ringFrom, l.frameFrom = l.next.end, l.next.slot
	l.takeRing(l.tail)
	l.recovered = nil
	l.fragmented()
	return nil
}

// takeRing gives the ring, if there is one, to a segment that becomes the tail.
func (l *Log) takeRing(t *segment) {
	if r := l.tails.Ring; r != nil {
		t.bytes.BeginIn(&r.Parts[0])
		t.sums.BeginIn(&r.Parts[1])
	}
}

// beginManifest does steps 2 and 3.
func (l *Log) beginManifest(r *recovered) error {
	if r.tail == nil {
		if err := l.firstSpare(r); err != nil {
			return err
		}
	}
	if r.ring {
		if r.tail != nil { // whoever closed the log may have died before the name of its manifest was durable
			if err := l.tails.SyncDir(); err != nil {
				return err
			}
		}
		if err := l.tails.RemoveRing(); err != nil {
			return noSpace(fmt.Errorf("removing the ring: %w", err))
		}
		r.ring = false
	}
	if err := l.beginRing(); err != nil {
		return err
	}
	err := l.run(r)
	if l.lacksRoom(err) {
		l.dropRing(r)
		err = l.run(r)
	}
	if l.lacksRoom(err) && r.tail != nil {
		l.cutTorn(r.tail) // the process before has kept some
		err = l.run(r)
	}
	return err
}

// lacksRoom reports whether an error says that there was no room, and nothing has changed.
func (l *Log) lacksRoom(err error) bool {
	return errors.Is(err, ErrNoSpace) && l.tails.Failure() == nil
}

// firstSpare makes the first segment of this process, and seals those before it.
func (l *Log) firstSpare(r *recovered) error {
	log := l.logID
	if log == 0 {
		log = max(l.opts.random(), 1)
	}
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	err := l.makeSpareLocked(log, r.open, true)
	if l.lacksRoom(err) {
		for _, s := range r.open { // the process before has kept some
			l.cutTorn(s)
		}
		err = l.makeSpareLocked(log, r.open, true)
	}
	if err == nil {
		l.logID = log
	}
	return err
}

// run makes the manifest say that this process writes, and to which ring. The tail of a log that was closed is
// open again then.
func (l *Log) run(r *recovered) error {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if r.running || r.tail == nil && l.tails.Ring == nil { // then it says so since the first segment was made
		return nil
	}
	m := l.manifestWith(l.logID, nil)
	m.run(l.tails.Ring, l.cacheID)
	if s := r.tail; s != nil {
		m.segments[len(m.segments)-1] = manifestSegment{id: s.id, salt: s.salt, bytes: r.next.end, frames: r.next.slot, sum: r.next.block}
	}
	err := l.swap(m)
	r.running = err == nil
	return err
}

// run notes that a process writes, in this life of the cache and with this ring, or none.
func (m *manifest) run(r *tail.Ring, cache string) {
	m.running, m.cache = true, cache
	m.ring, m.spent = 0, cmp.Or(m.ring, m.spent)
	if r != nil {
		m.ring, m.spent = r.ID, 0
	}
}

// dropRing takes back the ring, to which nothing was written.
func (l *Log) dropRing(r *recovered) {
	if l.tails.Ring == nil {
		return
	}
	_, err := l.tails.CloseRing()
	err = errors.Join(err, l.tails.RemoveRing())
	l.tails.ReportError("removing the ring", err)
	r.ring = err != nil
}

// readTail reads the frames of a tail that was closed, before anything is changed.
func (l *Log) readTail(r *recovered) error {
	s := r.tail
	if s == nil || r.sums != nil {
		return nil
	}
	next, sums := s.framer(), make([]uint32, blocksOf(max(l.opts.segmentBytes, s.bytes.End.Load())))
	err := s.readSums(&next, sums)
	if err == nil {
		err = s.endsIntact(next)
	}
	switch {
	case errors.Is(err, ErrCorrupt): // a reader of these bytes finds the same
		s.synced.Store(true)
		r.tail = nil
		return nil
	case err != nil:
		return err
	}
	r.next, r.sums = next, sums
	return nil
}

// endsIntact verifies the block that the next entry would share: it could not be read if that were damaged.
func (s *segment) endsIntact(next framer) error {
	at, sum := next.end/blockBytes*blockBytes, uint32(0)
	if t := &s.trimmed; t.end > at {
		at, sum = t.end, t.sum
	}
	p := make([]byte, next.end-at)
	f, err := s.fsys.Open(s.path(), vfs.ReadOnly)
	if err != nil {
		return missing(s.path(), err)
	}
	defer f.Close()
	if n, err := f.ReadAt(p, at); n < len(p) && err != io.EOF {
		return wrap(err)
	}
	if crc32.Update(sum, castagnoli, p) != next.block {
		return s.corrupt(at, "the sum of the block is wrong")
	}
	return nil
}

// continueLocked goes on with a tail that was closed.
func (l *Log) continueLocked(r *recovered) error {
	s, next, sums := r.tail, r.next, r.sums
	s.capacity = max(l.opts.segmentBytes, s.bytes.End.Load())
	c, err := s.openContent(vfs.ReadWrite, sums)
	if err != nil {
		return err
	}
	if s.sums.File, err = l.opts.fsys.Open(s.sumsPath(), vfs.ReadWrite); err != nil {
		return errors.Join(wrap(err), c.close())
	}
	if next.end%blockBytes != 0 {
		sums[next.end/blockBytes] = next.block // for a reader that takes the segment for ended
	}
	s.opening.Lock()
	s.ended.Store(false) // before any reader has the content that grows
	if old := s.content.Swap(c); old != nil {
		l.retired = append(l.retired, old)
	}
	s.opening.Unlock()
	s.bytes.File, l.tail, l.next = c.file, s, next
	l.aheadMost = maxEnd
	l.removeOrphans(r)
	return nil
}

// beginSegmentLocked begins the first segment of this process.
func (l *Log) beginSegmentLocked(r *recovered) error {
	x, err := l.takeSpare(l.logID, nil)
	if err != nil {
		return err
	}
	var live []*segment
	for _, s := range l.set.Load().segments {
		if slices.Contains(r.open, s) && s.bytes.End.Load() == 0 {
			r.orphans = append(r.orphans, s.id.FileName(), sumsName(s.id))
			l.retire(s, s.content.Load())
			continue
		}
		live = append(live, s)
	}
	l.set.Store(newSet(l.set.Load().first, live))
	for _, s := range r.open {
		if s.bytes.End.Load() > 0 {
			l.cutTorn(s)
			s.synced.Store(true)
			l.retire(s, s.content.Load()) // it is opened again, and mapped
		}
	}
	l.removeOrphans(r)
	return l.becomeTailLocked(x, Address(l.end.Load()), l.opts.segmentBytes)
}

// removeOrphans removes the files that no manifest names. Besides taking room, one of a compaction would be in
// the way of the next.
func (l *Log) removeOrphans(r *recovered) {
	for _, name := range r.orphans {
		l.tails.ReportError("removing what no manifest names", files.Remove(l.opts.fsys, filepath.Join(l.dir, name)))
	}
}

// cutTorn cuts off the bytes that a crash has left after the end of a segment, and releases the
// room reserved there. The frames go first: one without its bytes would be damage.
func (l *Log) cutTorn(s *segment) {
	for _, t := range []*tail.Tail{&s.sums, &s.bytes} {
		if err := l.cutFile(t.Path, t.Base+t.End.Load()); err != nil {
			l.tails.ReportError("cutting off a torn tail", err)
			return
		}
	}
}

// cutFile cuts a file off at end, unless it is shorter: a segment that has not begun has no beginning yet.
func (l *Log) cutFile(path string, end int64) error {
	f, err := l.opts.fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		return err
	}
	n, err := f.Size()
	if err == nil && n >= end {
		err = f.Truncate(end)
	}
	return errors.Join(err, f.Close())
}

// takeSpare returns the segment for the next tail, and makes it if there is none. It then seals the
// given segments, and others that are durable.
func (l *Log) takeSpare(log uint64, sealed []*segment) (*spare, error) {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if err := l.makeSpareLocked(log, sealed, false); err != nil {
		return nil, err
	}
	x := l.spare
	l.spare = nil
	return x, nil
}

// makeSpareLocked makes a spare if there is none, with manifestMu held. The first of a process
// seals the segments of the process before.
func (l *Log) makeSpareLocked(log uint64, sealed []*segment, first bool) error {
	if l.spare != nil {
		return nil
	}
	if l.manifest == nil {
		if err := files.SyncParent(l.opts.fsys, l.dir); err != nil {
			return l.tails.Refusal(err)
		}
	}
	l.highest++
	x, err := l.createSegment(record.NewSegmentID(l.highest, 0), log)
	if err != nil {
		return l.tails.Refusal(err)
	}
	m := l.manifestWith(log, sealed)
	if first {
		m.run(nil, l.cacheID)
		m.segments = slices.DeleteFunc(m.segments, func(e manifestSegment) bool { return e.sealed && e.bytes == 0 })
	}
	if len(m.segments) == 0 { // none that holds anything: this one begins where the log ends
		m.begin = Address(l.end.Load())
	}
	m.segments = append(m.segments, manifestSegment{id: x.id, salt: x.salt})
	if err := l.swap(m); err != nil {
		if l.tails.Failure() == nil {
			err = errors.Join(err, l.removeFiles(x.id))
		}
		return errors.Join(err, x.close())
	}
	l.spare = x
	return nil
}

// manifestWith returns the present manifest with some segments sealed. The caller holds manifestMu.
func (l *Log) manifestWith(log uint64, sealed []*segment) *manifest {
	m := &manifest{log: log}
	if l.manifest != nil {
		*m = *l.manifest
		m.segments = slices.Clone(l.manifest.segments)
	}
	for i, e := range m.segments {
		for _, s := range sealed {
			if s.id == e.id && !e.sealed {
				m.segments[i] = lineOf(s)
			}
		}
	}
	return m
}

// lineOf is the line of a sealed segment.
func lineOf(s *segment) manifestSegment {
	return manifestSegment{id: s.id, salt: s.salt, sealed: true, start: s.start, bytes: s.bytes.End.Load(), frames: s.slots()}
}

// swap replaces the manifest. The caller holds manifestMu. After an error the old one is in place, or the log
// has failed.
func (l *Log) swap(m *manifest) error {
	m.edit++
	if err := writeManifest(l.opts.fsys, l.dir, m); err != nil {
		return l.tails.NotReplaced("replacing the manifest", err)
	}
	l.manifest = m
	l.named.Store(true)
	l.tails.ManifestNumber.Store(m.edit)
	return nil
}

func (l *Log) removeFiles(id record.SegmentID) error {
	var err error
	for _, name := range []string{id.FileName(), sumsName(id)} {
		err = errors.Join(err, files.Remove(l.opts.fsys, filepath.Join(l.dir, name)))
	}
	return err
}

// becomeTailLocked begins to write to a new segment.
func (l *Log) becomeTailLocked(x *spare, start Address, capacity int64) error {
	s := newSegment(l.opts.fsys, l.dir, x.id, x.salt)
	s.begin(start)
	s.capacity, s.bytes.File, s.sums.File = capacity, x.bytes, x.sums
	c, err := s.contentOf(x.bytes, vfs.ReadWrite, make([]uint32, blocksOf(capacity)))
	if err != nil {
		return errors.Join(l.tails.Fail(err), x.close())
	}
	s.content.Store(c)
	if _, err := s.sums.File.WriteAt(s.beginning(), lineBytes); err != nil {
		return errors.Join(l.tails.Fail(fmt.Errorf("beginning %s: %w", s.sumsPath(), err)), s.close(), s.sums.File.Close())
	}
	l.tail, l.next = s, framer{seal: s.seal}
	l.aheadMost = maxEnd
	l.synced, l.claimed = place{}, false
	l.ringFrom, l.frameFrom = 0, 0
	l.takeRing(s)
	l.set.Store(l.set.Load().with(s))
	return nil
}

// rollLocked ends the tail and puts the spare in its place, after making it if there is none.
func (l *Log) rollLocked() error {
	t := l.tail
	if err := l.drain(t); err != nil {
		return err
	}
	if l.claimed {
		if err := l.syncTailLocked(); err != nil {
			return err
		}
	}
	x, err := l.takeSpare(l.logID, l.syncedLocked())
	if err != nil {
		return err
	}
	l.wanted = false
	if err := l.giveBackRoom(t); err != nil {
		return errors.Join(err, x.close())
	}
	if l.next.end%blockBytes != 0 {
		t.content.Load().sums[l.next.end/blockBytes] = l.next.block
	}
	t.ended.Store(true)
	l.unsynced = append(l.unsynced, t)
	l.behind.Store(int64(len(l.unsynced)))
	tail.Wake(l.ended)
	if err := l.becomeTailLocked(x, t.last(), l.opts.segmentBytes); err != nil {
		return err
	}
	l.fragmented()
	return nil
}

// giveBackRoom releases the room reserved after the ends of the files of the tail, which is
// drained.
func (l *Log) giveBackRoom(t *segment) error {
	if err := l.tails.GiveBack(&t.bytes, 0); err != nil {
		return err
	}
	return l.tails.GiveBack(&t.sums, 0)
}

// syncedLocked are the segments that have ended and are durable.
func (l *Log) syncedLocked() (list []*segment) {
	for _, s := range l.set.Load().segments {
		if s.synced.Load() {
			list = append(list, s)
		}
	}
	return list
}

// sealAll states the bounds of all segments, which are durable, and drops the spare: the log is closed.
func (l *Log) sealAll() error {
	l.mu.Lock()
	sealed := append(l.syncedLocked(), l.tail)
	l.mu.Unlock()
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	m := l.manifestWith(l.logID, sealed)
	m.running, m.ring, m.spent, m.cache, m.file = false, 0, cmp.Or(m.ring, m.spent), "", ""
	if x := l.spare; x != nil {
		m.segments = slices.DeleteFunc(m.segments, func(e manifestSegment) bool { return e.id == x.id })
	}
	if err := l.swap(m); err != nil {
		return err
	}
	if x := l.spare; x != nil {
		l.spare = nil
		return errors.Join(x.close(), l.removeFiles(x.id))
	}
	return nil
}

// mostBehind bounds the segments that have ended and are not durable yet. Each has two files open:
// an append to a log that has more waits for them.
const mostBehind = 8

// sealBehind makes the segments durable that have ended, and states their bounds in the manifest: a
// sealed segment needs no recovery, and damage in it is recognized.
func (l *Log) sealBehind() error {
	if err := l.tails.Alone(l.syncEnded); err != nil {
		return err
	}
	l.mu.Lock()
	sealed := l.syncedLocked()
	l.mu.Unlock()
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	m := l.manifestWith(l.logID, sealed)
	if slices.Equal(m.segments, l.manifest.segments) {
		return nil
	}
	return l.swap(m)
}

// keepSealing is the goroutine that seals, under each policy. Failures of syncs have been reported
// by then.
func (l *Log) keepSealing() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.ended:
		}
		if err := l.sealBehind(); l.tails.Failure() == nil {
			l.tails.ReportError("sealing the segments that have ended", err)
		}
	}
}

// retire takes the open content from a segment, if it is still c. It is closed when its last reader
// has left, and the next reader opens the segment again.
func (l *Log) retire(s *segment, c *content) {
	if c != nil && s.content.CompareAndSwap(c, nil) {
		l.retired = append(l.retired, c)
		tail.Wake(l.cool)
	}
}

// closeRetired closes the retired contents.
func (l *Log) closeRetired() {
	l.mu.Lock()
	list := l.retired
	l.retired = nil
	l.mu.Unlock()
	l.gate.Grace()
	for _, c := range list {
		l.tails.ReportError("closing a segment", c.close())
	}
}

// prepareSpare makes the next segment if one is wanted. When there is no room for it, the write that needs it
// will say so.
func (l *Log) prepareSpare() {
	l.mu.Lock()
	wanted := l.wanted
	var synced []*segment
	if wanted {
		synced = l.syncedLocked()
	}
	l.mu.Unlock()
	if !wanted || l.tails.Failure() != nil {
		return
	}
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	l.tails.ReportError("making the next segment", l.makeSpareLocked(l.logID, synced, false))
}
