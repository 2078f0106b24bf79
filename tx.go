package copal

import (
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Tx is a transaction: reads and writes over any number of maps, collections and raw keys, as if
// they happened at one moment and nothing else meanwhile. users.In(tx) is a map in it; collections
// and raw bytes have In, too. The function of DB.Update or DB.View gets the Tx, for its goroutine
// alone and until it returns; every use after that is ErrTxDone.
//
// A transaction sees the store as it was when it began, async writes included, with its own writes
// on top. It does not see a value of SetInMemory.
type Tx struct {
	db  *DB
	tx  *engine.Tx
	far *farTx // in its place, of a store with a driver
	by  engine.Durability
	raw Raw // from the first call of Raw on
}

// fail has the transaction return an error in the end, and reports whether it has not ended yet.
func (tx *Tx) fail(err error) bool {
	if tx.far != nil {
		return tx.far.fail(err)
	}
	return tx.tx.Fail(err)
}

// Seq returns the sequence number of the last record that the transaction reads, as Snapshot.Seq
// does. Its own writes have none before the commit.
func (tx *Tx) Seq() uint64 { seq, _ := tx.moment(); return seq }

// Time returns the moment at which the transaction began.
func (tx *Tx) Time() time.Time { _, at := tx.moment(); return time.UnixMilli(int64(at)) }

func (tx *Tx) moment() (seq, time uint64) {
	if tx.far != nil {
		return tx.far.session.Moment()
	}
	return tx.tx.Moment()
}

// Require makes the transaction depend on a key: it commits only if nothing has been written under
// the key between the snapshot and the commit. A write of the same value also counts, as does a
// write of an element of a collection, and a deadline that has passed. A key that is absent in the
// snapshot must not have been written since. Otherwise the error is ErrChanged, from Require or
// from DB.Update, which does not run its function again for that.
//
// So an edit that took a user some time is stored only if the entry has not changed meanwhile:
//
//	s, err := db.Snapshot()
//	u, ok := users.At(s).Get("alice") // and show it, and wait for the answer
//	err = db.Update(func(tx *copal.Tx) error {
//		if err := tx.Require(s, append(copal.MapPrefix("users"), "alice"...)); err != nil {
//			return err
//		}
//		return users.In(tx).Set("alice", edited)
//	})
//
// The snapshot must be one of DB.Snapshot: one of AsOf is ErrHandle.
func (tx *Tx) Require(s *Snapshot, key []byte) error {
	switch {
	case s == nil:
		return misuse("Require: the snapshot is nil")
	case s.db != tx.db:
		return misuse("Require: the snapshot is of another store")
	case tx.far != nil:
		return unsupported("Require")
	case tx.tx.OfPast(s.view):
		return misuse("Require: the snapshot is of a moment of the past; only one of DB.Snapshot knows what has changed since")
	}
	return tx.tx.Require(s.view, key)
}

// Update calls f with a transaction, and commits everything that f has written. If f returns an
// error or panics, nothing is written; Update returns the error. All transactions and all other
// writes, each of which is a transaction of its own, are serializable: the outcome is as if they
// had run one by one. When Update returns nil, the writes survive the death of the process, all or
// none, as with Map.Set.
//
// No other writer waits while f runs. If something that f has read changes before f returns, f runs
// again on the new state of the store, so f should have no other effects, and should reset each
// variable that it fills. After a few such conflicts other transactions wait for this one, and then
// other writers do, so it always succeeds. f must not wait for another goroutine that writes.
//
// f reads and writes through handles of In. A write that bypasses the transaction is refused with
// ErrNested, and so is another Update. A read that bypasses it sees no write of f, and does not
// belong to the transaction: if the entry that it has read changes, f does not run again.
//
// The writes of a transaction stay in memory until f returns. Values of more than 1 MiB go to the
// log at once, and take effect with the commit.
func (db *DB) Update(f func(tx *Tx) error) error { return db.update(engine.Process, f) }

// UpdateFSync is Update whose writes survive the loss of power when it returns.
func (db *DB) UpdateFSync(f func(tx *Tx) error) error { return db.update(engine.Power, f) }

func (db *DB) update(d engine.Durability, f func(tx *Tx) error) error {
	if db.driver != nil {
		return db.updateFar(d, f)
	}
	return db.store.Transact(d, func(tx *engine.Tx) error { return f(db.begun(tx, d)) })
}

// View calls f once with a read-only transaction, which shows the store at one moment. Writes
// return ErrTxReadOnly. No writer waits for it, and it waits for none. View returns the error of f,
// or of a read that could not return one.
func (db *DB) View(f func(tx *Tx) error) error {
	if db.driver != nil {
		return db.viewFar(f)
	}
	return db.store.Look(func(tx *engine.Tx) error { return f(db.begun(tx, 0)) })
}

func (db *DB) begun(tx *engine.Tx, d engine.Durability) *Tx {
	if opened.Tx.Load() == nil {
		opened.Tx.Store(&txOf)
	}
	return &Tx{db: db, tx: tx, by: d}
}

// Calls that transactions do not have.
const (
	errTxDurability misuse = "With and In exclude each other: a write has the durability of its transaction; use DB.UpdateFSync for FSync"
	errTxFSync      misuse = "a write in this transaction cannot be FSync: use DB.UpdateFSync"
	errTxMoment     misuse = "At and In exclude each other: a transaction has a moment of its own"
	errTxMemory     misuse = "a transaction cannot write only to memory"
	errTxStream     misuse = "a transaction cannot stream values"
	errTxBatch      misuse = "a transaction has no batches: it is one itself"
)
