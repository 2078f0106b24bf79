package rivals

import (
	"bytes"
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// Badger is a log-structured tree with values apart. It does not look for conflicts, as one writer
// has none.
var Badger = Engine{Name: "badger", Module: "github.com/dgraph-io/badger/v4", Open: func(dir string, durable bool) (Store, error) {
	return OpenBadger(badger.DefaultOptions(dir).WithSyncWrites(durable).WithDetectConflicts(false))
}}

// BadgerConflicts is Badger that looks for conflicts, as concurrent transactions need.
var BadgerConflicts = Engine{Name: Badger.Name, Module: Badger.Module, Open: func(dir string, durable bool) (Store, error) {
	return OpenBadger(badger.DefaultOptions(dir).WithSyncWrites(durable))
}}

// BadgerDB is a store of badger.
type BadgerDB struct{ DB *badger.DB }

// OpenBadger opens a store of badger with other options.
func OpenBadger(opts badger.Options) (Store, error) {
	db, err := badger.Open(opts.WithLogger(nil))
	if err != nil {
		return nil, err
	}
	return BadgerDB{db}, nil
}

// Get implements Store.
func (s BadgerDB) Get(key []byte) (value []byte, err error) {
	err = s.DB.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if err == nil {
			value, err = item.ValueCopy(nil)
		}
		return err
	})
	return value, badgerError(err)
}

// badgerError returns an error of badger as one of this package.
func badgerError(err error) error {
	if errors.Is(err, badger.ErrKeyNotFound) {
		return ErrAbsent
	}
	return err
}

// Put implements Store.
func (s BadgerDB) Put(key, value []byte) error {
	return s.DB.Update(func(tx *badger.Txn) error { return tx.Set(key, value) })
}

// Batch implements Store.
func (s BadgerDB) Batch(n int, entry func(i int) (key, value []byte)) error {
	b := s.DB.NewWriteBatch()
	defer b.Cancel()
	for i := range n {
		key, value := entry(i)
		if err := b.Set(bytes.Clone(key), bytes.Clone(value)); err != nil { // it keeps both until Flush
			return err
		}
	}
	return b.Flush()
}

// View implements Store.
func (s BadgerDB) View(f func(Tx) error) error {
	return s.DB.View(func(tx *badger.Txn) error { return f(&badgerTx{tx: tx}) })
}

// Update implements Store.
func (s BadgerDB) Update(f func(Tx) error) error {
	for {
		if err := s.update(f); !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

func (s BadgerDB) update(f func(Tx) error) error {
	t := &badgerTx{db: s.DB, tx: s.DB.NewTransaction(true)}
	defer func() { t.tx.Discard() }()
	if err := f(t); err != nil {
		return err
	}
	return t.tx.Commit()
}

// Close implements Store.
func (s BadgerDB) Close() error { return s.DB.Close() }

type badgerTx struct {
	db   *badger.DB
	tx   *badger.Txn
	lent []byte // the bytes that Get has lent; the next Get reuses them
}

func (t *badgerTx) Get(key []byte) ([]byte, error) {
	item, err := t.tx.Get(key)
	if err != nil {
		return nil, badgerError(err)
	}
	err = item.Value(func(v []byte) error { t.lent = v; return nil }) // v is there until the transaction ends
	return t.lent, err
}

func (t *badgerTx) Put(key, value []byte) error {
	key, value = bytes.Clone(key), bytes.Clone(value) // it keeps both
	err := t.tx.Set(key, value)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := t.tx.Commit(); err != nil {
		return err
	}
	t.tx = t.db.NewTransaction(true)
	return t.tx.Set(key, value)
}

func (t *badgerTx) Scan(from, to []byte, f func(key, value []byte) error) error {
	it := t.tx.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	for it.Seek(from); it.Valid() && bytes.Compare(it.Item().Key(), to) < 0; it.Next() {
		item := it.Item()
		if err := item.Value(func(value []byte) error { return f(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}
