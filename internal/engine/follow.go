package engine

import (
	"errors"
	"sync"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A store that was opened read-only follows the process that writes: from time to time it looks what
// the log has got since, and replays it, each record under the lock of its key. How the log is read on
// is the tailer's; what a record means is said here.
//
//   - Where compaction has replaced segments, entries are moved to their copies (followmoved.go). The old
//     files have no names any more but are open, until nobody reads there.
//   - A reader that has not looked for so long that what is new was compacted already begins anew: the
//     tables are emptied and filled again, while reads wait. When that fails, they are what they were
//     (anew.go).
type follower struct {
	store  *Store
	mu     sync.Mutex     // one looks at a time, and Close waits for that; taken before life
	tailer *seglog.Tailer // guarded by mu
}

// defaultFollowEvery is the time between two looks.
const defaultFollowEvery = 50 * time.Millisecond

// Refresh returns when a read-only store shows everything that was written, by whatever process, before the call. For
// others there is nothing to do.
func (s *Store) Refresh() error {
	if !s.opts.ReadOnly {
		return s.refuse(nil)
	}
	return s.follower.look()
}

// keepFollowing looks every now and then until stop is closed.
func (s *Store) keepFollowing(stop <-chan struct{}) {
	told := ""
	for {
		timer, cancel := s.opts.Clock.After(s.opts.FollowEvery)
		select {
		case <-stop:
			cancel()
			return
		case <-timer:
		}
		text := ""
		if err := s.follower.look(); err != nil {
			if text = err.Error(); text != told {
				s.log.ReportError("following the log", err)
			}
		}
		told = text
	}
}

// begin takes over from recovery.
func (f *follower) begin(r *seglog.Recovery) { f.tailer = seglog.NewTailer(r, f.apply, f.applyAll) }

// look replays what is new.
func (f *follower) look() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in, err := f.store.use()
	if err != nil {
		return err
	}
	f.store.life.leave(in)
	defer f.store.DropRetired() // whatever becomes of the look
	for looks := (seglog.Looks{}); ; {
		if err = f.catchUp(); !errors.Is(err, seglog.ErrBehind) && !errors.Is(err, seglog.ErrCorrupt) {
			return err
		}
		if !looks.Again(err) {
			break
		}
	}
	if errors.Is(err, seglog.ErrBehind) {
		return f.beginAnew()
	}
	return err
}

// catchUp is one look.
func (f *follower) catchUp() error {
	t := f.tailer
	m, err := t.Look(f.alone)
	if m == nil || err != nil {
		return err
	}
	if err := t.Advance(m); err != nil {
		return err
	}
	if err := f.replace(m); err != nil {
		return err
	}
	return t.Settle(m)
}

func (f *follower) alone(change func()) {
	f.store.exclude()
	defer f.store.admit()
	change()
}

// apply is replay beside readers.
func (f *follower) apply(e seglog.Record, a seglog.Address) error {
	s := f.store
	switch {
	case e.Kind == record.Schema:
		s.schemaMu.Lock()
		defer s.schemaMu.Unlock()
		return s.replaySchema(e, a)
	case e.Op == record.Part:
		return nil
	case e.Kind == record.System, e.Op == record.Range, s.spaces[e.Space] == nil: // which only we change
		s.exclude()
		defer s.admit()
		if e.Op == record.Range {
			s.dropCells()
		}
		return s.replay(e, a)
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	t := s.spaces[e.Space].route(e.Kind, e.Key)
	hash := t.hash(e.Key)
	mu := s.lockOf(hash)
	mu.Lock()
	defer mu.Unlock()
	t.forgetLocked(hash, e.Key)
	return s.replay(e, a)
}

// applyAll is apply for the members of a group, which show at once.
func (f *follower) applyAll(members []seglog.Member) error {
	s := f.store
	for _, m := range members {
		if entry := m.Op == record.Set || m.Op == record.Delete; !entry || m.Kind == record.Schema || m.Kind == record.System || s.spaces[m.Space] == nil {
			return f.applyAlone(members)
		}
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	var shards shardSet
	for _, m := range members {
		shards.add(s.spaces[m.Space].route(m.Kind, m.Key).hash(m.Key))
	}
	shards.each(func(n int) { s.keys[n].Lock() })
	defer shards.each(func(n int) { s.keys[n].Unlock() })
	shards.each(func(n int) { s.showing[n].Add(1) })
	defer shards.each(func(n int) { s.showing[n].Add(^uint32(0)) })
	for _, m := range members {
		t := s.spaces[m.Space].route(m.Kind, m.Key)
		t.forgetLocked(t.hash(m.Key), m.Key)
		if err := s.replay(m.Record, m.Address); err != nil {
			return err
		}
	}
	return nil
}

// applyAlone is applyAll for members that are more than changes of entries, while everybody else waits.
func (f *follower) applyAlone(members []seglog.Member) error {
	s := f.store
	s.exclude()
	defer s.admit()
	s.dropCells()
	s.schemaMu.Lock()
	defer s.schemaMu.Unlock()
	for _, m := range members {
		if err := s.replay(m.Record, m.Address); err != nil {
			return err
		}
	}
	return nil
}

// forgetLocked drops the cell of a key, of which another process has written.
func (t *Table) forgetLocked(hash uint64, key []byte) {
	if c := t.cells.Load(); c != nil {
		if cell := c.table.Find(hash, view(key[t.prefix:])); cell != nil {
			c.table.Swap(hash, cell, nil)
		}
	}
}

// dropCells drops all cells. The caller excludes all others.
func (s *Store) dropCells() {
	for _, c := range *s.attached.Load() {
		for n := range cache.Shards {
			var list []*cache.Cell
			c.table.Each(n, func(cell *cache.Cell) { list = append(list, cell) })
			for _, cell := range list {
				c.table.Swap(s.Hash(cell.Key()), cell, nil)
			}
		}
	}
}
