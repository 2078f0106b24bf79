package engine

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/seglog"
)

// An ordered table has its keys in order, beside the index: as a stack of layers (see package
// order), of sort keys.
//
//   - A key that comes or goes is one mark in the tree at the top, made under the lock of the key,
//     before the index is changed. An overwrite makes no mark.
//   - When the tree has many marks it is folded. Together with the small run below it becomes
//     another small run, or, when that would be an eighth of the base, a new base. The folded
//     layers do not change, so nothing waits for that.
//   - Runs are files where the store is written to, and in memory elsewhere. They are derived: the
//     index snapshot names them, and a file without a name there does not count.
//   - An order that is lost, or was never made, is built from the keys of the index when it is
//     first needed, while writes go on: their marks are above it. Until then all marks are in the
//     tree.
//
// A reader takes the current stack. So it sees each key that stays throughout once, and has to look
// up the entry of the key.
//
// An option asks for a permanent order (asked). Any other begins with a walk and is dropped when no
// more walks come (passing.go): only this process has it, and no file.
type ordering struct {
	table *Table
	by    keycodec.Order

	asked atomic.Bool // permanent; set with mu held, and never cleared

	building sync.Mutex // one builds at a time; taken before work
	work     sync.Mutex // one changes the runs at a time; taken before mu

	mu     sync.Mutex // taken before views.mu alone; guards the fields below
	layers            // the present ones
	built  bool       // or else there are keys of which no layer knows
	closed bool       // the table has another order, or the store is closed; it is not built any more, either

	kept  []*keptLayers // former layers, for views; the oldest first
	since uint64        // number of the newest view that was opened before the order was made, and has nothing here

	generation int // raised when keys of which the layers knew are forgotten: runs sorted before no longer count

	told atomic.Bool // that it is time to fold

	left   int    // keys that may come or go before the next walk, or else the order is dropped; unused if asked
	walked uint64 // when the last walk began, counted in walks
}

// layers are the keys of a table in order at one moment, the newest layer first. They are guarded by ordering.mu.
type layers struct {
	tree   *order.Tree
	frozen *order.Tree // of it, while it is being folded
	small  *orderRun   // of marks that the base does not have yet; nil for none
	base   *orderRun   // of all keys; nil for none
	gaps   order.Gaps  // in all of them together
	folds  int         // changes of the layers other than the tree
}

// orderRun is a run with a count of its users. The last of them closes its file, if it has one.
type orderRun struct {
	*order.Run
	file interface{ Close() error } // nil for one in memory
	id   uint64
	refs int // guarded by ordering.mu; 1 for being part of the stack
}

// FoldMarks is the number of marks at which a tree is folded. It is a variable for tests.
var FoldMarks = 64 << 10

func newOrdering(t *Table, by keycodec.Order, built bool) *ordering {
	return &ordering{table: t, by: by, layers: layers{tree: new(order.Tree)}, built: built, since: t.store.views.opened.Load()}
}

// mark notes a key that comes or goes with the record of number seq. The caller holds the lock of the key, or
// is alone.
func (o *ordering) mark(own string, gone bool, seq uint64) {
	var room [128]byte
	key := o.by.AppendSortKey(room[:0], own)
	o.mu.Lock()
	if o.closed { // the table has another by now
		o.mu.Unlock()
		return
	}
	if o.forgottenLocked() {
		o.mu.Unlock()
		return
	}
	before, copied := o.tree.Bytes(), o.tree.Copied()
	// While the log is read, the layers may be newer than the records.
	sure := o.built && !o.table.store.orders.inline
	if sure {
		o.keepLocked(key, gone, seq)
	}
	o.layers.mark(key, gone, sure)
	grown, marks := o.tree.Bytes()-before, o.tree.Len()
	o.chargeLocked(o.tree.Copied() - copied)
	o.mu.Unlock()
	if grown != 0 {
		o.table.store.budget.Leave(grown)
	}
	if marks >= FoldMarks {
		o.table.store.orders.due(o)
	}
}

// mark adds a mark of a key to the layers. They are sure if they show exactly the existing keys.
func (l *layers) mark(key []byte, gone, sure bool) {
	switch {
	case !sure:
		l.tree.Set(key, gone)
	case gone:
		l.tree.Went(key)
	default:
		l.tree.Came(key)
	}
	if gone {
		l.gaps = l.gaps.Join(key)
	} else {
		l.gaps = l.gaps.Cut(key)
	}
}

// mark adds a mark to the table's order, if any, for a key that comes or goes with the record of number seq.
func (t *Table) mark(own string, gone bool, seq uint64) {
	if o := t.order.Load(); o != nil {
		o.mark(own, gone, seq)
	}
}

// replayed marks a key whose record changes nothing in the index. The entries in a snapshot of the index were
// copied before their order was. So the order may have a key that was added to the index later, or lack one
// that went meanwhile and has come again.
func (s *orders) replayed(t *Table, own string, gone bool, seq uint64) {
	if s.inline {
		t.mark(own, gone, seq)
	}
}

// stack is an ordering at one moment, read without a lock. Its holder releases it.
type stack struct {
	ordering *ordering
	of       *layers
	folds    int // of them, when the stack was taken
	layers   []order.Layer
	runs     []*orderRun
	gaps     order.Gaps
}

// view returns the stack, which is built first if need be.
func (o *ordering) view() (*stack, error) {
	for {
		if st, err := o.tryView(); st != nil || err != nil {
			return st, err
		}
		if err := o.build(); err != nil {
			return nil, err
		}
	}
}

// errExchanged is the error of a walk over an order that the table no longer has.
var errExchanged = errors.New("copal: the keys are not kept in this order any more")

// tryView is view, but returns nil for an order that is not built yet.
func (o *ordering) tryView() (*stack, error) {
	o.mu.Lock()
	closed, built := o.closed, o.built
	var st *stack
	if built {
		o.walkedLocked()
		st = o.stackLocked(&o.layers)
	}
	o.mu.Unlock()
	if closed {
		return nil, o.gone()
	}
	return st, nil
}

// gone returns the reason why an order is closed.
func (o *ordering) gone() error { return cmp.Or(o.table.store.isOpen(), errExchanged) }

// stackLocked returns the stack of the layers.
func (o *ordering) stackLocked(l *layers) *stack {
	st := &stack{ordering: o, of: l, folds: l.folds, gaps: l.gaps}
	for _, t := range []*order.Tree{l.tree, l.frozen} {
		if t != nil && t.Len() > 0 {
			st.layers = append(st.layers, t.Freeze())
		}
	}
	for _, r := range l.runs() {
		r.refs++
		st.layers, st.runs = append(st.layers, r), append(st.runs, r)
	}
	return st
}

func (l *layers) runs() (list []*orderRun) {
	for _, r := range []*orderRun{l.small, l.base} {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

func (st *stack) release() {
	o := st.ordering
	o.mu.Lock()
	done := releaseLocked(st.runs)
	o.mu.Unlock()
	o.closeRuns(done)
	st.runs = nil
}

// releaseLocked releases runs, and returns those that are no longer used.
func releaseLocked(runs []*orderRun) (done []*orderRun) {
	for _, r := range runs {
		if r.refs--; r.refs == 0 {
			done = append(done, r)
		}
	}
	return done
}

// learn notes that the stack shows none of the keys from low to high, of which so many have gone.
func (st *stack) learn(low, high []byte, keys int) {
	o, l := st.ordering, st.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.folds != st.folds {
		return
	}
	l.gaps = l.gaps.Add(low, high, keys, l.tree)
}

func (o *ordering) closeRuns(runs []*orderRun) {
	for _, r := range runs {
		if r.file != nil {
			r.file.Close() // it was only read since it was synced
		}
	}
}

// replaceLocked replaces the runs, and returns the old ones that are no longer used.
func (o *ordering) replaceLocked(small, base *orderRun) (done []*orderRun) {
	done = releaseLocked(seglog.Without(o.runs(), func(old *orderRun) bool { return old == small || old == base }))
	before := o.small.memory() + o.base.memory()
	o.small, o.base = small, base
	o.folds++
	o.table.store.budget.Leave(small.memory() + base.memory() - before)
	return done
}

// memory returns the approximate memory of a run, which may be nil.
func (r *orderRun) memory() int64 {
	switch {
	case r == nil:
		return 0
	case r.file == nil:
		return inMemory(r.Run)
	}
	return r.Memory()
}

// inMemory returns the approximate memory of a run without a file, which may be nil.
func inMemory(r *order.Run) int64 {
	if r == nil {
		return 0
	}
	return r.Bytes() + r.Memory()
}

// fold makes a run of the tree and the small run: a small one or, together with the base, a new base. If files
// is true, the run is a file. On an error nothing has changed. A run that cannot be read causes no error: the
// order is lost then, which has been reported.
func (o *ordering) fold(files bool) error {
	o.work.Lock()
	defer o.work.Unlock()
	return o.foldWorking(files, false)
}

// foldWorking is fold for a caller that holds work, and may want a new base in any case.
func (o *ordering) foldWorking(files, whole bool) error {
	o.mu.Lock()
	o.told.Store(false)
	kept := files && (o.base == nil || o.base.file != nil) && (o.small == nil || o.small.file != nil)
	if o.closed || o.tree.Len() == 0 && (kept || !files) && !whole {
		o.mu.Unlock()
		return nil
	}
	o.frozen, o.tree = o.tree, new(order.Tree)
	o.folds++
	st := o.stackLocked(&o.layers)
	small, base, built := o.small, o.base, o.built
	o.mu.Unlock()
	defer st.release()

	whole = built && (whole || foldsWhole(o.frozen, small, base, files))
	sure := whole || o.frozen.Sure() && (small == nil || small.Sure())
	layers := st.layers
	if !whole && base != nil {
		layers = layers[:len(layers)-1]
	}
	keys := order.Walk(layers, nil, false, !whole)
	run, err := o.table.store.makeRun(keys, files, sure)
	if err == nil {
		defer o.table.store.orders.settled(run.id) // when it is in its place
	}
	if err == nil && whole {
		small, base = nil, run
	} else if err == nil {
		small = run
	}
	if err != nil {
		o.unfreeze()
		if keys.Err() != nil { // the error is of the old runs
			o.loseWorking(keys.Err())
			return nil
		}
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.table.store.budget.Leave(-o.frozen.Bytes())
	o.chargeLocked(o.frozen.Bytes())
	o.frozen = nil
	if o.closed {
		run.refs = 0
		o.closeRuns([]*orderRun{run})
		return nil
	}
	o.closeRuns(o.replaceLocked(small, base))
	return nil
}

// foldsWhole reports whether a fold makes a new base.
func foldsWhole(frozen *order.Tree, small, base *orderRun, files bool) bool {
	if base == nil || files && base.file == nil {
		return true
	}
	marks := int64(frozen.Len())
	if small != nil {
		marks += small.Keys()
	}
	return marks > max(base.Keys()/8, int64(FoldMarks))
}

// unfreeze takes back the marks of a failed fold. Marks made since are newer.
func (o *ordering) unfreeze() {
	o.mu.Lock()
	defer o.mu.Unlock()
	newer := o.tree
	o.tree, o.frozen = o.frozen.Freeze(), nil
	o.folds++
	addMarks(o.tree, newer)
}

// addMarks makes marks of a tree in another, which are right whatever the layers below have.
func addMarks(to, from *order.Tree) {
	for c := from.Walk(nil, false); c.Next(); {
		to.Set(c.Key(), c.Gone())
	}
}

// lose forgets the runs, after an error of reading them. The order is built anew when needed.
func (o *ordering) lose(err error) {
	o.work.Lock()
	defer o.work.Unlock()
	o.mu.Lock()
	built := o.built
	o.mu.Unlock()
	if built { // or else another was here before
		o.loseWorking(err)
	}
}

// loseWorking is lose for a caller that holds work, and has seen the error there.
func (o *ordering) loseWorking(err error) {
	o.mu.Lock()
	closed := o.closed
	o.built = false
	newer := o.tree
	o.tree = new(order.Tree)
	addMarks(o.tree, newer)
	o.forgetLocked()
	o.mu.Unlock()
	if !closed {
		o.table.store.log.ReportRebuilt(err)
	}
}

// reset is for a caller that has emptied the table, or put its old contents back: then the order is
// not built. The caller excludes all others.
func (o *ordering) reset(built bool) {
	o.work.Lock()
	defer o.work.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.table.store.budget.Leave(-o.tree.Bytes())
	o.tree, o.built = new(order.Tree), built
	o.forgetLocked()
}

func (o *ordering) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeLocked()
}

func (o *ordering) closeLocked() {
	o.built, o.closed = false, true
	o.table.store.budget.Leave(-o.tree.Bytes())
	o.tree = new(order.Tree)
	o.forgetLocked()
}

// forgetLocked releases the runs and the layers kept for views.
func (o *ordering) forgetLocked() {
	o.generation++
	o.gaps = order.Gaps{}
	o.closeRuns(o.replaceLocked(nil, nil))
	o.endKeptLocked()
}

// memory returns the approximate bytes of the order.
func (o *ordering) memory() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tree.Bytes() + o.small.memory() + o.base.memory()
}

// buildBytes is the memory used to sort keys. It is a variable for tests.
var buildBytes = 32 << 20

// build makes the base of the keys in the index, unless it exists. The caller holds no lock, and is not inside
// the gate.
func (o *ordering) build() error {
	o.building.Lock()
	defer o.building.Unlock()
	for {
		o.mu.Lock()
		built, generation := o.built || o.closed, o.generation
		o.mu.Unlock()
		if built {
			return nil
		}
		o.table.store.PassKeys() // a writer that changes an entry from now on marks its key
		base, err := o.makeBase()
		if err != nil {
			return err
		}
		keysSorted()
		if err := o.putBase(base, generation); err != nil {
			return err
		}
		if !o.asked.Load() {
			o.table.store.fitPassing(o)
		}
	}
}

// keysSorted is called when a base has been made, and is not installed yet. It is a variable for tests.
var keysSorted = func() {}

// makeBase makes a run of all keys in the index, nil if it has none.
func (o *ordering) makeBase() (*orderRun, error) {
	runs, err := o.sortKeys()
	if err == errNotKept && o.letGo() {
		o.table.unkept.Store(o.table.store.log.Last() + 1)
		return nil, err
	}
	if err == errNotKept { // an option has asked for it meanwhile
		runs, err = o.sortKeys()
	}
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	if len(runs) > 1 {
		merged, err := order.InMemory(order.Walk(runs, nil, false, false), true)
		if err != nil {
			return nil, err
		}
		runs = []order.Layer{merged}
	}
	return &orderRun{Run: runs[0].(*order.Run), refs: 1}, nil
}

// putBase installs a base, unless the order has forgotten its layers since: the base may have keys then that
// went without a mark.
func (o *ordering) putBase(base *orderRun, generation int) error {
	o.work.Lock()
	defer o.work.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return o.gone()
	case o.generation == generation:
		o.closeRuns(o.replaceLocked(o.small, base))
		o.built = true
		o.endKeptLocked()
		o.walkedLocked()
	}
	return nil
}

// sortKeys makes runs in memory of all keys in the index. A damaged entry is reported and left out. For an
// order that no option asks for, errNotKept means that it is too large, or that a key cannot be read.
func (o *ordering) sortKeys() (runs []order.Layer, err error) {
	t, asked := o.table, o.asked.Load()
	room := buildBytes
	damaged := func(err error) error {
		t.store.log.ReportError("reading keys to put them in order", err)
		return nil
	}
	if !asked {
		room = t.store.passingBytes()
		damaged = func(error) error { return errNotKept } // each walk has to report it
	}
	sorter := order.NewSorter(room, false)
	var sortKey []byte
	end := func() error {
		if sorter.Len() == 0 {
			return nil
		}
		run, err := sorter.Layer()
		runs = append(runs, run)
		sorter = order.NewSorter(room, false)
		return err
	}
	for n := range index.Shards {
		err := t.eachKey(n, func(key []byte, _ hit, err error) error {
			if err != nil {
				return damaged(err)
			}
			sortKey = o.by.AppendSortKey(sortKey[:0], t.ownOf(key))
			if !asked && !sorter.Fits(sortKey) {
				return errNotKept
			}
			if !sorter.Fits(sortKey) {
				if err := end(); err != nil {
					return err
				}
			}
			sorter.Add(sortKey)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return runs, end()
}

// eachKey calls f with the key and place of each entry in a shard of the index, or the error of a damaged one.
func (t *Table) eachKey(shard int, f func(key []byte, at hit, err error) error) error {
	s := t.store
	var list []seglog.Address
	var pins seglog.Pinned
	err := s.Inside(func() (err error) {
		list, pins, err = t.listPart(nil, shard)
		return err
	})
	defer func() { pins.Unpin() }()
	if err != nil && !errors.Is(err, seglog.ErrCorrupt) {
		return err
	}
	if err != nil {
		if err := f(nil, hit{}, err); err != nil {
			return err
		}
	}
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	for _, a := range list {
		var e seglog.Record
		err := s.Inside(func() (err error) {
			e, err = s.readAt(a, *buf)
			return err
		})
		switch {
		case err != nil && !errors.Is(err, seglog.ErrCorrupt): // a later attempt may be able to read it
			return err
		case err != nil || len(e.Key) >= t.prefix:
			if err := f(e.Key, hitOf(a, &e.Head, e.Bytes), err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Order keeps the keys of a table in an order from now on. It returns when the order has been made.
func (s *Store) Order(t *Table, by keycodec.Order) error {
	if o := t.order.Load(); o != nil && o.by == by && o.asked.Load() {
		return o.build()
	}
	if err := s.isOpen(); err != nil {
		return err
	}
	return s.orderFor(t, by, true).build()
}

// orderFor returns the order of the table's keys, and makes it if it is missing. It is nil if no option asks
// for it, and the table has another that an option asks for.
func (s *Store) orderFor(t *Table, by keycodec.Order, asked bool) *ordering {
	defer s.beginFolding()
	s.orders.mu.Lock()
	defer s.orders.mu.Unlock()
	old := t.order.Load()
	switch {
	case old != nil && old.by == by && (!asked || old.ask()):
		return old
	case old != nil && old.asked.Load() && !asked:
		return nil
	}
	o := newOrdering(t, by, false)
	o.asked.Store(asked)
	if old := t.order.Swap(o); old != nil {
		old.close()
	}
	return o
}

// ask makes the order one that stays, unless it is closed.
func (o *ordering) ask() (ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.asked.Store(true)
	}
	return !o.closed
}

// RawTable returns the table of the keys that belong to no declared map.
func (s *Store) RawTable() *Table { return s.spaces[0].raw }

// KeepsOrder reports whether the keys of a table are permanently kept in an order.
func (s *Store) KeepsOrder(t *Table, by keycodec.Order) bool {
	o := t.order.Load()
	return o != nil && o.by == by && o.asked.Load()
}
