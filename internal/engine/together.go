package engine

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Writes to several entries count together: in the log they are a group, and in memory they show at
// once.
//
// The writer holds the locks of all their keys while the group is appended and the entries change.
// The locks are taken in ascending order, so no two writers wait for each other. Readers that take
// no lock look at a counter for each shard of keys, raised before the first of the entries changes
// and lowered after the last: a reader that finds it raised waits for the lock of its key once. So
// a reader that has seen one of the changes sees all of them, as the counters of the others were
// raised before that one showed.
//
// A group that is too large for one append is written ahead, before any lock is taken. Under the
// locks only the commit is written, and once more each record that another one of the same key has
// overtaken meanwhile. If the caller holds the locks from the beginning (locked), all of it is
// written under them.
type together struct {
	store   *Store
	changes []*Change
	members []member // one for each change, while it commits
	ranges  []Range  // deleted before the changes are made
	view    *View    // that was open before the keys of the ranges were looked for; nil where there are none
	drops   *Table   // a map to undeclare, nil for none
	tx      *Tx      // that writes them, nil for none: it may prevent the commit
	turn    bool     // the caller has the turn of the transactions
	locked  bool     // the caller holds the locks, is inside the gate, and has waited for the transactions
	shards  shardSet // to be locked; those of the changes are added

	writes     map[string]bool // the keys of the changes, where there are ranges
	deleted    *deletedKeys    // those of the ranges
	generation int             // of the store, when these were gathered
	taken      int64           // memory of these
	failed     atomic.Bool     // some of them could not be removed

	ahead    bool // the members are in the log
	appended bool // the outcome is
	group    seglog.Group
	under    *seglog.Parts // the parts of large values; nil if there are none
}

// Change is one of several writes that count together.
type Change struct {
	Table *Table // or nil: where the key belongs
	Write        // its durability is the durability of all of them

	known *state // the entry, if it was looked at under locks that the caller has held since
	seq   uint64 // of the record, when it counts

	collection *txCollection // of a transaction, that has changed it
	taken      int64         // memory, by put
	existed    bool          // of an element, before the transaction
	keeps      bool          // of a meta: the collection outlives the present record
}

// member is a change that is being committed. It is made only then, as many changes wait in memory.
type member struct {
	*Change
	table *Table
	hash  uint64
	now   state
	p     seglog.Pending
	told  bool // the outcome is known: there was no entry, and is none
}

// members has lists for small groups, for reuse.
var members = sync.Pool{New: func() any { return new([]member) }}

const mostMembers = 256 // in a list that is kept

func takeMembers(n int) []member {
	if n > mostMembers {
		return make([]member, n)
	}
	return slices.Grow(*members.Get().(*[]member), n)[:n]
}

func giveMembers(list []member) {
	if n := cap(list); n > 0 && n <= 2*mostMembers {
		clear(list)
		list = list[:0]
		members.Put(&list)
	}
}

// defaultGroupBytes is the most that is appended at once.
const defaultGroupBytes = 1 << 20

// shardSet is a set of shards of keys.
type shardSet [cache.Shards / 64]uint64

func (m *shardSet) add(hash uint64) {
	n := hash % cache.Shards
	m[n/64] |= 1 << (n % 64)
}

// addAll adds all shards.
func (m *shardSet) addAll() {
	for i := range m {
		m[i] = ^uint64(0)
	}
}

// each calls f with the numbers, in ascending order.
func (m *shardSet) each(f func(n int)) {
	for i, w := range m {
		for ; w != 0; w &= w - 1 {
			f(64*i + bits.TrailingZeros64(w))
		}
	}
}

// WriteAll makes all the changes or, with an error, none, unless it is a *FailedError: then that is not known.
// There is no more than one for each key. Durability is Process or Power; Cells and Cell of each change are as
// in Write.
func (s *Store) WriteAll(changes []*Change, d Durability) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	seq, err := s.commitAll(&together{store: s, changes: changes})
	if err != nil || d != Power {
		return err
	}
	return s.log.SyncTo(seq)
}

// commitAll commits the changes. It returns the number up to which the log must be synced to make them durable.
func (s *Store) commitAll(g *together) (seq uint64, err error) {
	s.pace()
	defer func() { g.finish(err) }()
	if err := g.check(); err != nil {
		return 0, err
	}
	if err := g.prepare(); err != nil {
		return 0, err
	}
	if err := g.gather(); err != nil {
		return 0, err
	}
	if g.tx != nil && !g.turn {
		s.transactions.turn.RLock()
		defer s.transactions.turn.RUnlock()
	}
	in, err := g.use()
	if err != nil {
		return 0, err
	}
	seq, err = g.lockAndCommit()
	if err == nil {
		err = g.sweep()
	}
	s.life.leave(in)
	if s.budget.Over() {
		s.relieve()
	}
	return seq, err
}

// use enters the gate with the keys of the ranges, which have been gathered.
func (g *together) use() (pass, error) {
	for {
		in, err := g.store.useForWrite()
		if err != nil || len(g.ranges) == 0 || len(g.store.spaces[0].maps) == g.generation {
			return in, err
		}
		g.store.life.leave(in) // a map was declared meanwhile, and its keys have other locks than before
		if err := g.gather(); err != nil {
			return 0, err
		}
	}
}

// check returns the reason why not all changes can be made.
func (g *together) check() error {
	s := g.store
	allow := s.allow
	if g.tx != nil || g.locked {
		allow = s.allowKey
	}
	for _, c := range g.changes {
		if err := c.check(); err != nil {
			return err
		}
		if c.Kind != record.Element { // the updates of elements are known elsewhere
			if err := allow(c.Key); err != nil {
				return err
			}
		}
		if len(c.Value) > seglog.PartBytes && g.under == nil {
			g.under = s.log.BeginParts()
		}
	}
	return nil
}

// finish ends the group. The caller holds no lock any more.
func (g *together) finish(err error) {
	g.group.End()
	giveMembers(g.members)
	g.members = nil
	g.store.budget.Leave(-g.taken)
	if g.ahead {
		g.store.ranged.ahead.Add(-1)
	}
	if g.under != nil {
		g.store.EndParts(g.under, err)
	}
}

// prepare makes the records, and writes them ahead if they are too large for one append: large values in parts,
// and many records.
func (g *together) prepare() error {
	s := g.store
	reserve, appendPart := s.reserve, s.appendPart
	if g.locked {
		reserve, appendPart = s.log.Reserve, s.log.AppendOne
	}
	g.group.Log = s.log
	bytes := int64(0)
	g.members = takeMembers(len(g.changes))
	for i := range g.members {
		c := &g.members[i]
		c.Change = g.changes[i]
		c.p = seglog.Pending{Key: c.Key}
		if c.fill(&c.p) {
			if err := s.appendParts(&c.p, reserve, appendPart); err != nil {
				return err
			}
		}
		bytes += estimate(&c.p)
	}
	most := s.opts.GroupBytes
	if bytes <= most {
		return nil
	}
	if err := reserve(bytes); err != nil {
		return err
	}
	g.ahead = true
	s.ranged.ahead.Add(1)
	var batch []*seglog.Pending
	bytes = 0
	for i := range g.members {
		c := &g.members[i]
		batch = append(batch, &c.p)
		if bytes += estimate(&c.p); bytes >= most/4 {
			if err := g.writeAhead(batch); err != nil {
				return err
			}
			batch, bytes = batch[:0], 0
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return g.writeAhead(batch)
}

// estimate returns the approximate length of the record.
func estimate(p *seglog.Pending) int64 { return int64(len(p.Key)+len(p.Value)) + 64 }

// writeAhead is an operation of its own: a waiter for life need not wait for the whole group.
func (g *together) writeAhead(recs []*seglog.Pending) error {
	if g.locked {
		return g.group.Ahead(recs...)
	}
	in, err := g.store.useForWrite()
	if err != nil {
		return err
	}
	defer g.store.life.leave(in)
	return g.group.Ahead(recs...)
}

// lockAndCommit locks the keys and commits. The caller is inside the gate, so no map is declared.
func (g *together) lockAndCommit() (uint64, error) {
	s := g.store
	g.route()
	for i := range g.members {
		g.shards.add(g.members[i].hash)
	}
	if g.tx != nil {
		g.tx.addShards(&g.shards)
	}
	if len(g.ranges) > 0 {
		g.shards.addAll()
	}
	g.shards.each(func(n int) { s.keys[n].Lock() })
	defer g.shards.each(func(n int) { s.keys[n].Unlock() })
	return g.commitLocked()
}

// route finds the tables of the changes.
func (g *together) route() {
	for i := range g.members {
		c := &g.members[i]
		if c.table = c.Table; c.table == nil {
			c.table = g.store.spaces[0].route(c.kind(), c.Key)
		}
		c.hash = c.table.hash(c.Key)
	}
}

func (g *together) commitLocked() (uint64, error) {
	s := g.store
	if s.closed {
		return 0, seglog.ErrClosed
	}
	if g.drops != nil && g.drops.cells.Load() != nil {
		return 0, ErrMapOpen
	}
	if g.tx != nil {
		if err := g.tx.validateLocked(); err != nil {
			return 0, err
		}
	}
	if len(g.ranges) > 0 { // before the entries are examined, some of which may expire now
		if err := g.gatherLocked(); err != nil {
			return 0, err
		}
	}
	for i := range g.members {
		c := &g.members[i]
		if err := c.examineLocked(s); err != nil {
			return 0, err
		}
	}
	seq, err := g.appendLocked()
	if err != nil {
		return 0, err
	}
	if len(g.ranges) > 0 {
		g.beginRangesLocked(seq)
	}
	if g.drops != nil {
		g.drops.undeclare()
	}
	var changing shardSet
	for i := range g.members {
		changing.add(g.members[i].hash)
	}
	changing.each(func(n int) { s.showing[n].Add(1) })
	for i := range g.members {
		if i > 0 {
			PartShown()
		}
		g.members[i].showLocked(s, seq)
	}
	changing.each(func(n int) { s.showing[n].Add(^uint32(0)) })
	if g.appended {
		s.log.Shown.Add(1)
		if g.tx != nil {
			g.tx.Counts = seq
		}
	}
	return seq, nil
}

// sweep removes the entries that the range deletions have left to the locks.
func (g *together) sweep() error {
	if len(g.ranges) == 0 {
		return nil
	}
	rangesHandedOver()
	for n, keys := range g.deleted {
		if len(keys) > 0 {
			passThrough(&g.store.keys[n])
		}
	}
	if g.failed.Load() {
		return g.store.log.Failure()
	}
	return nil
}

// PartShown is called when only some changes of a group show. It is a variable for tests of other packages.
var PartShown = func() {}

// examineLocked reads the present state of the entry.
func (c *member) examineLocked(s *Store) error {
	w := &c.Write
	if c.known != nil {
		c.now = *c.known
	} else if err := s.stateLocked(&c.now, c.table, c.hash, c.Key); err != nil && !s.replaceable(&c.now, w, err) {
		return err
	}
	if w.Cells != nil && w.Cells != c.now.cells { // the present cells have values of another type
		return seglog.ErrClosed
	}
	c.told = w.Delete && c.now.address == 0
	c.now.kept = c.keeps
	return nil
}

// appendLocked appends the records that are not in the log yet. It returns the number by which they count.
func (g *together) appendLocked() (uint64, error) {
	s := g.store
	var recs []*seglog.Pending
	for _, r := range g.ranges {
		key, value := r.Deletion()
		p := seglog.Pending{Head: record.Head{Op: record.Range, Kind: record.Value}, Key: key, Value: value}
		recs = append(recs, &p)
		s.ranged.noteLocked(r, &p)
	}
	if g.drops != nil {
		recs = append(recs, &seglog.Pending{Head: record.Head{Op: record.Delete, Kind: record.System}, Key: []byte(mapPrefix + g.drops.name)})
	}
	for i := range g.members {
		c := &g.members[i]
		if c.told {
			continue
		}
		if err := s.declareFor(c.table); err != nil {
			return 0, err
		}
		if !g.ahead || c.overtaken(s) {
			recs = append(recs, &c.p)
		}
	}
	g.appended = g.ahead || len(recs) > 0
	switch {
	case g.ahead || len(recs) > 1:
		return g.group.Commit(recs...)
	case len(recs) == 1: // a single record is no group
		recs[0].Shows = true
		err := s.log.Append(recs[0])
		return recs[0].Seq, err
	}
	return s.log.Last(), s.log.Failure()
}

// overtaken reports whether the record that was written ahead must be written again. The one ahead is dead then.
func (c *member) overtaken(s *Store) bool {
	if !c.replacesLater(s) && !s.ranged.behindLocked(&c.p) {
		return false
	}
	slot, _ := seglog.SplitAddress(c.p.Address)
	s.log.Segment(slot).Dead.Add(int64(c.p.Bytes) - seglog.DeadAtOnce(&c.p.Head, c.p.Bytes))
	return true
}

// replacesLater reports whether the entry has a record after the one that was written ahead: compaction relies
// on each record being after the one that it replaces.
func (c *member) replacesLater(s *Store) bool {
	if c.now.address == 0 {
		return false
	}
	slot, offset := seglog.SplitAddress(c.now.address)
	_, ahead := seglog.SplitAddress(c.p.Address)
	now := s.log.Segment(slot).ID
	return now > c.p.Segment || now == c.p.Segment && offset >= ahead
}

// showLocked enters a change with this number in index and cells.
func (c *member) showLocked(s *Store, seq uint64) {
	if c.told {
		c.now.swap(nil)
		return
	}
	c.seq = c.p.Seq
	s.enterLocked(c.table, &c.now, &c.Write, &c.p, seq)
}
