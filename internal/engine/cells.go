package engine

import (
	"errors"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keyhash"
	"github.com/copaldb/copal/internal/seglog"
)

// The cells are the entries of an open map in memory, beside the log.
//
// A cell is in one of three states:
//
//   - clean: the log has all of it, and it can be evicted;
//   - dirty: an asynchronous write that is not in the log yet;
//   - in memory alone: it decorates an entry of the log with another value.
//
// The state of a key changes only under its lock, under which the index is changed, too:
//
//   - Set and Delete of any durability replace the cell or take it away. So the next synchronous write of its
//     key removes a dirty cell, which can never land after it.
//   - A value read from the log is published only if the index still has its address. So no reader brings
//     back a value that a writer has replaced.
//   - The index has an entry for each key that the log has. Where a cell knows the record, the index may have
//     an older one of the same key, and gets the new address when the cell goes. It is asked only for keys
//     without a cell, and by iterations, which then ask the cell.
//   - A flush (flush.go) appends dirty cells, many at a time, and makes them clean.
//
// The number of entries is the number in the index, plus one for each entry in cells that the log does not
// have, less one for each deletion that it does not have. An entry that moves from the cells to the log is in
// both for a moment; see counted.

// Cells are the values in memory of one open map.
type Cells struct {
	owner  *Table
	seed   keyhash.Seed
	table  *cache.Table
	budget *cache.Budget
	values Values
	work   *cellWork
}

// cellWork has the functions for cells that are called by code of every program. Only Attach names them, so programs
// that open no map do not contain them.
type cellWork struct {
	swap     func(c *Cells, hash uint64, old, cell *cache.Cell)              // Cells.swap
	flush    func(s *Store, c *Cells, shard int, all *flushed)               // flushNextLocked
	look     func(t *Table, c *Cells, hash, now uint64) []error              // lookAtCellsLocked
	knows    func(c *Cells, hash uint64, a seglog.Address) bool              // Cells.knows
	farewell func(*Store, *Table, *state, *seglog.Record) (*farewell, error) // farewellTo
	expire   func(now *state, s *Store, f *farewell, tells bool) error       // deleteExpiredLocked
}

var workOnCells = cellWork{(*Cells).swap, (*Store).flushNextLocked, (*Table).lookAtCellsLocked, (*Cells).knows, (*Store).farewellTo, (*state).deleteExpiredLocked}

// Values are the functions of a map for the values in its cells.
type Values struct {
	// Encode appends the encoded value of a cell that holds it, and returns it with its schema number.
	Encode func(dst []byte, c *cache.Cell) ([]byte, uint64, error)
	// Copy returns another cell with only the value of one that holds it.
	Copy func(c *cache.Cell) *cache.Cell
	// Expired is called with each expired entry, by the goroutine that removes them and without any lock. It
	// may be nil.
	Expired func(key []byte, e Entry)
	// Keys is the name of the order of the map's keys, which the next write to the map puts into
	// the log, unless it has a name there; "" if they have none.
	Keys string
}

// settle enters the address of a cell's record in the index.
func (t *Table) settle(c *cache.Cell) {
	t.index.Replace(t.store.Hash(c.Key()), c.Stale, c.Address, uint64(c.Schema), uint64(c.Schema))
}

// Find returns the cell of a key, or nil. It takes no lock.
func (c *Cells) Find(hash uint64, own string) *cache.Cell {
	c.owner.store.await(hash)
	return c.table.Find(hash, own)
}

// Hash is Store.Hash.
func (c *Cells) Hash(own string) uint64 { return c.seed.String(own) }

// cellsBytes is the memory of cells before there is one.
const cellsBytes = int64(unsafe.Sizeof(Cells{}) + unsafe.Sizeof(cache.Table{}))

// Attach gives the table of a map that was opened its cells. The caller calls it once.
func (s *Store) Attach(t *Table, values Values) *Cells {
	c := &Cells{owner: t, seed: s.seed, table: cache.New(&s.budget, s.Hash, t.settle), budget: &s.budget, values: values, work: &workOnCells}
	t.opened.Store(true) // again: it may have been dropped since its table was returned
	t.cells.Store(c)
	s.cellsMu.Lock()
	defer s.cellsMu.Unlock()
	list := append([]*Cells(nil), *s.attached.Load()...)
	list = append(list, c)
	s.attached.Store(&list)
	s.budget.Leave(cellsBytes)
	return c
}

// Detach writes the dirty cells to the log and takes all cells away. After an error, they
// are gone nevertheless, with the writes that the log has not taken.
func (s *Store) Detach(c *Cells) error {
	var last flushed
	for n := range cache.Shards {
		mu := &s.keys[n]
		mu.Lock()
		if !s.closed { // else Close has done that
			s.endShardLocked(c, n, &last)
		}
		mu.Unlock()
	}
	c.owner.cells.CompareAndSwap(c, nil)
	s.forget(c)
	s.budget.Leave(-cellsBytes)
	return last.err()
}

func (s *Store) forget(c *Cells) {
	s.cellsMu.Lock()
	defer s.cellsMu.Unlock()
	var list []*Cells
	for _, other := range *s.attached.Load() {
		if other != c {
			list = append(list, other)
		}
	}
	s.attached.Store(&list)
}

// postponeLocked makes the write an asynchronous one: the cell is dirty.
func (s *Store) postponeLocked(now *state, w *Write, p *seglog.Pending) error {
	if now.cells == nil || now.cells.table.Closed(now.hash) {
		return seglog.ErrClosed
	}
	if err := s.log.Failure(); err != nil {
		return err
	}
	t, old := now.cells.owner, now.expiry
	switch {
	case w.Delete && now.address == 0:
		now.swap(nil)
		return nil
	case w.Delete && now.cell != nil && now.cell.Absent && now.cell.Dirty:
		return nil
	case !s.mayWait(now):
		return s.writeNowLocked(now, w, p)
	case w.Delete:
		w.Cell = &cache.Cell{Absent: true}
	}
	w.Cell.Dirty, w.Cell.Expiry = true, w.Expiry
	now.refer(w.Cell)
	now.setKey(w)
	t.expect(now.hash, old, w.Expiry) // before the cell can be found: a reader that has seen it, and counts after its deadline, must not count it
	now.swap(w.Cell)
	if now.schema == metaSchema {
		s.sweeper.gone.Add(1)
	}
	if !w.Delete && !w.Later {
		now.cells.table.Encode(now.hash, w.Cell, &cache.Encoded{Value: append([]byte{}, w.Value...), Schema: w.Schema})
	}
	s.log.Touched()
	if s.budget.Over() { // then it does not wait. On a full disk it does: the next one is refused
		f := s.flushLocked(now.cells, int(now.hash%cache.Shards))
		return f.lostOf(w.Cell)
	}
	return nil
}

// errInMemory is the error of a deletion in memory, which could mean the decorated value or the entry.
var errInMemory = errors.New("copal: an entry of the log cannot be deleted in memory only")

// rememberLocked decorates the entry that the log has with the write's value, until the entry is written again.
// A dirty cell goes to the log before it, since that write was acknowledged as one for the log.
func (s *Store) rememberLocked(now *state, w *Write) error {
	if now.cells == nil || now.cells.table.Closed(now.hash) {
		return seglog.ErrClosed
	}
	if err := s.logLocked(now, now.cells.owner, w.Key); err != nil {
		return err
	}
	switch {
	case now.address == 0:
		return ErrNotFound
	case w.Delete:
		return errInMemory
	case now.schema == metaSchema:
		e, err := s.readAt(now.address, nil)
		return errOr(err, isValue(&e))
	}
	w.Cell.Memory, w.Cell.Expiry = true, now.expiry
	now.refer(w.Cell)
	now.setKey(w)
	now.swap(w.Cell)
	return nil
}

// relieve evicts cells until they are within the budget, if possible. It begins with the shards
// that it has not visited for the longest time.
func (s *Store) relieve() {
	for _, c := range *s.attached.Load() {
		for range cache.Shards {
			if !s.budget.Over() || s.budget.Evictable() <= 0 {
				return
			}
			shard := int(s.turn.Add(1) % cache.Shards)
			if c.table.Empty(shard) {
				continue
			}
			mu := &s.keys[shard]
			mu.Lock()
			c.table.Evict(shard)
			mu.Unlock()
		}
	}
}

// Publish makes a cell with a value read from the log visible to readers, unless the key has been
// written meanwhile. cost is as in Write.
func (s *Store) Publish(c *Cells, hash uint64, key []byte, e *Entry, cell *cache.Cell, cost int) {
	now := state{hash: hash, own: view(key[c.owner.prefix:]), cells: c}
	mu := s.lockOf(hash)
	mu.Lock()
	now.cell = c.table.Find(hash, now.own)
	if current := e.current(c, &now); !current {
		mu.Unlock()
		return
	}
	w := Write{Schema: e.Schema, Cell: cell, Cost: cost}
	if cell = now.fill(&w); cell != nil {
		cell.Expiry = e.expiry
		if now.hit = e.hit; now.cell != nil {
			now.hit = hitOfCell(now.cell)
		}
		now.refer(cell)
		now.swap(cell)
	}
	mu.Unlock()
	if s.budget.Over() {
		s.relieve()
	}
}

// current reports whether the record that was read is still its key's, and memory has no other.
func (e *Entry) current(c *Cells, now *state) bool {
	if now.cell != nil {
		return !(now.cell.Holds || now.cell.Dirty || now.cell.Memory || now.cell.Address != e.address)
	}
	has, err := c.owner.index.Has(now.hash, e.address)
	return has && err == nil
}

// Admits reports whether a value that was read should get a cell.
func (c *Cells) Admits(hash uint64, cost int) bool { return c.budget.Admit(hash, cost) }
