package copal

import "github.com/copaldb/copal/internal/engine"

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
	by  engine.Durability
	raw Raw // from the first call of Raw on
}

// Update calls f with a transaction, and makes what f has written count, all of it. If f returns an
// error or panics, none of it counts; Update returns the error. All transactions and all other
// writes, each of which is a transaction of its own, are serializable: the outcome is as if they
// had run one by one. When Update returns nil, the writes survive the death of the process, all or
// none, as with Map.Set.
//
// No other writer waits while f runs. If something that f has read changes before f returns, f runs
// again on the new state of the store, so f should have no other effects, and set anew each variable
// that it fills. After a few such conflicts other transactions wait for this one, and in the end
// other writers do, so it comes through. f must not wait for another goroutine that writes. Within
// f, a write that bypasses the transaction is refused with ErrNested, and so is another Update.
//
// The writes of a transaction stay in memory until f returns. Values of more than 1 MiB go to the
// log at once, and count when all counts.
func (db *DB) Update(f func(tx *Tx) error) error { return db.update(engine.Process, f) }

// UpdateFSync is Update whose writes survive the loss of power when it returns.
func (db *DB) UpdateFSync(f func(tx *Tx) error) error { return db.update(engine.Power, f) }

func (db *DB) update(d engine.Durability, f func(tx *Tx) error) error {
	return db.store.Transact(d, func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx, by: d}) })
}

// View calls f once with a read-only transaction: everything as it was at one moment. Writes return
// ErrTxReadOnly. No writer waits for it, and it waits for none. View returns the error of f, or of
// a read that could not return its own.
func (db *DB) View(f func(tx *Tx) error) error {
	return db.store.Look(func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx}) })
}

// What transactions do not have.
const (
	errTxDurability misuse = "With and In exclude each other: a write in a transaction is as durable as that; DB.UpdateFSync makes it FSync"
	errTxFSync      misuse = "a write in this transaction cannot be FSync, for it is as durable as the transaction: use DB.UpdateFSync"
	errTxMoment     misuse = "At and In exclude each other: a transaction has a moment of its own"
	errTxMemory     misuse = "a transaction cannot write to memory alone"
	errTxStream     misuse = "there are no streams of values in a transaction"
	errTxBatch      misuse = "there are no batches in a transaction, which is one itself"
)
