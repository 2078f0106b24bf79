package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// An entry may have a deadline, in Unix milliseconds: it has expired when the clock shows that or more. The
// record contains the deadline, so nothing is written when an entry expires:
//
//   - A reader of an entry with a deadline compares it with the clock, and does not show an expired entry.
//     Entries without a deadline never cost a look at the clock. An entry that seems to have expired is looked
//     up again under the lock of its key, since it may have got another deadline after its record was read.
//   - The holder of the key's lock removes the entry from the index and its cell from the table:
//     from then on the entry does not exist. A replay of the log treats a record with a passed
//     deadline as a deletion, so an older record of the key does not come back.
//   - If only memory knows the deadline, in a dirty cell over a record, the cell becomes one of a
//     deletion, which is not in the log yet.
//   - Before entries are counted, the expired ones are removed: a queue (see deadlines) lists the candidates. So
//     counts are exact. A goroutine does the same at the next deadline. It runs while any entry has a deadline, and
//     only in a store that can be written to.
//
// The clock alone decides. If it was set back, expired entries may be there again after the store was opened
// anew, until the same deadline.

// errTTL is the error for a time to live that is not positive.
func errTTL(d time.Duration) error {
	return fmt.Errorf("copal: time to live %v; it must be positive", d)
}

// lastDeadline is the last second, since 1970, in which a deadline can be: its end is the last that fits
// milliseconds in an int64, which time.Time takes.
const lastDeadline = math.MaxInt64/1000 - 1

// MillisAt returns t as a deadline, rounded up to milliseconds. All deadlines are made here. The first is one
// millisecond after 1970; the last is in the year 292,278,994. A later one is an error, as it does not fit and
// must not silently become another one or none.
func MillisAt(t time.Time) (uint64, error) {
	const round = time.Millisecond - 1
	switch s := t.Unix(); {
	case s > lastDeadline:
		return 0, fmt.Errorf("copal: deadline in second %d since 1970 is after the last possible one, %d; an entry without an end has no deadline", s, int64(lastDeadline))
	case s < 0:
		return 1, nil
	}
	return uint64(max(t.Add(round).UnixMilli(), 1)), nil
}

// Deadline returns the deadline, in milliseconds, of an entry that lives for d from now on, and no shorter.
func (s *Store) Deadline(d time.Duration) (uint64, error) {
	if d <= 0 {
		return 0, errTTL(d)
	}
	return MillisAt(s.opts.Clock.Now().Add(d))
}

// DeadlineAt returns the deadline, in milliseconds, of an entry that lives until t, and no shorter.
func (s *Store) DeadlineAt(t time.Time) (uint64, error) {
	deadline, err := MillisAt(t)
	if err == nil && t.Sub(s.opts.Clock.Now()) <= 0 {
		return 0, fmt.Errorf("copal: deadline %v has passed", t.UTC().Format(time.RFC3339Nano))
	}
	return deadline, err
}

// Left returns the time until a deadline, 0 for none. It is positive for one that has not passed.
func (s *Store) Left(deadline uint64) time.Duration {
	if deadline == 0 {
		return 0
	}
	return max(time.UnixMilli(int64(deadline)).Sub(s.opts.Clock.Now()), 1)
}

// now returns the time of the clock in Unix milliseconds.
func (s *Store) now() uint64 { return uint64(max(s.opts.Clock.Now().UnixMilli(), 0)) }

// Expired reports whether a deadline, 0 for none, has passed.
func (s *Store) Expired(deadline uint64) bool { return deadline != 0 && s.now() >= deadline }

// expect queues a look at the entry at its deadline. old is its former deadline. The caller holds the lock of
// its key.
func (t *Table) expect(hash, old, deadline uint64) {
	if deadline == 0 || old != 0 && old <= deadline {
		return
	}
	d := t.queue()
	sh := &d.shards[hash%cache.Shards]
	before := cap(sh.heap)
	if sh.full() {
		sh.clear(func(hash uint64) bool { return t.hasHash(hash) })
	}
	sh.push(dueItem{deadline, hash})
	t.countDeadlines(d, cap(sh.heap)-before)
	if d.lower(sh, deadline) {
		t.store.expirer.poke()
	}
}

// queue returns the deadlines of the table, which are made when they are missing.
func (t *Table) queue() *deadlines {
	d := t.deadlines.Load()
	if d == nil {
		d = newDeadlines()
		if !t.deadlines.CompareAndSwap(nil, d) {
			return t.deadlines.Load()
		}
		t.store.budget.Leave(d.bytes.Load())
	}
	return d
}

// countDeadlines charges memory of the queue to the budget of the cells.
func (t *Table) countDeadlines(d *deadlines, items int) {
	if items != 0 {
		d.bytes.Add(int64(items) * dueBytes)
		t.store.budget.Leave(int64(items) * dueBytes)
	}
}

// hasHash reports whether there may be an entry whose key has this hash. The caller holds its lock.
func (t *Table) hasHash(hash uint64) bool {
	var stack [4]seglog.Address
	if list, err := t.index.Find(stack[:0], hash); len(list) > 0 || err != nil {
		return true
	}
	c := t.cells.Load()
	return c != nil && len(c.table.Under(nil, hash)) > 0
}

// reap removes all expired entries.
func (t *Table) reap() {
	d := t.deadlines.Load()
	if d == nil {
		return
	}
	now := t.store.now()
	t.forgive(d, now)
	if now < d.earliest.Load() {
		return
	}
	for n := range d.shards {
		for t.reapSome(d, n, now) {
		}
	}
	t.reaped(d)
}

// reaped ends a look at all shards. If items were lost, all entries are read to find their deadlines.
func (t *Table) reaped(d *deadlines) {
	d.look()
	if d.lost.Swap(false) {
		t.requeue(false)
		if t.store.now() >= d.earliest.Load() {
			t.reap()
		}
	}
}

// requeue makes sure that all entries with a deadline are in the queue. A caller that is alone has all locks and the
// whole store. An entry that cannot be read is reported, and the others are queued.
func (t *Table) requeue(alone bool) {
	s := t.store
	enter := s.Inside
	if alone {
		enter = func(f func() error) error { return f() }
	}
	for n := range index.Shards {
		var list []seglog.Address
		var pins seglog.Pinned
		err := enter(func() (err error) {
			list, pins, err = t.listPart(nil, n)
			return err
		})
		for _, a := range list {
			err = errors.Join(err, enter(func() error { return t.requeueAt(a, alone) }))
		}
		pins.Unpin()
		switch {
		case errors.Is(err, seglog.ErrClosed):
			return
		case err != nil:
			s.log.ReportError("looking for deadlines", err)
		}
	}
}

// requeueAt queues the entry whose record is, or was, at a.
func (t *Table) requeueAt(a seglog.Address, alone bool) error {
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	h, key, _, err := t.store.headAndKey(a, *buf)
	if err != nil || h.Expiry == 0 || len(key) < t.prefix {
		return err
	}
	hash := t.hash(key)
	if !alone {
		mu := t.store.lockOf(hash)
		mu.Lock()
		defer mu.Unlock()
	}
	t.expect(hash, 0, h.Expiry)
	return nil
}

// reapBatch is how many items are looked at while the lock of a shard is held.
const reapBatch = 64

// reapSome looks at items of a shard that are due, and reports whether there are more.
func (t *Table) reapSome(d *deadlines, n int, now uint64) (more bool) {
	sh := &d.shards[n]
	if sh.first.Load() > now {
		return false
	}
	mu := &t.store.keys[n]
	mu.Lock()
	defer mu.Unlock()
	return !t.store.closed && t.reapSomeLocked(d, n, now)
}

func (t *Table) reapSomeLocked(d *deadlines, n int, now uint64) (more bool) {
	sh := &d.shards[n]
	before := cap(sh.heap)
	if sh.load != nil && sh.deferred <= now {
		if err := sh.bringIn(); err != nil {
			d.lost.Store(true)
			t.store.log.ReportError("reading entries with deadlines", err)
		}
	}
	for range reapBatch {
		it, due := sh.pop(now)
		if !due {
			break
		}
		if err := t.lookLocked(it.hash, now); err != nil {
			t.store.log.ReportError("removing expired entries", err)
		}
	}
	t.countDeadlines(d, cap(sh.heap)-before)
	sh.first.Store(sh.next()) // not before: a count waits for the removal of these
	return sh.next() <= now
}

// lookLocked removes the expired entries under a hash, and queues the others that have a deadline.
func (t *Table) lookLocked(hash, now uint64) error {
	var errs []error
	c := t.cells.Load()
	if c != nil {
		errs = c.work.look(t, c, hash, now)
	}
	var found [4]seglog.Address
	list, err := t.index.Find(found[:0], hash)
	if err != nil {
		t.expect(hash, 0, now+1000)
		return errors.Join(append(errs, err)...)
	}
	for _, a := range list {
		if c != nil && c.work.knows(c, hash, a) {
			continue
		}
		errs = append(errs, t.againLocked(hash, now, t.lookAtLocked(c, hash, a, now)))
	}
	return errors.Join(errs...)
}

// lookAtCellsLocked is lookLocked for the cells under a hash.
func (t *Table) lookAtCellsLocked(c *Cells, hash, now uint64) (errs []error) {
	s, d := t.store, t.queue()
	var stack [4]*cache.Cell
	for _, cell := range c.table.Under(stack[:0], hash) {
		if cell.Dirty && cell.Address != 0 && (cell.Expiry == 0 || now < cell.Expiry) {
			// The deadline of the record beneath is not known here, and it may come to count again.
			if err := s.writeLocked(c, []cache.Dirty{{Cell: cell, Encoded: c.table.Encoded(hash, cell)}}); err != nil {
				t.expect(hash, 0, now+1000)
				continue
			}
		}
		switch {
		case cell.Expiry == 0:
		case now < cell.Expiry:
			t.expect(hash, 0, cell.Expiry)
		default:
			was := state{hash: hash, own: cell.Key(), cells: c, cell: cell, hit: hitOfCell(cell), encoded: c.table.Encoded(hash, cell)}
			errs = append(errs, t.endLocked(d, &was, now))
			if was.cell != nil && was.cell.Dirty && s.writeLocked(c, []cache.Dirty{{Cell: was.cell}}) != nil {
				t.expect(hash, 0, now+1000)
			}
		}
	}
	return errs
}

// againLocked returns the error of a look, and queues another one after an error of the disk. Damage stays.
func (t *Table) againLocked(hash, now uint64, err error) error {
	if err != nil && !errors.Is(err, seglog.ErrCorrupt) {
		t.expect(hash, 0, now+1000)
	}
	return err
}

// knows reports whether a cell has the record that the index has at a.
func (c *Cells) knows(hash uint64, a seglog.Address) bool {
	var stack [4]*cache.Cell
	for _, cell := range c.table.Under(stack[:0], hash) {
		if h := hitOfCell(cell); h.indexed() == a {
			return true
		}
	}
	return false
}

// lookAtLocked is lookLocked for the entry whose record is at a.
func (t *Table) lookAtLocked(c *Cells, hash uint64, a seglog.Address, now uint64) error {
	s := t.store
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	h, key, bytes, err := s.headAndKey(a, *buf)
	switch {
	case err != nil:
		return err
	case len(key) < t.prefix || t.hash(key) != hash: // the index has only a part of the hash
		return nil
	case h.Expiry == 0:
		return nil
	case now < h.Expiry:
		t.expect(hash, 0, h.Expiry)
		return nil
	}
	was := state{hash: hash, own: string(key[t.prefix:]), cells: c, hit: hitOf(a, &h, bytes)}
	return t.endLocked(t.queue(), &was, now)
}

// headAndKey reads the beginning of the record at a, unverified, and returns the record's length.
func (s *Store) headAndKey(a seglog.Address, buf []byte) (h record.Head, key []byte, bytes int, err error) {
	slot, offset := seglog.SplitAddress(a)
	seg := s.log.Segment(slot)
	b, head, err := seg.ReadHead(&h, offset, buf)
	if err == nil && head+h.KeyBytes > len(b) {
		b, err = seg.ReadMore(offset, b, head+h.KeyBytes)
	}
	if err != nil {
		return h, nil, 0, err
	}
	return h, b[head : head+h.KeyBytes], h.Length(head), nil
}

// expireLocked removes the entry, whose deadline has passed. now becomes the state of a key without an entry.
func (s *Store) expireLocked(t *Table, now *state) error {
	var logged seglog.Record
	if now.seq != 0 { // its head was read, and not verified
		slot, offset := seglog.SplitAddress(now.address)
		if err := s.log.Segment(slot).ReadTo(&logged, offset, nil); err != nil {
			return err
		}
	}
	var f *farewell
	if now.cells != nil {
		var err error
		was, read := *now, logged // copies, to keep now on the stack of the caller
		if f, err = now.cells.work.farewell(s, t, &was, &read); err != nil {
			s.log.ReportError("reading an expired entry", err)
		}
	}
	tells := t.tells(now)
	switch c := now.cell; {
	case c != nil && c.Dirty && c.Address != 0: // without a deletion in the log, its record would show
		was := *now
		err := now.cells.work.expire(&was, s, f, tells)
		*now = was
		return err
	case tells:
		if err := s.tellLocked(t, now); err != nil {
			return err
		}
	case now.address != 0:
		if now.cell.Extra() != 0 {
			t.counted.begun.Add(1)
			defer t.counted.ended.Add(1)
		}
		t.remove(now.hash, now.own, now.hit, 0)
	}
	now.swap(nil)
	s.expirer.add(f)
	*now = state{hash: now.hash, own: now.own, cells: now.cells}
	return nil
}

// deleteExpiredLocked replaces a dirty cell over a record by a deletion, which is written where ends are records.
func (now *state) deleteExpiredLocked(s *Store, f *farewell, tells bool) error {
	gone := &cache.Cell{Absent: true, Dirty: true}
	if tells {
		gone.Expiry = now.expiry
	}
	now.refer(gone)
	gone.SetKey(now.cell.Key(), 0)
	now.swap(gone)
	s.expirer.add(f)
	*now = state{hash: now.hash, own: now.own, cells: now.cells, cell: gone, hit: hitOfCell(gone)}
	s.log.Touched()
	if !tells {
		return nil
	}
	if err := s.writeLocked(now.cells, []cache.Dirty{{Cell: gone}}); err != nil {
		return err
	}
	*now = state{hash: now.hash, own: now.own, cells: now.cells}
	return nil
}

// expireDirtyLocked removes the dirty cells of a shard that have expired.
func (s *Store) expireDirtyLocked(c *Cells, shard int) error {
	if c.owner.deadlines.Load() == nil {
		return nil
	}
	var expired []cache.Dirty
	for _, d := range c.table.DirtyIn(shard) {
		if s.Expired(d.Cell.Expiry) {
			expired = append(expired, d)
		}
	}
	for _, d := range expired {
		was := state{hash: s.Hash(d.Cell.Key()), own: d.Cell.Key(), cells: c, cell: d.Cell, hit: hitOfCell(d.Cell), encoded: d.Encoded}
		if err := s.expireLocked(c.owner, &was); err != nil && !errors.Is(err, seglog.ErrNoSpace) {
			return err
		}
	}
	return nil
}

// farewell is an expired entry on its way to the function that is called for it.
type farewell struct {
	cells *Cells
	key   []byte
	entry Entry
}

// farewellTo returns the expired entry as the map showed it, or nil if no function wants it.
func (s *Store) farewellTo(t *Table, now *state, logged *seglog.Record) (*farewell, error) {
	if now.cells.values.Expired == nil || s.opts.ReadOnly {
		return nil, nil
	}
	f := &farewell{cells: now.cells, key: []byte(t.name + ":" + now.own)}
	switch c := now.cell; {
	case c != nil && c.Absent, c == nil && now.schema == metaSchema:
		return nil, nil
	case c != nil && c.Holds:
		f.entry.Cell = c
	case now.encoded != nil:
		f.entry.Value, f.entry.Schema = now.encoded.Value, now.encoded.Schema
	default:
		if logged.Key == nil {
			slot, offset := seglog.SplitAddress(now.address)
			if err := s.log.Segment(slot).ReadTo(logged, offset, nil); err != nil {
				return nil, err
			}
		}
		if err := s.entryTo(&f.entry, logged, &sight{at: now.address}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// expirer is the goroutine that removes entries at their deadlines and calls the functions for
// them. It runs while any entry has a deadline.
type expirer struct {
	mu      sync.Mutex // a leaf
	allowed bool       // between the end of Open and the beginning of Close, of a store with goroutines
	running bool
	owes    atomic.Bool // an end was owed once
	wake    chan struct{}
	list    []farewell
	told    string // the last error of a write to the log
	run     func()
}

// poke wakes the goroutine, as an entry is due earlier than before.
func (e *expirer) poke() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pokeLocked()
}

func (e *expirer) pokeLocked() {
	switch {
	case !e.allowed:
	case !e.running:
		e.running = true
		e.run()
	default:
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// add passes on a farewell, nil for none.
func (e *expirer) add(f *farewell) {
	if f == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, *f)
	e.pokeLocked()
}

// take returns the entries to report.
func (e *expirer) take() []farewell {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// ends reports whether the goroutine ends, as no work is due at next.
func (e *expirer) ends(next uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next != never || len(e.list) > 0 || len(e.wake) > 0 {
		return false
	}
	e.running = false
	return true
}

// beginExpiry allows the goroutine to begin, at once if there is work for it.
func (s *Store) beginExpiry() {
	e := &s.expirer
	e.mu.Lock()
	defer e.mu.Unlock()
	e.allowed, e.wake = true, make(chan struct{}, 1)
	e.run = func() {
		s.goroutines.Add(1)
		go func() { defer s.goroutines.Done(); s.expirePeriodically() }()
	}
	if s.nextDeadlineLocked() != never {
		e.pokeLocked()
	}
}

// endExpiry prevents the start of another goroutine.
func (s *Store) endExpiry() {
	s.expirer.mu.Lock()
	s.expirer.allowed = false
	s.expirer.mu.Unlock()
}

// Entries that are due within expireEvery are removed together, and the clock is looked at after
// expireLook at the latest: it may have been set, which a timer does not see.
const (
	expireEvery = 10 * time.Millisecond
	expireLook  = time.Minute
)

func (s *Store) expirePeriodically() {
	for {
		next, err := s.expireDue()
		if err != nil || s.expirer.ends(next) {
			return
		}
		wait, now := expireLook, s.now()
		if left := int64(min(next, math.MaxInt64)) - int64(now); left <= 0 {
			continue
		} else if left < expireLook.Milliseconds() {
			wait = max(time.Duration(left)*time.Millisecond, expireEvery)
		}
		timer, cancel := s.opts.Clock.After(wait)
		if s.now() != now { // time has passed since the look, and the wait would be too long
			cancel()
			continue
		}
		select {
		case <-s.stop:
			cancel()
			return
		case <-s.expirer.wake:
			cancel()
		case <-timer:
		}
	}
}

// expireDue removes all entries that are due, and returns the next deadline. It fails when the store is being closed.
func (s *Store) expireDue() (next uint64, err error) {
	tables, err := s.expiring()
	if err != nil {
		return 0, err
	}
	now := s.now()
	for _, t := range tables {
		d := t.deadlines.Load()
		t.pay(d, now)
		if now < d.earliest.Load() {
			continue
		}
		for n := range d.shards {
			for more := true; more; {
				more = t.reapSome(d, n, now)
				if err := s.tell(); err != nil {
					return 0, err
				}
				if more {
					runtime.Gosched()
				}
			}
		}
		t.reaped(d)
	}
	if err := s.tell(); err != nil {
		return 0, err
	}
	in, err := s.use()
	if err != nil {
		return 0, err
	}
	defer s.life.leave(in)
	return s.nextDeadlineLocked(), nil
}

// tell calls the WithOnExpire functions. It returns ErrClosed if the store is closing.
func (s *Store) tell() error {
	for _, f := range s.expirer.take() {
		select {
		case <-s.stop:
			return seglog.ErrClosed
		default:
		}
		f.cells.values.Expired(f.key, f.entry)
	}
	return nil
}

// expiring returns the tables with deadlines.
func (s *Store) expiring() (list []*Table, err error) {
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.life.leave(in)
	for _, sp := range s.spaces {
		for _, t := range sp.tables() {
			if t.deadlines.Load() != nil {
				list = append(list, t)
			}
		}
	}
	return list, nil
}

// nextDeadlineLocked returns the first of all deadlines. The caller uses the store, or is alone.
func (s *Store) nextDeadlineLocked() uint64 {
	next := uint64(never)
	for _, sp := range s.spaces {
		for _, t := range sp.tables() {
			if d := t.deadlines.Load(); d != nil {
				next = min(next, d.earliest.Load())
				if d.owing.Load() > 0 && t.mayTell(d, 0, never) {
					next = min(next, d.again.Load())
				}
			}
		}
	}
	return next
}
