package engine

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/seglog"
)

// Housekeeping keeps the log from growing for ever: one goroutine, which compacts when the log has become twice as
// long as what counts in it, and at least a segment longer; or has more records for each entry than it was told to
// allow. It works on the run that gives back most for what has to be copied.
//
// It rests for as long as it has worked, and less the longer the log is. A log that grows
// nevertheless slows down its writers: from a little over that length on each write waits, by an amount that
// grows with the excess, for a millisecond at most. No write is ever refused or stopped.
//
// When the disk is short of room, what little garbage there is goes as well (makeRoom).
//
// A store that nobody writes to is not touched, and wakes nobody up.
type housekeeper struct {
	wake chan struct{}

	ratio atomic.Uint64 // of records to entries, as a float's bits; 0 for none
	every atomic.Int64  // how often ratio is looked at, also within the tail
	told  string        // the last error; guarded by Store.housekeeping
	since time.Time     // of the work that it has not rested from yet; likewise

	written atomic.Int64                      // bytes of the segments that compaction is making
	moving  atomic.Pointer[[]*seglog.Segment] // the run that is being compacted, nil for none

	tight atomic.Bool  // a write has found that the disk is short of room, and housekeeping has not seen to it yet
	free  atomic.Int64 // what the disk had then, in bytes

	// What there was no room for, and is not tried again before there is less of it, or more room.
	tooMuch  int64 // what a compaction takes, 0 for anything; guarded by Store.housekeeping, as lent
	tailLeft int64 // a tail with less garbage cannot be ended; of the goroutine alone
	lent     bool  // the room that is kept for deletions is in use

	borrowers int // calls of Compact that have it in use; guarded by Store.housekeeping

	delay atomic.Int64 // that each write waits, in nanoseconds
	debt  atomic.Int64 // what writes have yet to wait: many wait in one
}

const (
	maxWriteDelay = time.Millisecond       // that a write waits for compaction
	leastWait     = 200 * time.Microsecond // shorter waits are put together
	workSlice     = 2 * time.Millisecond   // after which housekeeping rests
	maxRun        = 16                     // segments compacted at once
	leastSegment  = 16 << 20               // nominal size of a segment of a small store
	smallSegment  = 1 << 20                // likewise, on a disk that is as small
	mergeFrom     = 8                      // adjacent small segments are made one when there are so many
)

// usage is how the log's bytes are used.
type usage struct {
	log, live, kept int64
	disk            int64 // log, and what compaction is about to remove, or to put in its place; not what is retired
}

func (u usage) garbage() int64 { return u.log - u.live }

// usage counts the bytes of all segments that are the log.
func (s *Store) usage() (u usage) {
	u.disk = s.house.written.Load() + s.log.OutlivedBytes()
	if run := s.house.moving.Load(); run != nil {
		for _, seg := range *run {
			if !s.log.InLog(seg) {
				u.disk += seg.End.Load()
			}
		}
	}
	for _, seg := range s.log.Segments() {
		end := seg.End.Load()
		u.disk += end
		u.log += end
		u.live += max(end-seg.Dead.Load(), 0)
		u.kept += s.notes.of(seg).kept
	}
	return u
}

// due reports whether there is something to be done.
func (s *Store) due() bool {
	if s.opts.NoCompaction {
		return false
	}
	u := s.usage()
	if s.house.tight.Load() && u.garbage() >= max(leastGarbage, s.house.free.Load()/4) {
		return true
	}
	if u.log > 2*u.live && u.garbage() >= max(s.log.Nominal(), s.slack()) {
		return true
	}
	r := s.house.limit()
	return r > 0 && u.garbage() > leastGarbage && float64(s.log.Records.Load()) > r*float64(max(s.entries(), 1))
}

// slack is the garbage that is no reason to compact, however little counts: a small store that is overwritten again and again has hardly
// anything to copy when it waits for so much, and would copy all it has for each segment if it did not.
func (s *Store) slack() int64 {
	if s.log.SegmentBytes < 2*leastSegment { // who wants small segments wants a small log
		return 0
	}
	return 2 * leastSegment
}

// leastGarbage is what compaction for the sake of a ratio is not worth the while for.
const leastGarbage = 64 << 10

// press sets how long writes wait, by the excess of the log.
func (s *Store) press() (pressed float64) {
	u := s.usage()
	segment, slack := s.log.Nominal(), s.slack()
	from := max(2*u.live+u.live/8, u.live+slack+slack/2) + segment/2
	switch {
	case s.house.tight.Load():
		pressed = 1
	case u.disk > from:
		pressed = min(float64(u.disk-from)/float64(max(u.live/4, slack/2)+segment/2), 1)
	}
	s.house.delay.Store(int64(pressed * float64(maxWriteDelay)))
	return pressed
}

// pace lets a write wait if the log has outrun compaction. The caller holds no lock.
func (s *Store) pace() {
	d := s.house.delay.Load()
	if d == 0 {
		return
	}
	owed := s.house.debt.Add(d)
	if owed < int64(leastWait) || !s.house.debt.CompareAndSwap(owed, 0) {
		return
	}
	s.wait(min(time.Duration(owed), maxWriteDelay))
}

// wait reports true after d, and false when the store is being closed. It goes by the time of the machine,
// not by the clock of the entries, which may stand still: somebody waits for the caller.
func (s *Store) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// keepHouse is the goroutine. It ends when stop is closed.
func (s *Store) keepHouse(stop <-chan struct{}) {
	var (
		timer  <-chan time.Time
		cancel = func() {}
	)
	defer func() { cancel() }()
	for {
		select {
		case <-stop:
			return
		case <-s.house.wake:
		case <-timer:
			timer = nil
			s.tidyTail()
		}
		s.size()
		s.makeRoom()
		for s.due() && s.tidyOnce(s.rest) {
		}
		s.house.delay.Store(0)
		s.unpinned()
		if d := s.nextLook(); d > 0 {
			cancel()
			timer, cancel = s.opts.Clock.After(d)
		}
	}
}

// size makes the segments to come as long as befits the log, and no longer than an eighth of the room that the disk has for it: when it is full, what of a segment still
// counts has to fit beside it before the rest comes back.
func (s *Store) size() {
	u := s.usage()
	nominal := segmentFor(u.live, s.log.SegmentBytes)
	if free, known := s.opts.FS.Free(s.log.Dir); known {
		nominal = min(nominal, max(u.disk/8+free/8, smallSegment))
	}
	s.log.NominalBytes.Store(nominal)
}

// segmentFor is how long a segment is to become where so much counts: an eighth of it, so that a small store does not wait
// for as much garbage as it has entries before it gives some back.
func segmentFor(live, limit int64) int64 { return min(max(live/8, leastSegment), limit) }

// nextLook is when to look again without being woken, 0 for never.
func (s *Store) nextLook() time.Duration {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	d := time.Duration(s.house.every.Load())
	if s.retired.Load() != nil && (d == 0 || d > time.Second) {
		d = time.Second
	}
	return d
}

// unpinned removes the segments that somebody had pinned.
func (s *Store) unpinned() {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	s.dropRetired()
}

// wakeHouse tells the goroutine that a segment is full.
func (h *housekeeper) wakeHouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// tidyOnce compacts the run that is worth it most, and reports whether there was one and it worked.
func (s *Store) tidyOnce(pause func() error) bool {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.closing.Load() || s.log.Failure() != nil {
		return false
	}
	if s.log.SyncEnded() != nil { // so that what is full can be compacted
		return false
	}
	s.house.since = time.Now()
	run := s.bestRun()
	if s.house.tight.Load() {
		run = s.roomiest()
	}
	if run == nil || s.house.tight.Load() && s.hopeless(run) {
		return false
	}
	err := s.compact(run, pause)
	switch {
	case err == nil:
		s.house.told, s.house.tooMuch = "", 0
		return true
	case errors.Is(err, errStopped), errors.Is(err, seglog.ErrClosed):
		return false
	}
	if errors.Is(err, seglog.ErrNoSpace) {
		if had, err := s.log.AbandonSnapshot(); had && err == nil {
			return true // which may have made room
		}
		if s.house.tight.Load() && !s.house.lent && s.log.Lend() == nil {
			s.house.lent = true
			return true
		}
		s.house.tooMuch = s.costOf(run) * 7 / 8
	}
	if !errors.Is(err, seglog.ErrNoSpace) { // there may be room the next time
		s.leave(run)
	}
	if text := err.Error(); !errors.Is(err, errLeft) && text != s.house.told && s.log.Failure() == nil {
		s.house.told = text
		s.log.ReportError("compacting", err)
	}
	return errors.Is(err, errLeft)
}

// leave notes that a run was left alone. It is tried again when a little more of it is dead.
func (s *Store) leave(run []*seglog.Segment) {
	for _, seg := range run {
		s.notes.of(seg).leftAt = seg.Dead.Load() + seg.End.Load()/16 + 1
	}
}

// rest is the pause of the goroutine: it lasts as long as the work before it. There is none after
// little work, nor while writes are slowed down.
func (s *Store) rest() error {
	select {
	case <-s.stop:
		return errStopped
	default:
	}
	if s.closing.Load() {
		return errStopped
	}
	if s.opts.Inline {
		return nil
	}
	now := time.Now()
	worked := now.Sub(s.house.since)
	if worked < workSlice {
		return nil
	}
	if s.press() > 0 {
		s.house.since = now
		return nil
	}
	if !s.wait(min(worked, 10*workSlice)) {
		return errStopped
	}
	s.house.since = time.Now()
	return nil
}

// gain is what a compaction of the segment would give back, about.
func (n *note) gain() int64 { return max(n.of.Dead.Load()-n.kept, 0) }

// cost is what it would copy.
func (n *note) cost() int64 { return n.of.End.Load() - n.gain() + 4<<10 }

func (s *Store) costOf(run []*seglog.Segment) (bytes int64) {
	for _, seg := range run {
		bytes += s.notes.of(seg).cost()
	}
	return bytes
}

// worth reports whether a compaction of the segment was not given up when it was as it is now.
func (n *note) worth() bool { return n.gain() > 0 && !n.left() }

// left reports whether a compaction of the segment was given up, and too little has changed since for another.
func (n *note) left() bool { return n.leftAt > n.of.Dead.Load() }

// bestRun is the run that gives back most for each byte that is copied, or nil.
func (s *Store) bestRun() []*seglog.Segment {
	list := s.log.Compactable()
	var best *note
	at := 0
	for i, seg := range list {
		if n := s.notes.of(seg); n.worth() && 4*n.gain() > seg.End.Load() && (best == nil || n.gain()*best.cost() > best.gain()*n.cost()) {
			best, at = n, i
		}
	}
	if best != nil {
		return s.widen(list, at)
	}
	if run := s.small(list, mergeFrom); run != nil {
		return run
	}
	return s.keepers(list)
}

// widen adds to a segment the neighbours that are worth it as well, as far as what is copied fits one segment.
func (s *Store) widen(list []*seglog.Segment, at int) []*seglog.Segment {
	i, j, cost := at, at, s.notes.of(list[at]).cost()
	for more := true; more && j-i+1 < maxRun; {
		more = false
		for _, next := range []int{i - 1, j + 1} {
			if next < 0 || next >= len(list) {
				continue
			}
			n := s.notes.of(list[next])
			if !n.worth() || 2*n.gain() < n.of.End.Load() || cost+n.cost() > s.log.Nominal() {
				continue
			}
			cost += n.cost()
			i, j, more = min(i, next), max(j, next), true
		}
	}
	return list[i : j+1]
}

// small finds adjacent segments that are one together, at least so many.
func (s *Store) small(list []*seglog.Segment, least int) []*seglog.Segment {
	for i := range list {
		j, total := i, int64(0)
		for j < len(list) && total+list[j].End.Load() <= s.log.Nominal() && !s.notes.of(list[j]).left() {
			total += list[j].End.Load()
			j++
		}
		if j-i >= least {
			return list[i:j]
		}
	}
	return nil
}

// keepers finds what has to be compacted so that deletions need not be kept any more, when they are much: the oldest
// segment that may hold what they say is gone, or, when there is none, the first that has such deletions.
func (s *Store) keepers(list []*seglog.Segment) []*seglog.Segment {
	if u := s.usage(); 4*u.kept < u.log {
		return nil
	}
	return s.firstKeeper(list)
}

// firstKeeper never chooses what would have to keep all that it has kept: that would go on for ever.
func (s *Store) firstKeeper(list []*seglog.Segment) []*seglog.Segment {
	clean := uint64(math.MaxUint64) // deletions that came later have to stay
	if seq, ok := s.log.SnapshotSeq(); ok {
		clean = seq
	}
	for i, seg := range list {
		n := s.notes.of(seg)
		if n.left() {
			clean = min(clean, n.cleanTo)
			continue
		}
		from := s.mayGoFrom(n, clean)
		if from == 0 {
			continue
		}
		for j, older := range list[:i] {
			if s.notes.of(older).cleanTo < from {
				return list[j : j+1]
			}
		}
		return list[i : i+1]
	}
	return nil
}

// mayGoFrom is the number of the first deletion that compaction had to keep in a segment and might let go, if that is not beyond clean; else 0. One with a
// deadline that is kept for the snapshot of the index is none: a copy of it would be kept as well.
func (s *Store) mayGoFrom(n *note, clean uint64) uint64 {
	from := n.keptFrom
	if _, snapshot := s.log.SnapshotSeq(); n.datedFrom > 0 && (!snapshot || s.log.SnapshotNames(n.of.ID)) && (from == 0 || n.datedFrom < from) {
		from = n.datedFrom
	}
	if from > clean {
		return 0
	}
	return from
}

// sealTail ends the tail, if it has records, so that it can be compacted.
func (s *Store) sealTail() error {
	in, err := s.useForWrite()
	if err != nil {
		return err
	}
	err = s.log.EndTail()
	s.life.leave(in)
	if err != nil {
		return err
	}
	return s.log.SyncEnded()
}

// limit is the ratio that is asked for, 0 for none.
func (h *housekeeper) limit() float64 { return math.Float64frombits(h.ratio.Load()) }

func (h *housekeeper) setLimit(every time.Duration, ratio float64) {
	if ratio == 0 {
		every = 0
	}
	h.ratio.Store(math.Float64bits(ratio))
	h.every.Store(int64(every))
}

// tidyTail ends the tail when there is more garbage in it than the ratio allows, and enough of it to be worth a segment.
func (s *Store) tidyTail() {
	s.endTailOf(func(t *seglog.Segment) bool { return s.due() && t.Dead.Load() >= leastGarbage })
}

// endTailOf ends the tail if there is one of which that is wanted.
func (s *Store) endTailOf(wanted func(*seglog.Segment) bool) {
	if t := s.log.TailNow(); t != nil && wanted(t) {
		s.log.ReportError("ending a segment", s.sealTail())
	}
}

// StartAutoCompact lets housekeeping compact, beside what it does anyway, when there are more records for each
// entry than ratio; it looks every so often. A ratio of 0 ends that.
func (s *Store) StartAutoCompact(every time.Duration, ratio float64) error {
	if ratio != 0 && (!(ratio >= 1) || every <= 0) {
		return fmt.Errorf("copal: a ratio of %v every %v; the least is 1, and the time must be positive", ratio, every)
	}
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	s.life.leave(in)
	s.house.setLimit(every, ratio)
	s.house.wakeHouse()
	return nil
}
