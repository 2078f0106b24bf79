package copal

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Map is a typed map in a store. It is safe for concurrent use; no method holds a
// lock while a function of the caller runs, so such a function may use the store.
type Map[K comparable, V any] struct {
	db      *DB
	name    string
	prefix  []byte // of the raw keys: the escaped name and a colon
	keys    *keycodec.Codec[K]
	by      keycodec.Order // of the keys
	values  *typed
	table   *engine.Table
	cells   *engine.Cells
	ttl     time.Duration // of what is written without one, 0 for none
	flat    bool          // a value as the caller gave it is one as the log would give it
	strings []uintptr     // offsets of the strings in a flat value
	spare   sync.Pool     // of *V, zero
	closed  atomic.Bool
	single  bool // Close closes the store
}

// OpenMap opens the map called name, which may be new. A name is any text but "".
//
// Keys are strings, integers, floats, bool, arrays of bytes and of numbers,
// time.Time, and every type with encoding.TextMarshaler and TextUnmarshaler. Two keys
// are the same entry when their encodings are equal: times of one instant, 0 and -0,
// NaN and NaN. Values are what the codec can keep exactly; see package codec. For
// other types the error is ErrType.
//
// The values that the map has must fit V: for each schema under which it has entries,
// OpenMap compares the fields with those of V, without reading a value. The error is
// ErrType, and names the field, when no value of a schema can be a V; so it is when they were written
// by a codec that is neither the map's nor one of package codec. Nothing is changed
// then: open the map with the type and the codec that wrote it, or delete or overwrite the
// entries as raw ones. A number too large for the field that it is now, or a nil that is no pointer
// any more, concerns one value, and is ErrType when that is read; so is raw text that is no V.
//
// Opening a map that is open returns the same *Map when the types and the codec are
// the same, and ErrType otherwise. Its TTL, and what OnExpire calls, are those that it was first opened with.
func OpenMap[K comparable, V any](db *DB, name string, opts ...MapOption) (*Map[K, V], error) {
	c := db.config.maps
	for _, o := range opts {
		if o != nil {
			o.applyMap(&c)
		}
	}
	if c.codec == nil {
		return nil, fmt.Errorf("%w: WithCodec(nil)", ErrType)
	}
	if c.ttl < 0 {
		return nil, fmt.Errorf("copal: WithTTL(%v)", c.ttl)
	}
	expired, ok := c.expired.(func(K, V))
	if !ok && c.own && c.expired != nil {
		return nil, fmt.Errorf("%w: map %q does not have the types of OnExpire: %T", ErrType, name, c.expired)
	}
	if name == "" {
		return nil, fmt.Errorf("%w: a map needs a name", ErrType)
	}
	m, err := newMap[K, V](db, name, c) // without the lock: codecs are the caller's functions
	if err != nil {
		return nil, err
	}
	open, err := m.register(expired)
	if err != nil || !c.ordered {
		return open, err
	}
	if err := db.store.Order(open.table, open.by); err != nil { // not before it is known that the keys are of this type
		if open == m {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	return open, nil
}

// register makes m the open map of its name, and returns it, or the one that is open with the same types already.
func (m *Map[K, V]) register(expired func(K, V)) (*Map[K, V], error) {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	if other, ok := m.db.maps[m.name]; ok {
		open, ok := other.(*Map[K, V])
		if !ok || open.values.codec.Name() != m.values.codec.Name() {
			return nil, fmt.Errorf("%w: map %q is open as %T with another type or codec", ErrType, m.name, other)
		}
		return open, nil
	}
	m.db.maps[m.name] = m
	m.cells = m.db.store.Attach(m.table, m.cellValues(expired))
	return m, nil
}

func newMap[K comparable, V any](db *DB, name string, c mapConfig) (*Map[K, V], error) {
	keys, err := keycodec.For[K]()
	if err != nil {
		return nil, typeError(err, "map %q", name)
	}
	values, table, err := db.valuesOf(name, c.codec, reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	prefix := append(keycodec.AppendName(nil, name), ':')
	m := &Map[K, V]{
		db: db, name: name, prefix: prefix[:len(prefix):len(prefix)], keys: keys, by: keys.Order(), values: values, table: table, ttl: c.ttl,
		flat: values.ours && codec.Flat(reflect.TypeFor[V]()),
	}
	if m.flat {
		m.strings = appendStrings(nil, reflect.TypeFor[V](), 0)
	}
	return m, nil
}

// valuesOf returns what encodes and decodes the values of map name, and its table. The values
// that are there are known to fit the type.
func (db *DB) valuesOf(name string, c Codec, t reflect.Type) (*typed, *engine.Table, error) {
	values, err := newTyped(db.store, c, t)
	if err != nil {
		return nil, nil, err
	}
	table, err := db.store.Map(name)
	if err != nil {
		return nil, nil, err
	}
	return values, table, values.fit(name, table)
}

// OpenSingleMap opens a store that holds one map, called "map". Its options are those
// of Open and of OpenMap. Closing the map closes the store.
func OpenSingleMap[K comparable, V any](dir string, opts ...Option) (*Map[K, V], error) {
	db, err := Open(dir, opts...)
	if err != nil {
		return nil, err
	}
	m, err := OpenMap[K, V](db, "map")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	m.single = true
	return m, nil
}

// Name returns the name that the map was opened with.
func (m *Map[K, V]) Name() string { return m.name }

// DB returns the store that the map is kept in.
func (m *Map[K, V]) DB() *DB { return m.db }

// Get returns the value under key, and whether there is one. The value may be shared
// with other readers: treat what it points to as read-only. A read that fails goes
// to the error handler and counts as absent; Load returns the error instead.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	if c := m.find(key); c != nil {
		return c.value, true
	}
	v, err := m.load(key, true)
	if err != nil && !isNotFound(err) {
		m.db.report(err)
	}
	return v, err == nil
}

// Load returns the value under key, which is the caller's own, but for what SetInMemory has put
// there. The error is ErrNotFound when there is none, a *CorruptError when it is damaged, ErrType
// when it is not a V.
func (m *Map[K, V]) Load(key K) (V, error) {
	if c := m.find(key); c != nil && (m.flat || c.Memory) {
		return c.value, nil
	}
	return m.load(key, false)
}

// load reads the value from the log. If it may be shared, it is kept in memory.
func (m *Map[K, V]) load(key K, shared bool) (v V, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return v, err
	}
	own := unsafe.String(unsafe.SliceData(buf.key), len(buf.key))[len(m.prefix):]
	hash := m.cells.Hash(own)
	if c := m.findOwn(hash, own); c != nil && (shared || m.flat || c.Memory) {
		return c.value, nil
	}
	var e engine.Entry
	err = m.db.store.Read(&e, m.cells, shared || m.flat, hash, buf.key, buf.room())
	switch {
	case err != nil:
		return v, err
	case e.Cell != nil: // it came after the look above
		return cellOf[V](e.Cell).value, nil
	}
	cost := m.cost(len(e.Value))
	if !(shared || m.flat) || !e.Logged() || !m.cells.Admits(hash, cost) {
		return m.decode(buf.key, &e)
	}
	c := new(cell[V])
	if err := m.values.decode(buf.key, &e, &c.value); err != nil {
		return v, err
	}
	c.Holds = true
	m.db.store.Publish(m.cells, hash, buf.key, &e, &c.Cell, cost)
	return c.value, nil
}

func (m *Map[K, V]) decode(key []byte, e *engine.Entry) (V, error) {
	p, _ := m.spare.Get().(*V) // a decoder gets an interface, so what it points to is on the heap
	if p == nil {
		p = new(V)
	}
	err := m.values.decode(key, e, p)
	v := *p
	*p = *new(V)
	m.spare.Put(p)
	if err != nil {
		return *new(V), err
	}
	return v, nil
}

// encodeKey puts the whole key into buf.key.
func (m *Map[K, V]) encodeKey(buf *buffer, key K) error {
	if m.closed.Load() {
		return ErrClosed
	}
	k, err := m.keys.Append(append(buf.key[:0], m.prefix...), key)
	if err != nil {
		return typeError(err, "a key of map %q", m.name)
	}
	buf.key = k
	return nil
}

// Set stores v under key. When it returns nil, the entry survives the death of the
// process, and that of the machine within the sync interval. The value is encoded
// before Set returns; the caller may change what it points to afterwards. When it
// returns an error the map is as it was, unless the error is ErrReadOnly after an
// I/O failure: then the outcome is known when the store is opened again.
func (m *Map[K, V]) Set(key K, v V) error { return m.set(key, v, m.ttl, engine.Process) }

// SetFSync is Set that survives a power cut when it returns nil. Concurrent callers
// share the cost of a sync. The value is visible before it is durable. When the sync
// fails, the outcome is unknown and the store refuses further writes.
func (m *Map[K, V]) SetFSync(key K, v V) error { return m.set(key, v, m.ttl, engine.Power) }

// SetAsync is Set that returns before the log has the value: it is visible at once, and in the
// log within the sync interval, or after Map.Sync, DB.Sync or Close. Of several such writes of one key
// within an interval the log gets the last. When the process dies, those of the last interval are
// lost, and the entry is as it was before them; an older value never replaces a newer one.
// What can be said of the value at once, such as that it cannot be encoded, is; an error that shows later
// goes to the error handler, and Map.Sync, DB.Sync and Close return it.
func (m *Map[K, V]) SetAsync(key K, v V) error { return m.set(key, v, m.ttl, engine.Async) }

// SetInMemory puts v in the place of the entry's value until the next write to the key of any other kind, or
// until Close: Get, Load, All and Update of this map show it, and nothing else does. It
// is for what can be computed again, such as fields that are not stored. The log is not
// touched, but for a SetAsync of the key that it has yet to learn of; v is kept as it is, shared with those who read or
// update it, and not given up for lack of memory. It goes with the entry that it stands for.
// The error is ErrNotFound, and nothing changes, when there is no entry. A read-only store refuses it, as any write.
func (m *Map[K, V]) SetInMemory(key K, v V) error { return m.set(key, v, 0, engine.Memory) }

func (m *Map[K, V]) set(key K, v V, ttl time.Duration, d engine.Durability) (err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return err
	}
	w := engine.Write{Key: buf.key, Own: m.keys.Text(&key), Cells: m.cells, Durability: d}
	if err := m.fill(buf, &w, v); err != nil {
		return err
	}
	if ttl != 0 {
		if w.Expiry, err = m.db.store.Deadline(ttl); err != nil {
			return err
		}
	}
	_, err = m.db.store.Write(m.table, &w)
	return err
}

// fill encodes the value of a write, and makes the cell that memory will have of it.
func (m *Map[K, V]) fill(buf *buffer, w *engine.Write, v V) (err error) {
	c := &cell[V]{value: v}
	w.Cell = &c.Cell
	c.Holds = m.flat || w.Durability == engine.Memory
	encoded := 0
	switch {
	case w.Durability == engine.Memory:
		if !m.flat { // to know about how much memory it holds; it need not be one that can be kept
			if b, err := m.values.plan.Append(buf.value[:0], &c.value); err == nil {
				encoded = len(b)
			}
		}
	case w.Durability == engine.Async && m.values.never:
		w.Later = true
		_, err = m.values.schema() // which the log has to know by then
	default:
		w.Value, w.Schema, err = m.values.encode(buf, w.Key, &c.value)
	}
	if !c.Holds {
		c.value = *new(V) // the caller may change what it points to
	}
	w.Cost = m.cost(encoded + len(w.Value))
	if w.Later || w.Durability == engine.Memory && m.flat {
		w.Cost += m.held(&c.value)
	}
	return err
}

// Delete removes the entry of key. It reports whether there was one; when there was
// none, nothing is written. Its durability is that of Set.
func (m *Map[K, V]) Delete(key K) (existed bool, err error) { return m.delete(key, engine.Process) }

// DeleteFSync is Delete with the durability of SetFSync.
func (m *Map[K, V]) DeleteFSync(key K) (existed bool, err error) { return m.delete(key, engine.Power) }

// DeleteAsync is Delete with the durability of SetAsync.
func (m *Map[K, V]) DeleteAsync(key K) (existed bool, err error) { return m.delete(key, engine.Async) }

func (m *Map[K, V]) delete(key K, d engine.Durability) (bool, error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return false, err
	}
	return m.db.store.Write(m.table, &engine.Write{Key: buf.key, Cells: m.cells, Delete: true, Durability: d})
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.table.Len() }

// All yields each key and its value: of a map with the option Ordered in the order of the keys, of others in none. An entry that is there throughout
// is yielded exactly once, with the value it has at that moment; one that comes or
// goes meanwhile may be yielded or not. An entry that cannot be read goes to the
// error handler and is left out. Values may be shared with other readers, as those of
// Get. The store may be used, and changed, in the loop.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	if m.IsOrdered() {
		return m.inOrder(engine.Span{})
	}
	return m.entries(m.db.store.Entries(m.cells, true))
}

// entries decodes items.
//
//go:noinline
func (m *Map[K, V]) entries(items iter.Seq[engine.Item]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for item := range items {
			if m.isClosed() {
				return
			}
			k, ok := m.key(item)
			if !ok {
				continue
			}
			v, err := m.value(item)
			if err != nil {
				m.db.report(err)
				continue
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

func (m *Map[K, V]) value(item engine.Item) (V, error) {
	if item.Cell != nil {
		return cellOf[V](item.Cell).value, nil
	}
	return m.decode(item.Key, &item.Entry)
}

// isClosed reports, in both senses, that the map is closed.
func (m *Map[K, V]) isClosed() bool {
	closed := m.closed.Load()
	if closed {
		m.db.report(ErrClosed)
	}
	return closed
}

// key decodes the key of an item; it reports what cannot be used.
func (m *Map[K, V]) key(item engine.Item) (k K, ok bool) {
	err := item.Err
	if err == nil {
		if k, err = m.keys.Decode(item.Key[len(m.prefix):]); err != nil {
			err = typeError(err, "key %q of map %q", item.Key, m.name)
		}
	}
	m.db.report(err)
	return k, err == nil
}

// Keys yields each key, as All does. No value is decoded.
func (m *Map[K, V]) Keys() iter.Seq[K] {
	if m.IsOrdered() {
		return m.keysOf(m.db.store.InOrder(m.cells, m.by, engine.Span{}, false))
	}
	return m.keysOf(m.db.store.Entries(m.cells, false))
}

// keysOf decodes the keys of items.
//
//go:noinline
func (m *Map[K, V]) keysOf(items iter.Seq[engine.Item]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for item := range items {
			if m.isClosed() {
				return
			}
			if k, ok := m.key(item); ok && !yield(k) {
				return
			}
		}
	}
}

// Values yields each value, as All does.
//
//go:noinline
func (m *Map[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range m.All() {
			if !yield(v) {
				return
			}
		}
	}
}

// Range calls f for each entry, as All does, until f returns false.
func (m *Map[K, V]) Range(f func(key K, v V) bool) {
	for k, v := range m.All() {
		if !f(k, v) {
			return
		}
	}
}

// Sync returns when every write to the map before the call is on the disk, those of SetAsync included.
func (m *Map[K, V]) Sync() error {
	if m.closed.Load() {
		return ErrClosed
	}
	return m.db.store.SyncCells(m.cells)
}

// Close makes the writes to the map durable and ends its use: every holder of this
// *Map gets ErrClosed from then on, and the map can be opened with other types.
// Closing the map of OpenSingleMap closes its store. Calls after the first return nil.
func (m *Map[K, V]) Close() error {
	m.db.mu.Lock()
	if m.closed.Swap(true) {
		m.db.mu.Unlock()
		return nil
	}
	err := m.db.store.Detach(m.cells) // before another can be opened with cells of its own
	delete(m.db.maps, m.name)
	m.db.mu.Unlock()
	if m.single {
		return errors.Join(err, m.db.Close())
	}
	if synced := m.db.Sync(); !errors.Is(synced, ErrClosed) && !m.db.store.ReadOnly() {
		err = errors.Join(err, synced)
	}
	return err
}
