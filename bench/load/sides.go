package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/copaldb/copal"
	"github.com/copaldb/copal/bench/internal/pebbledb"
	"github.com/copaldb/copal/internal/bench/rivals"
)

// The sides. The first three are copal's: typed maps, typed maps that are written with SetAsync,
// and raw bytes. The last is no store and no rival. It is the reference for memory alone.
const (
	ownMaps   = "copal"
	ownAsync  = "copal async"
	ownRaw    = "copal raw"
	reference = "sync.Map"
)

// engines are the stores of bytes, by the names of their sides.
var engines = map[string]rivals.Engine{
	ownRaw:   rivals.Copal,
	"bbolt":  rivals.Bbolt,
	"badger": rivals.Badger,
	"pebble": pebbledb.Engine,
	"buntdb": rivals.Bunt,
}

// others are the sides that copal is held against.
var others = []string{"bbolt", "badger", "pebble", "buntdb"}

// A side keeps values under text keys, in a few collections.
type side[V any] interface {
	get(collection int, key string) (V, error)
	set(collection int, key string, v V) error
	// batch sets n values in one transaction, or in as few as the store allows.
	batch(collection, n int, entry func(i int) (key string, v V)) error
	// sync returns when everything that was written is on the disk.
	sync() error
	close() error
}

// A form turns values into the bytes that a store of bytes keeps, as its user would.
type form[V any] struct {
	encode func(V) ([]byte, error)
	decode func([]byte) (V, error)
}

func jsonForm[V any]() form[V] {
	return form[V]{
		func(v V) ([]byte, error) { return json.Marshal(v) },
		func(b []byte) (v V, err error) { return v, json.Unmarshal(b, &v) },
	}
}

var textForm = form[string]{
	func(s string) ([]byte, error) { return []byte(s), nil },
	func(b []byte) (string, error) { return string(b), nil },
}

// openSide opens a side in a directory that exists. If it is durable, the writes of set and batch
// are on the disk when they return.
func openSide[V any](name, dir string, collections int, durable bool, f form[V]) (side[V], error) {
	switch name {
	case reference:
		return new(memory[V]), nil
	case ownMaps, ownAsync:
		return openTyped[V](dir, collections, durable, name == ownAsync)
	}
	engine, ok := engines[name]
	if !ok {
		return nil, fmt.Errorf("there is no side %q", name)
	}
	store, err := engine.Open(dir, durable)
	if err != nil {
		return nil, err
	}
	return bytesSide[V]{store, dir, f}, nil
}

// typed is copal as most programs use it: a typed map for each collection, with the standard codec.
type typed[V any] struct {
	db     *copal.DB
	maps   []*copal.Map[string, V]
	write  func(m *copal.Map[string, V], key string, v V) error
	update func(func(tx *copal.Tx) error) error
}

func openTyped[V any](dir string, collections int, durable, async bool) (side[V], error) {
	db, err := copal.Open(dir)
	if err != nil {
		return nil, err
	}
	s := typed[V]{db: db, write: (*copal.Map[string, V]).Set, update: db.Update}
	if async {
		s.write = (*copal.Map[string, V]).SetAsync
	}
	if durable {
		s.write, s.update = (*copal.Map[string, V]).SetFSync, db.UpdateFSync
	}
	for c := range collections {
		m, err := copal.OpenMap[string, V](db, fmt.Sprintf("collection%d", c))
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		s.maps = append(s.maps, m)
	}
	return s, nil
}

func (s typed[V]) get(c int, key string) (V, error) { return s.maps[c].Load(key) }
func (s typed[V]) set(c int, key string, v V) error { return s.write(s.maps[c], key, v) }
func (s typed[V]) sync() error                      { return s.db.Sync() }
func (s typed[V]) close() error                     { return s.db.Close() }

func (s typed[V]) batch(c, n int, entry func(i int) (string, V)) error {
	return s.update(func(tx *copal.Tx) error {
		m := s.maps[c].In(tx)
		for i := range n {
			key, v := entry(i)
			if err := m.Set(key, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// bytesSide is a store of bytes with a prefix for each collection.
type bytesSide[V any] struct {
	store rivals.Store
	dir   string
	form  form[V]
}

func rawKey(c int, key string) []byte {
	b := make([]byte, 0, len(key)+3)
	return append(append(b, 'c', byte('0'+c), ':'), key...)
}

func (s bytesSide[V]) get(c int, key string) (v V, err error) {
	b, err := s.store.Get(rawKey(c, key))
	if err != nil {
		return v, err
	}
	return s.form.decode(b)
}

func (s bytesSide[V]) set(c int, key string, v V) error {
	b, err := s.form.encode(v)
	if err != nil {
		return err
	}
	return s.store.Put(rawKey(c, key), b)
}

func (s bytesSide[V]) batch(c, n int, entry func(i int) (string, V)) error {
	var failed error
	err := s.store.Batch(n, func(i int) ([]byte, []byte) {
		key, v := entry(i)
		b, err := s.form.encode(v)
		failed = errors.Join(failed, err)
		return rawKey(c, key), b
	})
	return errors.Join(failed, err)
}

func (s bytesSide[V]) sync() error  { return syncStore(s.store, s.dir) }
func (s bytesSide[V]) close() error { return s.store.Close() }

// syncStore syncs the writes of a store.
func syncStore(s rivals.Store, dir string) error {
	switch s := s.(type) {
	case rivals.Own:
		return s.DB.Sync()
	case rivals.Bolt:
		return s.DB.Sync()
	case rivals.BadgerDB:
		return s.DB.Sync()
	case pebbledb.Store:
		return s.DB.LogData(nil, pebble.Sync) // a sync of its log, and so of all before
	case rivals.BuntDB: // which writes to its file at each commit, and has no function to sync it
		f, err := os.OpenFile(filepath.Join(dir, "bunt.db"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	return fmt.Errorf("%T: %w", s, errors.ErrUnsupported)
}

// memory is a sync.Map. It has one collection, and keeps nothing.
type memory[V any] struct{ m sync.Map }

func (s *memory[V]) get(_ int, key string) (v V, err error) {
	found, ok := s.m.Load(key)
	if !ok {
		return v, rivals.ErrAbsent
	}
	return found.(V), nil
}

func (s *memory[V]) set(_ int, key string, v V) error {
	s.m.Store(key, v)
	return nil
}

func (s *memory[V]) batch(_, n int, entry func(i int) (string, V)) error {
	for i := range n {
		key, v := entry(i)
		s.m.Store(key, v)
	}
	return nil
}

func (s *memory[V]) sync() error  { return nil }
func (s *memory[V]) close() error { return nil }
