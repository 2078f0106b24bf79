package copal

import (
	"iter"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/elements"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// place says where the entries of a map are: their whole keys begin with prefix. In the engine they
// have a table and, while the map is open, cells. Raw bytes have no place of their own.
type place struct {
	prefix []byte
	table  *engine.Table
	cells  *engine.Cells
}

// everywhere is the place of raw bytes.
var everywhere place

// backend is the target of a handle's reads and writes: a snapshot, a transaction, a store on
// another machine, or nothing. The present state of the engine is no backend: a read of a map finds
// its cell without a call of an interface, and a write allocates nothing.
type backend interface {
	// writable returns the error of each write with this durability, whatever it would find.
	writable(d engine.Durability) error

	get(at *place, key []byte) (engine.Entry, error)
	has(at *place, key []byte) (bool, error)
	deadlineOf(at *place, key []byte) (uint64, error)
	len(at *place) (int, error)

	items(at *place, values bool) iter.Seq[engine.Item] // in no order
	inOrder(at *place, by keycodec.Order, span engine.Span, values bool) iter.Seq[engine.Item]
	scan(span engine.Span, values bool) iter.Seq[engine.Item] // of whole keys

	write(at *place, w *engine.Write) (existed bool, err error)
	update(at *place, key []byte, d engine.Durability, decide engine.Decide) error
	redate(at *place, key []byte, deadline uint64, d engine.Durability) error
	deleteRange(r engine.Range, d engine.Durability) error

	collections(of engine.CollectionType) driver.Collections // of this type, or with "" of each
}

// refused is the backend of an invalid handle: each read and each write is an error.
type refused struct{ err error }

func (b refused) writable(engine.Durability) error             { return b.err }
func (b refused) get(*place, []byte) (engine.Entry, error)     { return engine.Entry{}, b.err }
func (b refused) has(*place, []byte) (bool, error)             { return false, b.err }
func (b refused) deadlineOf(*place, []byte) (uint64, error)    { return 0, b.err }
func (b refused) len(*place) (int, error)                      { return 0, b.err }
func (b refused) items(*place, bool) iter.Seq[engine.Item]     { return b.item }
func (b refused) scan(engine.Span, bool) iter.Seq[engine.Item] { return b.item }
func (b refused) inOrder(*place, keycodec.Order, engine.Span, bool) iter.Seq[engine.Item] {
	return b.item
}
func (b refused) item(yield func(engine.Item) bool) { yield(engine.Item{Err: b.err}) }

func (b refused) write(*place, *engine.Write) (bool, error) { return false, b.err }
func (b refused) update(*place, []byte, engine.Durability, engine.Decide) error {
	return b.err
}
func (b refused) redate(*place, []byte, uint64, engine.Durability) error { return b.err }
func (b refused) deleteRange(engine.Range, engine.Durability) error      { return b.err }
func (b refused) collections(engine.CollectionType) driver.Collections {
	return driver.Refused{Err: b.err}
}

// ofSnapshot is the backend of a handle of a snapshot, which cannot be written.
type ofSnapshot struct {
	refused
	view *engine.View
}

func (b ofSnapshot) get(at *place, key []byte) (engine.Entry, error) {
	return b.view.Get(at.table, key)
}
func (b ofSnapshot) has(at *place, key []byte) (bool, error) { return b.view.Has(at.table, key) }
func (b ofSnapshot) deadlineOf(at *place, key []byte) (uint64, error) {
	return b.view.DeadlineOf(at.table, key)
}
func (b ofSnapshot) len(at *place) (int, error) {
	if at.table == nil {
		return count(b.scan(engine.Span{}, false))
	}
	return b.view.Len(at.table)
}
func (b ofSnapshot) items(at *place, values bool) iter.Seq[engine.Item] {
	return b.view.Items(at.table, values)
}
func (b ofSnapshot) inOrder(at *place, by keycodec.Order, span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.view.InOrder(at.table, by, span, values)
}
func (b ofSnapshot) scan(span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.view.Scan(span, values)
}

func (b ofSnapshot) collections(engine.CollectionType) driver.Collections {
	return elements.OfView(b.view)
}

// count is the number of items before the first error.
func count(items iter.Seq[engine.Item]) (n int, err error) {
	for item := range items {
		if item.Err != nil {
			return 0, item.Err
		}
		n++
	}
	return n, nil
}

// ofTx is the backend of a handle of a transaction.
type ofTx struct {
	tx *engine.Tx
	by engine.Durability // of the whole transaction
}

func (b ofTx) writable(d engine.Durability) error {
	if err := b.tx.Writable(); err != nil {
		return err
	}
	return txTakes(d, b.by)
}

// txTakes returns the error of a write with durability d in a transaction with durability by.
func txTakes(d, by engine.Durability) error {
	switch {
	case d == engine.Memory:
		return errTxMemory
	case d == engine.Power && by != d:
		return errTxFSync
	}
	return nil
}

func (b ofTx) get(at *place, key []byte) (engine.Entry, error) { return b.tx.Get(at.table, key) }
func (b ofTx) has(at *place, key []byte) (bool, error)         { return b.tx.Has(at.table, key) }
func (b ofTx) deadlineOf(at *place, key []byte) (uint64, error) {
	return b.tx.DeadlineOf(at.table, key)
}
func (b ofTx) len(at *place) (int, error) {
	if at.table == nil {
		return count(b.scan(engine.Span{}, false))
	}
	return b.tx.Len(at.table)
}
func (b ofTx) items(at *place, values bool) iter.Seq[engine.Item] {
	return b.tx.Items(at.table, values)
}
func (b ofTx) inOrder(at *place, by keycodec.Order, span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.tx.InOrder(at.table, by, span, values)
}
func (b ofTx) scan(span engine.Span, values bool) iter.Seq[engine.Item] {
	return b.tx.Scan(span, values)
}

func (b ofTx) write(at *place, w *engine.Write) (existed bool, err error) {
	if err := b.writable(w.Durability); err != nil {
		return false, err
	}
	return b.put(at, w)
}

// put is write, after the checks.
func (b ofTx) put(at *place, w *engine.Write) (existed bool, err error) {
	w.Durability = engine.Process
	if w.Delete {
		return b.tx.Delete(at.table, w.Cells, w.Key)
	}
	return false, b.tx.Write(at.table, w)
}

func (b ofTx) update(at *place, key []byte, d engine.Durability, decide engine.Decide) error {
	if err := b.writable(d); err != nil {
		return err
	}
	now, err := b.tx.Get(at.table, key)
	if err != nil && !isNotFound(err) {
		return err
	}
	found := engine.Found{Exists: err == nil, Expiry: now.Expiry(), Entry: now}
	w := engine.Write{Key: key, Cells: at.cells, Durability: d}
	write, err := decide(found, &w)
	if err != nil || !write || w.Delete && !found.Exists {
		return err
	}
	again, err := b.tx.Get(at.table, key)
	if err = elements.Nested(&again, err, &found.Entry, found.Exists); err == nil {
		_, err = b.put(at, &w)
	}
	return err
}

func (b ofTx) redate(at *place, key []byte, deadline uint64, d engine.Durability) error {
	if err := b.writable(d); err != nil {
		return err
	}
	return b.tx.Expire(at.table, at.cells, key, deadline)
}

func (b ofTx) deleteRange(r engine.Range, d engine.Durability) error {
	if err := b.writable(d); err != nil {
		return err
	}
	return b.tx.DeleteRange(r)
}

func (b ofTx) collections(engine.CollectionType) driver.Collections { return elements.OfTx(b.tx) }
