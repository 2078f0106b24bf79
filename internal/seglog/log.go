package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"

	"github.com/copaldb/copal/internal/vfs"
)

// Log is the append side: one tail segment, one order.
//
// A record is acknowledged when it survives the death of this process: it is in the ring, or
// without a ring the file system has taken it (write(2) has returned). It is durable when a sync
// that began later has succeeded, and a sync begins by draining the ring. The two have separate
// locks: no reader and no append ever waits for the disk to sync.
//
// Segments are synced oldest first, so a prefix of the log is durable. A full segment is not closed
// before the next one is ready, made in the background. So appending never waits for that either,
// and a segment may grow beyond its nominal size while the disk is slow.
//
// Failure: an append for which there is no room is cut back and refused, and the log goes on. After any other
// failure, and after any failure of a sync, the state of the file is unknown, and the log refuses appends until
// it is reopened. A failed sync is never tried again: the kernel may have dropped the pages, and would report
// success.
//
// Locks, in order: Making, Mu, manifestMu; Mu, then the locks of Tails.
type Log struct {
	Options
	tail.Tails   // its appender holds Mu
	StoreID      uint64
	CacheID      string       // see vfs.FS
	found        *files.Mark  // by recovery
	syncFailed   bool         // the process before has seen a sync fail
	NominalBytes atomic.Int64 // of the segments to come; 0 for limit
	hard         int64        // size at which appending waits for the next segment in any case
	pool         *files.Pool  // of the segments that are sealed
	wake         chan struct{}
	dirty        atomic.Bool // something was appended since the last periodic sync began
	Waiting      atomic.Bool // it has something to append; see Touched
	set          atomic.Pointer[segmentSet]
	Snapshot     atomic.Pointer[SavedIndex] // of the index, on the disk; nil for none. The manifest names it, or will
	Rolled       chan struct{}              // there may be a reason for a snapshot
	Records      atomic.Int64               // in all segments
	Shown        atomic.Uint64              // number of the writes in toShow that are visible; added to with the lock of the key held

	Mu       sync.Mutex
	Tail     *Segment // nil before the first append of this process
	spare    *Segment // the next tail, if it is ready
	wanted   bool     // a spare has been asked for
	NextSeq  uint64
	toShow   uint64    // number of appended writes that become visible
	LastTime uint64    // Unix milliseconds of the newest record
	NextTime uint64    // of the first record after Recovery.Until, 0 for none
	ahead    bool      // it has been reported that the clock is earlier than LastTime
	buf      []byte    // records being appended
	lastRead time.Time // of the clock
	lastUnix int64     // the same in nanoseconds

	generations map[uint32]uint32       // the last that compaction has given a place in the log; used by the one compaction
	Compacted   atomic.Int64            // segments that compaction has replaced
	Parts       []*Parts                // guarded by mu
	groups      []*Group                // that are under way and have members in the log, oldest first; guarded by mu
	Spread      map[uint64]*SpreadGroup // by the number of the group; guarded by mu
	Waiters     waiters                 // guarded by mu
	freeSlots   []int                   // of segments that have gone, the one free for longest first

	Making sync.Mutex // held by the keeper from before the manifest names the segment that it makes until the list does; see compactable

	lent  bool // the room for deletions is lent to compaction; guarded by mu
	short bool // the disk has less than compaction may need; guarded by Mu

	leftByRecovery
	over bool // the store is closed; guarded by mu

	manifestMu sync.Mutex
	Manifest   *Manifest       // the present one on the disk
	earlier    []ManifestIndex // snapshots of the index beside the last one
}

// Options are the settings of a log and the functions of its owner.
type Options struct {
	FS           vfs.FS
	Dir          string
	Clock        clock.Clock
	Random       func() uint64
	ReadOnly     bool        // nothing is appended, and no file is changed
	Inline       bool        // no goroutine prepares segments, or drains; for tests that count operations
	SegmentBytes int64       // nominal size of a segment, at most
	RingBytes    int64       // size of the ring to be made, 0 for none
	AcceptCopy   bool        // the copy of a store that was not closed is opened like any other
	Window       int64       // the requested length of the window of history, in milliseconds: 0 for the present one, negative for no window, math.MaxInt64 for ever
	WindowBytes  int64       // and in bytes of the log: 0 for as many as there are
	LogPerIndex  int64       // bytes of the log for each byte of a snapshot of the index that stays beside a newer one; 0 for 8
	Flush        func() bool // appends the writes that wait in memory, and reports whether to try again; called with no lock held
	Begun        func()      // called when this process has begun to write; must not wait
	Filled       func()      // called when a segment has become full; must not wait
	ShortOfRoom  func(int64) // called with the free bytes when the disk is short of room; must not wait
	Report       func(error) // gets each error that no call can return
}

// NewLog returns a log of which nothing has been read yet.
func NewLog(o Options) *Log {
	o.LogPerIndex = cmp.Or(o.LogPerIndex, 8)
	l := &Log{
		Options: o, hard: MaxSegmentBytes / 4, generations: map[uint32]uint32{},
		wake: make(chan struct{}, 1), Rolled: make(chan struct{}, 1), pool: files.NewPool(o.FS),
	}
	l.set.Store(&segmentSet{byID: map[record.SegmentID]*Segment{}})
	l.Init(tail.Owner{
		FS: o.FS, Dir: o.Dir, Clock: o.Clock, Inline: o.Inline, Name: "copal", Report: o.Report, Closed: ErrClosed, Rings: Rings, Marks: marks,
		Mu: &l.Mu, Tail: l.growing, NoSpace: NoSpace, Failed: func(cause error) error { return &FailedError{Cause: cause} }, Bad: FormatError,
	})
	return l
}

// growing returns the tail, until the log is closed.
func (l *Log) growing() (g tail.Growing) {
	if l.Tail != nil && !l.over {
		g[0] = &l.Tail.Tail
	}
	return g
}

// leftByRecovery is the work that recovery leaves to the first append; guarded by Log.Mu.
type leftByRecovery struct {
	accepted   bool               // the log is the copy of one that was not closed, and becomes a log of its own when closed
	continued  *Segment           // the tail was closed cleanly and goes on
	reopened   []*Segment         // otherwise: the open segments, to be sealed
	doubtful   []*Segment         // those of them that may be on the disk in part only
	holdRoom   []*Segment         // of an earlier process, with room kept for deletions
	retained   []*Segment         // of files that only the snapshot of the index names
	dropped    []*Segment         // those after a hole, removed later
	orphans    []record.SegmentID // files that no manifest names any more, to be removed
	outlived   []record.SegmentID // those of them that the snapshot of the index on the disk names
	temps      []string           // names of copies and rings that were not finished
	indexFiles []string           // names of the snapshots of the index
}

// Position is a place between two records.
type Position struct {
	Seq     uint64 // of the last record before it
	segment *Segment
	offset  int64
}

// Pending is a record to be appended. Append fills in its place and number.
type Pending struct {
	record.Head
	Key, Value []byte
	Synced     bool // the caller syncs it next, which drains it
	Shows      bool // the caller makes it visible next, with the lock of the key held, and counts it in Log.Shown
	Address    Address
	Segment    record.SegmentID // of the record
	Bytes      int
}

// Append writes records to the log, all or none, next to each other and in order.
// On return they are readable at their addresses.
func (l *Log) Append(recs ...*Pending) error {
	l.lock()
	defer l.Mu.Unlock()
	return l.AppendLocked(recs)
}

// Begin has this process begin to write, as its first append does.
func (l *Log) Begin() error {
	l.lock()
	defer l.Mu.Unlock()
	return l.refused(l.appendableLocked())
}

// AppendLocked is append for a caller that holds l.mu.
func (l *Log) AppendLocked(recs []*Pending) error {
	err := l.appendableLocked()
	if err == nil {
		err = l.writeLocked(recs)
	}
	return l.refused(err)
}

// refused asks for room if err is that the disk is full.
func (l *Log) refused(err error) error {
	if err != nil && errors.Is(err, ErrNoSpace) {
		l.ShortOfRoom(0)
	}
	return err
}

// lock takes mu. It is nearly always held for a fraction of a microsecond. That is less than putting a
// goroutine to sleep and waking it up takes, and less than one of the pauses of sync.Mutex; so lock tries for a
// while first.
func (l *Log) lock() {
	for range 200 {
		if l.Mu.TryLock() {
			return
		}
	}
	l.Mu.Lock()
}

// appendableLocked makes sure that records can be appended.
func (l *Log) appendableLocked() error {
	if err := l.Failure(); err != nil {
		return err
	}
	return l.readyLocked()
}

// AppendOne is append for one record.
func (l *Log) AppendOne(p *Pending) error { return l.Append(p) }

// Nominal returns the length at which a segment ends.
func (l *Log) Nominal() int64 {
	if n := l.NominalBytes.Load(); n > 0 {
		return n
	}
	return l.SegmentBytes
}

// readyLocked makes sure that there is a tail, and takes the spare when the tail is full.
func (l *Log) readyLocked() error {
	if l.Tail == nil {
		return l.beginLocked()
	}
	size := l.Tail.End.Load()
	if l.spare == nil && size >= l.Nominal()/2 {
		if err := l.wantSpareLocked(size); err != nil {
			return err
		}
	}
	if l.spare != nil && size >= l.Nominal() {
		return l.RollLocked()
	}
	return nil
}

// wantSpareLocked asks the keeper for the next segment, or makes it when there is no keeper, no
// time to wait, or hardly any room. An error means that the tail can take no more.
func (l *Log) wantSpareLocked(size int64) error {
	switch {
	case (l.Inline || l.short) && size >= l.Nominal() || size >= l.hard:
		s, err := l.CreateSpare(l.SyncedSegments())
		if err != nil && size >= l.hard {
			return err
		}
		if err == nil {
			l.AdoptLocked(s)
		}
	case !l.Inline && !l.wanted:
		l.wanted = true
		l.Poke()
	}
	return nil
}

// AdoptLocked makes s the spare, unless there is one, or the log has already gone past
// s: two may be made at once, here and by the keeper. The other stays empty for ever.
func (l *Log) AdoptLocked(s *Segment) {
	l.addSegment(s)
	if l.wanted = false; l.spare == nil && s.ID > l.Tail.ID {
		l.spare = s
		return
	}
	s.to(Durable)
	s.trimView()
}

// RollLocked ends the tail and puts the spare in its place, if that has room: otherwise the tail
// may still have the room that it reserved.
func (l *Log) RollLocked() error {
	if l.roomLocked(l.spare, l.spare.End.Load(), false) != nil {
		return nil
	}
	return l.replaceTailLocked()
}

// replaceTailLocked makes the spare the tail.
func (l *Log) replaceTailLocked() error {
	if err := l.drain(l.Tail); err != nil {
		return err
	}
	if err := l.releaseLocked(l.Tail, false); err != nil {
		return err
	}
	l.Tail.to(Ended)
	l.Tail.trimView()
	l.spare.BeginIn(l.part())
	l.Tail, l.spare = l.spare, nil
	l.Filled()
	l.WantSnapshot()
	return nil
}

// writeLocked encodes the records and puts them at the end of the tail.
func (l *Log) writeLocked(recs []*Pending) error {
	t := l.Tail
	end := t.End.Load()
	millis := l.millisLocked()
	l.watchClockLocked(millis)
	now := max(millis, l.LastTime, t.Start)
	l.buf = l.buf[:0]
	seq := l.NextSeq
	for _, p := range recs {
		p.Seq, p.Time = seq, now-t.Start
		p.KeyBytes, p.ValueBytes = len(p.Key), len(p.Value)
		if p.Op == record.Part && p.Owner == 0 {
			p.Owner = seq
		}
		if p.Group == groupPending {
			p.Group = l.NextSeq // of the first record of this call
		}
		seq++
		before := len(l.buf)
		at := end + int64(before)
		l.buf = t.Salt.Append(l.buf, at, &p.Head, p.Key, p.Value)
		p.Address, p.Segment, p.Bytes = AddressOf(t.Slot, at), t.ID, len(l.buf)-before
	}
	if end+int64(len(l.buf)) > MaxSegmentBytes {
		return fmt.Errorf("%w: %d bytes in one write", ErrTooLarge, len(l.buf))
	}
	if err := l.roomLocked(t, end+int64(len(l.buf)), deletes(recs)); err != nil {
		return err
	}
	if err := l.putLocked(t, end, recs); err != nil {
		return err
	}
	if t.First == 0 {
		t.First = l.NextSeq
	}
	t.Last = seq - 1
	t.Records += uint64(len(recs))
	for _, p := range recs {
		if n := DeadAtOnce(&p.Head, p.Bytes); n > 0 {
			t.Dead.Add(n)
		}
	}
	l.Records.Add(int64(len(recs)))
	l.NextSeq, l.LastTime = seq, now
	if recs[len(recs)-1].Shows {
		l.toShow++
	}
	t.End.Store(end + int64(len(l.buf)))
	if len(l.Waiters.List) > 0 {
		l.wakeAllLocked()
	}
	if l.Ring != nil {
		l.StoredLocked(t.Enough(end+int64(len(l.buf))), recs[len(recs)-1].Synced)
	}
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
	if !l.dirty.Load() && !l.dirty.Swap(true) {
		l.Poke()
	}
	return nil
}

// deletes reports whether the records are deletions, also of ranges, or no more than a commit, which may use
// the room that is kept for them.
func deletes(recs []*Pending) bool {
	return !slices.ContainsFunc(recs, func(p *Pending) bool { return !p.IsDeletion() && p.Op != record.Range && p.Op != record.Commit })
}

// putLocked writes the encoded records, which are l.buf, at end: into the ring, or into the file if
// there is no ring or they are so long that a copy does not pay.
func (l *Log) putLocked(t *Segment, end int64, recs []*Pending) error {
	n := int64(len(l.buf))
	if p := l.part(); p != nil && n <= p.Longest() {
		if t.InFile(end) < p.Needs(end, n) {
			if err := l.drain(t); err != nil {
				return err
			}
		}
		if p.Populate(end, n) == nil {
			return l.storeLocked(p, t, end, recs)
		}
		if err := l.leaveRingLocked(); err != nil {
			return err
		}
	}
	if err := l.drain(t); err != nil {
		return err
	}
	if err := l.LookLocked(&t.Tail, end, n); err != nil {
		return err
	}
	if _, err := t.File.WriteAt(l.buf, end); err != nil {
		return l.cutBackLocked(err)
	}
	t.Wrote(end + n)
	return l.acknowledgeLocked(recs)
}

// storeLocked copies the records into the ring, one after the other. A process that is killed in
// the middle of a copy leaves any part of it: memmove stores in an order of its own, and the first
// bytes may come last. Copied one by one, an unfinished append is some whole records and one broken
// place after them, which recovery takes for the end of the log. Copied in one, it could be whole
// records after a broken place, which recovery takes for damage.
func (l *Log) storeLocked(part *tail.Part, t *Segment, end int64, recs []*Pending) error {
	rest := l.buf
	for _, p := range recs {
		if err := part.Store(&t.Tail, rest[:p.Bytes], end); err != nil {
			return l.Fail(fmt.Errorf("append: %w", err))
		}
		rest, end = rest[p.Bytes:], end+int64(p.Bytes)
	}
	return l.acknowledgeLocked(recs)
}

// acknowledgeLocked notes in the ring that the records, which are whole in it or in the file, are
// about to be acknowledged. The note in a ring that is not used any more stays true.
func (l *Log) acknowledgeLocked(recs []*Pending) error {
	if l.Ring == nil {
		return nil
	}
	if err := l.Ring.Acknowledge(recs[len(recs)-1].Seq); err != nil {
		return l.Fail(fmt.Errorf("append: %w", err))
	}
	return nil
}

// millisLocked returns the time in Unix milliseconds. It reads the wall clock once a second, and in
// between only the elapsed time, which is half the work.
func (l *Log) millisLocked() uint64 {
	if _, ok := l.Clock.(clock.System); !ok {
		return uint64(l.Clock.Now().UnixMilli())
	}
	passed := time.Since(l.lastRead)
	if passed < 0 || passed >= time.Second {
		l.lastRead, passed = time.Now(), 0
		l.lastUnix = l.lastRead.UnixNano()
	}
	return uint64(l.lastUnix+int64(passed)) / uint64(time.Millisecond)
}

// groupPending asks append to number the group.
const groupPending = ^uint64(0)

// cutBackLocked undoes a failed write.
func (l *Log) cutBackLocked(cause error) error {
	err := l.CutBack(cause, &l.Tail.Tail)
	if l.Failure() == nil {
		l.keepLocked(l.Tail)
	}
	return err
}

// SyncedSegments returns the segments whose bounds the manifest may state.
func (l *Log) SyncedSegments() []*Segment {
	var list []*Segment
	for _, s := range l.Readable() {
		if s.State() >= Durable {
			list = append(list, s)
		}
	}
	return list
}

// CreateSpare makes the next segment, and seals those given.
func (l *Log) CreateSpare(seal []*Segment) (*Segment, error) { return l.createNext(seal, nil, false) }

// createNext makes a segment and swaps in a manifest that adds it at the end, seals those of the
// given segments that are still open, and drops others. If closed, it records that no process
// writes.
func (l *Log) createNext(seal, drop []*Segment, closed bool) (*Segment, error) {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if len(l.set.Load().bySlot) >= index.MaxSegments { // there are about as many slots as segments
		return nil, fmt.Errorf("%w: %d segments", ErrNoSpace, index.MaxSegments)
	}
	m, err := l.nextManifest()
	if err != nil {
		return nil, err
	}
	order := uint32(1)
	for _, e := range m.Segments {
		order = max(order, e.ID.Order()+1)
	}
	now := uint64(l.Clock.Now().UnixMilli())
	header := record.SegmentHeader{ID: record.NewSegmentID(order, 0), Salt: record.Salt(l.Random()), Start: now, Store: m.Store}
	if err := l.removeLeftover(header.ID); err != nil {
		return nil, l.Refusal(err)
	}
	if m.Edit == 0 {
		if err := files.SyncParent(l.FS, l.Dir); err != nil {
			return nil, l.Refusal(err)
		}
	}
	s, err := createSegment(l.FS, l.Dir, header)
	if err != nil {
		return nil, l.Refusal(err)
	}
	for _, s := range drop {
		m.Drop(s.ID)
	}
	m.Seal(sealedIn(seal))
	m.Segments = append(m.Segments, s.manifestEntry(false))
	if closed {
		m.Writing = nil
	}
	if err := l.swapManifest(m); err != nil {
		if l.Failure() == nil {
			err = errors.Join(err, l.FS.Remove(s.Path))
		}
		return nil, errors.Join(err, s.File.Close())
	}
	s.openView(l.hard)
	return s, nil
}

// nextManifest returns the manifest from which a swap begins: the present one, without the unusable
// snapshots of the index. The caller holds manifestMu.
func (l *Log) nextManifest() (*Manifest, error) {
	if err := l.stillOurs(); err != nil {
		return nil, err
	}
	m := l.Manifest.Clone()
	m.Indexes = l.indexesLocked()
	return m, nil
}

// swapManifest replaces the manifest by its successor m. The caller holds manifestMu. After an error the old
// one is in place, or the log has failed.
func (l *Log) swapManifest(m *Manifest) error {
	m.Edit++
	if err := WriteManifest(l.FS, l.Dir, m); err != nil {
		return l.NotReplaced("manifest", err)
	}
	l.Manifest = m
	l.restSealed(m)
	return nil
}

// stillOurs makes sure that the manifest on the disk is the one to be replaced. If it is not, the
// directory was replaced, and must not be overwritten.
func (l *Log) stillOurs() error {
	m, err := ReadManifest(l.FS, l.Dir)
	switch {
	case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion):
		return l.Fail(err)
	case err != nil:
		return NoSpace(err) // nothing was changed; the next write tries again
	case m == nil && l.Manifest.Edit == 0:
		return nil
	case m == nil || m.Store != l.Manifest.Store || m.Edit != l.Manifest.Edit:
		return l.Fail(fmt.Errorf("the manifest in %s is not the one that this process wrote: has the directory been replaced?", l.Dir))
	}
	return nil
}
