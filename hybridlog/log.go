package hybridlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/grace"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Address is the offset of a byte in the log. Appending, trimming and compacting do not change it.
type Address int64

// maxAddress is beyond every log.
const maxAddress = 1 << 62

// MaxEntryBytes is the length of the longest write, in bytes.
const MaxEntryBytes = 1 << 30

// String returns the address in decimal, the offset that ReadAt takes.
func (a Address) String() string { return strconv.FormatInt(int64(a), 10) }

// Log is an append-only log of bytes; [Open] makes it. It is safe for concurrent use.
type Log struct {
	opts *options
	dir  string
	lock *vfs.Held

	gate   grace.Gate          // readers are inside while they read
	set    atomic.Pointer[set] // the live segments
	end    atomic.Int64        // address after the last byte
	closed atomic.Bool
	dirty  atomic.Bool  // something was written since the last sync began
	behind atomic.Int64 // how many segments have ended and are not durable
	named  atomic.Bool  // the manifest is there durably; set by nameFound and swap

	housekeeping sync.Mutex // one compaction or trimming at a time; taken before all others

	logID   uint64 // set by Open, or the first write
	cacheID string // see vfs.FS

	tails tail.Tails // its appender holds mu; it is durable up to an address

	mu        sync.Mutex // guards the tail, and the following fields
	tail      *segment   // nil before the first write of this process
	next      framer     // at the end of the tail
	wanted    bool       // a spare has been asked for
	ringFrom  int64      // of the tail: bytes from here on were stored in the ring, and have their place there
	frameFrom int64      // of the tail: frames from this number on were stored in the ring
	synced    place      // of the tail: its files are durable up to here
	claimed   bool       // something is durable in the ring alone
	aheadMost int64      // how much is reserved ahead, at most
	frames    []byte     // of the write under way
	unsynced  []*segment // that ended and are not durable
	warm      []*segment // the last that have become so
	retired   []*content // of segments, closed when their readers have left
	recovered *recovered // work that recovery leaves to the first write

	refreshMu sync.Mutex // one refresh at a time
	stale     []*segment // guarded by refreshMu; of sets that a refresh has replaced, to be closed in the end

	hole  Address // one more than where a read-only opening found a hole in the writer's ring; used by Open alone
	again bool    // the opening has to look again; used by Open alone

	manifestMu sync.Mutex
	manifest   *manifest // the one on the disk; nil for a log that has none yet
	highest    uint32    // order of the last segment that there was
	spare      *spare    // the next tail, if it is ready

	wake    chan struct{} // of keep
	ended   chan struct{} // of keepSealing
	compact chan struct{} // of keepCompact
	cool    chan struct{} // to the same: contents wait to be closed
	stop    chan struct{}
	running sync.WaitGroup // drains, keeps, seals and compacts: the goroutines of the log
}

// set is the immutable list of the live segments, in order.
type set struct {
	first    Address // everything before it is trimmed
	segments []*segment
	places   []int32 // for each stretch of the log, the segment that its beginning is in
}

// placeShift is the length of a stretch, as a power of two.
const placeShift = 24

func newSet(first Address, segments []*segment) *set {
	s := &set{first: first, segments: segments}
	if len(segments) == 0 {
		return s
	}
	begin, end := segments[0].start>>placeShift, segments[len(segments)-1].start>>placeShift
	i := 0
	for at := begin; at <= end; at++ {
		for i+1 < len(segments) && segments[i+1].start <= at<<placeShift {
			i++
		}
		s.places = append(s.places, int32(i))
	}
	return s
}

// find returns the segment that an address is in, or nil.
func (s *set) find(a Address) *segment {
	if len(s.segments) == 0 || a < s.segments[0].start {
		return nil
	}
	place := min(int(a>>placeShift-s.segments[0].start>>placeShift), len(s.places)-1)
	i := int(s.places[place])
	for i+1 < len(s.segments) && s.segments[i+1].start <= a {
		i++
	}
	return s.segments[i]
}

// with is the set with another segment at its end.
func (s *set) with(seg *segment) *set {
	return newSet(s.first, append(s.segments[:len(s.segments):len(s.segments)], seg))
}

// Open opens the log in directory path, and creates the directory when it is missing. The name is
// resolved once, as the system resolves it, and the log stays there. Opening after a crash changes
// nothing; the first write repairs the log.
//
// The errors are ErrLocked, ErrCorrupt, ErrVersion, and those of the file system.
func Open(path string, opts ...Option) (*Log, error) {
	dir, err := files.Path(path)
	if err != nil {
		return nil, wrap(err)
	}
	return open(dir, newOptions(opts))
}

func open(dir string, o *options) (_ *Log, err error) {
	l := &Log{opts: o, dir: dir, wake: make(chan struct{}, 1), ended: make(chan struct{}, 1), compact: make(chan struct{}, 1), cool: make(chan struct{}, 1), stop: make(chan struct{})}
	if !o.readOnly {
		if err := o.fsys.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("hybridlog: %w", err)
		}
		if l.lock, err = acquire(o, filepath.Join(dir, lockName)); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, l.lock.Close())
			}
		}()
		o.fsys = l.lock
	}
	l.tails.Init(tail.Owner{
		FS: o.fsys, Dir: dir, Clock: o.clock, Inline: o.inline, Name: "hybridlog", Report: o.report, Closed: ErrClosed, Rings: rings, Marks: marks,
		Mu: &l.mu, Tail: l.growing, NoSpace: noSpace, Failed: func(cause error) error { return &FailedError{Cause: cause} }, Bad: bad,
	})
	if err := l.recover(); err != nil {
		return nil, err
	}
	l.dirty.Store(!o.readOnly && int64(l.tails.Durable.Load()) < l.end.Load()) // it is durable within the sync interval
	if !o.inline {
		l.running.Go(l.keep)
	}
	if !o.readOnly && !o.inline {
		l.running.Go(func() { l.tails.KeepDrained(tail.DrainEvery, l.stop) })
		l.running.Go(l.keepSealing)
		l.running.Go(l.keepCompact)
	}
	return l, nil
}

const (
	lockName  = "LOCK"
	lockRetry = 10 * time.Millisecond
)

// acquire takes the lock, and waits for it as long as the options say.
func acquire(o *options, name string) (*vfs.Held, error) {
	for begin := o.clock.Now(); ; {
		lock, err := vfs.Hold(o.fsys, name)
		var held *vfs.LockedError
		if err == nil || !errors.As(err, &held) {
			return lock, wrap(err)
		}
		left := o.timeout - o.clock.Now().Sub(begin)
		if left <= 0 {
			return nil, fmt.Errorf("%w: %w", ErrLocked, err)
		}
		c, stop := o.clock.After(min(left, lockRetry))
		<-c
		stop()
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hybridlog: %w", err)
}

// Size returns the address after the last byte: the number of bytes ever written, trimmed ones
// included.
func (l *Log) Size() int64 { return l.end.Load() }

// First returns the address up to which the log was trimmed, 0 if it never was.
func (l *Log) First() Address { return l.set.Load().first }

// Stats are counts and sizes of a log.
type Stats struct {
	First     Address // bytes before it are trimmed
	End       Address // Size, as an address
	Durable   Address // bytes before it are known to be on the disk
	Segments  int     // files of bytes
	Fragments int     // segments that compaction would replace
}

// Stats returns the present figures of the log.
func (l *Log) Stats() Stats {
	set := l.set.Load()
	st := Stats{First: set.first, End: Address(l.end.Load()), Durable: Address(l.tails.Durable.Load()), Segments: len(set.segments)}
	for _, run := range l.runs(set) {
		st.Fragments += len(run)
	}
	return st
}

// enter lets a reader into the gate. The reader leaves with the pass that it returns.
func (l *Log) enter() (grace.Pass, error) {
	in, ok := l.gate.TryEnter()
	if !ok {
		return in, ErrClosed // only Close excludes
	}
	if l.closed.Load() {
		l.gate.Leave(in)
		return in, ErrClosed
	}
	return in, nil
}

// Close syncs the writes and closes the log. It waits for readers, so it must not be called inside
// View. If this process has written nothing, Close changes nothing on the disk. Calls after the
// first return nil. An error says that something written may not survive a power cut, or is lost
// already.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed.Swap(true) {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	close(l.stop)
	l.running.Wait()
	l.housekeeping.Lock()
	defer l.housekeeping.Unlock()
	err := l.finish()
	l.gate.Exclude()
	defer l.gate.Admit()
	return errors.Join(err, l.release())
}

// finish syncs the log and leaves it as a log that was closed.
func (l *Log) finish() error {
	defer l.tails.AwaitRound() // after a failure, too, another goroutine may lead one
	if r := l.recovered; l.tail == nil && r != nil && r.accepted && l.tails.Failure() == nil {
		l.mu.Lock()
		err := l.beginLocked()
		l.mu.Unlock()
		l.tails.ReportError("making a log of its own of a copy", err)
	}
	if l.tail == nil {
		return l.tails.Failure()
	}
	if err := l.tails.Failure(); err != nil {
		return err
	}
	if err := l.drain(l.tail); err != nil {
		return err
	}
	if err := l.giveBackRoom(l.tail); err != nil { // now: the manifest says how long the files are
		return err
	}
	if err := l.sync(true); err != nil {
		return err
	}
	err := l.sealAll()
	if err != nil && !errors.Is(err, ErrNoSpace) {
		return wrap(err)
	}
	l.tails.ReportError("stating that the log is closed", err)             // the next opening finds the log as after a kill
	l.tails.ReserveTo(&l.tail.bytes, l.tail.bytes.End.Load()+l.roomKept()) // for the next writer, if there is room
	l.tails.SyncMark()
	if err == nil {
		l.tails.ReportError("removing the ring", l.tails.RemoveRing()) // the next opening finds that it holds nothing new
	}
	return nil
}

// release closes all files. No reader is inside.
func (l *Log) release() error {
	var err error
	for _, s := range l.set.Load().segments {
		err = errors.Join(err, s.close())
	}
	for _, s := range l.stale {
		err = errors.Join(err, s.close())
	}
	for _, c := range l.retired {
		err = errors.Join(err, c.close())
	}
	if l.spare != nil {
		err = errors.Join(err, l.spare.close())
	}
	if l.tail != nil {
		err = errors.Join(err, l.tail.sums.File.Close())
	}
	for _, x := range l.unsynced {
		err = errors.Join(err, x.sums.File.Close())
	}
	_, closed := l.tails.CloseRing()
	err = errors.Join(err, closed)
	err = errors.Join(err, l.tails.CloseMark())
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return wrap(err)
}

// segmentFor makes the segment that a line of the manifest describes.
func (l *Log) segmentFor(m manifestSegment) *segment {
	s := newSegment(l.opts.fsys, l.dir, m.id, m.salt)
	s.begin(m.start)
	if m.sealed {
		s.bytes.End.Store(m.bytes)
		s.sums.End.Store(m.frames * frameBytes)
		s.ended.Store(true)
		s.synced.Store(true)
	} else {
		s.known = m.known()
	}
	return s
}
