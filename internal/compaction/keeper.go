package compaction

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/seglog"
)

// A Keeper keeps the log from growing for ever: one goroutine, which compacts when the log has
// become twice as long as its live records, and at least a segment longer; or has more records for
// each entry than the option allows. It works on the run that gives back most for the bytes to
// copy.
//
// It rests for as long as it has worked, and less the longer the log is. A log that grows
// nevertheless slows down its writers: from a little over that length on each write waits, by an amount that
// grows with the excess, for a millisecond at most. No write is ever refused or stopped.
//
// When the disk is short of room, even little garbage is given back (MakeRoom).
//
// In a store without writes it does nothing, and does not wake up.
type Keeper struct {
	store *engine.Store
	log   *seglog.Log
	opts  engine.Options
	wake  chan struct{}
	notes

	told  string    // the last error; guarded by Housekeep
	since time.Time // of the work since the last rest; guarded by Housekeep
	until time.Time // the end of the time that Close leaves to it; zero before Close. Guarded by Housekeep
	now   func() time.Time

	written atomic.Int64                      // bytes of the segments that compaction is making
	moving  atomic.Pointer[[]*seglog.Segment] // the run that is being compacted, nil for none

	lacks atomic.Bool  // the last compaction lacked a descriptor or a right, and is tried again a second later
	tight atomic.Bool  // a write has found that the disk is short of room, and the keeper has not handled that yet
	free  atomic.Int64 // free bytes of the disk then

	// Work for which there was no room, not tried again before it is less, or there is more room.
	tooMuch  int64 // the room that a compaction takes, 0 for anything; guarded by Housekeep, as lent
	tailLeft int64 // a tail with less garbage cannot be ended; of the goroutine alone
	lent     bool  // the room that is kept for deletions is in use

	past   *engine.Store // the store at the beginning of the window of history, while it is needed; guarded by Housekeep, as the following fields
	whole  bool          // its entries are in the segments that compaction has made, and no group was under way
	looked uint32        // the place in the log up to which the last look at the past went

	borrowers int // calls of Compact that have it in use; guarded by Housekeep
}

const (
	workSlice    = 2 * time.Millisecond // after which the keeper rests
	maxRun       = 16                   // segments compacted at once, except short ones
	leastSegment = 16 << 20             // nominal size of a segment of a small store
	smallSegment = 1 << 20              // the same on a disk of that size
	mergeFrom    = 8                    // number of adjacent small segments that are made one
	newSegment   = 1 << 10              // bound of the bytes of one more: its first line, and its lines in manifest, mark and INDEX
)

// New returns the keeper of a store that has just been read.
func New(s *engine.Store) *Keeper {
	k := &Keeper{store: s, log: s.Log(), opts: s.Options(), wake: make(chan struct{}, 1), now: time.Now}
	k.bySeg = map[*seglog.Segment]*note{}
	k.windowed.Store(k.log.History() != nil)
	if !k.opts.ReadOnly && !k.opts.Inline {
		k.size()
	}
	return k
}

// Of returns the keeper of an open store.
func Of(s *engine.Store) *Keeper { return s.Compaction().(*Keeper) }

// usage is the use of the log's bytes.
type usage struct {
	log, live, kept int64
	disk            int64 // log, and files that compaction is about to remove or to add; not retired ones
}

// DiskBytes returns the bytes on the disk that count for the slowing of writes.
func (k *Keeper) DiskBytes() int64 { return k.usage().disk }

func (u usage) garbage() int64 { return u.log - u.live }

// usage counts the bytes of all segments that are the log.
func (k *Keeper) usage() (u usage) {
	u.disk = k.written.Load() + k.log.OutlivedBytes()
	if run := k.moving.Load(); run != nil {
		for _, seg := range *run {
			if !k.log.InLog(seg) {
				u.disk += seg.End.Load()
			}
		}
	}
	for _, seg := range k.log.Segments() {
		end := seg.End.Load()
		u.disk += end
		u.log += end
		n := k.of(seg)
		u.live += max(end-n.dead(), 0)
		u.kept += n.kept
	}
	return u
}

// due reports whether there is work.
func (k *Keeper) due() bool {
	if k.opts.NoCompaction {
		return false
	}
	u := k.usage()
	if k.tight.Load() && u.garbage() >= max(leastGarbage, k.free.Load()/4) {
		return true
	}
	if u.log > 2*u.live && u.garbage() >= max(k.log.Nominal(), k.slack()) {
		return true
	}
	if k.manyFiles() {
		return true
	}
	return k.opts.TooMany != nil && u.garbage() > leastGarbage && k.opts.TooMany(k.store)
}

// slack returns the garbage that is no reason to compact, however few records count: a small store that is
// overwritten again and again has little to copy when it waits for so much, and would otherwise copy everything
// for each segment.
func (k *Keeper) slack() int64 {
	if k.log.SegmentBytes < 2*leastSegment { // small segments were requested, and so a small log
		return 0
	}
	return 2 * leastSegment
}

// someSegments is the number of segments that a log has beyond those that its length requires,
// before their number is a reason to compact: each crash leaves one.
const someSegments = 24

// manyFiles reports whether there are many segments for the length of the log, and adjacent ones that fit one
// together.
func (k *Keeper) manyFiles() bool {
	list := k.log.Segments()
	if len(list) <= someSegments {
		return false
	}
	bytes := int64(0)
	for _, seg := range list {
		bytes += seg.End.Load()
	}
	return int64(len(list)) > someSegments+2*bytes/k.log.Nominal() && k.small(k.compactable(), mergeFrom) != nil
}

// leastGarbage is the garbage below which compaction for a ratio does not pay.
const leastGarbage = 64 << 10

// press sets how long writes wait, by the excess of the log.
func (k *Keeper) press() (pressed float64) {
	u := k.usage()
	segment, slack := k.log.Nominal(), k.slack()
	from := max(2*u.live+u.live/8, u.live+slack+slack/2) + segment/2
	switch {
	case k.tight.Load():
		pressed = 1
	case u.disk > from:
		pressed = min(float64(u.disk-from)/float64(max(u.live/4, slack/2)+segment/2), 1)
	}
	k.store.SlowDown(pressed)
	return pressed
}

// Keep compacts whenever that is due, until stop is closed.
func (k *Keeper) Keep(stop <-chan struct{}) {
	var (
		timer  <-chan time.Time
		cancel = func() {}
	)
	defer func() { cancel() }()
	k.tidyTail()
	for {
		k.size()
		k.lookBack()
		k.MakeRoom()
		for k.due() && k.tidyOnce(k.rest) {
		}
		k.store.SlowDown(0)
		k.once(func() error { k.store.DropRetired(); return nil }) // segments that had been pinned
		if d := k.nextLook(); d > 0 {
			cancel()
			timer, cancel = k.opts.Clock.After(d)
		}
		select {
		case <-stop:
			return
		case <-k.wake:
		case <-timer:
			timer = nil
			k.tidyTail()
		}
	}
}

// Finish compacts when the store is closed, if that is due: in a short-lived process the goroutine
// may never run, and the log of many such processes would grow for ever. It takes closingTime at
// most, together with the compaction that was under way when Close began, except for the end of a
// compaction that has copied everything.
func (k *Keeper) Finish() {
	for k.due() && k.tidyOnce(k.rest) {
	}
}

// closingTime bounds the copying of a compaction at Close.
const closingTime = 50 * time.Millisecond

// lastly is the pause when Close has begun. A store without goroutines has no time limit.
func (k *Keeper) lastly() error {
	if k.store.Ended() {
		return seglog.ErrClosed
	}
	if k.opts.Inline {
		return nil
	}
	if k.until.IsZero() {
		k.until = k.now().Add(closingTime)
	}
	if k.now().After(k.until) {
		return seglog.ErrClosed
	}
	return nil
}

// size sets the length of later segments in proportion to the log, at most an eighth of the room
// that the disk has for it: on a full disk, the live records of a segment have to fit beside it
// before the rest is given back.
func (k *Keeper) size() {
	u := k.usage()
	nominal := segmentFor(u.live, k.log.SegmentBytes)
	if free, known := k.log.FS.Free(k.log.Dir); known {
		nominal = min(nominal, max(u.disk/8+free/8, smallSegment))
	}
	k.log.NominalBytes.Store(nominal)
}

// segmentFor returns the length of a segment for so many live bytes: a sixty-fourth of them, so that even a
// short-lived process can compact one, and so that a small store gives back garbage before it has as much of it
// as entries.
func segmentFor(live, limit int64) int64 { return min(max(live/64, leastSegment), limit) }

// nextLook returns the time until the next look without a wake-up, 0 for never.
func (k *Keeper) nextLook() time.Duration {
	d := k.opts.CompactEvery
	if (k.store.Retired() || k.lacks.Load()) && (d == 0 || d > time.Second) {
		d = time.Second
	}
	return d
}

// lookBack is look, called by the keeper itself.
func (k *Keeper) lookBack() {
	k.log.ReportError("reading the log as of the beginning of its window", k.store.Housekeep(func() error { return k.look(false) }))
}

// Wake lets Keep look for work.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Step compacts the run that is worth it most, and reports whether there was one and it worked. Keep goes on
// as long as that is so; a store without goroutines is compacted by steps.
func (k *Keeper) Step() (worked bool) {
	k.once(func() error {
		if err := k.look(true); err != nil {
			return err
		}
		worked = k.tidyLocked(k.rest)
		return nil
	})
	return worked
}

func (k *Keeper) tidyOnce(pause func() error) (worked bool) {
	k.store.HousekeepLast(func() error { worked = k.tidyLocked(pause); return nil })
	return worked
}

// tidyLocked is tidyOnce in Housekeep.
func (k *Keeper) tidyLocked(pause func() error) bool {
	if k.log.Failure() != nil {
		return false
	}
	if !k.log.Wrote() && slices.ContainsFunc(k.log.EndsAtBegin(), func(seg *seglog.Segment) bool { return k.of(seg).pays() }) {
		if err := k.log.Begin(); err != nil {
			return false // and the next write returns it
		}
	}
	if k.log.Wrote() && k.log.SyncEnded() != nil { // so that full segments can be compacted
		return false
	}
	k.since = time.Now()
	run := k.bestRun()
	if k.tight.Load() {
		run = k.roomiest()
	}
	if run == nil || k.tight.Load() && k.hopeless(run) {
		return false
	}
	err := k.compact(run, pause)
	switch {
	case err == nil:
		k.told, k.tooMuch = "", 0
		k.lacks.Store(false)
		return true
	case errors.Is(err, seglog.ErrClosed):
		return false
	}
	if errors.Is(err, seglog.ErrNoSpace) {
		if had, err := k.log.AbandonSnapshot(); had && err == nil {
			return true // this may have made room
		}
		if k.tight.Load() && !k.lent && k.log.Lend() == nil {
			k.lent = true
			return true
		}
		k.tooMuch = k.costOf(run) * 7 / 8
	}
	lacks := seglog.NotOpened(err)
	k.lacks.Store(lacks)
	if !errors.Is(err, seglog.ErrNoSpace) && !lacks { // there may be room, or a descriptor, the next time
		k.leave(run)
	}
	if text := err.Error(); !errors.Is(err, errLeft) && text != k.told && k.log.Failure() == nil {
		k.told = text
		k.log.ReportError("compacting", err)
	}
	return errors.Is(err, errLeft)
}

// leave notes that a run was left alone. It is tried again when a little more of it is dead.
func (k *Keeper) leave(run []*seglog.Segment) {
	for _, seg := range run {
		n := k.of(seg)
		n.leftAt = n.dead() + seg.End.Load()/16 + 1
	}
}

// rest is the pause of the goroutine: it lasts as long as the work before it. There is none after
// little work, nor while writes are slowed down.
func (k *Keeper) rest() error {
	if k.store.Closing() {
		return k.lastly()
	}
	if k.opts.Inline {
		return nil
	}
	now := time.Now()
	worked := now.Sub(k.since)
	if worked < workSlice {
		return nil
	}
	if k.press() > 0 {
		k.since = now
		return nil
	}
	if !k.store.Wait(min(worked, 10*workSlice)) {
		return k.lastly()
	}
	k.since = time.Now()
	return nil
}

// goOn is the pause of a caller that does not rest.
func (k *Keeper) goOn() error {
	if k.store.Closing() {
		return seglog.ErrClosed
	}
	return nil
}

// sealTail ends the tail, if it has records, so that it can be compacted.
func (k *Keeper) sealTail() error {
	if err := k.store.Inside(k.log.EndTail); err != nil {
		return err
	}
	return k.log.SyncEnded()
}

// tidyTail ends the tail, or the segment that will be the tail, when there is more garbage in it than the ratio
// allows, and enough of it to be worth a segment.
func (k *Keeper) tidyTail() {
	t := k.log.TailToBe()
	if t != nil && k.opts.TooMany != nil && k.due() && k.of(t).dead() >= leastGarbage {
		k.log.ReportError("ending a segment", k.sealTail())
	}
}

// endTailOf ends the tail if there is one that wanted selects.
func (k *Keeper) endTailOf(wanted func(*seglog.Segment) bool) {
	if t := k.log.TailNow(); t != nil && wanted(t) {
		k.log.ReportError("ending a segment", k.sealTail())
	}
}

// writable returns the reason why users of the store cannot compact it.
func (k *Keeper) writable() error {
	return k.store.Inside(func() error {
		if k.opts.ReadOnly {
			return seglog.ErrReadOnly
		}
		return nil
	})
}

// Moves reports whether a segment is being compacted. None begins whose parts a holder of the key's
// lock is about to list again.
func (k *Keeper) Moves(seg *seglog.Segment) bool {
	run := k.moving.Load()
	return run != nil && slices.Contains(*run, seg)
}
