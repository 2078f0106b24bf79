package copal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
)

// Map is a typed map in a store. It is safe for concurrent use. No method holds a lock while a
// function of the caller runs, so such a function may use the store.
//
// A *Map is a handle. With, At, In, Backward and WithContext return other handles to the same map,
// which use it in another way. A handle costs one small allocation and needs no Close.
type Map[K comparable, V any] struct {
	bare bareMap
	keys *keycodec.Codec[K]
}

// OpenMap opens the map called name, which may be new. A name is any text but "".
//
// Keys are strings, integers, floats, bool, time.Time, every type with encoding.TextMarshaler and
// TextUnmarshaler, and structs and arrays of these, such as
//
//	struct{Sensor string; At time.Time}
//
// All fields of such a struct must be exported. Its keys are ordered field by field, so Between
// yields those of one Sensor, or of an hour of one, and their text in the store is
// kitchen/2026-11-23T20:00:00.000000000Z. Two keys are the same entry when their encodings are
// equal: times of one instant, 0 and -0, NaN and NaN. Values are of the types that the codec keeps
// exactly; see package codec. For other types the error is ErrType.
//
// The stored keys must be in the order of K. Numbers, texts and times each have an order of their
// own, and so have structs and arrays. An int32 may become an int64, and a string a named string
// type. If the order differs, the error is ErrType and names both orders. The store remembers the
// order from the first write to an open map; a map that has only raw writes opens with any K. A raw
// key that is no K is counted by Len, and each walk reports ErrType for it.
//
// The stored values must fit V. For each schema under which the map has entries, OpenMap compares
// the fields with those of V, without reading a value. The error is ErrType in two cases: no value
// of a schema can be a V, and then the error names the field; or a schema is of a codec that is
// neither the map's nor one of package codec. The map is unchanged then: open it with the type and
// the codec that wrote it, or delete or overwrite the entries as raw bytes. Three faults concern
// single values, and are ErrType when such a value is read: a number too large for its field, a nil
// where V has no pointer, and raw text that is no V, such as an object without a field of V.
//
// If the map is open already, OpenMap returns it when the types are the same, and ErrType
// otherwise. An option that contradicts the first opening is an error; an option left out keeps its
// setting.
func OpenMap[K comparable, V any](db *DB, name string, opts ...MapOption) (*Map[K, V], error) {
	c, err := db.mapConfig(name, opts, reflect.TypeFor[func(K, V)]())
	if err != nil {
		return nil, err
	}
	keys, err := keycodec.For[K]()
	if err != nil {
		return nil, typeError(err, "map %q", name)
	}
	m := &Map[K, V]{keys: keys}
	if err := m.bare.make(db, name, &c, reflect.TypeFor[K](), keys.Order(), reflect.TypeFor[V](), reflect.TypeFor[cell[V]]()); err != nil {
		return nil, err
	}
	var tell func(engine.Item) error
	if f, _ := c.expired.(func(K, V)); f != nil {
		tell = func(item engine.Item) error {
			k, v, err := m.entry(&item)
			if err == nil {
				f(k, v)
			}
			return err
		}
	}
	open, err := m.bare.open(m, &c, tell)
	if err != nil {
		return nil, err
	}
	return open.(*Map[K, V]), nil
}

// OpenSingleMap opens a store that holds one map, called "map". Its options are those of Open and
// of OpenMap. Closing the map closes the store.
func OpenSingleMap[K comparable, V any](dir string, opts ...Option) (*Map[K, V], error) {
	db, err := Open(dir, opts...)
	if err != nil {
		return nil, err
	}
	m, err := OpenMap[K, V](db, "map")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	m.bare.single = true
	return m, nil
}

// With returns a handle whose writes are as durable as d: users.With(copal.FSync).SetTTL(k, v, d).
// Outside transactions, SetAsync, SetFSync and the other verbs with Async or FSync keep the
// durability of their names. A transaction has one durability for all its writes, so every use of
// m.In(tx).With(d) is ErrHandle.
func (m *Map[K, V]) With(d Durability) *Map[K, V] {
	n := *m
	n.bare.with(d)
	return &n
}

// At returns a handle that reads the map in the snapshot. Writes are ErrSnapshot. If the snapshot
// is nil or of another store, every use is ErrHandle. In the snapshot, a map has the entries that
// its keys had then, even if it was opened or first written to later.
func (m *Map[K, V]) At(s *Snapshot) *Map[K, V] {
	n := *m
	n.bare.at(s)
	return &n
}

// In returns a handle that reads and writes in the transaction. If the transaction is nil or of
// another store, every use is ErrHandle. The writes take effect when the transaction commits, with
// the durability of the transaction, also those of SetAsync and the other verbs with Async.
// SetFSync and the other verbs with FSync are ErrHandle, except in a transaction of UpdateFSync. An
// error that a read cannot return ends the transaction, which returns it.
func (m *Map[K, V]) In(tx *Tx) *Map[K, V] {
	n := *m
	n.bare.in(tx)
	return &n
}

// WithContext returns a handle whose calls end with the error of ctx if ctx ends while they wait
// for another machine. In a store on this machine no call of a map waits for one.
func (m *Map[K, V]) WithContext(ctx context.Context) *Map[K, V] {
	n := *m
	n.bare.within(ctx)
	return &n
}

// Backward returns a handle that yields the same entries the other way round: in descending order
// of their keys.
func (m *Map[K, V]) Backward() *Map[K, V] {
	n := *m
	n.bare.backward()
	return &n
}

// Name returns the name that the map was opened with.
func (m *Map[K, V]) Name() string { return m.bare.name }

// DB returns the store that the map is kept in.
func (m *Map[K, V]) DB() *DB { return m.bare.db }

// Get returns the value under key, which is the caller's own, and whether there is one. A failed
// read counts as absent, and its error goes to the error handler; Load returns it.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	if c := m.find(key); c != nil {
		if m.bare.flat {
			return c.value, true
		}
		v, err := ofCell(&m.bare, c, false)
		return v, m.bare.found(err)
	}
	v, err := m.load(key, false)
	return v, m.bare.found(err)
}

// Peek returns the value under key without a copy, so the caller must not change anything that it
// points to: other readers may share it. If the value is in memory, Peek is as fast as a read of a
// Go map; otherwise it is Get. For a V without slices, maps, pointers and interfaces, Get is
// equally fast.
func (m *Map[K, V]) Peek(key K) (v V, ok bool) {
	if c := m.find(key); c != nil {
		return c.value, true
	}
	v, err := m.load(key, true)
	return v, m.bare.found(err)
}

// Load is Get with an error: ErrNotFound when there is no entry, a *CorruptError when it is
// damaged, ErrType when it is not a V.
func (m *Map[K, V]) Load(key K) (V, error) {
	if c := m.find(key); c != nil {
		return ofCell(&m.bare, c, false)
	}
	v, err := m.load(key, false)
	if err == ErrNotFound {
		buf := m.key(key)
		defer buf.release()
		err = m.bare.missing(err, buf.key)
	}
	return v, err
}

// Has reports whether there is an entry under key. It treats an error as Get does.
func (m *Map[K, V]) Has(key K) bool { return m.bare.has(m.key(key)) }

// load reads a value, which may be shared.
func (m *Map[K, V]) load(key K, shared bool) (v V, err error) {
	buf := m.key(key)
	defer buf.release()
	var e engine.Entry
	if err := m.bare.read(buf, &e, shared); err != nil {
		return v, err
	}
	return valueOf[V](&m.bare, buf.key, &e, shared)
}

// key encodes a key, and says in the buffer if that fails. The caller, or whom it gives the buffer, releases that.
func (m *Map[K, V]) key(key K) *buffer {
	buf := buffers.Get().(*buffer)
	if m.bare.closed.Load() {
		buf.err = ErrClosed
		return buf
	}
	if buf.key, buf.err = m.keys.Append(append(buf.key[:0], m.bare.prefix...), key); buf.err != nil {
		buf.err = m.bare.keyError(buf.err)
	}
	return buf
}

// Set stores v under key. When it returns nil, the entry survives the death of the process, and the
// death of the machine once the sync interval has passed. The value is encoded before Set returns;
// the caller may change v and anything that it points to afterwards. When Set returns an error the
// map has not changed. The exception is ErrReadOnly after an I/O failure: then the outcome is known
// when the store is opened again.
//
// An entry that is set again gets the TTL of WithTTL, or none.
func (m *Map[K, V]) Set(key K, v V) error { return m.set(key, v, m.bare.usual(), m.bare.by) }

// SetFSync is Set that survives a power cut when it returns nil. Concurrent callers share the cost
// of a sync. The value is visible before it is durable. When the sync fails, the outcome is unknown
// and the store refuses further writes.
func (m *Map[K, V]) SetFSync(key K, v V) error {
	return m.set(key, v, m.bare.usual(), engine.Power)
}

// SetAsync is Set that returns before the log has the value. The value is visible at once. The log
// gets it within the sync interval, or by Map.Sync, DB.Sync or Close; of several such writes of one
// key within an interval it gets the last. When the process dies, the writes of the last interval
// are lost, and the entry is as it was before them. An older value never replaces a newer one.
//
// SetAsync returns the errors that it finds at once, such as a value that cannot be encoded. An
// error that shows later goes to the error handler, and Map.Sync, DB.Sync and Close return it.
func (m *Map[K, V]) SetAsync(key K, v V) error {
	return m.set(key, v, m.bare.usual(), engine.Async)
}

// SetInMemory puts v in place of the entry's value, in memory alone. Reads and updates of this map
// show it, and nothing else does. It is for values that can be computed again, such as fields that
// are not stored. It stays until Close or the next write of another kind to the key; it expires
// with its entry, and is not evicted when memory is short. v is shared with all who read or update
// it. The log is not touched, except by a SetAsync of the key that is still waiting. When there is
// no entry, the error is ErrNotFound, and nothing changes.
func (m *Map[K, V]) SetInMemory(key K, v V) error {
	return m.set(key, v, deadline{}, engine.Memory)
}

// SetTTL is Set of an entry that expires after d, which must be positive, counted from the call.
func (m *Map[K, V]) SetTTL(key K, v V, d time.Duration) error {
	return m.set(key, v, m.bare.after(d), m.bare.by)
}

// SetUntil is Set of an entry that expires at deadline, which must lie ahead, and before the year
// 292,278,994. The store keeps it to the millisecond, rounded up.
func (m *Map[K, V]) SetUntil(key K, v V, deadline time.Time) error {
	return m.set(key, v, m.bare.until(deadline), m.bare.by)
}

func (m *Map[K, V]) set(key K, v V, until deadline, d engine.Durability) error {
	if until.err != nil {
		return until.err
	}
	buf := m.key(key)
	defer buf.release()
	if buf.err != nil {
		return buf.err
	}
	w := engine.Write{Key: buf.key, Own: m.keys.Text(&key), Cells: m.bare.cells, Expiry: until.at, Durability: m.bare.durability(d)}
	if err := fill(&m.bare, buf, &w, v); err != nil {
		return err
	}
	_, err := m.bare.write(&m.bare.place, &w)
	return m.bare.missing(err, w.Key) // of SetInMemory
}

// Delete removes the entry of key and reports whether there was one; if not, it writes nothing. It
// is as durable as Set.
func (m *Map[K, V]) Delete(key K) (existed bool, err error) {
	return m.bare.delete(m.key(key), m.bare.by)
}

// DeleteFSync is Delete with the durability of SetFSync.
func (m *Map[K, V]) DeleteFSync(key K) (existed bool, err error) {
	return m.bare.delete(m.key(key), engine.Power)
}

// DeleteAsync is Delete with the durability of SetAsync.
func (m *Map[K, V]) DeleteAsync(key K) (existed bool, err error) {
	return m.bare.delete(m.key(key), engine.Async)
}

// Len returns the number of entries. For the present state of the map it takes constant time. In a
// snapshot it takes time in proportion to the keys that have changed since. In a transaction it
// looks at each entry, and an entry that another writer adds or removes before the transaction ends
// is a conflict. An error is treated as by Get, and the number is 0 then.
func (m *Map[K, V]) Len() int { return m.bare.len() }

// Sync returns when every write to the map before the call is on the disk, including those of
// SetAsync.
func (m *Map[K, V]) Sync() error { return m.bare.sync() }

// Close makes the writes to the map durable and ends its use: every handle of it returns ErrClosed
// from then on, and the map can be opened with other types. Closing the map of OpenSingleMap closes
// its store. Calls after the first return nil.
func (m *Map[K, V]) Close() error { return m.bare.close() }

// Range deletions: one record in the log, however many entries go.

// Clear removes all entries of the map as one write: a reader that sees one of them gone sees all
// of them gone. It is as durable as Set. If an entry is damaged nothing is removed, and the error
// names it.
//
// Clear reads all keys first, while other goroutines write on. Then all writers wait until one
// record is appended, and a writer of one key until about a hundredth of the keys are removed. A
// write by another goroutine that reaches the log before that record is removed as well. A watch
// gets one change, with Range set.
//
// In a transaction, writes by others to the map before the transaction ends are no conflict: they
// are removed, too.
func (m *Map[K, V]) Clear() error { return m.bare.deletePrefix("") }

// DeleteRange removes the entries with keys in [from, to), as Clear does. In an Ordered map it
// reads only these keys.
func (m *Map[K, V]) DeleteRange(from, to K) error {
	return m.bare.deleteBetween(m.bound(from), m.bound(to))
}

// DeletePrefix removes the entries that Prefix yields, as Clear does.
func (m *Map[K, V]) DeletePrefix(p string) error { return m.bare.deletePrefix(p) }

func (m *bareMap) deleteBetween(from, to bound) error {
	span, err := m.span(from, to)
	if err != nil {
		return err
	}
	return m.deleteRange(keyrange.Sorted(m.prefix, m.order, span))
}

func (m *bareMap) deletePrefix(p string) error {
	return m.deleteRange(keyrange.Prefix(append(m.prefix, p...)))
}

// deleteRange is deleteRange of the handle, unless the map is closed.
func (m *bareMap) deleteRange(r engine.Range) error {
	if m.closed.Load() {
		return ErrClosed
	}
	return m.handle.deleteRange(r)
}

func (h *handle) deleteRange(r engine.Range) error {
	d := h.by
	if d == engine.Async {
		d = engine.Process
	}
	if h.from != nil {
		return h.from.deleteRange(r, d)
	}
	return h.db.store.DeleteRange(r, d)
}

// Clear removes all entries of the store, of all maps and collections, as Map.Clear does.
func (r *Raw) Clear() error { return r.DeletePrefix(nil) }

// DeleteRange removes the entries whose whole keys are in [from, to), compared as bytes, as
// Map.Clear does. That includes entries of maps and collections. A nil bound is no bound.
func (r *Raw) DeleteRange(from, to []byte) error {
	return r.deleteRange(keyrange.Keys(engine.Span{Low: from, High: to}))
}

// DeletePrefix removes the entries whose whole keys begin with p, as DeleteRange does.
func (r *Raw) DeletePrefix(p []byte) error { return r.deleteRange(keyrange.Prefix(p)) }

// Drop removes a map: its entries, as Map.Clear does, and its types, so that it may be opened with
// others. An open map must be closed first. If there is no such map, Drop does nothing.
func (db *DB) Drop(name string) error {
	err := db.store.Drop(name)
	if errors.Is(err, engine.ErrMapOpen) {
		err = fmt.Errorf("copal: map %q is open: close it before it is dropped", name)
	}
	return err
}
