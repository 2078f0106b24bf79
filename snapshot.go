package copal

import (
	"errors"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"github.com/copaldb/copal/internal/engine"
)

// Snapshot is a store as it was when the snapshot was taken: all its maps and raw keys, at one moment between two writes. It
// stays so while others write, delete, compact and let entries expire, and it holds up nobody. What had been acknowledged when it was taken is in
// it, SetAsync included, and SetInMemory is not. It is safe for concurrent use.
//
// While it is open the store keeps in memory, for each key that changes, where its old record stands, 80 to 140 bytes with the key; and on the disk
// the files that compaction would remove, as far as they are as old as the snapshot. Both are given back by Close, and
// Stats counts them. A transaction needs no snapshot, and a snapshot survives neither Close of the store nor the process: for that there
// is Backup.
type Snapshot struct {
	db   *DB
	view *engine.View
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
	if err != nil || e.Schema == 0 {
		return e.Value, err
	}
	return s.db.shown(nil, key, e.Value, e.Schema)
}

// Has is DB.Has of the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) { return s.view.Has(nil, key) }

// Scan is DB.Scan of the snapshot: it yields all the entries that it has, and nothing else.
func (s *Snapshot) Scan(prefix []byte) iter.Seq2[[]byte, []byte] {
	return s.scan(engine.PrefixSpan(prefix))
}

// ScanKeys is Scan without the values.
func (s *Snapshot) ScanKeys(prefix []byte) iter.Seq[[]byte] {
	return s.scanKeys(engine.PrefixSpan(prefix))
}

// ScanRange is DB.ScanRange of the snapshot.
func (s *Snapshot) ScanRange(from, to []byte) iter.Seq2[[]byte, []byte] {
	return s.scan(engine.Span{Low: from, High: to, HighOpen: true})
}

// ScanRangeKeys is ScanRange without the values.
func (s *Snapshot) ScanRangeKeys(from, to []byte) iter.Seq[[]byte] {
	return s.scanKeys(engine.Span{Low: from, High: to, HighOpen: true})
}

// ScanBackward is DB.ScanBackward of the snapshot.
func (s *Snapshot) ScanBackward(from, to []byte) iter.Seq2[[]byte, []byte] {
	return s.scan(engine.Span{Low: from, High: to, HighOpen: true, Down: true})
}

//go:noinline
func (s *Snapshot) scan(sp engine.Span) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key := range s.scanKeys(sp) {
			value, err := s.Get(key)
			switch {
			case err == nil:
				if !yield(key, value) {
					return
				}
			default:
				s.db.report(err)
				if errors.Is(err, ErrClosed) || errors.Is(err, ErrSnapshotLost) {
					return
				}
			}
		}
	}
}

//go:noinline
func (s *Snapshot) scanKeys(sp engine.Span) iter.Seq[[]byte] {
	return func(yield func(key []byte) bool) {
		for item := range s.view.Scan(sp) {
			if item.Err != nil {
				s.db.report(item.Err)
				continue
			}
			if !yield(item.Key) {
				return
			}
		}
	}
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
	var e engine.Entry
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

// All yields each key of the snapshot and its value, exactly once: of an ordered map in the order of the keys, of others in none. An entry that cannot be read goes to the
// error handler and is left out.
func (a *MapAt[K, V]) All() iter.Seq2[K, V] { return a.m.entries(a.items(true)) }

// Keys yields each key, as All does. No value is decoded.
func (a *MapAt[K, V]) Keys() iter.Seq[K] { return a.m.keysOf(a.items(false)) }

// Values yields each value, as All does.
//
//go:noinline
func (a *MapAt[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range a.All() {
			if !yield(v) {
				return
			}
		}
	}
}

// Ascend is Map.Ascend of the snapshot.
func (a *MapAt[K, V]) Ascend(from K) iter.Seq2[K, V] { return a.span(&from, nil, false, false) }

// Descend is Map.Descend of the snapshot.
func (a *MapAt[K, V]) Descend(from K) iter.Seq2[K, V] { return a.span(nil, &from, false, true) }

// After is Map.After of the snapshot.
func (a *MapAt[K, V]) After(key K) iter.Seq2[K, V] { return a.span(&key, nil, true, false) }

// Before is Map.Before of the snapshot.
func (a *MapAt[K, V]) Before(key K) iter.Seq2[K, V] { return a.span(nil, &key, true, true) }

// Between is Map.Between of the snapshot.
//
//go:noinline
func (a *MapAt[K, V]) Between(from, to K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if sp, ok := a.m.bounds(&from, &to, false, false); ok {
			sp.HighOpen = true
			a.m.entries(a.inOrder(sp, true))(yield)
		}
	}
}

// Prefix is Map.Prefix of the snapshot.
func (a *MapAt[K, V]) Prefix(p string) iter.Seq2[K, V] {
	return a.m.entries(prefixed(len(a.m.prefix), a.m.by, p, func(sp engine.Span) iter.Seq[engine.Item] { return a.inOrder(sp, true) }))
}

// First is Map.First of the snapshot.
func (a *MapAt[K, V]) First() (key K, v V, ok bool) {
	return first(a.m.entries(a.inOrder(engine.Span{}, true)))
}

// Last is Map.Last of the snapshot.
func (a *MapAt[K, V]) Last() (key K, v V, ok bool) { return first(a.Backward()) }

// KeysFrom is Map.KeysFrom of the snapshot.
//
//go:noinline
func (a *MapAt[K, V]) KeysFrom(from K) iter.Seq[K] {
	return func(yield func(K) bool) {
		if low, ok := a.m.sortKey(from); ok {
			a.m.keysOf(a.inOrder(engine.Span{Low: low}, false))(yield)
		}
	}
}

// Backward is Map.Backward of the snapshot.
func (a *MapAt[K, V]) Backward() iter.Seq2[K, V] { return a.span(nil, nil, false, true) }

// span yields the entries between two keys, nil for none. With open the keys themselves are left out.
//
//go:noinline
func (a *MapAt[K, V]) span(low, high *K, open, down bool) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if sp, ok := a.m.bounds(low, high, open, down); ok {
			a.m.entries(a.inOrder(sp, true))(yield)
		}
	}
}

// items are the entries.
//
//go:noinline
func (a *MapAt[K, V]) items(values bool) iter.Seq[engine.Item] {
	if a.m.IsOrdered() {
		return a.inOrder(engine.Span{}, values)
	}
	return a.fitting(a.s.view.Items(a.m.table, values))
}

//go:noinline
func (a *MapAt[K, V]) inOrder(sp engine.Span, values bool) iter.Seq[engine.Item] {
	return a.fitting(a.s.view.InOrder(a.m.table, a.m.by, sp, values))
}

// fitting yields the items, if there are any for the map.
//
//go:noinline
func (a *MapAt[K, V]) fitting(items iter.Seq[engine.Item]) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		if err := a.fits(); err != nil {
			yield(engine.Item{Err: err})
			return
		}
		items(yield)
	}
}
