package engine

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/goid"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A transaction reads a view, and keeps its writes to itself until it commits. It is optimistic:
// nothing waits for it, and at its end it checks whether it is as if it had run then, alone:
//
//  1. Lock the keys that were read or are written, in ascending order; after an iteration, all shards.
//  2. Check whether any key that was read, found or not, or that an iteration passed or would have passed, has
//     changed since the view was opened, and whether any entry that was read has expired. If so, f runs again.
//  3. Append the writes, as a group, and let them show (together.go).
//
// The order of the commits is the serial one: all that a transaction has read is unchanged at its commit. A key that
// is written and was not read is not checked. A transaction that writes nothing has read a state that existed.
//
// After three conflicts a transaction gets the turn: no other commits until it is through. After eight, plain writers
// wait as well. The turn is taken before all locks, so only the function's own goroutine could wait for itself: from
// within a function, writes by other means are refused with ErrNested.
//
// A change of a collection by a single call is a transaction, too, which is not optimistic: it
// holds the locks from the beginning (collectionwrite.go).
type Tx struct {
	store    *Store
	view     *View
	locked   *lockedKey // instead of a view: it sees the present, which no other writer changes
	readOnly bool
	done     atomic.Bool

	writes   map[string]*Change // by whole key
	elements map[string]*Change // of collections
	created  uint64             // collections
	bytes    int64              // of the writes
	copied   Arena              // keys and values of writes
	spare    []Change           // room for writes
	reads    map[string]bool    // whole keys
	parts    map[string]bool    // keys of elements that were read
	members  map[uint64]bool    // collections whose list of elements it has read
	above    *layers            // elements that it has changed, above those that it reads; nil before they are needed
	scans    []scanned
	required []required
	ranges   []Range             // deleted before its writes
	marked   map[sortedBy]*marks // of writes, for walks in order
	first    uint64              // of the deadlines of entries that were read, 0 for none
	under    *seglog.Parts       // the parts of large values that it has written; nil if there are none
	lost     error               // the error of a part that has not been written
	failed   error               // of a read that could not return it, or of a write: there is no commit then

	Counts uint64 // the number of the writes, once they are committed; 0 if no record was written
	Takes  Takes  // for reads in the transaction, nil if it allows all
}

var (
	// ErrTxDone is the error of using a transaction after the end of its function.
	ErrTxDone = errors.New("copal: the transaction has ended")
	// ErrTxReadOnly is the error of a write in a transaction that only reads.
	ErrTxReadOnly = errors.New("copal: the transaction only reads")
)

const (
	turnAfter  = 3 // conflicts
	aloneAfter = 8
)

// transactions has the state of the transactions whose functions run.
type transactions struct {
	turn  sync.RWMutex // held to commit; exclusively by a transaction that must succeed. Taken before all other locks
	n     atomic.Int32 // their number, so that a plain write need not look when there is none
	alone atomic.Bool  // plain writers wait

	mu      sync.Mutex // a leaf
	through *sync.Cond // of mu: alone has become false
	running map[uint64]bool
}

func (x *transactions) init() {
	x.running = map[uint64]bool{}
	x.through = sync.NewCond(&x.mu)
}

// enter notes that this goroutine is in a transaction. A second one is an error.
func (x *transactions) enter() (leave func(), err error) {
	id := goid.Get()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running[id] {
		return nil, ErrNested
	}
	x.running[id] = true
	x.n.Add(1)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.running, id)
		x.n.Add(-1)
	}, nil
}

// allow refuses a write by other means from within a transaction, and makes other writes wait while a
// transaction must be alone. The caller holds no lock.
func (x *transactions) allow() error {
	if x.n.Load() == 0 {
		return nil
	}
	id := goid.Get()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running[id] {
		return ErrNested
	}
	for x.alone.Load() {
		x.through.Wait()
	}
	return nil
}

// urge lets a transaction that has failed so often get through. The caller calls yield afterwards.
func (x *transactions) urge(conflicts int) (yield func()) {
	if conflicts < turnAfter {
		return func() {}
	}
	x.turn.Lock()
	if conflicts >= aloneAfter {
		x.alone.Store(true)
	}
	return func() {
		x.mu.Lock()
		x.alone.Store(false)
		x.mu.Unlock()
		x.through.Broadcast()
		x.turn.Unlock()
	}
}

// allow refuses a write to a key that the same goroutine is updating, or any from within its transaction.
func (s *Store) allow(key []byte) error {
	if err := s.transactions.allow(); err != nil {
		return err
	}
	return s.allowKey(key)
}

// allowKey refuses a write to a key that the same goroutine is updating.
func (s *Store) allowKey(key []byte) error { return s.queues.allow(subject{key: view(key)}) }

// Transact calls f with a transaction, and commits its writes, all or nothing, as if everything had
// happened at one moment. f may be called several times, and the last call counts; its error, or a
// panic, ends the transaction without effect. Durability is Process or Power. The error is f's, or
// one of Write.
func (s *Store) Transact(d Durability, f func(*Tx) error) error {
	if s.opts.ReadOnly {
		return s.refuse(seglog.ErrReadOnly)
	}
	leave, err := s.transactions.enter()
	if err != nil {
		return err
	}
	defer leave()
	seq, err := s.tryTransaction(0, f)
	for conflicts := 1; err == errConflict; conflicts++ {
		seq, err = s.tryTransaction(conflicts, f)
	}
	if err != nil || d != Power {
		return err
	}
	return s.log.SyncTo(seq)
}

// tryTransaction returns the number up to which the log must be synced to make the outcome durable.
func (s *Store) tryTransaction(conflicts int, f func(*Tx) error) (uint64, error) {
	defer s.transactions.urge(conflicts)()
	tx, err := s.beginTx(false)
	if err != nil {
		return 0, err
	}
	defer tx.end()
	if err := f(tx); err != nil {
		return 0, err
	}
	return tx.commit(conflicts >= turnAfter)
}

// Look calls f with a transaction that only reads: it sees one moment.
func (s *Store) Look(f func(*Tx) error) error {
	tx, err := s.beginTx(true)
	if err != nil {
		return err
	}
	defer tx.end()
	if err := f(tx); err != nil {
		return err
	}
	return tx.failed
}

func (s *Store) beginTx(readOnly bool) (*Tx, error) {
	v, err := s.OpenView()
	if err != nil {
		return nil, err
	}
	return &Tx{store: s, view: v, readOnly: readOnly}, nil
}

func (tx *Tx) end() {
	if !tx.done.Swap(true) {
		if tx.view != nil {
			tx.view.Close()
		}
		tx.store.budget.Leave(-tx.bytes)
		if tx.under != nil {
			tx.store.EndParts(tx.under, tx.lost)
		}
	}
}

// Fail keeps the transaction from committing, because of an error that a read could not return. It
// reports false if the transaction has already ended.
func (tx *Tx) Fail(err error) bool {
	if tx.done.Load() {
		return false
	}
	if tx.failed == nil {
		tx.failed = err
	}
	return true
}

// Get returns the entry of key, from table t or, when t is nil, from where the key belongs: the transaction's
// own write, or else the entry at its beginning. The caller does not change the bytes. The error is ErrNotFound
// when there is none.
func (tx *Tx) Get(t *Table, key []byte) (Entry, error) {
	if !tx.done.Load() && tx.writes[view(key)] == nil {
		tx.noteRead(key)
	}
	return tx.look(t, key)
}

// look is Get without noting the read.
func (tx *Tx) look(t *Table, key []byte) (Entry, error) {
	if tx.done.Load() {
		return Entry{}, ErrTxDone
	}
	if c := tx.writes[view(key)]; c != nil {
		return tx.own(c)
	}
	beneath := tx.beneath()
	e, err := beneath.get(t, key)
	tx.noteDeadline(e.expiry) // also of a collection, which is no value
	return e, err
}

// ViewRecord calls fn with the record of key's entry, in the sense of Get. The caller does not change the bytes. For
// a large value the record has the list of the parts. A write of the transaction itself has no number.
func (tx *Tx) ViewRecord(key []byte, fn func(e *seglog.Record) error) error {
	if tx.done.Load() {
		return ErrTxDone
	}
	var e seglog.Record
	switch c := tx.writes[view(key)]; {
	case c == nil:
		tx.noteRead(key)
		beneath := tx.beneath()
		in, err := beneath.use()
		if err != nil {
			return err
		}
		e, err = beneath.value(key)
		beneath.leave(in)
		tx.noteDeadline(e.Expiry)
		if err != nil {
			return err
		}
	case c.Delete:
		return ErrNotFound
	case c.collection != nil:
		return c.collection.isNoValue(c.Key)
	default:
		e = seglog.Record{Head: record.Head{Op: record.Set, Schema: c.Schema, Type: c.Type, Expiry: c.Expiry, Large: c.Listed}, Key: key, Value: c.Value}
	}
	return fn(&e)
}

// Owner returns the store of the transaction.
func (tx *Tx) Owner() *Store { return tx.store }

// Written returns the number of the record of the transaction's write of key, once it has committed; 0 if it has not
// written the key.
func (tx *Tx) Written(key []byte) uint64 {
	if c := tx.writes[view(key)]; c != nil {
		return c.seq
	}
	return 0
}

// DeadlineOf returns the deadline of key's entry, a value or a collection, in the sense of Get; 0 for none.
func (tx *Tx) DeadlineOf(t *Table, key []byte) (uint64, error) {
	c := tx.writes[view(key)]
	switch {
	case tx.done.Load():
		return 0, ErrTxDone
	case c != nil && c.Delete:
		return 0, ErrNotFound
	case c != nil && c.collection != nil:
		return c.collection.deadline, nil
	case c != nil:
		return c.Expiry, nil
	}
	tx.noteRead(key)
	beneath := tx.beneath()
	deadline, err := beneath.deadline(t, key)
	tx.noteDeadline(deadline)
	return deadline, err
}

// Expiry returns the deadline of the entry, 0 for none.
func (e *Entry) Expiry() uint64 { return e.expiry }

// own returns the entry of the transaction's own change.
func (tx *Tx) own(c *Change) (e Entry, err error) {
	switch {
	case c.Delete:
		return Entry{}, ErrNotFound
	case c.collection != nil:
		return Entry{}, c.collection.isNoValue(c.Key)
	}
	e = Entry{Value: c.Value, Schema: c.Schema, Type: c.Type, hit: hit{expiry: c.Expiry}}
	if c.Listed == 0 {
		return e, nil
	}
	if tx.Takes != nil {
		if err := tx.Takes(int64(c.Listed)); err != nil {
			return Entry{}, err
		}
	}
	in, err := tx.store.use()
	if err != nil {
		return Entry{}, err
	}
	defer tx.store.life.leave(in)
	e.Value, err = seglog.ReadParts(tx.store.log, seglog.Record{Head: record.Head{Large: c.Listed}, Key: c.Key, Value: c.Value})
	return e, err
}

// Has reports whether there is an entry under key, in the sense of Get.
func (tx *Tx) Has(t *Table, key []byte) (bool, error) {
	_, err := tx.Get(t, key)
	if err == ErrNotFound {
		return false, nil
	}
	if IsCollection(err) {
		return true, nil
	}
	return err == nil, err
}

func (tx *Tx) noteRead(key []byte) {
	if tx.readOnly || tx.locked != nil {
		return
	}
	if tx.reads == nil {
		tx.reads = map[string]bool{}
	}
	if !tx.reads[view(key)] {
		tx.reads[string(key)] = true
	}
}

func (tx *Tx) noteDeadline(deadline uint64) {
	if deadline != 0 && (tx.first == 0 || deadline < tx.first) {
		tx.first = deadline
	}
}

// Write takes a write into the transaction. Key and value are copied; the cell and the other fields of w become
// the transaction's.
func (tx *Tx) Write(t *Table, w *Write) error {
	if tx.done.Load() {
		return ErrTxDone
	}
	if tx.readOnly {
		return ErrTxReadOnly
	}
	if err := w.check(); err != nil {
		return err
	}
	c := Change{Table: t, Write: *w}
	c.Own = ""
	old := tx.writes[view(w.Key)]
	copied := tx.copied.Copy
	if old != nil { // the replaced one goes
		c.Key, c.taken, copied = old.Key, old.taken, bytes.Clone
	} else {
		c.Key = copied(w.Key)
	}
	if len(tx.writes) >= cellsOfTx {
		c.Cell, c.Cost = nil, 0
	}
	if len(w.Value) <= seglog.PartBytes {
		c.Value = copied(w.Value)
	} else if err := tx.setAside(&c); err != nil {
		return err
	}
	if old == nil {
		if len(tx.spare) == cap(tx.spare) {
			tx.spare = make([]Change, 0, min(len(tx.writes)/8+1, 64))
		}
		tx.spare = append(tx.spare, c)
		old = &tx.spare[len(tx.spare)-1]
	}
	*old = c
	tx.put(old)
	return nil
}

// cellsOfTx is the number of writes of a transaction that leave a decoded value in memory. More are a bulk
// load, which is not read at once.
const cellsOfTx = 4096

// setAside writes the parts of a large value to the log at once, where they do not count until the transaction
// commits. Memory keeps the list.
func (tx *Tx) setAside(c *Change) error {
	s := tx.store
	if tx.under == nil {
		tx.under = s.log.BeginParts()
	}
	s.pace()
	p := seglog.Pending{Key: c.Key}
	if err := s.recordOfWrite(&p, &c.Write); err != nil {
		tx.lost = err
		return err
	}
	c.Listed, c.Value, c.Cell, c.Cost = p.Large, p.Value, nil, 0
	return nil
}

// memory returns the approximate memory of a change.
func (c *Change) memory() int64 {
	return int64(len(c.Key)+len(c.Value)+c.Cost) + 300
}

// Delete removes the entry of key, and reports whether there was one.
func (tx *Tx) Delete(t *Table, c *Cells, key []byte) (existed bool, err error) {
	if tx.readOnly {
		return false, ErrTxReadOnly
	}
	if existed, err = tx.Has(t, key); err != nil || !existed {
		return existed, err
	}
	return true, tx.Write(t, &Write{Key: key, Delete: true, Cells: c})
}

// Items yields each entry of the table as Get would, exactly once and in no order, with values except for
// collections. A write of the transaction meanwhile shows in an entry that has not been yielded yet; a new
// entry may or may not show.
func (tx *Tx) Items(t *Table, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		tx.noteScan(scanned{sortedBy: sortedBy{table: t}})
		tx.items(t, values, yield)
	}
}

// noteScan notes the range of an iteration, and reports whether it did.
func (tx *Tx) noteScan(what scanned) bool {
	if !tx.readOnly && (what.span != nil || !slices.Contains(tx.scans, what)) {
		tx.scans = append(tx.scans, what)
	}
	return !tx.readOnly
}

func (tx *Tx) items(t *Table, values bool, yield func(Item) bool) {
	if tx.done.Load() {
		yield(Item{Err: ErrTxDone})
		return
	}
	own := tx.ownKeys(t)
	mine := map[string]bool{}
	for _, key := range own {
		mine[string(key)] = true
	}
	for item := range tx.view.Items(t, values) {
		if item.Err == nil && (mine[string(item.Key)] || hasRange(tx.ranges, item.Key)) {
			continue
		}
		if item.Err == nil {
			tx.noteDeadline(item.expiry)
		}
		if c := tx.writes[string(item.Key)]; item.Err == nil && c != nil {
			if item.Entry, item.Err = tx.own(c); item.Err == ErrNotFound {
				continue
			}
		}
		if IsCollection(item.Err) { // which is left out if values are wanted
			if values {
				continue
			}
			item.Err = nil
		}
		if !yield(item) {
			return
		}
	}
	for _, key := range own {
		e, err := tx.own(tx.writes[string(key)])
		if IsCollection(err) && !values {
			err = nil
		}
		if err == nil && !yield(Item{Key: bytes.Clone(key), Entry: e}) {
			return
		}
	}
}

// ownKeys returns the keys of the table that the transaction has written.
func (tx *Tx) ownKeys(t *Table) (keys [][]byte) {
	in, err := tx.store.use()
	if err != nil {
		return nil // as in the view
	}
	defer tx.store.life.leave(in)
	for _, c := range tx.writes {
		if tx.store.spaces[0].route(c.kind(), c.Key) == t {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// Len returns the number of entries of the table.
func (tx *Tx) Len(t *Table) (n int, err error) {
	for item := range tx.Items(t, false) {
		if item.Err != nil {
			return 0, item.Err
		}
		n++
	}
	return n, nil
}

// commit returns the number up to which the log must be synced to make its reads and writes durable.
func (tx *Tx) commit(turn bool) (uint64, error) {
	if tx.failed != nil {
		return 0, tx.failed
	}
	s := tx.store
	if len(tx.writes) == 0 && len(tx.ranges) == 0 {
		return tx.view.seq, s.log.Failure()
	}
	var elements *Table
	some, created := tx.collections()
	if some {
		var err error
		if elements, err = s.elements(); err != nil {
			return 0, err
		}
	}
	if created {
		if !turn { // before birth
			s.transactions.turn.RLock()
			defer s.transactions.turn.RUnlock()
			turn = true
		}
		s.sweeper.birth.Lock()
		defer s.sweeper.birth.Unlock()
	}
	return s.commitAll(&together{store: s, changes: tx.changes(elements, s.log.Last()+1), ranges: tx.ranges, view: tx.view, tx: tx, turn: turn})
}

// addShards adds the shards of all keys that were read. The caller is inside the gate.
func (tx *Tx) addShards(shards *shardSet) {
	if len(tx.scans) > 0 {
		shards.addAll()
		return
	}
	for key := range tx.reads {
		shards.add(tx.tableOf(key).hash([]byte(key)))
	}
	elements := tx.store.spaces[0].elements
	for key := range tx.parts {
		shards.add(elements.hash([]byte(key)))
	}
	for id := range tx.members {
		shards.add(elements.hash(collection.OwnerKey(id)))
	}
	for i := range tx.required {
		tx.required[i].addShards(tx.store, shards)
	}
}

// validateLocked returns errConflict if an entry that was read has changed. The caller holds the locks.
func (tx *Tx) validateLocked() error {
	if err := tx.view.failure(); err != nil {
		return err
	}
	for i := range tx.required {
		if err := tx.required[i].checkLocked(tx.store); err != nil {
			return err
		}
	}
	if tx.store.Expired(tx.first) {
		return errConflict
	}
	for key := range tx.reads {
		t := tx.tableOf(key)
		if tx.view.changedLocked(t, t.hash([]byte(key)), key[t.prefix:]) {
			return errConflict
		}
	}
	elements := tx.store.spaces[0].elements
	for key := range tx.parts {
		if tx.view.changedLocked(elements, elements.hash([]byte(key)), key) {
			return errConflict
		}
	}
	for id := range tx.members {
		if tx.view.membersChangedLocked(elements, id) {
			return errConflict
		}
	}
	for _, what := range tx.scans {
		if tx.scanChangedLocked(what) {
			return errConflict
		}
	}
	return nil
}

// tableOf returns the table of a key. The caller is inside the gate.
func (tx *Tx) tableOf(key string) *Table {
	return tx.store.spaces[0].route(record.Value, []byte(key))
}
