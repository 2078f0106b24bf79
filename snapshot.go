package copal

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unsafe"

	"github.com/copaldb/copal/internal/store"
)

// Snapshot is a store as it was when the snapshot was taken: all its maps and raw keys, at one moment between two writes. It
// stays so while others write, delete, compact and let entries expire, and it holds up nobody. What had been acknowledged when it was taken is in
// it, SetAsync included, and SetInMemory is not. It is safe for concurrent use.
//
// While it is open the store keeps in memory, for each key that changes, where its old record stands, about 80 bytes and the key; and on the disk
// the files that compaction would remove, as far as they are as old as the snapshot. Both are given back by Close, and
// Stats counts them. A transaction needs no snapshot, and a snapshot survives neither Close of the store nor the process: for that there
// is Backup.
type Snapshot struct {
	db   *DB
	view *store.View
}

// Snapshot takes a snapshot. It takes microseconds, whatever the size of the store, and longer only if SetAsync has left much to be written.
// Its error says that this could not be written, or is ErrClosed. Whoever takes a snapshot must close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	v, err := db.store.OpenView()
	if err != nil {
		return nil, err
	}
	return &Snapshot{db, v}, nil
}

// Close gives back what is kept for the snapshot, of which every read fails with ErrClosed from then on. Calls after the first do nothing. The error is nil.
func (s *Snapshot) Close() error {
	s.view.Close()
	return nil
}

// Seq is the sequence number of the last record that is in the snapshot. Of two snapshots of a store the one with the higher number
// was taken later; with the same number they were taken with no write in between.
func (s *Snapshot) Seq() uint64 { return s.view.Seq() }

// Time is when the snapshot was taken. What expires later is in it for as long as it is open.
func (s *Snapshot) Time() time.Time { return time.UnixMilli(int64(s.view.Time())) }

// Get is DB.Get of the snapshot.
func (s *Snapshot) Get(key []byte) ([]byte, error) {
	e, err := s.view.Get(nil, key)
	return e.Value, err
}

// Has is DB.Has of the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) { return s.view.Has(nil, key) }

// Scan is DB.Scan of the snapshot: it yields all the entries that it has, and nothing else, in order.
func (s *Snapshot) Scan(prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key := range s.ScanKeys(prefix) {
			value, err := s.Get(key)
			if err != nil {
				s.db.report(err)
				if ends(err) {
					return
				}
				continue
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// ScanKeys is Scan without the values.
func (s *Snapshot) ScanKeys(prefix []byte) iter.Seq[[]byte] {
	return func(yield func(key []byte) bool) {
		for _, key := range s.sortedKeys(prefix) {
			if !yield(key) {
				return
			}
		}
	}
}

// ends reports whether an error is not about one entry.
func ends(err error) bool {
	return err != nil && (errors.Is(err, ErrClosed) || errors.Is(err, ErrSnapshotLost))
}

// sortedKeys lists the keys that begin with prefix. A map that is declared meanwhile takes keys into its table.
func (s *Snapshot) sortedKeys(prefix []byte) [][]byte {
	for {
		generation := s.db.store.Generation()
		keys := s.collectKeys(prefix)
		if s.db.store.Generation() == generation {
			slices.SortFunc(keys, bytes.Compare)
			return keys
		}
	}
}

func (s *Snapshot) collectKeys(prefix []byte) (keys [][]byte) {
	for _, t := range s.db.store.Tables() {
		if !couldHold(t.Name(), prefix) {
			continue
		}
		for item := range s.view.Items(t, false) {
			s.db.report(item.Err)
			if ends(item.Err) {
				return nil
			}
			if item.Err == nil && bytes.HasPrefix(item.Key, prefix) {
				keys = append(keys, item.Key)
			}
		}
	}
	return keys
}

// MapAt is a map as it is in a snapshot. It has the methods of Map that read, and is safe for concurrent use.
type MapAt[K comparable, V any] struct {
	m *Map[K, V]
	s *Snapshot
}

// At returns the map as it is in the snapshot, which must be of the same store; reads fail with ErrType otherwise. A map
// that was opened, or first written to, after the snapshot was taken has there what its keys had then.
func (m *Map[K, V]) At(s *Snapshot) *MapAt[K, V] { return &MapAt[K, V]{m, s} }

// Get is Map.Get of the snapshot: the value may be shared with other readers. A read that fails, because the snapshot is
// closed, too, goes to the error handler and counts as absent.
func (a *MapAt[K, V]) Get(key K) (v V, ok bool) {
	v, err := a.load(key, true)
	if err != nil && !isNotFound(err) {
		a.m.db.report(err)
	}
	return v, err == nil
}

// Load is Map.Load of the snapshot.
func (a *MapAt[K, V]) Load(key K) (V, error) { return a.load(key, false) }

// Has reports whether the snapshot has an entry for key. A read that fails goes to the error handler.
func (a *MapAt[K, V]) Has(key K) bool {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	err := a.prepare(buf, key)
	has := false
	if err == nil {
		has, err = a.s.view.Has(a.m.table, buf.key)
	}
	a.m.db.report(err)
	return has
}

func (a *MapAt[K, V]) prepare(buf *buffer, key K) error {
	if err := a.fits(); err != nil {
		return err
	}
	return a.m.encodeKey(buf, key)
}

func (a *MapAt[K, V]) fits() error {
	switch {
	case a.s.db != a.m.db:
		return fmt.Errorf("%w: the snapshot is of another store than map %q", ErrType, a.m.name)
	case a.m.closed.Load():
		return ErrClosed
	}
	return nil
}

func (a *MapAt[K, V]) load(key K, shared bool) (v V, err error) {
	m := a.m
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := a.prepare(buf, key); err != nil {
		return v, err
	}
	if !shared && !m.flat {
		e, err := a.s.view.Get(m.table, buf.key)
		if err != nil {
			return v, err
		}
		return m.decode(buf.key, &e)
	}
	own := unsafe.String(unsafe.SliceData(buf.key), len(buf.key))[len(m.prefix):]
	var e store.Entry
	if err := a.s.view.Read(&e, m.cells, m.cells.Hash(own), buf.key, buf.room()); err != nil {
		return v, err
	}
	if e.Cell != nil {
		return cellOf[V](e.Cell).value, nil
	}
	return m.decode(buf.key, &e)
}

// Len is the number of entries in the snapshot. It takes the longer the more keys have changed since that was taken. When it fails the error goes to the error
// handler, and the number is 0.
func (a *MapAt[K, V]) Len() int {
	err := a.fits()
	n := 0
	if err == nil {
		n, err = a.s.view.Len(a.m.table)
	}
	a.m.db.report(err)
	if err != nil {
		return 0
	}
	return n
}

// All yields each key of the snapshot and its value, exactly once, in no order. An entry that cannot be read goes to the error handler and is left out.
func (a *MapAt[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for item := range a.items(true) {
			k, ok := a.m.key(item)
			if !ok {
				continue
			}
			v, err := a.m.decode(item.Key, &item.Entry)
			if err != nil {
				a.m.db.report(err)
				continue
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// Keys yields each key, as All does. No value is decoded.
func (a *MapAt[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for item := range a.items(false) {
			if k, ok := a.m.key(item); ok && !yield(k) {
				return
			}
		}
	}
}

// Values yields each value, as All does.
func (a *MapAt[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range a.All() {
			if !yield(v) {
				return
			}
		}
	}
}

// items are the entries, until the map is closed.
func (a *MapAt[K, V]) items(values bool) iter.Seq[store.Item] {
	return func(yield func(store.Item) bool) {
		if err := a.fits(); err != nil {
			yield(store.Item{Err: err})
			return
		}
		for item := range a.s.view.Items(a.m.table, values) {
			if a.m.isClosed() || !yield(item) {
				return
			}
		}
	}
}
