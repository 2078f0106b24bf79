package engine

import (
	"bytes"
	"iter"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/order"
	"github.com/copaldb/copal/internal/seglog"
)

// Walks over keys in order. There are two ways, with the same result. A table whose keys are kept in that
// order, as most are from their first walk on (passing.go), yields them one after the other. For any other
// table all keys are read and sorted in bounded memory; if they do not fit, the first of them are yielded and
// all are read again for the next.
//
// A walk is over the keys that existed at one moment or, if sorted, during each pass. So a key that stays
// throughout is yielded once, in its place. Its entry is looked up at its turn.

// keyCursor goes through the sort keys of a span.
type keyCursor interface {
	order.Cursor
	close()
}

// SortBytes is the memory used to sort the keys of one walk, for tests; 0 means as much as the store can spare.
var SortBytes = 0

// Each saved pass over all keys is worth more than the memory.
const (
	leastSortBytes = 32 << 20
	mostSortBytes  = 256 << 20
	sortShare      = 32 // the divisor of MaxMemory
)

func (s *Store) sortBytes() int {
	if SortBytes > 0 {
		return SortBytes
	}
	return int(min(max(s.opts.MaxMemory/sortShare, leastSortBytes), mostSortBytes))
}

// InOrder yields the entries of an open map whose sort keys are in the span, in that order, with the cells in
// memory as the map shows them. Key and value are valid until the next is yielded. Without values the entries
// are not read: they existed when the walk began, but may have expired since. Errors are as in Items.
//
//go:noinline
func (s *Store) InOrder(c *Cells, by keycodec.Order, span Span, values bool) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w := walker{store: s, table: c.owner, cells: c, by: by, span: span, values: values}
		w.walk(yield)
	}
}

// walker goes through one map.
type walker struct {
	store  *Store
	table  *Table
	cells  *Cells // nil if it is not open; then there are no values
	by     keycodec.Order
	span   Span
	values bool
	owed   bool // the table owed ends when the walk began

	key  []byte // whole
	buf  []byte
	stop bool
}

func (w *walker) walk(yield func(Item) bool) {
	w.owed = w.table.owes() // before the look at the order, from which paid entries are removed
	w.store.awaitAll()
	keys := w.keys(yield)
	defer keys.close()
	w.key = append(append(w.key, w.table.name...), ':')
	next := nearby{store: w.store}
	for next.gather(func() ([]byte, bool) { return w.next(keys) }) && !w.stop { // errors are yielded inside, too
		if w.values {
			next.bring(w.table)
		}
		for i := range next.keys {
			if item, ok := w.item(&next, i); ok && !yield(item) || item.Err == seglog.ErrClosed {
				return
			}
		}
	}
	if err := keys.Err(); err != nil && !w.stop {
		yield(Item{Err: err})
	}
}

// next returns the next key, whole.
func (w *walker) next(keys keyCursor) (key []byte, ok bool) {
	for keys.Next() && !w.stop {
		var err error
		if w.key, err = w.by.AppendKey(w.key[:w.table.prefix], keys.Key()); err == nil { // else the file was forged
			return w.key, true
		}
	}
	return nil, false
}

// keys returns the sort keys of the span: those that only memory has, and those in the log. Errors on the way
// are yielded.
func (w *walker) keys(yield func(Item) bool) keyCursor {
	var fresh order.Cursor
	var logged *orderedCursor
	if w.store.orderToWalk(w.table, w.by, !w.span.Once) != nil {
		if w.cells != nil {
			w.store.flush(w.cells) // failed writes are in memory
			fresh = w.fresh()
		}
		logged = w.store.keptKeys(w.table, w.by, w.span, !w.span.Once)
	}
	switch {
	case logged == nil:
		return sortedKeys(w.store.sortBytes(), w.span, func(first bool, f func([]byte) error) error { return w.each(first, f, yield) })
	case fresh == nil:
		return logged
	}
	return &mergedCursor{order.Merge([]order.Cursor{fresh, logged}, w.span.Down, false), []keyCursor{logged}}
}

// each passes on all keys of the map, in no order.
func (w *walker) each(first bool, f func([]byte) error, yield func(Item) bool) error {
	var sortKey []byte
	all := w.store.Keys(w.table)
	if w.cells != nil {
		all = w.store.Entries(w.cells, false)
	}
	for item := range all {
		switch {
		case item.Err == seglog.ErrClosed:
			return seglog.ErrClosed
		case item.Err != nil && first:
			if w.stop = !yield(item); w.stop {
				return nil
			}
		case item.Err == nil:
			sortKey = w.by.AppendSortKey(sortKey[:0], w.table.ownOf(item.Key))
			if err := f(sortKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// fresh returns the keys that only memory has, nil if there are none.
func (w *walker) fresh() order.Cursor {
	var tree *order.Tree
	var sortKey []byte
	for n := 0; n < cache.Shards && w.cells.table.Dirty() > 0; n++ {
		mu := &w.store.keys[n]
		mu.Lock()
		w.cells.table.Each(n, func(c *cache.Cell) {
			if c.Address != 0 || c.Absent {
				return
			}
			sortKey = w.by.AppendSortKey(sortKey[:0], c.Key())
			if w.span.Before(sortKey) || w.span.Beyond(sortKey) {
				return
			}
			if tree == nil {
				tree = new(order.Tree)
			}
			tree.Set(sortKey, false)
		})
		mu.Unlock()
	}
	if tree == nil {
		return nil
	}
	return tree.Walk(nil, w.span.Down)
}

// item returns the entry of the i-th of the next keys; ok is false if it is gone.
func (w *walker) item(next *nearby, i int) (item Item, ok bool) {
	s := w.store
	item.Key = next.key(i)
	own := w.table.ownOf(item.Key)
	if !w.values {
		return item, !w.table.hides(w.cells, item.Key, w.owed)
	}
	hash := s.Hash(own)
	if cell := w.cells.Find(hash, own); cell != nil && cell.Holds && !s.Expired(cell.Expiry) {
		item.Cell = cell
		return item, true
	}
	if e := next.entry(i); e != nil {
		item.Entry = *e
		return item, true
	}
	if w.buf == nil {
		w.buf = make([]byte, seglog.ReadBytes)
	}
	item.Err = s.Read(&item.Entry, w.cells, true, hash, item.Key, w.buf)
	return item, item.Err != ErrNotFound
}

// hides reports whether reads of an open map, or of the log if shown is nil, do not show a key in the order of
// the table: the entry is gone, but the log does not have its end yet. Such are a deletion in a cell and, if
// the table owed ends when the walk began, an expired entry whose E was owed. An entry that cannot be read is
// not hidden.
func (t *Table) hides(shown *Cells, key []byte, owed bool) bool {
	if c := t.cells.Load(); c != nil && c.table.Dirty() > 0 {
		own := t.ownOf(key)
		if cell := c.table.Find(t.store.Hash(own), own); cell != nil && cell.Absent && (shown != nil || cell.Dirty) {
			return true
		}
	}
	if !owed {
		return false
	}
	r := reader{store: t.store, cells: shown, shared: true}
	has, err := r.has(t, key)
	return err == nil && !has
}

// mergedCursor is a merge of cursors, and closes some of them.
type mergedCursor struct {
	order.Cursor
	list []keyCursor
}

func (c *mergedCursor) close() {
	for _, k := range c.list {
		k.close()
	}
}

// Scan yields the keys of the raw and typed entries that are in the span, whole and in the order of the bytes.
// Like Items, it reads the log, and has its errors. The keys are the caller's.
//
//go:noinline
func (s *Store) Scan(span Span) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var kept Keeper
		s.scan(span, func(item Item) bool { return yield(nil, item.Err) }, func(keys keyCursor) bool { return yield(kept.Keep(keys.Key()), nil) }, nil)
	}
}

// ScanEntries is Scan with the entry of each key, as AppendGet has it. The key is valid until the next is
// yielded, and so is a value that is lent.
//
//go:noinline
func (s *Store) ScanEntries(span Span) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		next := &nearbyCursor{next: nearby{store: s}, at: -1}
		s.scan(span, yield, func(keyCursor) bool {
			item := Item{Key: next.Key()}
			if e := next.next.entry(next.at); e != nil {
				item.Entry, item.Lent = *e, true
				return yield(item)
			}
			item.Value, item.Schema, item.Err = s.AppendGet(nil, item.Key, nil)
			return item.Err == ErrNotFound || yield(item) && item.Err != seglog.ErrClosed
		}, next)
	}
}

// scan calls each for each key of the span, until it returns false. Errors are yielded. The keys pass through
// ahead, if that is not nil.
func (s *Store) scan(span Span, yield func(Item) bool, each func(keyCursor) bool, ahead *nearbyCursor) {
	if err := s.isOpen(); err != nil {
		yield(Item{Err: err})
		return
	}
	s.awaitAll()
	w := scan{store: s, span: span, walked: map[*Table]bool{}}
	keys := w.keys(yield)
	defer keys.close()
	if ahead != nil {
		ahead.keyCursor = keys
		keys = ahead
	}
	for !w.stop && keys.Next() && !w.stop { // errors are yielded inside Next, too
		if !each(keys) {
			return
		}
	}
	if err := keys.Err(); err != nil && !w.stop {
		yield(Item{Err: err})
	}
}

// Keeper copies short byte slices into shared memory, to save allocations.
type Keeper struct{ room []byte }

const keeperBytes = 1 << 10

// Keep returns a copy, which is the caller's. As long as the caller keeps it, up to 1 KiB stays in memory with it.
func (k *Keeper) Keep(b []byte) []byte {
	if len(b) > cap(k.room)-len(k.room) {
		if len(b) > keeperBytes/4 {
			return bytes.Clone(b)
		}
		k.room = make([]byte, 0, keeperBytes)
	}
	at := len(k.room)
	k.room = append(k.room, b...)
	return k.room[at:len(k.room):len(k.room)]
}

// scan goes through the tables whose keys may be in the span: those that are kept in the order of the bytes one
// by one, all others together, sorted. A list of everything from the beginning begins no order, as it reads all
// keys in any case.
type scan struct {
	store  *Store
	view   *View // whose keys are walked, nil for the present ones
	span   Span
	walked map[*Table]bool // one by one
	room   int             // memory to sort keys in, 0 for SortBytes
	stop   bool
}

// keys returns the keys of the span. When a map is declared meanwhile, keys may have moved from a later table
// to one that is not listed: then all is done again.
func (w *scan) keys(yield func(Item) bool) keyCursor {
	for {
		generation := w.store.Generation()
		keys := w.keysNow(yield)
		if w.stop || w.store.Generation() == generation {
			return keys
		}
		keys.close()
		clear(w.walked)
	}
}

func (w *scan) keysNow(yield func(Item) bool) keyCursor {
	m := &mergedCursor{}
	var all []order.Cursor
	others := false
	for _, t := range w.tables() {
		owed := w.view == nil && t.owes() // before the look at the order, from which paid entries are removed
		kept := w.kept(t, yield)
		if kept == nil {
			others = true
			continue
		}
		w.walked[t] = true
		c := &wholeCursor{keyCursor: kept, prefix: t.prefixBytes()}
		if w.view == nil {
			c.of, c.owed = t, owed
		}
		all, m.list = append(all, c), append(m.list, c)
	}
	if others {
		most := w.room
		if most <= 0 {
			most = w.store.sortBytes()
		}
		c := sortedKeys(most, w.span, func(first bool, f func([]byte) error) error { return w.each(first, f, yield) })
		all, m.list = append(all, c), append(m.list, c)
	}
	if len(all) == 1 {
		return m.list[0]
	}
	m.Cursor = order.Merge(all, w.span.Down, false)
	return m
}

// kept goes through the keys of a table that are kept in the order of their bytes; nil if they are not.
func (w *scan) kept(t *Table, yield func(Item) bool) keyCursor {
	begin := w.room == 0 && !w.span.Once && t.isInBytes() && (w.span.Down || w.span.Low != nil || w.span.High != nil)
	if w.view != nil {
		return w.view.keptKeys(t, keycodec.BytesOrder, w.ownSpan(t), begin, nil)
	}
	if w.store.orderToWalk(t, keycodec.BytesOrder, begin) == nil {
		return nil
	}
	w.settle(t, yield)
	if c := w.store.keptKeys(t, keycodec.BytesOrder, w.ownSpan(t), begin); c != nil {
		return c
	}
	return nil
}

// items returns the keys of a table, in no order.
func (w *scan) items(t *Table) iter.Seq[Item] {
	if w.view != nil {
		return w.view.Items(t, false)
	}
	return w.store.Keys(t)
}

// settle writes the dirty entries of memory to the log.
func (w *scan) settle(t *Table, yield func(Item) bool) {
	if c := t.cells.Load(); c != nil {
		if err := w.store.flush(c).refused; err != nil && !w.stop {
			w.stop = !yield(Item{Err: err})
		}
	}
}

// tables returns the tables that can have keys in the span.
func (w *scan) tables() []*Table {
	return seglog.Without(w.store.Tables(), func(t *Table) bool { return !t.meets(&w.span) })
}

// meets reports whether whole keys of the table can be in a span.
func (t *Table) meets(sp *Span) bool {
	keys := &t.keys
	return t.prefix == 0 || !(sp.High != nil && bytes.Compare(sp.High, keys.Low) < 0) && !(sp.Low != nil && keys.High != nil && bytes.Compare(sp.Low, keys.High) >= 0)
}

// prefixBytes returns the prefix of the whole keys, which the caller does not change.
func (t *Table) prefixBytes() []byte { return t.keys.Low }

// ownSpan returns the span for the own bytes of a table's keys.
func (w *scan) ownSpan(t *Table) Span {
	own, prefix := w.span, t.prefixBytes()
	if own.Low != nil {
		if bytes.Compare(own.Low, prefix) < 0 {
			own.Low, own.LowOpen = prefix, false
		}
		own.Low = own.Low[len(prefix):]
	}
	if own.High != nil {
		if t.keys.High != nil && bytes.Compare(own.High, t.keys.High) >= 0 {
			own.High, own.HighOpen = nil, false
		} else {
			own.High = own.High[len(prefix):]
		}
	}
	return own
}

// wholeCursor goes through the whole keys of a table.
type wholeCursor struct {
	keyCursor
	prefix []byte
	of     *Table // of the present entries; nil for keys of a view, which looks at each key
	owed   bool   // the table owed ends when the walk began
	whole  []byte
	key    []byte
}

func (c *wholeCursor) Next() bool {
	for c.keyCursor.Next() {
		if c.key = c.keyCursor.Key(); len(c.prefix) > 0 {
			c.whole = append(append(c.whole[:0], c.prefix...), c.key...)
			c.key = c.whole
		}
		if c.of == nil || !c.of.hides(nil, c.key, c.owed) {
			return true
		}
	}
	return false
}

func (c *wholeCursor) Key() []byte { return c.key }

// each passes on the keys of the tables that are not gone through one by one. When a map is declared meanwhile,
// keys may have moved from a later table to one that is not listed: then all is done again.
func (w *scan) each(first bool, f func([]byte) error, yield func(Item) bool) error {
	for {
		generation := w.store.Generation()
		for _, t := range w.tables() {
			if w.walked[t] {
				continue
			}
			for item := range w.items(t) {
				switch {
				case ends(item.Err):
					return item.Err
				case item.Err != nil && first:
					if w.stop = !yield(item); w.stop {
						return nil
					}
				case item.Err == nil:
					if err := f(item.Key); err != nil {
						return err
					}
				}
			}
		}
		if w.store.Generation() == generation {
			return nil
		}
	}
}
