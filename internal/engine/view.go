package engine

import (
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/seglog"
)

// A View is the log up to a number, the last one when the view was opened, and the time of that
// moment. It does not change and delays no other operation:
//
//   - While a view is open, every writer that changes an entry notes its old state (versions.go).
//     The number of a view is taken under the append lock, and there the view becomes known. So
//     the writer of a record with a higher number knows of the view, and holds the lock of the
//     key until the old state is noted; a reader of the entry takes that lock.
//   - Compaction goes on. A replaced segment stays as long as a view is open that may have an
//     address in it: one that was opened before the segment was retired, and whose number is not
//     below the segment's first (hold.go).
//   - An entry has expired in a view if its deadline had come when the view was opened, whatever
//     the clock shows since.
//
// Earlier asynchronous writes are written first, and are in the view. Values for memory alone are
// not.
//
// A store that follows another process has views, too, and notes the changes of the replay. Only
// when it has to begin anew (anew.go), its views are lost: reads fail with ErrViewLost.
type View struct {
	store  *Store
	seq    uint64
	time   uint64 // Unix milliseconds
	number uint64 // of the views of this process, in the order in which they were opened
	closed atomic.Bool
	lost   atomic.Bool // set while all others are excluded

	settled atomic.Bool // see settle
	moment  func()      // closes the store of a moment of the past, which no other view has; nil for one of the present

	listed bool // guarded by views.mu

	sorting sync.Mutex              // held to sort keys; taken before life
	sorted  map[sortedBy]*order.Run // guarded by sorting; nil for keys that are too many
}

var (
	// ErrViewClosed is the error of a read of a view that has been closed. It is ErrClosed as well.
	ErrViewClosed error = viewClosed{}
	// ErrViewLost is the error of a read of a view of a read-only store that could no longer follow the log and
	// had to read it anew.
	ErrViewLost = errors.New("copal: the snapshot is lost: the log could no longer be followed and was read anew")
)

type viewClosed struct{}

func (viewClosed) Error() string        { return "copal: the snapshot is closed" }
func (viewClosed) Is(target error) bool { return target == seglog.ErrClosed }

// views has the open ones.
type views struct {
	budget *cache.Budget
	open   atomic.Int64  // their number
	newest atomic.Uint64 // the log's number in the newest, which may be closed
	epoch  atomic.Uint64 // changes when one is opened and there is no other
	quiet  atomic.Bool   // changes are none; written while all others are excluded
	opened atomic.Uint64 // number of those opened since the beginning
	bytes  atomic.Int64  // memory of the versions

	work *viewWork // nil before the first is open

	mu      sync.Mutex  // a leaf; guards the rest, and all changes of open, newest, opened and epoch
	line    []*View     // that are open, in the order of opening
	tables  []*Table    // that have versions
	keepers []*ordering // that have kept layers. Taken under ordering.mu; the list is replaced, never changed
}

// viewWork has the functions for views that are called by code of every program. The first view sets it, so programs
// that open none do not contain them.
type viewWork struct {
	note  func(t *Table, hash uint64, own string, a seglog.Address, seq uint64) // noteLocked
	carry func(t, to *Table, prefix string)                                     // carryVersions
	keep  func(o *ordering, key []byte, gone bool, seq uint64)                  // keepLayersLocked
	end   func(o *ordering, k *keptLayers)                                      // endLocked
}

var workOnViews = viewWork{(*Table).noteLocked, (*Table).carryVersions, (*ordering).keepLayersLocked, (*ordering).endLocked}

// OpenView opens a view of everything that was acknowledged before the call. It returns an error if not all of
// it could be written to the log, or if the store is closed. The caller must close the view.
func (s *Store) OpenView() (*View, error) {
	if s.opts.ReadOnly {
		s.replaying.Lock() // then the store has replayed all that it has counted
		defer s.replaying.Unlock()
	} else {
		s.opening.views.Add(1)
		defer s.opening.views.Add(-1)
		if err := s.flushForView(); err != nil {
			return nil, err
		}
	}
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.life.leave(in)
	v, late := s.listView()
	v.time = s.now()
	if late {
		s.PassKeys()
		s.opening.late.Add(-1)
	}
	return v, nil
}

// listView returns a view of all records in the log. It is late, and counted, if not all of them show: readers
// without a lock wait for it until the caller lowers the count.
func (s *Store) listView() (v *View, late bool) {
	s.log.Still(func(last uint64, shows bool) {
		if late = !shows; late {
			s.opening.late.Add(1)
		}
		v = s.listViewAt(last)
	})
	return v, late
}

// listViewAt returns a view up to the record with number last. The caller prevents appends.
func (s *Store) listViewAt(last uint64) *View {
	v := &View{store: s, seq: last}
	s.views.list(v)
	return v
}

// flushForView writes all dirty cells. A value that cannot be stored is in no view. A cell announced since does
// not begin to wait, or waits for the lock of a shard that was flushed.
func (s *Store) flushForView() error {
	if !s.waiting() {
		return nil
	}
	return s.flushAll().refused
}

// list makes a view known. The caller prevents appends (Log.Still).
func (l *views) list(v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work == nil { // else a reader may be using it
		l.work = &workOnViews
	}
	v.number, v.listed = l.opened.Load()+1, true
	l.opened.Store(v.number)
	if len(l.line) == 0 {
		l.epoch.Add(1)
	}
	l.line = append(l.line, v)
	l.newest.Store(v.seq)
	l.open.Add(1)
}

// unlist removes a view, and releases the layers that were kept for it. It reports whether enough versions have
// become useless for a sweep.
func (l *views) unlist(v *View) (sweep bool) {
	var keepers []*ordering
	defer func() {
		for _, o := range keepers {
			o.dropKept(v.number)
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !v.listed {
		return false
	}
	keepers = l.keepers
	v.listed = false
	l.open.Add(-1)
	at := l.behind(v.number - 1)
	l.line = slices.Delete(l.line, at, at+1)
	switch {
	case at > 0 || l.bytes.Load() < sweepBytes:
		return false
	case len(l.line) == 0:
		return true
	}
	return l.line[0].seq-v.seq >= (l.newest.Load()-v.seq)/2 // else the open views need most of them
}

// behind returns the place in the line of the first view that was opened after the one of this number. The
// caller holds mu.
func (l *views) behind(number uint64) int {
	return sort.Search(len(l.line), func(i int) bool { return l.line[i].number > number })
}

// between reports whether a view is open that was opened after the view of the first number, and no
// later than the view of the last.
func (l *views) between(first, last uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.behind(first)
	return at < len(l.line) && l.line[at].number <= last
}

// sweepBytes is the memory of versions below which they are not swept.
const sweepBytes = 1 << 20

// add notes that a table has versions.
func (l *views) add(t *Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables = append(l.tables, t)
}

// take charges memory of the versions to the budget of the cells.
func (l *views) take(bytes int64) {
	l.bytes.Add(bytes)
	l.budget.Leave(bytes)
}

// all returns the open views, in the order of opening.
func (l *views) all() []*View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.line)
}

// needs reports whether a view that is open may have an address in a segment. renumbered means that its records
// may have counted before their numbers.
func (l *views) needs(seg retired, renumbered bool) bool {
	if l.open.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.line[:l.behind(seg.after)], func(v *View) bool { return v.seq >= seg.First || renumbered })
}

// without returns the number of the newest view that does not have the record of number seq, and as
// next the number of the view after it, 0 for none. The order, whose lock the caller holds, keeps
// layers for it then, and views report their end to it.
func (l *views) without(seq uint64, o *ordering) (number, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range slices.Backward(l.line) {
		if v.seq < seq {
			if !slices.Contains(l.keepers, o) {
				l.keepers = append(slices.Clip(l.keepers), o)
			}
			return v.number, next
		}
		next = v.number
	}
	return 0, next
}

// keepsNone notes that an order, whose lock the caller holds, has kept no layers.
func (l *views) keepsNone(o *ordering) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepers = seglog.Without(slices.Clone(l.keepers), func(other *ordering) bool { return other == o })
}

// lose ends all views. The caller excludes all others.
func (l *views) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.line {
		v.lost.Store(true)
		v.listed = false
	}
	l.line = nil
	l.open.Store(0)
	l.epoch.Add(1)
}

// Close ends the view, and releases the memory that was kept for it. Reads of it fail from then on. Calls after the
// first do nothing.
func (v *View) Close() {
	if v.closed.Swap(true) {
		return
	}
	s := v.store
	if s.views.unlist(v) {
		s.sweepVersions()
	}
	v.dropOwn()
	s.LetGo()
	if v.moment != nil {
		v.moment()
	}
}

// sweepVersions removes the versions that no view needs.
func (s *Store) sweepVersions() {
	l := &s.views
	l.mu.Lock()
	tables := append([]*Table(nil), l.tables...)
	l.mu.Unlock()
	for _, t := range tables {
		all := t.versions.Load()
		for n := range all.shards {
			mu := &s.keys[n]
			mu.Lock()
			sh := &all.shards[n]
			switch {
			case l.open.Load() == 0 || sh.epoch != l.epoch.Load():
				*sh = versionShard{counted: sh.counted}
			case len(sh.list) > 0:
				sh.sweep(l.all())
			}
			sh.count(l)
			mu.Unlock()
		}
	}
}

// Seq returns the number of the last record in the view.
func (v *View) Seq() uint64 { return v.seq }

// Time returns the time at which the view was opened, in Unix milliseconds.
func (v *View) Time() uint64 { return v.time }

// expired reports whether a deadline, 0 for none, had come when the view was opened.
func (v *View) expired(deadline uint64) bool { return deadline != 0 && v.time >= deadline }

// use is Store.use for a read of the view.
func (v *View) use() (pass, error) {
	in, err := v.store.use()
	if err != nil {
		return 0, err
	}
	if err := v.failure(); err != nil {
		v.store.life.leave(in)
		return 0, err
	}
	return in, nil
}

func (v *View) failure() error {
	switch {
	case v.lost.Load():
		return ErrViewLost
	case v.closed.Load():
		return ErrViewClosed
	}
	return nil
}

// Get is Store.Get in the view.
func (v *View) Get(t *Table, key []byte) (Entry, error) {
	t, err := v.in(t)
	if err != nil {
		return Entry{}, err
	}
	r := v.asItWas()
	return r.get(t, key)
}

// Read is Get for an open map, without copies: the bytes may be in buf, and a value in memory is returned as
// its cell, if the entry has not changed since the view was opened.
func (v *View) Read(out *Entry, c *Cells, hash uint64, key, buf []byte) error {
	t, err := v.in(c.owner)
	if err != nil {
		return err
	}
	if t != c.owner {
		c, hash = nil, t.hash(key) // a reader opened before the first write has another seed
	}
	in, err := v.use()
	if err != nil {
		return err
	}
	defer v.store.life.leave(in)
	r := reader{store: v.store, view: v, cells: c, shared: true}
	var e seglog.Record
	var f sight
	if err := r.record(&e, &f, t, hash, key, buf); err != nil {
		return err
	}
	return v.store.entryTo(out, &e, &f)
}

// Has reports whether key has an entry in the view.
func (v *View) Has(t *Table, key []byte) (bool, error) {
	t, err := v.in(t)
	if err != nil {
		return false, err
	}
	r := v.asItWas()
	return r.has(t, key)
}

// DeadlineOf is Store.DeadlineOf in the view.
func (v *View) DeadlineOf(t *Table, key []byte) (uint64, error) {
	t, err := v.in(t)
	if err != nil {
		return 0, err
	}
	r := v.asItWas()
	return r.deadline(t, key)
}

// changedKey is a key whose entry has changed since the view was opened.
type changedKey struct {
	own     string
	address seglog.Address // of the record in the view, 0 when there was no entry
}

// changed lists the keys of a table that match and whose entries have changed up to now. A caller
// that has listed the present entries before leaves these keys out, and takes their old states.
func (v *View) changed(t *Table, match func(hash uint64, own string) bool) (list []changedKey) {
	for n := range cache.Shards {
		if all := t.versions.Load(); all == nil {
			return nil
		}
		mu := &v.store.keys[n]
		mu.Lock()
		sh := t.versionShard(n)
		sh.since(v, func(old *former) bool {
			if own := sh.own(old); match == nil || match(old.hash, own) {
				list = append(list, changedKey{string(append([]byte(nil), own...)), old.address})
			}
			return true
		})
		mu.Unlock()
	}
	return list
}
