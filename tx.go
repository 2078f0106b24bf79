package copal

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/engine"
)

// Tx is a transaction: reads and writes over any number of maps, collections and raw keys, as if they
// happened at one moment and nothing else meanwhile. users.In(tx) is a map in it, and so is any other
// kind of entries. It is handed to the function of DB.Update or DB.View, for that goroutine alone and
// until it returns; every use after that is ErrTxDone.
//
// A transaction sees the store as it was when it began, async writes included, with its own writes on
// top. It does not see what SetInMemory has put over an entry.
type Tx struct {
	db  *DB
	tx  *engine.Tx
	raw Raw // from the first call of Raw on
}

// Update calls f with a transaction, and makes what f has written count: all of it, or nothing when f
// returns an error, which Update returns, or panics. The outcome is that of some serial order of all
// transactions and all other writes, each of which is a transaction of its own. When Update returns
// nil the writes survive the death of the process, all or none, as those of Map.Set do.
//
// No other writer waits while f runs. If something that f has read has changed by its end, f runs
// again, on the store as it is now, so it should have no other effects. After a few such conflicts
// other transactions wait for this one, and in the end other writers do, so it comes through. f must
// not wait for another goroutine that writes. A write by other means than the transaction is refused
// with ErrNested within f, and so is another Update.
//
// Memory holds what a transaction writes until f returns, but for values of more than 1 MiB: those go
// to the log at once, and count when all counts.
func (db *DB) Update(f func(tx *Tx) error) error { return db.update(engine.Process, f) }

// UpdateFSync is Update whose writes survive the loss of power when it returns.
func (db *DB) UpdateFSync(f func(tx *Tx) error) error { return db.update(engine.Power, f) }

func (db *DB) update(d engine.Durability, f func(tx *Tx) error) error {
	return db.store.Transact(d, func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx}) })
}

// View calls f once with a transaction that only reads: everything as it was at one moment. Writes
// return ErrTxReadOnly. No writer waits for it, and it waits for none. The error is that of f, or of a
// read that had none to return.
func (db *DB) View(f func(tx *Tx) error) error {
	return db.store.Look(func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx}) })
}

// Errors of handles that mean nothing.
var (
	errTxDurability = errors.New("copal: a write in a transaction is as durable as that: use UpdateFSync in the place of With")
	errTxMoment     = fmt.Errorf("%w: a transaction has a moment of its own: At and In exclude each other", ErrType)
	errTxMemory     = errors.New("copal: a transaction cannot write to memory alone")
	errTxStream     = errors.New("copal: there are no streams of values in a transaction")
	errTxBatch      = errors.New("copal: there are no batches in a transaction, which is one itself")
)
