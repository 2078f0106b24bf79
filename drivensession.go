package copal

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// Snapshots and transactions of a store with a driver are sessions of the driver. A handle of one reads and writes as
// any driven handle does, through the session.

// sessions is the driver's, or why it has none.
func (db *DB) sessions(what string) (driver.Sessions, error) {
	if s, ok := db.driver.(driver.Sessions); ok {
		return s, nil
	}
	return nil, unsupported(what)
}

func (db *DB) snapshotFar() (*Snapshot, error) {
	sessions, err := db.sessions("snapshots")
	if err != nil {
		return nil, err
	}
	s, err := sessions.Snapshot(context.Background())
	if err != nil {
		return nil, err
	}
	return db.taken(&Snapshot{db: db, view: db.store.NoView(), far: s}), nil
}

// farTx is a transaction in a session.
type farTx struct {
	session driver.Session
	by      engine.Durability
	refusal error // of writes
	done    atomic.Bool
	failed  error // of a read that could not return it
}

// backend is behind the handles of the transaction.
func (tx *farTx) backend(ctx context.Context) driven {
	return driven{driver: tx.session, ctx: ctx, refusal: tx.refusal, tx: tx}
}

func (tx *farTx) fail(err error) bool {
	if tx.done.Load() {
		return false
	}
	if tx.failed == nil {
		tx.failed = err
	}
	return true
}

// run calls f with a transaction in a session, and ends the session unless commit has done so.
func (db *DB) run(far *farTx, f func(*Tx) error, commit func() error) error {
	tx := &Tx{db: db, tx: db.store.NoTx(), far: far, by: far.by}
	defer far.session.Close()
	defer far.done.Store(true)
	if err := f(tx); err != nil {
		return err
	}
	if far.failed != nil {
		return far.failed
	}
	return commit()
}

func (db *DB) viewFar(f func(*Tx) error) error {
	sessions, err := db.sessions("transactions")
	if err != nil {
		return err
	}
	s, err := sessions.Begin(context.Background(), true)
	if err != nil {
		return err
	}
	return db.run(&farTx{session: s, refusal: ErrTxReadOnly}, f, func() error { return nil })
}

func (db *DB) updateFar(d engine.Durability, f func(*Tx) error) error {
	sessions, err := db.sessions("transactions")
	if err != nil {
		return err
	}
	ctx := context.Background()
	for range mostConflicts {
		s, err := sessions.Begin(ctx, false)
		if err != nil {
			return err
		}
		err = db.run(&farTx{session: s, by: d}, f, func() error { return s.Commit(ctx, d) })
		if !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
	return errBusy
}
