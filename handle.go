package copal

import (
	"context"
	"fmt"
	"iter"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Durability says what a write has outlived when it returns nil.
//
//	               when it returns             survives
//	Async          memory has it, the log      a clean Close; a crash may lose the writes
//	               gets it within the sync     of the last sync interval, and never puts
//	               interval                    an older value in the place of a newer one
//	Write          the log has it              the death of the process; the loss of
//	                                           power once the sync interval has passed
//	FSync          the disk has it             the loss of power
//
// Set, Delete and Update are as durable as Write, and have twins with the names of the other two.
// With makes a handle whose writes, of all verbs, are as durable as it says.
type Durability int

const (
	Async Durability = iota + 1 // in memory
	Write                       // in the log
	FSync                       // on the disk
)

// String returns the name that the command and the servers use: async, write or fsync.
func (d Durability) String() string {
	switch d {
	case Async:
		return "async"
	case Write:
		return "write"
	case FSync:
		return "fsync"
	}
	return fmt.Sprintf("Durability(%d)", int(d))
}

// handle is what With, At, In, Backward and WithContext change: how a map, raw bytes or a
// collection is used. Two handles differ in nothing else.
type handle struct {
	db   *DB
	from source            // that reads find; nil for the store as it is now
	then *Snapshot         // from is its view; nil otherwise
	tx   *Tx               // from is it; nil otherwise
	by   engine.Durability // of writes without a twin's name
	set  bool              // by With
	down bool
	ctx  context.Context // nil for none
}

// source is where reads find entries: a snapshot or a transaction.
type source interface {
	Get(t *engine.Table, key []byte) (engine.Entry, error)
	Has(t *engine.Table, key []byte) (bool, error)
	DeadlineOf(t *engine.Table, key []byte) (uint64, error)
	Len(t *engine.Table) (int, error)
	Items(t *engine.Table, values bool) iter.Seq[engine.Item]
	InOrder(t *engine.Table, by keycodec.Order, span engine.Span, values bool) iter.Seq[engine.Item]
	Scan(span engine.Span, values bool) iter.Seq[engine.Item]
}

// refused is the source of a handle that means nothing: each read, and each write, fails.
type refused struct{ err error }

func (r refused) Get(*engine.Table, []byte) (engine.Entry, error)  { return engine.Entry{}, r.err }
func (r refused) Has(*engine.Table, []byte) (bool, error)          { return false, r.err }
func (r refused) DeadlineOf(*engine.Table, []byte) (uint64, error) { return 0, r.err }
func (r refused) Len(*engine.Table) (int, error)                   { return 0, r.err }
func (r refused) Items(*engine.Table, bool) iter.Seq[engine.Item]  { return r.item }
func (r refused) Scan(engine.Span, bool) iter.Seq[engine.Item]     { return r.item }
func (r refused) InOrder(*engine.Table, keycodec.Order, engine.Span, bool) iter.Seq[engine.Item] {
	return r.item
}

func (r refused) item(yield func(engine.Item) bool) { yield(engine.Item{Err: r.err}) }

// refuse is a handle of which every use is an error.
func (h handle) refuse(err error) handle {
	return handle{db: h.db, from: refused{err}, down: h.down, ctx: h.ctx}
}

// isRefused reports whether h means nothing, and so does what is made of it.
func (h handle) isRefused() bool {
	_, is := h.from.(refused)
	return is
}

// with is the handle whose writes are as durable as d.
func (h handle) with(d Durability) handle {
	switch {
	case h.isRefused():
		return h
	case h.tx != nil:
		return h.refuse(errTxDurability)
	case d == Async:
		h.by = engine.Async
	case d == Write:
		h.by = engine.Process
	case d == FSync:
		h.by = engine.Power
	default:
		return h.refuse(fmt.Errorf("copal: there is no durability %v", d))
	}
	h.set = true
	return h
}

// logged is with for entries that memory alone never has: Async is Write.
func (h handle) logged(d Durability) handle {
	if d == Async {
		d = Write
	}
	return h.with(d)
}

// at is the handle that reads a snapshot.
func (h handle) at(s *Snapshot) handle {
	switch {
	case h.isRefused():
		return h
	case s.db != h.db:
		return h.refuse(fmt.Errorf("%w: the snapshot is of another store", ErrType))
	case h.tx != nil:
		return h.refuse(errTxMoment)
	}
	h.from, h.then = s.view, s
	return h
}

// in is the handle that reads and writes in a transaction.
func (h handle) in(tx *Tx) handle {
	switch {
	case h.isRefused():
		return h
	case tx.db != h.db:
		return h.refuse(fmt.Errorf("%w: the transaction is of another store", ErrType))
	case h.then != nil:
		return h.refuse(errTxMoment)
	case h.set:
		return h.refuse(errTxDurability)
	}
	h.from, h.tx = tx.tx, tx
	return h
}

func (h handle) backward() handle {
	h.down = !h.down
	return h
}

func (h handle) within(ctx context.Context) handle {
	h.ctx = ctx
	return h
}

// writable returns an error for a handle that does not write.
func (h *handle) writable() error {
	switch from := h.from.(type) {
	case nil:
		return nil
	case refused:
		return from.err
	}
	if h.then != nil {
		return ErrSnapshot
	}
	return nil
}

// report passes on an error that cannot be returned: to the error handler or, in a transaction, to
// the caller of that, when it ends. It reports whether an iteration may go on.
func (h *handle) report(err error) (goOn bool) {
	if err != nil && h.tx != nil {
		if !h.tx.tx.Fail(err) {
			h.db.report(err)
		}
		return false
	}
	h.db.report(err)
	return true
}

// durability is that of a write in the handle: in a transaction, that of the transaction.
func (h *handle) durability(d engine.Durability) engine.Durability {
	if h.tx != nil && d != engine.Memory {
		return engine.Process
	}
	return d
}

// write makes a write, now or in the transaction. It reports whether there was an entry, as far as a
// deletion is concerned.
func (h *handle) write(t *engine.Table, w *engine.Write) (existed bool, err error) {
	if err := h.writable(); err != nil {
		return false, err
	}
	switch {
	case h.tx == nil:
		return h.db.store.Write(t, w)
	case w.Durability == engine.Memory:
		return false, errTxMemory
	case w.Delete:
		return h.tx.tx.Delete(t, w.Cells, w.Key)
	}
	return false, h.tx.tx.Write(t, w)
}

// updateEntry applies decide to an entry, as engine.Store.Update does, or in the transaction.
func (h *handle) updateEntry(t *engine.Table, c *engine.Cells, key []byte, own bool, d engine.Durability, decide engine.Decide) error {
	if err := h.writable(); err != nil {
		return err
	}
	if h.tx == nil {
		return h.db.store.Update(t, c, key, own, d, decide)
	}
	var found engine.Found
	var err error
	found.Entry, err = h.tx.tx.Get(t, key)
	if err != nil && !isNotFound(err) {
		return err
	}
	found.Exists, found.Expiry = err == nil, found.Entry.Expiry()
	w := engine.Write{Key: key, Cells: c, Durability: d}
	switch write, err := decide(found, &w); {
	case err != nil || !write:
		return err
	case w.Delete && !found.Exists:
		return nil
	}
	_, err = h.write(t, &w)
	return err
}

func (h *handle) context() context.Context {
	if h.ctx == nil {
		return context.Background()
	}
	return h.ctx
}
