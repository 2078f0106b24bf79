package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Range deletions.
//
// A range deletion is one record: it deletes all older entries whose keys are in its range, however
// many. These keys are found before any lock is taken, by a look at all keys, or only at those of
// the range if they are kept in order. A view that was opened before has the keys that come or go
// meanwhile. Then the locks of all keys are taken for as long as it takes to append the record and
// to hand each lock a list of the keys that it guards. The next holder of a lock with such a list
// removes these keys first (keyLock.Lock). So no holder of a lock sees an entry that a range
// deletion in the log has deleted, and no lock is held for longer than its own share takes. Readers
// without a lock see the raised counters of showing (shows.go), from before the locks are given
// back.
//
// In a group a range deletion counts before the group's other writes, and is appended with the last
// of them. So all records before it in the log are older, and none after it is. A member of a group
// that was written ahead, and whose key is in the range of a deletion that was appended since, is
// written again with the commit (together.go).
type Range = keyrange.Range

// tablesOf returns the tables of a key space that may have keys of a range: a single one, if all its keys are
// of one map. The caller is inside the gate, or alone.
func (sp *space) tablesOf(r *Range) []*Table {
	first, _ := r.Deletion()
	if t := sp.route(record.Value, first); t != sp.raw && t.hasEndOf(r) {
		return []*Table{t}
	}
	return seglog.Without(sp.tables(), func(t *Table) bool { return !r.Meets(t.prefixBytes()) })
}

// hasEndOf reports whether a range that begins in a map's keys ends in them, too.
func (t *Table) hasEndOf(r *Range) bool {
	if len(r.Prefix) >= t.prefix {
		return true
	}
	return r.Span.High != nil && bytes.Compare(r.Span.High, t.keys.High) <= 0
}

// spanOf returns a range as a span of the table's sort keys; ok is false if it is none in that order.
func (t *Table) spanOf(r *Range, by keycodec.Order) (sp Span, ok bool) {
	switch p := t.prefixBytes(); {
	case bytes.HasPrefix(p, r.Prefix) && r.All():
		return Span{}, true
	case by.IsBytes() && r.By.IsBytes():
		w := scan{span: r.Sorts()}
		return w.ownSpan(t), true
	default:
		return r.Span, by == r.By && bytes.Equal(p, r.Prefix)
	}
}

// checkRange returns an error for a bound that no key can have.
func checkRange(r *Range) error {
	first, _ := r.Deletion()
	for _, bound := range [][]byte{first, r.Until()} {
		if err := (&Write{Key: bound}).check(); err != nil {
			return err
		}
	}
	return nil
}

// DeleteRange deletes all entries of a range, as one write. Errors are those of Write; if an entry is damaged,
// and so may be in the range, nothing is deleted.
func (s *Store) DeleteRange(r Range, d Durability) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	if err := errors.Join(s.transactions.allow(), s.queues.allowRange(&r)); err != nil {
		return err
	}
	if err := checkRange(&r); err != nil {
		return err
	}
	if r.None() {
		return s.isOpen()
	}
	return s.deleteRanges(&together{store: s, ranges: []Range{r}}, d)
}

// ErrMapOpen is the error of a Drop of a map that has cells.
var ErrMapOpen = errors.New("copal: the map is open")

// Drop deletes all entries of a map, and the record that declares it. An open map is refused, with ErrMapOpen.
func (s *Store) Drop(name string) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	if err := s.transactions.allow(); err != nil {
		return err
	}
	in, err := s.use()
	if err != nil {
		return err
	}
	t := s.spaces[0].maps[string(keycodec.AppendName(nil, name))]
	s.life.leave(in)
	if t == nil || t.isGone() {
		return nil
	}
	return s.deleteRanges(&together{store: s, ranges: []Range{keyrange.Prefix(t.prefixBytes())}, drops: t}, Process)
}

// deleteRanges commits a group with range deletions, beside a view of its own.
func (s *Store) deleteRanges(g *together, d Durability) error {
	v, err := s.OpenView()
	if err != nil {
		return err
	}
	defer v.Close()
	g.view = v
	seq, err := s.commitAll(g)
	if err != nil || d != Power {
		return err
	}
	return s.log.SyncTo(seq)
}

// undeclare forgets the options of a map in the log. The caller holds the locks of all keys, or is recovery.
func (t *Table) undeclare() {
	t.inLog.Store(nil)
	t.opened.Store(false)
	t.keysWere.Store(nil)
	t.asked.Store(false)
	if o := t.order.Swap(nil); o != nil {
		o.close()
	}
}

// DeleteRange is Store.DeleteRange in the transaction. Writes of others in the range before the commit are
// deleted as well, and are no conflict.
func (tx *Tx) DeleteRange(r Range) error {
	switch {
	case tx.done.Load():
		return ErrTxDone
	case tx.readOnly:
		return ErrTxReadOnly
	case r.None():
		return nil
	}
	if err := checkRange(&r); err != nil {
		return err
	}
	for _, key := range sortedNames(tx.writes) {
		if c := tx.writes[key]; !c.Delete && r.Has(c.Key) {
			tx.put(&Change{Table: c.Table, Write: Write{Key: c.Key, Delete: true, Cells: c.Cells}})
		}
	}
	tx.ranges = append(tx.ranges, r)
	return nil
}

// hasRange reports whether a key is in one of the ranges.
func hasRange(list []Range, key []byte) bool {
	for i := range list {
		if list[i].Has(key) {
			return true
		}
	}
	return false
}

// ranged are the range deletions that were appended while members of a group were written ahead.
type ranged struct {
	ahead atomic.Int32 // groups whose members are in the log, and whose commit is not
	list  []rangedAt   // written with the locks of all keys held, and read with one held
}

type rangedAt struct {
	Range
	record *seglog.Pending
}

// noteLocked notes a range deletion that is about to be appended. No group that begins to write ahead from now
// on has a member before those that are noted already.
func (x *ranged) noteLocked(r Range, p *seglog.Pending) {
	if x.ahead.Load() == 0 {
		x.list = nil
	}
	x.list = append(x.list, rangedAt{r, p})
}

// behindLocked reports whether a range deletion with a record's key is later than it, or about to be appended.
func (x *ranged) behindLocked(p *seglog.Pending) bool {
	for i := range x.list {
		if r := &x.list[i]; (r.record.Seq == 0 || p.Seq < r.record.Seq) && p.Kind != record.Element && r.Has(p.Key) {
			return true
		}
	}
	return false
}

// deletedKeys are entries that range deletions delete, by their locks.
type deletedKeys [cache.Shards][]byte

// add notes an entry: the length of its whole key, the key, and the fields of its record.
func (d *deletedKeys) add(hash uint64, key []byte, at *hit) {
	list := &d[hash%cache.Shards]
	b := append(binary.AppendUvarint(*list, uint64(len(key))), key...)
	for _, n := range [...]uint64{uint64(at.address), uint64(at.bytes), at.schema, at.expiry} {
		b = binary.AppendUvarint(b, n)
	}
	*list = b
}

// removal lists the entries that a lock of keys has yet to remove. The lock names it by an interface, so programs
// that delete no range do not contain it.
type removal struct {
	store  *Store
	shard  int
	seq    uint64 // by which the deletion counts
	keys   []byte // in the form of deletedKeys
	failed *atomic.Bool
}

// Lock locks, and removes the entries that a range deletion has deleted.
func (l *keyLock) Lock() {
	l.Mutex.Lock()
	if d := l.due; d != nil {
		l.due = nil
		d.removeLocked()
	}
}

// removeLocked removes the entries. It reads only those that have moved since they were found. A read that
// fails then is final, as memory would still show deleted entries.
func (d *removal) removeLocked() {
	s := d.store
	defer s.showing.end(uint64(d.shard))
	rest := d.keys
	next := func() uint64 {
		n, size := binary.Uvarint(rest)
		rest = rest[size:]
		return n
	}
	for len(rest) > 0 {
		n := next()
		key := rest[:n]
		rest = rest[n:]
		at := hit{address: seglog.Address(next()), bytes: int64(next()), schema: next(), expiry: next()}
		t := s.spaces[0].route(record.Value, key)
		var now state
		err := s.foundLocked(&now, t, key, at)
		switch {
		case err != nil:
			d.failed.Store(true)
			s.log.Fail(fmt.Errorf("deleting a range of keys: %w", err))
		case now.address == 0:
			now.swap(nil)
		default:
			s.enterLocked(t, &now, &Write{Key: key, Delete: true}, nil, d.seq)
		}
	}
}

// foundLocked is lookLocked for an entry whose record was at a known place a moment ago. If its deadline has
// passed since, the range deletion removes it, with its number: a view opened after that must not see the entry
// expire after it was deleted.
func (s *Store) foundLocked(now *state, t *Table, key []byte, at hit) error {
	hash, own, cells := t.hash(key), t.ownOf(key), t.cells.Load()
	if cells == nil || cells.table.Find(hash, own) == nil {
		if still, err := t.index.Has(hash, at.address); still && err == nil {
			*now = state{hash: hash, own: own, cells: cells, hit: at}
			return nil
		}
	}
	return s.lookLocked(now, t, hash, key)
}

// gather finds the keys that the range deletions of a group delete, except those that the group writes itself.
// The caller holds no lock.
func (g *together) gather() error {
	if len(g.ranges) == 0 {
		return nil
	}
	g.generation = g.store.Generation()
	g.writes = make(map[string]bool, len(g.changes))
	for _, c := range g.changes {
		g.writes[view(c.Key)] = true
	}
	g.deleted = new(deletedKeys)
	for i := range g.ranges {
		if err := g.gatherRange(&g.ranges[i]); err != nil {
			return err
		}
	}
	g.take()
	rangesGathered()
	return nil
}

// take charges the memory of the gathered keys to the budget of the cells.
func (g *together) take() {
	bytes := int64(0)
	if g.deleted != nil {
		for _, keys := range g.deleted {
			bytes += int64(cap(keys))
		}
	}
	g.store.budget.Leave(bytes - g.taken)
	g.taken = bytes
}

func (g *together) gatherRange(r *Range) error {
	var tables []*Table
	if err := g.store.Inside(func() error { tables = g.store.spaces[0].tablesOf(r); return nil }); err != nil {
		return err
	}
	for _, t := range tables {
		err := t.keysOf(r, func(key []byte, at hit, err error) error {
			if err == nil {
				g.delete(t, key, &at)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *together) delete(t *Table, key []byte, at *hit) {
	if !g.writes[view(key)] {
		g.deleted.add(t.hash(key), key, at)
	}
}

// gatherLocked writes the ends of expired entries, and adds the keys that have changed since the group's view
// was opened, and the dirty ones in memory. The caller holds all locks.
func (g *together) gatherLocked() (err error) {
	if err = g.store.payAllLocked(); err != nil {
		return err
	}
	for _, t := range g.store.spaces[0].tables() {
		var key []byte
		c := t.cells.Load()
		add := func(own string) {
			key = append(append(key[:0], t.prefixBytes()...), own...)
			if err != nil || !hasRange(g.ranges, key) {
				return
			}
			var now state
			if err = g.store.stateLocked(&now, t, t.hash(key), key); err == nil && (now.address != 0 || now.cell != nil) {
				g.delete(t, key, &now.hit)
			}
		}
		for n := range cache.Shards {
			sh, names := t.versionShard(n), []string(nil)
			sh.since(g.view, func(f *former) bool { names = append(names, sh.own(f)); return true })
			if c != nil {
				for _, d := range c.table.DirtyIn(n) {
					names = append(names, d.Cell.Key())
				}
			}
			for _, own := range names { // not during the loop over the lists, which change when one has expired
				add(own)
			}
		}
	}
	return err
}

// rangesGathered is called when the keys of range deletions are known, before the locks are taken, and
// rangesHandedOver when the locks have been given back, but the keys have not been removed. They are variables
// for tests.
var rangesGathered, rangesHandedOver = func() {}, func() {}

// beginRangesLocked hands each lock the entries to remove. The caller holds all of them.
func (g *together) beginRangesLocked(seq uint64) {
	for n, keys := range g.deleted {
		if len(keys) > 0 {
			g.store.showing[n].Add(1)
			g.store.keys[n].due = &removal{g.store, n, seq, keys, &g.failed}
		}
	}
}

// keysOf calls f with the whole keys of the table that are in a range, each once if it does not come or go
// meanwhile, and with the error of an entry that is damaged. Keys that only memory has are not among them. The
// caller holds no lock.
func (t *Table) keysOf(r *Range, f func(key []byte, at hit, err error) error) error {
	if o := t.order.Load(); o != nil {
		if span, ok := t.spanOf(r, o.by); ok && !span.Unbounded() {
			if keys := t.store.keptKeys(t, o.by, span, false); keys != nil { // the order may just have been dropped
				return t.orderedKeysOf(keys, o.by, f)
			}
		}
	}
	for n := range index.Shards {
		err := t.eachKey(n, func(key []byte, at hit, err error) error {
			if err == nil && !r.Has(key) {
				return nil
			}
			return f(key, at, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orderedKeysOf is keysOf for keys that are kept in order. It reads their places from the index, so that their
// removal reads only records.
func (t *Table) orderedKeysOf(keys *orderedCursor, by keycodec.Order, f func(key []byte, at hit, err error) error) error {
	defer keys.close()
	whole := bytes.Clone(t.prefixBytes())
	for keys.Next() {
		var err error
		if whole, err = by.AppendKey(whole[:t.prefix], keys.Key()); err != nil {
			continue // the file was forged
		}
		var h hit
		if err = t.store.Inside(func() (err error) { h, err = t.find(t.hash(whole), whole); return err }); err == nil && h.address == 0 {
			continue
		}
		if err != nil && !errors.Is(err, seglog.ErrCorrupt) {
			return err
		}
		if err := f(whole, h, err); err != nil {
			return err
		}
	}
	return keys.Err()
}
