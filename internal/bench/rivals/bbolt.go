package rivals

import (
	"bytes"
	"errors"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Bbolt is a B+tree in a file. It does not write its list of free pages: it rebuilds the list when
// it is opened.
var Bbolt = Engine{Name: "bbolt", Module: "go.etcd.io/bbolt", Open: func(dir string, durable bool) (Store, error) {
	return OpenBolt(dir, &bolt.Options{
		NoSync: !durable, NoGrowSync: !durable, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
}}

// Bolt is a store of bbolt.
type Bolt struct {
	DB      *bolt.DB
	durable bool
}

// BoltFile is the name of the file in the directory of a store of bbolt.
const BoltFile = "bolt.db"

// BoltBucket is the bucket that has the pairs.
var BoltBucket = []byte("bench")

// OpenBolt opens a store of bbolt with other options.
func OpenBolt(dir string, opts *bolt.Options) (Store, error) {
	durable := !opts.NoSync
	db, err := bolt.Open(filepath.Join(dir, BoltFile), 0o600, opts)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(BoltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return Bolt{db, durable}, nil
}

// Get implements Store.
func (s Bolt) Get(key []byte) (value []byte, err error) {
	err = s.DB.View(func(tx *bolt.Tx) error {
		found := tx.Bucket(BoltBucket).Get(key)
		if found == nil {
			return ErrAbsent
		}
		value = bytes.Clone(found)
		return nil
	})
	return value, err
}

// Put lets concurrent writers share a transaction where a transaction is synced.
func (s Bolt) Put(key, value []byte) error {
	write := func(tx *bolt.Tx) error { return tx.Bucket(BoltBucket).Put(key, value) }
	if s.durable {
		return s.DB.Batch(write)
	}
	return s.DB.Update(write)
}

// Batch implements Store.
func (s Bolt) Batch(n int, entry func(i int) (key, value []byte)) error {
	return s.DB.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(BoltBucket)
		for i := range n {
			key, value := entry(i)
			if err := b.Put(key, bytes.Clone(value)); err != nil { // it keeps the value until the commit
				return err
			}
		}
		return nil
	})
}

// View implements Store.
func (s Bolt) View(f func(Tx) error) error {
	return s.DB.View(func(tx *bolt.Tx) error { return f(boltTx{tx.Bucket(BoltBucket)}) })
}

// Update implements Store.
func (s Bolt) Update(f func(Tx) error) error {
	return s.DB.Update(func(tx *bolt.Tx) error { return f(boltTx{tx.Bucket(BoltBucket)}) })
}

// Close implements Store.
func (s Bolt) Close() error { return s.DB.Close() }

type boltTx struct{ bucket *bolt.Bucket }

func (t boltTx) Get(key []byte) ([]byte, error) {
	value := t.bucket.Get(key)
	if value == nil {
		return nil, ErrAbsent
	}
	return value, nil
}

func (t boltTx) Put(key, value []byte) error {
	return t.bucket.Put(key, bytes.Clone(value))
}

func (t boltTx) Scan(from, to []byte, f func(key, value []byte) error) error {
	c := t.bucket.Cursor()
	for key, value := c.Seek(from); key != nil && bytes.Compare(key, to) < 0; key, value = c.Next() {
		if value == nil {
			continue // a bucket
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Bucket implements Nester.
func (t boltTx) Bucket(name []byte) (Tx, error) {
	found := t.bucket.Bucket(name)
	if found == nil && t.bucket.Writable() {
		made, err := t.bucket.CreateBucket(name)
		return boltTx{made}, err
	}
	if found == nil {
		return nil, ErrAbsent
	}
	return boltTx{found}, nil
}

// Buckets implements Nester.
func (t boltTx) Buckets(from, to []byte, f func(name []byte, bucket Tx) error) error {
	c := t.bucket.Cursor()
	for name, value := c.Seek(from); name != nil && bytes.Compare(name, to) < 0; name, value = c.Next() {
		if value != nil {
			continue // a pair
		}
		if err := f(name, boltTx{t.bucket.Bucket(name)}); err != nil {
			return err
		}
	}
	return nil
}
