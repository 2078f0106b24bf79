package rivals

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/tidwall/buntdb"
)

// Bunt keeps all in memory, in a tree, and appends to a file.
var Bunt = Engine{Name: "buntdb", Module: "github.com/tidwall/buntdb", Open: openBunt}

// BuntDB is a store of buntdb.
type BuntDB struct{ DB *buntdb.DB }

func openBunt(dir string, durable bool) (Store, error) {
	db, err := buntdb.Open(filepath.Join(dir, "bunt.db"))
	if err != nil {
		return nil, err
	}
	var c buntdb.Config
	if err := db.ReadConfig(&c); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c.SyncPolicy = buntdb.Never
	if durable {
		c.SyncPolicy = buntdb.Always
	}
	if err := db.SetConfig(c); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return BuntDB{db}, nil
}

// Get implements Store.
func (s BuntDB) Get(key []byte) (value []byte, err error) {
	err = s.View(func(tx Tx) error {
		value, err = tx.Get(key)
		return err
	})
	return value, err
}

// Put implements Store.
func (s BuntDB) Put(key, value []byte) error {
	return s.Update(func(tx Tx) error { return tx.Put(key, value) })
}

// Batch implements Store.
func (s BuntDB) Batch(n int, entry func(i int) (key, value []byte)) error {
	return s.Update(func(tx Tx) error {
		for i := range n {
			if err := tx.Put(entry(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// View implements Store.
func (s BuntDB) View(f func(Tx) error) error {
	return s.DB.View(func(tx *buntdb.Tx) error { return f(buntTx{tx}) })
}

// Update implements Store.
func (s BuntDB) Update(f func(Tx) error) error {
	return s.DB.Update(func(tx *buntdb.Tx) error { return f(buntTx{tx}) })
}

// Close implements Store.
func (s BuntDB) Close() error { return s.DB.Close() }

type buntTx struct{ tx *buntdb.Tx }

func (t buntTx) Get(key []byte) ([]byte, error) {
	found, err := t.tx.Get(string(key))
	if errors.Is(err, buntdb.ErrNotFound) {
		return nil, ErrAbsent
	}
	return []byte(found), err
}

func (t buntTx) Put(key, value []byte) error {
	_, _, err := t.tx.Set(string(key), string(value), nil)
	return err
}

func (t buntTx) Scan(from, to []byte, f func(key, value []byte) error) (err error) {
	walk := t.tx.AscendRange("", string(from), string(to), func(key, value string) bool {
		err = f([]byte(key), []byte(value))
		return err == nil
	})
	return cmp.Or(err, walk)
}
