package pebbledb

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// Engine is pebble: a log-structured tree. It has a cache, and a table in memory of the size that
// badger has by default.
var Engine = rivals.Engine{Name: "pebble", Module: "github.com/cockroachdb/pebble/v2", Open: open}

// Store is a store of pebble.
type Store struct {
	DB       *pebble.DB
	cache    *pebble.Cache
	write    *pebble.WriteOptions
	updating *sync.Mutex // held by an Update, since pebble looks for no conflicts
}

// quiet drops the messages of pebble, except fatal ones.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}

func open(dir string, durable bool) (rivals.Store, error) {
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
	return Store{db, cache, write, new(sync.Mutex)}, nil
}

// Get implements rivals.Store.
func (s Store) Get(key []byte) ([]byte, error) {
	found, closer, err := s.DB.Get(key)
	if err != nil {
		return nil, pebbleError(err)
	}
	value := bytes.Clone(found)
	return value, closer.Close()
}

// pebbleError returns an error of pebble as one of package rivals.
func pebbleError(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return rivals.ErrAbsent
	}
	return err
}

// Put implements rivals.Store.
func (s Store) Put(key, value []byte) error { return s.DB.Set(key, value, s.write) }

// Batch implements rivals.Store.
func (s Store) Batch(n int, entry func(i int) (key, value []byte)) error {
	b := s.DB.NewBatch()
	for i := range n {
		key, value := entry(i)
		if err := b.Set(key, value, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(s.write), b.Close())
}

// View reads the present state at each read: a snapshot would cost more than a read.
func (s Store) View(f func(rivals.Tx) error) error {
	t := &pebbleTx{from: s.DB}
	return errors.Join(f(t), t.giveBack())
}

// Update implements rivals.Store.
func (s Store) Update(f func(rivals.Tx) error) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	b := s.DB.NewIndexedBatch()
	t := &pebbleTx{from: b, batch: b}
	err := f(t)
	if back := t.giveBack(); err == nil {
		err = back
	}
	if err == nil {
		err = b.Commit(s.write)
	}
	if ended := b.Close(); err == nil {
		err = ended
	}
	return err
}

// Close implements rivals.Store.
func (s Store) Close() error {
	err := s.DB.Close()
	s.cache.Unref()
	return err
}

// pebbleTx reads a store, or a batch above one.
type pebbleTx struct {
	from  pebble.Reader
	batch *pebble.Batch // nil in a View
	lent  io.Closer     // of the value that Get has lent; nil for none
}

func (t *pebbleTx) giveBack() (err error) {
	if t.lent != nil {
		err, t.lent = t.lent.Close(), nil
	}
	return err
}

func (t *pebbleTx) Get(key []byte) (value []byte, err error) {
	if err := t.giveBack(); err != nil {
		return nil, err
	}
	value, t.lent, err = t.from.Get(key)
	return value, pebbleError(err)
}

func (t *pebbleTx) Put(key, value []byte) error {
	if t.batch == nil {
		return errors.New("a view does not write")
	}
	return t.batch.Set(key, value, nil)
}

func (t *pebbleTx) Scan(from, to []byte, f func(key, value []byte) error) error {
	it, err := t.from.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			err = f(it.Key(), value)
		}
	}
	if ended := it.Close(); err == nil {
		err = ended
	}
	return err
}
