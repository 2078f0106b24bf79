package engine

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/vfs"
)

// An order that the log or its index names rests until a walk needs it (docs/design/rooms.md): the files of its runs
// are open and unread, and the keys that come and go are listed. The first walk wakes it.

// tableOrder is the order of a table's keys.
type tableOrder struct {
	table *Table
	by    keycodec.Order
	asked atomic.Bool // for good; set by ask, and never taken back
	keptOrder
}

// keptOrder is implemented by an order at rest and by an order at work. Types that every program has name this type and
// not the other two: the linker keeps the methods of each type that such a type leads to.
type keptOrder interface {
	mark(own string, gone bool, seq uint64) // a key comes or goes; the caller holds its lock, or is alone
	ask() (ok bool)                         // makes it one that stays, unless it is closed
	persist() (*checkpoint.Order, error)    // for an index whose entries have been copied
	addRuns(ids map[uint64]bool)            // whose files it needs
	memory() int64
	reset(built bool) // for a caller that has emptied the table or put its contents back, and excludes all others
	endKept()         // lets go of the layers of views
	close()
}

// resting is an order at rest.
type resting struct {
	tableOrder

	mu     sync.Mutex        // taken before ordering.mu; guards what follows
	saved  *checkpoint.Order // in the index; nil for an order that was empty
	files  []vfs.File        // of the runs
	marks  []byte            // since: the length of a key, twice, with 1 for one that has gone, and the key
	count  int               // of marks
	built  bool              // saved and marks make the order; else it is sorted when it is needed
	closed bool
	awake  keptOrder // at work, which has taken its place; nil while it rests
}

// rest gives a table an order that rests. The caller is recovery, or replays.
func (t *Table) rest(by keycodec.Order, saved *checkpoint.Order, built bool) *resting {
	r := &resting{tableOrder: tableOrder{table: t, by: by}, built: built}
	if r.keptOrder = r; built {
		r.saved = saved
	}
	r.asked.Store(true)
	t.store.orders.any.Store(true)
	if old := t.order.Swap(&r.tableOrder); old != nil {
		old.close()
	}
	return r
}

// attachOrder gives a table the order that the index names.
func (f *snapshotFile) attachOrder(t *Table, x *checkpoint.Table) {
	s := f.store
	by, ok := keycodec.OrderNamed(x.Order.By)
	if !ok {
		return // of a later version
	}
	r := t.rest(by, x.Order, x.Order.Built && (len(x.Due) == 0 || s.now() >= x.Order.Clock))
	for r.built && len(r.files) < len(x.Order.Runs) {
		file, err := s.log.FS.Open(filepath.Join(s.log.Dir, orderName(x.Order.Runs[len(r.files)])), vfs.ReadOnly)
		if err == nil {
			r.files = append(r.files, file)
			continue
		}
		if s.opts.Until == nil || !errors.Is(err, fs.ErrNotExist) { // runs stay for the last index alone
			s.log.ReportRebuilt(err)
		}
		r.forgetLocked(false)
	}
}

func (r *resting) mark(own string, gone bool, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awake != nil {
		r.awake.mark(own, gone, seq)
	} else if r.built {
		r.markLocked(own, gone)
	}
}

func (r *resting) markLocked(own string, gone bool) {
	if r.count++; r.count > r.table.index.Len()+FoldMarks { // sorting the keys costs less
		r.forgetLocked(false)
		return
	}
	had, n := cap(r.marks), uint64(len(own))<<1
	if gone {
		n++
	}
	r.marks = append(binary.AppendUvarint(r.marks, n), own...)
	r.table.store.budget.Leave(int64(cap(r.marks) - had))
}

// forgetLocked lets go of the runs and the marks.
func (r *resting) forgetLocked(built bool) {
	for _, f := range r.files {
		f.Close() // it was only read
	}
	r.table.store.budget.Leave(-int64(cap(r.marks)))
	r.built, r.saved, r.files, r.marks, r.count = built, nil, nil, nil, 0
}

func (r *resting) ask() (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed // an order at rest stays
}

// persist names the runs of the index before, if no key has come or gone since. A program without the code of the
// layers cannot make others: then the order is made when it is next needed.
func (r *resting) persist() (*checkpoint.Order, error) {
	r.mu.Lock()
	x, awake := &checkpoint.Order{By: r.by.Name(), Built: r.built && !r.closed}, r.awake
	if r.saved != nil {
		x.Clock, x.Runs = r.saved.Clock, r.saved.Runs
	}
	changed := r.count > 0
	r.mu.Unlock()
	switch tended := r.table.store.orders.tended.Load(); {
	case awake != nil:
		return awake.persist()
	case !changed || !x.Built:
		return x, nil
	case tended != nil:
		return tended.wake(r).persist()
	}
	return &checkpoint.Order{By: x.By}, nil
}

func (r *resting) addRuns(ids map[uint64]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.saved != nil {
		for _, id := range r.saved.Runs {
			ids[id] = true
		}
	}
}

func (r *resting) memory() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(cap(r.marks))
}

func (r *resting) reset(built bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(built)
}

func (r *resting) endKept() {}

func (r *resting) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(false)
	r.closed = true
}

// tending is the work of the engine that some verb of the program must ask for.
type tending struct {
	wake  func(r *resting) keptOrder
	sweep func(s *Store) error
}

// Tend has the store keep orders in files and sweep collections, although no verb has needed an order yet. It is
// for programs that change entries of whatever kind.
func (s *Store) Tend() {
	if s.orders.tended.Load() == nil && s.orders.tended.CompareAndSwap(nil, &tending{func(r *resting) keptOrder { return r.wake() }, (*Store).Sweep}) {
		s.sweeper.wake()
	}
}

// ordering returns the order of the table's keys, at work; nil for none.
func (t *Table) ordering() *ordering {
	if o := t.order.Load(); o != nil {
		return o.atWork()
	}
	return nil
}

// atWork wakes an order that rests: then the caller holds no lock of a key.
func (o *tableOrder) atWork() *ordering {
	if r, rests := o.keptOrder.(*resting); rests {
		return r.wake()
	}
	return o.keptOrder.(*ordering)
}

// wake returns the order at work that takes the place of r.
func (r *resting) wake() *ordering {
	t := r.table
	t.store.Tend()
	t.store.beginFolding()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awake != nil {
		return r.awake.(*ordering)
	}
	o := newOrdering(t, r.by, false)
	o.asked.Store(true)
	if r.built && r.open(o) {
		for marks := r.marks; len(marks) > 0; {
			n, used := binary.Uvarint(marks)
			end := used + int(n>>1)
			o.mark(string(marks[used:end]), n&1 == 1, 0) // the runs may have what the log says later
			marks = marks[end:]
		}
		o.mu.Lock()
		o.built = true
		o.mu.Unlock()
	}
	r.forgetLocked(false)
	if r.closed {
		o.close()
	}
	r.awake = o
	t.order.CompareAndSwap(&r.tableOrder, &o.tableOrder)
	return o
}

// open reads the runs, unless one is damaged.
func (r *resting) open(o *ordering) (ok bool) {
	var runs []*orderRun
	for i, file := range r.files {
		id := r.saved.Runs[i]
		size, err := file.Size()
		var run *order.Run
		if err == nil {
			run, err = order.Open(file, size, r.table.store.log.StoreID, id)
		}
		if err != nil {
			l := r.table.store.log
			l.ReportRebuilt(checkpoint.AsDamage(filepath.Join(l.Dir, orderName(id)), 0, err))
			return false
		}
		runs = append(runs, &orderRun{Run: run, file: file, id: id, refs: 1})
	}
	o.attach(runs)
	r.files = nil
	return true
}
