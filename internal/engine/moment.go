package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A moment of the past is a store of its own: the same segments, opened to be read and recovered up to there,
// with a stopped clock. There is no second way of reading, and none of writing: a view of that store is a view
// like any other, and it reads as every store does.
//
//   - Recovery begins with the last snapshot of the index before it (savedindex.go of the log), and stops at the first
//     record that is later. A group whose commit is later does not count.
//   - No moment of the window needs a record that compaction removes (history.go of the log), so any set of
//     files of the present has all moments. Files that are removed meanwhile stay open.
//   - Recovery reads the newest records from the writer's ring, as any reader does.
//
// A moment costs a reading of the log from that snapshot up to there, and the memory of an index, for as long as it is
// open. Close of the store closes it.

// moments are the open ones.
type moments struct {
	mu     sync.Mutex // a leaf
	open   []*Store
	closed bool // no other may be opened
}

// still is the clock of a moment. While the log is read it shows the time of the last record.
type still struct {
	ms  atomic.Uint64
	now func() uint64 // the time of the writers
}

func (c *still) Now() time.Time { return time.UnixMilli(int64(c.ms.Load())) }

// After never delivers.
func (c *still) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func (c *still) advance(ms uint64) { c.ms.Store(max(c.ms.Load(), ms)) }

// AsOf opens a view of the store as it was at a moment. It has the records that the log had by then: an
// asynchronous write counts from when the log had it. The error is ErrHistoryLost when the window of history
// begins later, or the log has not come to the moment. The caller must close the view.
func (s *Store) AsOf(at seglog.Moment) (*View, error) {
	if err := s.isOpen(); err != nil {
		return nil, err
	}
	if at.Time != seglog.Unbounded && at.Time > s.now() {
		return nil, fmt.Errorf("copal: %v has not come yet", time.UnixMilli(int64(at.Time)))
	}
	m, err := s.openMoment(at, PassDamage, s.opts.Follower)
	if err != nil {
		return nil, err
	}
	v, err := m.OpenView()
	if at.Time != seglog.Unbounded && err == nil {
		err = s.checkMoment(m, at.Time)
	}
	if err != nil {
		if v != nil {
			v.Close()
		}
		return nil, errors.Join(err, s.CloseMoment(m))
	}
	v.moment = func() { s.log.ReportError("closing a moment of the past", s.CloseMoment(m)) }
	return v, nil
}

// checkMoment returns an error if records that were written by a time may have later times, since the clock was
// ahead then: m, which has the records with earlier times, may differ from the store of that time. With the
// time of its last record it does not.
func (s *Store) checkMoment(m *Store, at uint64) error {
	last, next, now := m.log.LastTime, m.log.NextTime, s.now()
	if next <= now || at <= last {
		return nil
	}
	return fmt.Errorf("copal: %v names no moment of the log, as the clock was ahead: records after number %d have times up to %v after now; use number %d for the state before them, or the number of a later record",
		time.UnixMilli(int64(at)), m.log.Last(), s.clockBehind(), m.log.Last())
}

// OpenMoment opens the store of a moment, read-only even if this one is not. Damage is an error. Its follower,
// of Options.Follower, can go on to later records, or follow compaction.
func (s *Store) OpenMoment(at seglog.Moment) (*Store, error) {
	return s.openMoment(at, nil, s.opts.Follower)
}

// OpenGoingOn is OpenMoment in spite of damage, with the given follower.
func (s *Store) OpenGoingOn(at seglog.Moment, follower func(*Store, *seglog.Recovery) Follower) (*Store, error) {
	return s.openMoment(at, PassDamage, follower)
}

func (s *Store) openMoment(at seglog.Moment, passing func(*Store, *seglog.Recovery), follower func(*Store, *seglog.Recovery) Follower) (*Store, error) {
	opts := s.opts
	opts.Passing, opts.Follower = passing, follower
	opts.ReadOnly, opts.Inline, opts.NoCompaction = true, true, true
	opts.Compaction, opts.Progress = nil, nil
	opts.MaxMemory /= 4
	opts.OnError = s.reports.add
	opts.Until, opts.indexBelow = &at, seglog.Unbounded
	m, err := s.openUntil(&opts)
	if err != nil {
		return nil, err
	}
	if last := m.log.Last(); at.Seq != seglog.Unbounded && last < at.Seq {
		return nil, errors.Join(fmt.Errorf("copal: there is no record %d yet, the last one is %d", at.Seq, last), m.Close())
	}
	if !s.moments.add(m) {
		return nil, errors.Join(seglog.ErrClosed, m.Close())
	}
	return m, nil
}

// Present returns a function by which the clock of a moment shows the time of now. It is called when the moment
// has reached the present end of the log: then entries that expired only after they were written are not
// replayed as deletions.
func (s *Store) Present() func() {
	clock, is := s.opts.Clock.(*still)
	if !is {
		return func() {}
	}
	now := clock.now()
	return func() { clock.advance(now) }
}

// openUntil opens the store up to a moment. A snapshot of the index lacks the entries that had expired when it
// was finished. If that was later than the moment, of which only the number is known before, an earlier
// snapshot is used.
func (s *Store) openUntil(opts *Options) (*Store, error) {
	opened := Open
	if opts.Passing == nil {
		opened = openIntact
	}
	for {
		clock := &still{now: s.now}
		if opts.Until.Time != seglog.Unbounded {
			clock.advance(opts.Until.Time)
		}
		opts.Clock = clock
		m, err := opened(s.log.Dir, *opts)
		if err != nil {
			return nil, err
		}
		m.settleMoment(clock)
		if m.snapshot == nil || m.snapshot.line.Time <= m.now() {
			return m, nil
		}
		opts.indexBelow = m.snapshot.line.Seq
		if err := m.Close(); err != nil {
			return nil, err
		}
	}
}

// Standing returns the newest record of a key, of an element or else of an entry, whether or not it has expired. Its
// bytes are the caller's; the parts of a large value are joined.
func (s *Store) Standing(kind record.Kind, key []byte) (e seglog.Record, err error) {
	err = s.Inside(func() error {
		t := s.spaces[0].route(kind, key)
		at, err := t.readNow(&e, t.hash(key), key, nil)
		switch {
		case err != nil:
			return err
		case at == 0:
			return ErrNotFound
		case e.Large > 0:
			e.Value, err = seglog.ReadParts(s.log, e)
		}
		return errOr(err, isValue(&e))
	})
	return e, err
}

// CloseMoment closes a store of OpenMoment.
func (s *Store) CloseMoment(m *Store) error {
	s.moments.remove(m)
	return m.Close()
}

// settleMoment sets the clock to the time of the moment, which nothing has come after.
func (s *Store) settleMoment(clock *still) {
	if clock.advance(s.log.LastTime); s.log.Manifest.History != nil {
		clock.advance(s.log.Manifest.History.Time)
	}
}

// Moment returns the number of the last record of a moment, and its time.
func (s *Store) Moment() seglog.Moment { return seglog.Moment{Seq: s.log.Last(), Time: s.now()} }

// replayUntil is replay at the time of the record.
func (s *Store) replayUntil(e seglog.Record, a seglog.Address) error {
	s.opts.Clock.(*still).advance(e.Written)
	return s.replay(e, a)
}

func (l *moments) add(m *Store) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.open = append(l.open, m)
	}
	return !l.closed
}

func (l *moments) remove(m *Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = seglog.Without(l.open, func(o *Store) bool { return o == m })
}

// closeMoments closes all, and prevents the opening of others.
func (s *Store) closeMoments() {
	l := &s.moments
	l.mu.Lock()
	open := l.open
	l.open, l.closed = nil, true
	l.mu.Unlock()
	for _, m := range open {
		s.log.ReportError("closing a moment of the past", m.Close())
	}
}

// in returns the table with the keys of t in the store of the view: t itself, except for a moment of the past. A
// map that was not declared then has its keys in the raw table, and takes them from there, as when it is opened.
// For nil it returns nil.
func (v *View) in(t *Table) (*Table, error) {
	switch {
	case t == nil || t.store == v.store:
		return t, nil
	case t.name == "":
		return v.store.spaces[0].raw, nil
	}
	var there *Table
	err := v.Inside(func() error { there = v.store.spaces[0].maps[t.name]; return nil })
	if there != nil || err != nil {
		return there, err
	}
	return v.store.declareNew(t.name)
}
