package copal

import (
	"context"
	"fmt"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/elements"
	"github.com/copaldb/copal/internal/engine"
)

// Durability is the kind of crash that a write survives once it has returned nil.
//
//	               when it returns             survives
//	Async          memory has it, the log      a clean Close; a crash may lose the writes
//	               gets it within the sync     of the last sync interval, and never puts
//	               interval                    an older value in the place of a newer one
//	Write          the log has it              the death of the process; the loss of
//	                                           power once the sync interval has passed
//	FSync          the disk has it             the loss of power
//
// Set, Delete and Update have the durability Write; SetAsync, SetFSync and so on have the other
// two. With returns a handle whose writes all have the durability of its argument.
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

// handle has the fields that With, At, In, Backward and WithContext change: how a map, raw bytes or
// a collection is used. Two handles differ in nothing else.
type handle struct {
	db   *DB
	from backend           // nil for the present state of the engine
	then *Snapshot         // of from, or nil
	tx   *Tx               // of from, or nil
	by   engine.Durability // of verbs that do not name theirs
	set  bool              // With has set by
	down bool
	ctx  context.Context // nil for none

	takes engine.Takes // set by opened.SetValues; nil allows all
}

// handle is the handle of the store's present state.
func (db *DB) handle() handle {
	if db.driver != nil {
		return handle{db: db, from: driven{driver: db.drives(), ctx: context.Background()}}
	}
	return handle{db: db}
}

// refuse makes every use of h an error.
func (h *handle) refuse(err error) {
	*h = handle{db: h.db, from: refused{err}, down: h.down, ctx: h.ctx}
}

// isRefused reports whether every use of h is an error; then so is every use of a handle made of
// it.
func (h *handle) isRefused() bool {
	_, is := h.from.(refused)
	return is
}

// with makes the writes of h as durable as d.
func (h *handle) with(d Durability) {
	switch {
	case h.isRefused():
		return
	case h.tx != nil:
		h.refuse(errTxDurability)
		return
	case d == Async:
		h.by = engine.Async
	case d == Write:
		h.by = engine.Process
	case d == FSync:
		h.by = engine.Power
	default:
		h.refuse(misuse(fmt.Sprintf("With(%v); there are Async, Write and FSync", d)))
		return
	}
	h.set = true
}

// logged is with for entries that are never in memory alone: Async means Write.
func (h *handle) logged(d Durability) {
	if d == Async {
		d = Write
	}
	h.with(d)
}

// at has h read a snapshot.
func (h *handle) at(s *Snapshot) {
	switch {
	case h.isRefused():
	case s == nil:
		h.refuse(misuse("At: the snapshot is nil; DB.Snapshot, AsOf and AsOfSeq return one unless they fail"))
	case s.db != h.db:
		h.refuse(misuse("At: the snapshot is of another store"))
	case h.tx != nil:
		h.refuse(errTxMoment)
	case s.far != nil:
		h.from, h.then = driven{driver: s.far, ctx: h.context(), refusal: ErrSnapshot}, s
	default:
		h.from, h.then = ofSnapshot{refused{ErrSnapshot}, s.view}, s
	}
}

// in has h read and write in a transaction.
func (h *handle) in(tx *Tx) {
	switch {
	case h.isRefused():
	case tx == nil:
		h.refuse(misuse("In: the transaction is nil; the functions of DB.Update and DB.View get one"))
	case tx.db != h.db:
		h.refuse(misuse("In: the transaction is of another store"))
	case h.then != nil:
		h.refuse(errTxMoment)
	case h.set:
		h.refuse(errTxDurability)
	case tx.far != nil:
		h.from, h.tx = tx.far.backend(h.context()), tx
	default:
		h.from, h.tx = ofTx{tx.tx, tx.by}, tx
		if h.takes != nil {
			tx.tx.Takes = h.takes
		}
	}
}

// backward turns the walks of h round.
func (h *handle) backward() { h.down = !h.down }

// within has the calls of h end with a context.
func (h *handle) within(ctx context.Context) {
	h.ctx = ctx
	if b, is := h.from.(driven); is {
		b.ctx = ctx
		h.from = b
	}
}

// onErrorKey is the key of the function of OnError in a context.
type onErrorKey struct{}

// OnError returns a context with which handles (Map.WithContext) pass errors to f, and not to the
// error handler of the store, if the verb cannot return them: Get, Has, Len and the walks have no
// error result. On a store on another machine these may fail, and then yield and return the same
// as of an empty map.
//
//	var failed error
//	ctx = copal.OnError(ctx, func(err error) { failed = errors.Join(failed, err) })
//	for id, user := range users.WithContext(ctx).All() {
//		fmt.Println(id, user)
//	}
//	if failed != nil { // some users may be missing
//		return failed
//	}
//
// The verb calls f in its own goroutine, before it returns. In a transaction, DB.View and DB.Update
// return such errors, and f is not called.
func OnError(ctx context.Context, f func(error)) context.Context {
	return context.WithValue(ctx, onErrorKey{}, f)
}

func errorsOf(ctx context.Context) func(error) {
	if ctx == nil {
		return nil
	}
	f, _ := ctx.Value(onErrorKey{}).(func(error))
	return f
}

// writable returns the error of each write with this durability through the handle, whatever it
// would find.
func (h *handle) writable(d engine.Durability) error {
	if h.from == nil {
		return h.db.store.Writable()
	}
	return h.from.writable(d)
}

// report passes on an error that cannot be returned: to the function of OnError or the error handler
// or, in a transaction, to the transaction, which returns it in the end. It reports whether an
// iteration may go on.
func (h *handle) report(err error) (goOn bool) {
	switch {
	case err == nil:
		return true
	case h.tx != nil && h.tx.fail(err):
		return false
	}
	if f := errorsOf(h.ctx); f != nil {
		f(err)
	} else {
		h.db.report(err)
	}
	return h.tx == nil
}

// durability returns the durability of a write through the handle. A transaction has no
// asynchronous writes.
func (h *handle) durability(d engine.Durability) engine.Durability {
	if h.tx != nil && d == engine.Async {
		return engine.Process
	}
	return d
}

// get reads an entry from the log.
func (h *handle) get(at *place, key []byte) (engine.Entry, error) {
	if h.from != nil {
		return h.from.get(at, key)
	}
	return h.db.store.Get(at.table, key)
}

// write makes a write, now or in the transaction. For a deletion it reports whether there was an
// entry.
func (h *handle) write(at *place, w *engine.Write) (existed bool, err error) {
	switch from := h.from.(type) {
	case nil:
		return h.db.store.Write(at.table, w)
	case ofTx:
		return from.write(at, w) // not through the interface, which would allocate w
	}
	escapes := *w
	return h.from.write(at, &escapes)
}

// collections has the verbs of collections of a type, or with "" of each.
func (h *handle) collections(of engine.CollectionType) driver.Collections {
	if h.from != nil {
		return h.from.collections(of)
	}
	return elements.Of(h.db.store, h.takes)
}

// updateEntry applies decide to an entry, as engine.Store.Update does.
func (h *handle) updateEntry(at *place, key []byte, own bool, d engine.Durability, decide engine.Decide) error {
	if h.from != nil {
		return h.from.update(at, key, d, decide)
	}
	_, err := h.db.store.Update(at.table, at.cells, key, own, d, h.takes, decide)
	return err
}

func (h *handle) context() context.Context {
	if h.ctx == nil {
		return context.Background()
	}
	return h.ctx
}
