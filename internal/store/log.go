package store

import (
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
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// log is the append side: one tail segment, one order.
//
// A record is acknowledged when it has outlived this process: it stands in the ring, or
// where there is none the file system has taken it (write(2) has returned). It is
// durable when a sync that began later has succeeded, and a sync begins by draining the
// ring. The two have separate locks: nobody who reads or appends ever waits for the disk to sync.
//
// Segments are synced oldest first, so what is durable is always a prefix of the
// log. A full segment is not closed before the next one stands ready, made in the
// background; so appending never waits for that either, and a segment may grow
// beyond its nominal size while the disk is slow.
//
// Failure: an append for which there is no room is cut back and refused, and that
// is all. After any other failure, and after one of a sync whatever its kind,
// nothing is known about the file, and the log refuses appends until it is
// reopened. A failed sync is never tried again: the kernel may have dropped the
// pages, and would say yes.
//
// Locks, in order: log.making, log.mu, log.manifestMu; log.mu, log.drainMu; log.mu, log.syncMu.
type log struct {
	logOptions
	storeID      uint64
	cacheID      string       // see vfs.FS
	found        *files.Mark  // by recovery
	syncFailed   bool         // the process before has seen a sync fail
	announced    uint64       // number of the manifest that says that this process writes
	nominalBytes atomic.Int64 // of the segments to come; 0 for limit
	hard         int64        // size at which appending waits for the next one, whatever it costs
	wake         chan struct{}
	dirty        atomic.Bool // something was appended since the last periodic sync began
	waiting      atomic.Bool // something is to be appended by it; see touched
	failed       atomic.Pointer[seglog.FailedError]
	set          atomic.Pointer[segmentSet]
	snapshot     atomic.Pointer[snapshotState] // that is on the disk, nil for none
	rolled       chan struct{}                 // there may be a reason for a snapshot
	records      atomic.Int64                  // in all segments
	shown        atomic.Uint64                 // of the writes that are to show, how many do; added to with the lock of the key held

	mu       sync.Mutex
	tail     *segment // nil before the first append of this process
	spare    *segment // the next tail, when it stands ready
	wanted   bool     // a spare has been asked for
	nextSeq  uint64
	toShow   uint64    // how many writes have been appended that are to show
	lastTime uint64    // Unix milliseconds of the newest record
	buf      []byte    // records being appended
	lastRead time.Time // of the clock
	lastUnix int64     // the same in nanoseconds
	ring     *ring     // nil before the first append, and where there is none
	left     *ring     // one that is not used any more

	generations map[uint32]uint32       // the last that compaction has given a place in the log; guarded by Store.housekeeping
	noUnknown   bool                    // there is no snapshot of the index but the one in snapshot; guarded by Store.housekeeping
	compacted   atomic.Int64            // segments that compaction has replaced
	parts       []*partsUnderWay        // guarded by mu
	groups      []*groupUnderWay        // that are under way and have members in the log, oldest first; guarded by mu
	spread      map[uint64]*spreadGroup // by the number of the group; guarded by mu
	waiters     waiters                 // guarded by mu
	freeSlots   []int                   // of segments that have gone, the one free for longest first

	making sync.Mutex // held by the keeper from before the manifest names the segment that it makes until the list does; see compactable

	noReserve bool // the file system cannot reserve space
	lent      bool // what is kept for deletions is compaction's; guarded by mu
	short     bool // the disk has less than compaction may need; likewise

	drainMu   sync.Mutex // one drains at a time
	drainWake chan struct{}
	undrained atomic.Bool // something was stored in the ring since the last drain began

	leftByRecovery
	toldLast string // by the keeper
	over     bool   // the store is closed; guarded by mu

	manifestMu sync.Mutex
	manifest   *seglog.Manifest // as it is on the disk

	syncMu   sync.Mutex
	round    chan struct{} // of the sync that is under way, nil when there is none; closed at its end; guarded by syncMu
	durable  position      // guarded by syncMu
	marker   *files.Marker // guarded by syncMu
	marked   position      // guarded by syncMu; what the newest mark says
	markedAt time.Time     // guarded by syncMu

	durableSeq atomic.Uint64 // durable.seq, or less
	syncers    atomic.Uint64 // calls of syncTo up to now
	led        uint64        // those up to the beginning of the last sync; of who leads one
	served     uint64        // those among them that came since the one before; likewise
}

// logOptions is what the owner of a log says about it.
type logOptions struct {
	fsys      vfs.FS
	dir       string
	clock     clock.Clock
	random    func() uint64
	inline    bool        // no goroutine prepares segments, or drains; for tests that count operations
	limit     int64       // nominal size of a segment, at most
	ringBytes int64       // size of the ring to be made, 0 for none
	flush     func() bool // writes what memory has for the log, and says whether to try again; called with no lock held
	filled    func()      // called when a segment has become full; must not wait
	tight     func(int64) // called when the disk is short of room, with what it has left; must not wait
	report    func(error) // tells the user about an error that no call can return
}

// newLog is a log of which nothing has been read yet.
func newLog(o logOptions) *log {
	l := &log{
		logOptions: o, hard: seglog.MaxSegmentBytes / 4, generations: map[uint32]uint32{},
		wake: make(chan struct{}, 1), drainWake: make(chan struct{}, 1), rolled: make(chan struct{}, 1),
	}
	l.set.Store(&segmentSet{byID: map[record.SegmentID]*segment{}})
	return l
}

// leftByRecovery is what recovery leaves to the first append; guarded by log.mu.
type leftByRecovery struct {
	continued *segment           // the tail was closed cleanly and goes on
	reopened  []*segment         // otherwise: the open segments, to be sealed
	doubtful  []*segment         // those of them that may be on the disk in part only
	holdRoom  []*segment         // of an earlier process, with what that has kept in them for deletions
	retained  []*segment         // of files that only the snapshot of the index names
	dropped   []*segment         // those that stand beyond a hole, to be removed
	orphans   []record.SegmentID // files that no manifest names any more, to be removed
	outlived  []record.SegmentID // those of them that the snapshot of the index on the disk names
	temps     []string           // names of copies and rings that were not finished
}

// position is a place between two records.
type position struct {
	seq     uint64 // of the last record before it
	segment *segment
	offset  int64
}

// pending is a record to be appended. Append fills in what it learns there.
type pending struct {
	record.Head
	key, value []byte
	synced     bool // who appends it goes on to sync it, which drains it
	shows      bool // who appends it lets an entry show it next, with the lock of the key held, and counts it in log.shown
	address    seglog.Address
	segment    record.SegmentID // where that is
	bytes      int
}

// append writes records to the log, all or none, next to each other and in order.
// On return they are readable at their addresses.
func (l *log) append(recs ...*pending) error {
	l.lock()
	defer l.mu.Unlock()
	return l.appendLocked(recs)
}

// appendLocked is append for who holds l.mu.
func (l *log) appendLocked(recs []*pending) error {
	err := l.appendableLocked()
	if err == nil {
		err = l.writeLocked(recs)
	}
	return l.refused(err)
}

// refused asks for room if that is what the error of a write says is missing.
func (l *log) refused(err error) error {
	if err != nil && errors.Is(err, seglog.ErrNoSpace) {
		l.tight(0)
	}
	return err
}

// lock takes mu. It is held for a fraction of a microsecond nearly always, which is less than it takes to put a goroutine to sleep and
// wake it up, and less than one of the pauses of sync.Mutex; so it is asked for a while first.
func (l *log) lock() {
	for range 200 {
		if l.mu.TryLock() {
			return
		}
	}
	l.mu.Lock()
}

// appendableLocked sees to it that records can be appended.
func (l *log) appendableLocked() error {
	if err := l.failure(); err != nil {
		return err
	}
	return l.readyLocked()
}

// appendOne is append for one record.
func (l *log) appendOne(p *pending) error { return l.append(p) }

func (l *log) failure() error {
	if f := l.failed.Load(); f != nil {
		return f
	}
	return nil
}

// nominal is how long a segment is to become.
func (l *log) nominal() int64 {
	if n := l.nominalBytes.Load(); n > 0 {
		return n
	}
	return l.limit
}

// readyLocked sees to it that there is a tail, and takes the spare when the tail is full.
func (l *log) readyLocked() error {
	if l.tail == nil {
		return l.beginLocked()
	}
	size := l.tail.end.Load()
	if l.spare == nil && size >= l.nominal()/2 {
		if err := l.wantSpareLocked(size); err != nil {
			return err
		}
	}
	if l.spare != nil && size >= l.nominal() {
		return l.rollLocked()
	}
	return nil
}

// wantSpareLocked asks for the next segment, or makes it when there is nobody to ask,
// no time to wait, or hardly any room. Its error says that the tail can take no more.
func (l *log) wantSpareLocked(size int64) error {
	switch {
	case (l.inline || l.short) && size >= l.nominal() || size >= l.hard:
		s, err := l.createSpare(l.syncedSegments())
		if err != nil && size >= l.hard {
			return err
		}
		if err == nil {
			l.adoptLocked(s)
		}
	case !l.inline && !l.wanted:
		l.wanted = true
		l.poke()
	}
	return nil
}

// adoptLocked makes s the spare, unless there is one, or the log has already gone past
// s: two may be made at once, here and by the keeper. The other stays empty for ever.
func (l *log) adoptLocked(s *segment) {
	l.addSegment(s)
	if l.wanted = false; l.spare == nil && s.id > l.tail.id {
		l.spare = s
		return
	}
	s.ended = true
	s.synced.Store(true)
}

// rollLocked ends the tail and puts the spare in its place, if that has room: else the
// tail may still have what it reserved.
func (l *log) rollLocked() error {
	if l.roomLocked(l.spare, l.spare.end.Load(), false) != nil {
		return nil
	}
	return l.replaceTailLocked()
}

// replaceTailLocked puts the spare in the place of the tail.
func (l *log) replaceTailLocked() error {
	if err := l.drain(l.tail); err != nil {
		return err
	}
	if err := l.releaseLocked(l.tail, false); err != nil {
		return err
	}
	l.tail.ended = true
	l.spare.ring.Store(l.ring)
	l.tail, l.spare = l.spare, nil
	l.filled()
	l.wantSnapshot()
	return nil
}

// writeLocked encodes the records and puts them at the end of the tail.
func (l *log) writeLocked(recs []*pending) error {
	t := l.tail
	end := t.end.Load()
	now := max(l.millisLocked(), l.lastTime, t.start)
	l.buf = l.buf[:0]
	seq := l.nextSeq
	for _, p := range recs {
		p.Seq, p.Time = seq, now-t.start
		p.KeyBytes, p.ValueBytes = len(p.key), len(p.value)
		if p.Op == record.Part && p.Owner == 0 {
			p.Owner = seq
		}
		if p.Group == groupPending {
			p.Group = l.nextSeq // of the first record of this call
		}
		seq++
		before := len(l.buf)
		at := end + int64(before)
		l.buf = t.salt.Append(l.buf, at, &p.Head, p.key, p.value)
		p.address, p.segment, p.bytes = seglog.AddressOf(t.slot, at), t.id, len(l.buf)-before
	}
	if end+int64(len(l.buf)) > seglog.MaxSegmentBytes {
		return fmt.Errorf("%w: %d bytes in one write", seglog.ErrTooLarge, len(l.buf))
	}
	if err := l.roomLocked(t, end+int64(len(l.buf)), deletes(recs)); err != nil {
		return err
	}
	if err := l.putLocked(t, end, recs); err != nil {
		return err
	}
	if t.first == 0 {
		t.first = l.nextSeq
	}
	t.last = seq - 1
	t.records += uint64(len(recs))
	for _, p := range recs {
		if n := deadAtOnce(&p.Head, p.bytes); n > 0 {
			t.dead.Add(n)
		}
	}
	l.records.Add(int64(len(recs)))
	l.nextSeq, l.lastTime = seq, now
	if recs[len(recs)-1].shows {
		l.toShow++
	}
	t.end.Store(end + int64(len(l.buf)))
	if len(l.waiters.list) > 0 {
		l.wakeAllLocked()
	}
	if l.ring != nil {
		l.storedLocked(t, end+int64(len(l.buf)), recs[len(recs)-1].synced)
	}
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
	if !l.dirty.Load() && !l.dirty.Swap(true) {
		l.poke()
	}
	return nil
}

// deletes reports whether the records are deletions or no more than a commit, which may use the room that is kept for them.
func deletes(recs []*pending) bool {
	return !slices.ContainsFunc(recs, func(p *pending) bool { return p.Op != record.Delete && p.Op != record.Commit })
}

// putLocked puts the encoded records, which are l.buf, behind end: into the ring, or into the file
// where there is no ring and when they are so long that the copy is not worth it.
func (l *log) putLocked(t *segment, end int64, recs []*pending) error {
	n := int64(len(l.buf))
	if r := l.ring; r != nil && n <= r.longest() {
		if t.drained.Load() < r.needs(end, n) {
			if err := l.drain(t); err != nil {
				return err
			}
		}
		if r.Populate(end, n) == nil {
			return l.storeLocked(t, end, recs)
		}
		if err := l.leaveRingLocked(); err != nil {
			return err
		}
	}
	if err := l.drain(t); err != nil {
		return err
	}
	if end/drainBytes < (end+n)/drainBytes { // the look costs more than the write
		if err := uncut(t, end); err != nil {
			return l.fail(fmt.Errorf("append: %w", err))
		}
	}
	if _, err := t.file.WriteAt(l.buf, end); err != nil {
		return l.cutBackLocked(end, err)
	}
	t.drained.Store(end + n)
	return l.acknowledgeLocked(recs)
}

// storeLocked copies the records into the ring, one after the other. A process that is killed in
// the middle of a copy leaves any part of it: memmove stores in an order of its own, and the first
// bytes may come last. Copied one by one, an unfinished append is some whole records and one broken
// place behind them, which recovery takes for the end of the log. Copied in one, it would be whole
// records behind the broken place, and those are what tells recovery of damage.
func (l *log) storeLocked(t *segment, end int64, recs []*pending) error {
	rest := l.buf
	for _, p := range recs {
		if err := l.ring.Store(t, rest[:p.bytes], end); err != nil {
			return l.fail(fmt.Errorf("append: %w", err))
		}
		rest, end = rest[p.bytes:], end+int64(p.bytes)
	}
	return l.acknowledgeLocked(recs)
}

// acknowledgeLocked notes in the ring that the records, which stand whole in it or in the file, are
// about to be acknowledged. A ring that is not used any more keeps what it says, which stays true.
func (l *log) acknowledgeLocked(recs []*pending) error {
	if l.ring == nil {
		return nil
	}
	if err := l.ring.acknowledge(recs[len(recs)-1].Seq); err != nil {
		return l.fail(fmt.Errorf("append: %w", err))
	}
	return nil
}

// millisLocked is the time in Unix milliseconds. The machine's clock is asked for the day once a second, and
// in between for what has passed, which is half the work.
func (l *log) millisLocked() uint64 {
	if _, ok := l.clock.(clock.System); !ok {
		return uint64(l.clock.Now().UnixMilli())
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

// cutBackLocked undoes a failed write. Only when nothing of it is left, and the
// reason was a lack of room, may appending go on.
func (l *log) cutBackLocked(end int64, err error) error {
	cut := l.tail.file.Truncate(end)
	l.tail.room = end
	if cut == nil && vfs.IsNoSpace(err) {
		l.keepLocked(l.tail)
		return fmt.Errorf("%w: %w", seglog.ErrNoSpace, err)
	}
	return l.fail(errors.Join(fmt.Errorf("append: %w", err), cut))
}

// fail makes the log refuse appends from now on, and returns the error that says so.
func (l *log) fail(cause error) error {
	f := &seglog.FailedError{Cause: cause}
	if l.failed.CompareAndSwap(nil, f) {
		l.report(f)
	}
	return l.failed.Load()
}

// refusal is the error of a write for which the next segment could not be made. Nothing of
// the log is in doubt then, and the next write tries again; only after a failed sync of the
// directory it is not known what has a name.
func (l *log) refusal(err error) error {
	if errors.Is(err, files.ErrSyncDir) {
		return l.fail(err)
	}
	return seglog.NoSpace(err)
}

// syncedSegments are those whose bounds the manifest may state.
func (l *log) syncedSegments() []*segment {
	var list []*segment
	for _, s := range l.readable() {
		if s.synced.Load() {
			list = append(list, s)
		}
	}
	return list
}

// createSpare makes the next segment, and seals those given.
func (l *log) createSpare(seal []*segment) (*segment, error) { return l.createNext(seal, nil, false) }

// createNext makes a segment and swaps in a manifest that adds it at the end,
// seals those of the given segments that are still open, and drops others.
// If closed, it says that nobody writes.
func (l *log) createNext(seal, drop []*segment, closed bool) (*segment, error) {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if len(l.set.Load().bySlot) >= index.MaxSegments { // which are not one after the other in use, but nearly
		return nil, fmt.Errorf("%w: %d segments", seglog.ErrNoSpace, index.MaxSegments)
	}
	if err := l.stillOurs(); err != nil {
		return nil, err
	}
	m := l.manifest.Clone()
	order := uint32(1)
	for _, e := range m.Segments {
		order = max(order, e.ID.Order()+1)
	}
	now := uint64(l.clock.Now().UnixMilli())
	header := record.SegmentHeader{ID: record.NewSegmentID(order, 0), Salt: record.Salt(l.random()), Start: now, Store: m.Store}
	if err := l.removeLeftover(header.ID); err != nil {
		return nil, l.refusal(err)
	}
	if m.Edit == 0 {
		if err := files.SyncParent(l.fsys, l.dir); err != nil {
			return nil, l.refusal(err)
		}
	}
	s, err := createSegment(l.fsys, l.dir, header)
	if err != nil {
		return nil, l.refusal(err)
	}
	for _, s := range drop {
		m.Drop(s.id)
	}
	m.Seal(sealedIn(seal))
	m.Segments = append(m.Segments, s.manifestEntry(false))
	if closed {
		m.Writing = nil
	}
	m.Edit++
	if err := seglog.WriteManifest(l.fsys, l.dir, m); err != nil {
		if err = l.manifestRefusal(m, err); l.failure() == nil {
			err = errors.Join(err, l.fsys.Remove(s.path))
		}
		return nil, errors.Join(err, s.file.Close())
	}
	l.manifest = m
	s.openView(l.limit)
	return s, nil
}

// manifestRefusal deals with a manifest that could not be written. Unless the old
// one is certainly in place, the log must not go on.
func (l *log) manifestRefusal(m *seglog.Manifest, err error) error {
	now, readErr := seglog.ReadManifest(l.fsys, l.dir)
	if readErr == nil && !errors.Is(err, files.ErrSyncDir) && (now == nil || now.Edit < m.Edit) {
		return seglog.NoSpace(err)
	}
	return l.fail(errors.Join(fmt.Errorf("manifest: %w", err), readErr))
}

// stillOurs makes sure that the manifest on the disk is the one that the next follows on.
// It is not when somebody has replaced the directory, and it must not be overwritten.
func (l *log) stillOurs() error {
	m, err := seglog.ReadManifest(l.fsys, l.dir)
	switch {
	case errors.Is(err, seglog.ErrCorrupt) || errors.Is(err, seglog.ErrVersion):
		return l.fail(err)
	case err != nil:
		return seglog.NoSpace(err) // nothing was changed; the next write tries again
	case m == nil && l.manifest.Edit == 0:
		return nil
	case m == nil || m.Store != l.manifest.Store || m.Edit != l.manifest.Edit:
		return l.fail(fmt.Errorf("the manifest in %s is not the one that this process wrote: has the directory been replaced?", l.dir))
	}
	return nil
}
