package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/copaldb/copal"
	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/buntdb"
	bolt "go.etcd.io/bbolt"
)

// The stores of bytes that are compared, each used as its documentation says it is fast,
// and each without its log messages. What they are given beyond their defaults is in their
// favour: bbolt a free list that it does not write, pebble a cache and a table in memory
// of the size that badger has by default. Every get returns a copy that is the caller's.

// byteStore is one of the stores. It is safe for concurrent use.
type byteStore interface {
	get(key []byte) ([]byte, error)
	put(key, value []byte) error // at the durability that it was opened with
	batch(n int, entry func(i int) (key, value []byte)) error
	close() error
}

// opener opens a store in a directory that exists. A durable store has every put synced
// when it returns; the others sync nothing, or later.
type opener struct {
	name string
	open func(dir string, durable bool) (byteStore, error)
}

var (
	ownStore    = opener{"copal", openOwn}
	bboltStore  = opener{"bbolt", openBolt}
	badgerStore = opener{"badger", openBadger}
	pebbleStore = opener{"pebble", openPebble}
	buntStore   = opener{"buntdb", openBunt}
)

// openIn opens the store in a directory of the line, until the line is done.
func (o opener) openIn(e *env, durable bool) (byteStore, error) {
	dir := e.path(o.name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	s, err := o.open(dir, durable)
	if err == nil {
		e.after(s.close)
	}
	return s, err
}

// batchSize is how many entries the stores take at once while they are filled.
const batchSize = 500

// fillBytes puts entries without a clock.
func fillBytes(s byteStore, n int, entry func(i int) (key, value []byte)) error {
	for from := 0; from < n; from += batchSize {
		if err := s.batch(min(batchSize, n-from), func(i int) ([]byte, []byte) { return entry(from + i) }); err != nil {
			return err
		}
	}
	return nil
}

type own struct{ db *copal.DB }

func openOwn(dir string, _ bool) (byteStore, error) {
	db, err := copal.Open(dir)
	return own{db}, err
}

func (s own) get(key []byte) ([]byte, error) { return s.db.Raw().Load(key) }
func (s own) put(key, value []byte) error    { return s.db.Raw().Set(key, value) }
func (s own) close() error                   { return s.db.Close() }

func (s own) batch(n int, entry func(i int) (key, value []byte)) error {
	for i := range n {
		key, value := entry(i)
		if err := s.db.Raw().Set(key, value); err != nil {
			return err
		}
	}
	return nil
}

type boltDB struct {
	db      *bolt.DB
	durable bool
}

var bucket = []byte("bench")

func openBolt(dir string, durable bool) (byteStore, error) {
	return openBoltWith(dir, &bolt.Options{
		NoSync: !durable, NoGrowSync: !durable, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
}

func openBoltWith(dir string, opts *bolt.Options) (byteStore, error) {
	durable := !opts.NoSync
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, opts)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	return boltDB{db, durable}, err
}

var errAbsent = errors.New("a key that was written is absent")

func (s boltDB) get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		found := tx.Bucket(bucket).Get(key)
		if found == nil {
			return errAbsent
		}
		value = bytes.Clone(found)
		return nil
	})
	return value, err
}

// put lets concurrent writers share a transaction where a transaction is synced.
func (s boltDB) put(key, value []byte) error {
	write := func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, value) }
	if s.durable {
		return s.db.Batch(write)
	}
	return s.db.Update(write)
}

func (s boltDB) batch(n int, entry func(i int) (key, value []byte)) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		for i := range n {
			key, value := entry(i)
			if err := b.Put(key, bytes.Clone(value)); err != nil { // it keeps the slice until the commit
				return err
			}
		}
		return nil
	})
}

func (s boltDB) close() error { return s.db.Close() }

type badgerDB struct{ db *badger.DB }

func openBadger(dir string, durable bool) (byteStore, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(durable).WithLogger(nil).WithDetectConflicts(false))
	return badgerDB{db}, err
}

func (s badgerDB) get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if err == nil {
			value, err = item.ValueCopy(nil)
		}
		return err
	})
	return value, err
}

func (s badgerDB) put(key, value []byte) error {
	return s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, value) })
}

func (s badgerDB) batch(n int, entry func(i int) (key, value []byte)) error {
	b := s.db.NewWriteBatch()
	defer b.Cancel()
	for i := range n {
		key, value := entry(i)
		if err := b.Set(key, bytes.Clone(value)); err != nil { // it keeps the slice until Flush
			return err
		}
	}
	return b.Flush()
}

func (s badgerDB) close() error { return s.db.Close() }

type pebbleDB struct {
	db    *pebble.DB
	cache *pebble.Cache
	write *pebble.WriteOptions
}

// quiet drops what pebble logs, but for what ends the program.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}

func openPebble(dir string, durable bool) (byteStore, error) {
	cache := pebble.NewCache(256 << 20)
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, MemTableSize: 64 << 20, Logger: quiet{}})
	if err != nil {
		cache.Unref()
		return nil, err
	}
	write := pebble.NoSync
	if durable {
		write = pebble.Sync
	}
	return pebbleDB{db, cache, write}, nil
}

func (s pebbleDB) get(key []byte) ([]byte, error) {
	found, closer, err := s.db.Get(key)
	if err != nil {
		return nil, err
	}
	value := bytes.Clone(found)
	return value, closer.Close()
}

func (s pebbleDB) put(key, value []byte) error { return s.db.Set(key, value, s.write) }

func (s pebbleDB) batch(n int, entry func(i int) (key, value []byte)) error {
	b := s.db.NewBatch()
	for i := range n {
		key, value := entry(i)
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(s.write), b.Close())
}

func (s pebbleDB) close() error {
	err := s.db.Close()
	s.cache.Unref()
	return err
}

type buntDB struct{ db *buntdb.DB }

func openBunt(dir string, durable bool) (byteStore, error) {
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
	return buntDB{db}, db.SetConfig(c)
}

func (s buntDB) get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *buntdb.Tx) error {
		found, err := tx.Get(string(key))
		value = []byte(found)
		return err
	})
	return value, err
}

func (s buntDB) put(key, value []byte) error {
	return s.batch(1, func(int) ([]byte, []byte) { return key, value })
}

func (s buntDB) batch(n int, entry func(i int) (key, value []byte)) error {
	return s.db.Update(func(tx *buntdb.Tx) error {
		for i := range n {
			key, value := entry(i)
			if _, _, err := tx.Set(string(key), string(value), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s buntDB) close() error { return s.db.Close() }
