package engine

import (
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
)

// When a change shows.
//
// A change counts from the moment when the log has it: its record, or the commit of its group. It shows a
// moment later, in the index, in cells, in the order of the keys, and in the number of entries. The writer holds
// the locks of its keys from before the first of these until after the last, and returns after that. So there are
// two clocks, the numbers of the log and the moments of showing, and four kinds of observers:
//
//   - The holder of a key's lock sees a change of the key whole or not at all, whatever the clocks.
//   - A reader without a lock (Get of a map, an iteration) may see a change in one place and not yet in
//     another, or one entry of a group new and another old. So a change that could be seen in parts is
//     announced: showing has a counter for each shard of keys, raised before the first part shows and lowered
//     after the last. A reader that finds it raised passes the lock of its key once (await); after that all of
//     the change shows.
//   - A view has the log up to a number, whether or not it shows. If there were records that did not show, its
//     opener passes the locks of all keys before it returns the view (Log.Still reports that, and prevents
//     appends while the number is taken). The numbers decide what the view has. A writer whose change a view
//     lacks appended it later, and so knows of the view.
//   - A reader without a lock beside an opening view: the view may have a change a that does not show yet, and
//     lack b, which shows. For the view a came first, so a reader that knows of b must not find the old a.
//     Therefore readers pass the lock of their key, too, while a view is late: while it is being opened, and had
//     records that did not show.
//
// An asynchronous change has no number: memory alone has it, and it shows. So while a view is being opened no
// write begins to wait in memory, and earlier ones are written first (mayWait). An async writer announces its
// cell, then checks for an opening view, and holds the lock of the key until the cell can be found. The view
// announces itself, then checks for cells, announced or dirty. Whichever is second sees the first. A store without
// asynchronous writes pays with one look.
//
// shows_test.go has all of this as a model of a few steps for each observer, and tries all orders of them.

// showing counts for each shard of keys the changes that begin to show and are not all there yet: those of a
// group, and a change of one entry by which it comes or goes, since that shows in more than one place: its
// cell, the index, the order of the keys, the number of entries. It is raised and lowered with the lock of the
// shard held.
type showing [cache.Shards]atomic.Uint32

func (x *showing) begin(hash uint64) { x[hash%cache.Shards].Add(1) }
func (x *showing) end(hash uint64)   { x[hash%cache.Shards].Add(^uint32(0)) }

// await returns when the changes that had begun to show to a key of this hash, at the time of the call, show
// completely, and so do those in a view that is being opened. It is called before a look without a lock.
func (s *Store) await(hash uint64) {
	if n := hash % cache.Shards; s.showing[n].Load() != 0 || s.opening.late.Load() != 0 {
		passThrough(&s.keys[n])
	}
}

// awaitAll is await for all keys, before a list of the keys.
func (s *Store) awaitAll() {
	for n := range s.showing {
		s.await(uint64(n))
	}
	allAwaited()
}

// allAwaited is called at the end of awaitAll. It is a variable for tests.
var allAwaited = func() {}

// opening counts the views that are being opened.
type opening struct {
	views atomic.Int32

	_    [60]byte
	late atomic.Int32 // of these, those with records that do not show yet; every reader looks at it
	_    [60]byte
}

// mayWait reports whether a change of the key may wait until the next flush. The cell that waits, which is
// dirty, is announced then, and the caller swaps it in before giving back the lock of the key. Otherwise the
// log must have the change before a reader sees it.
func (s *Store) mayWait(now *state) bool {
	fresh := now.cell == nil || !now.cell.Dirty
	if fresh {
		now.cells.table.Announce()
	}
	if s.opening.views.Load() == 0 {
		return true
	}
	if fresh {
		now.cells.table.Retract()
	}
	return false
}

// waiting reports whether there may be waiting cells.
func (s *Store) waiting() bool {
	for _, c := range *s.attached.Load() {
		if c.table.Dirty() > 0 {
			return true
		}
	}
	return false
}

// PassKeys returns when every holder of a key's lock at the time of the call has released it.
func (s *Store) PassKeys() {
	for i := range s.keys {
		passThrough(&s.keys[i])
	}
}

// passThrough returns when the holder of the lock at the time of the call has released it.
func passThrough(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}

// AwaitShown returns when reads show a record of the key that LastToShow has counted. The writer of
// the record holds the lock of the key until then.
func (s *Store) AwaitShown(kind record.Kind, key []byte) {
	if !s.opts.ReadOnly {
		passThrough(s.lockOf(s.spaces[0].route(kind, key).hash(key)))
	}
}

// AwaitAllShown is AwaitShown for a record that concerns many keys.
func (s *Store) AwaitAllShown() {
	if !s.opts.ReadOnly {
		s.PassKeys()
	}
}

// beforeCounting removes expired entries from the tables, and waits for changes that have begun to show: once
// for all tables, since that reads a counter for each lock of keys. Then they can be counted. The caller holds
// no lock of a key.
func (s *Store) beforeCounting(tables ...*Table) {
	for _, t := range tables {
		t.reap()
	}
	s.awaitAll()
}

// counted lets a sum of the entries in index and cells detect that one changed without the other: a writer that
// changes both for one entry counts in begun before and in ended after.
type counted struct{ begun, ended atomic.Int64 }

// countTries is the number of reads before the writers are excluded.
const countTries = 100

func (c *counted) read(t *Table) int {
	for range countTries {
		ended, n, added := c.ended.Load(), t.index.Len(), t.added()-t.owing()
		if c.begun.Load() == ended && t.index.Len() == n && t.added()-t.owing() == added {
			return n + added
		}
	}
	for i := range t.store.keys {
		t.store.keys[i].Lock()
		defer t.store.keys[i].Unlock()
	}
	return t.count()
}
