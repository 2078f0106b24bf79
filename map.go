package copal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
)

// Map is a typed map in a store. It is safe for concurrent use. No method holds a lock while a
// function of the caller runs, so such a function may use the store.
//
// A *Map is a handle. With, At, In, Backward and WithContext return other handles to the same map,
// which use it in another way. A handle costs one small allocation and needs no Close.
type Map[K comparable, V any] struct {
	*mapCore[K, V]
	handle
}

// mapCore is what all handles of an open map share.
type mapCore[K comparable, V any] struct {
	place
	name    string
	keys    *keycodec.Codec[K]
	order   keycodec.Order // of the keys
	values  *typed
	sorted  bool          // by a driver
	ttl     time.Duration // of an entry that is written without one, 0 for none
	flat    bool          // codec.Flat: a value that the caller set equals the one that the log returns
	strings []uintptr     // offsets of the strings in a flat value
	spare   sync.Pool     // of *V, zero
	closed  atomic.Bool
	single  bool // Close closes the store
}

// OpenMap opens the map called name, which may be new. A name is any text but "".
//
// Keys are strings, integers, floats, bool, time.Time, every type with encoding.TextMarshaler and
// TextUnmarshaler, and structs and arrays of these, such as
//
//	struct{Sensor string; At time.Time}
//
// All fields of such a struct must be exported. Its keys are ordered field by field, so Between yields
// those of one Sensor, or of an hour of one, and stand in the store as
// kitchen/2026-11-23T20:00:00.000000000Z. Two keys are the same entry when their encodings are equal:
// times of one instant, 0 and -0, NaN and NaN. Values are what the codec can keep exactly; see package
// codec. For other types the error is ErrType.
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
// otherwise. An option that contradicts the first opening is an error; an option left out stays as
// it is.
func OpenMap[K comparable, V any](db *DB, name string, opts ...MapOption) (*Map[K, V], error) {
	c := db.config.maps
	for _, o := range opts {
		if o != nil {
			o.applyMap(&c)
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	expired, ok := c.expired.(func(K, V))
	if !ok && c.ownExpired && c.expired != nil {
		return nil, fmt.Errorf("%w: WithOnExpire of map %q has a %T, and needs a %T", ErrType, name, c.expired, expired)
	}
	if name == "" {
		return nil, errors.New("copal: OpenMap needs the name of a map")
	}
	m, err := newMap[K, V](db, name, c) // without the lock: codecs are the caller's functions
	if err != nil {
		return nil, err
	}
	open, err := m.register(expired, &c)
	if err == nil && c.expiry && db.driver == nil {
		db.store.TellExpiry(open.table)
	}
	if err != nil || !c.ordered || db.driver != nil {
		return open, err
	}
	if err := db.store.Order(open.table, open.order); err != nil { // only once the keys are known to be of this type
		if open == m {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	return open, nil
}

// register makes m the open map of its name and returns it; or, if that map is open with the same
// types already, returns that.
func (m *Map[K, V]) register(expired func(K, V), c *mapConfig) (*Map[K, V], error) {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	if d := m.db.driver; d != nil {
		if err := m.take(d, expired, c); err != nil {
			return nil, err
		}
	}
	if other, ok := m.db.maps[m.name]; ok {
		open, ok := other.(*Map[K, V])
		if !ok {
			return nil, fmt.Errorf("%w: map %q is open as a %T", ErrType, m.name, other)
		}
		if err := open.differs(c); err != nil {
			return nil, err
		}
		return open, nil
	}
	if m.db.driver != nil {
		m.db.maps[m.name] = m
		return m, nil
	}
	if name := m.table.KeysName(); name != "" && name != m.order.Name() {
		err := fmt.Errorf("its keys are in the order %s, and those of type %v are in the order %s: open it with keys like its own", name, reflect.TypeFor[K](), m.order.Name())
		return nil, typeError(err, "map %q", m.name)
	}
	m.db.maps[m.name] = m
	opened.Reads.Store(&readsOpen)
	m.cells = m.db.store.Attach(m.table, m.cellValues(expired))
	return m, nil
}

// take refuses options that a driver cannot keep.
func (m *Map[K, V]) take(d driver.Driver, expired func(K, V), c *mapConfig) error {
	_, sorted := d.(driver.Sorted)
	switch {
	case c.ordered && !sorted:
		return unsupported("order of keys")
	case expired != nil, c.expiry:
		return unsupported("word of entries that have expired")
	}
	m.sorted = c.ordered
	return nil
}

// differs returns an error if options contradict those of the open map.
func (m *Map[K, V]) differs(c *mapConfig) error {
	const advice = "close it first, or leave the option out"
	switch name := m.values.codec.Name(); {
	case c.ownCodec && c.codec.Name() != name:
		return fmt.Errorf("copal: map %q is open with codec %s, not %s: "+advice, m.name, name, c.codec.Name())
	case c.ownTTL && c.ttl != m.ttl:
		return fmt.Errorf("copal: map %q is open with a TTL of %v, not %v: "+advice, m.name, m.ttl, c.ttl)
	case m.db.driver != nil && c.ordered && !m.sorted: // the engine puts an open map in order
		return fmt.Errorf("copal: map %q is open without Ordered: "+advice, m.name)
	case c.ownExpired:
		return fmt.Errorf("copal: map %q is open, and WithOnExpire comes too late: "+advice, m.name)
	}
	return nil
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
	prefix := MapPrefix(name)
	m := &mapCore[K, V]{
		place: place{prefix: prefix[:len(prefix):len(prefix)], table: table},
		name:  name, keys: keys, order: keys.Order(), values: values, ttl: c.ttl,
		flat: values.ours && codec.Flat(reflect.TypeFor[V]()),
	}
	if m.flat {
		m.strings = appendStrings(nil, reflect.TypeFor[V](), 0)
	}
	return &Map[K, V]{m, db.handle()}, nil
}

// valuesOf returns what encodes and decodes the values of map name, and its table. It has checked
// that the schemas in the map fit the type.
func (db *DB) valuesOf(name string, c codec.Codec, t reflect.Type) (*typed, *engine.Table, error) {
	values, err := newTyped(db.numbers(), c, t)
	if errors.Is(err, ErrType) {
		err = typeError(err, "map %q", name)
	}
	if err != nil || db.driver != nil {
		return values, nil, err
	}
	table, err := db.store.Map(name)
	if err != nil {
		return nil, nil, err
	}
	return values, table, values.fit(name, table)
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
	m.single = true
	return m, nil
}

// With returns a handle whose writes are as durable as d: users.With(copal.FSync).SetTTL(k, v, d).
// SetAsync, SetFSync and the other twins stay as durable as their names say, outside transactions. A
// transaction has one durability for all its writes, so every use of m.In(tx).With(d) is ErrHandle.
func (m *Map[K, V]) With(d Durability) *Map[K, V] { return m.as(m.with(d)) }

// At returns a handle that reads the map as it is in the snapshot. Writes are ErrSnapshot. If the
// snapshot is nil or of another store, every use is ErrHandle. In the snapshot, a map has the entries
// that its keys had then, even if it was opened or first written to later.
func (m *Map[K, V]) At(s *Snapshot) *Map[K, V] { return m.as(m.at(s)) }

// In returns a handle that reads and writes in the transaction. If the transaction is nil or of
// another store, every use is ErrHandle. The writes count once the transaction has committed, and are as
// durable as it is, also those of SetAsync and the other twins with Async. SetFSync and the others with
// FSync are ErrHandle, except in a transaction of UpdateFSync. An error that a read cannot return ends
// the transaction, which returns it.
func (m *Map[K, V]) In(tx *Tx) *Map[K, V] { return m.as(m.in(tx)) }

// WithContext returns a handle whose calls end with the error of ctx when ctx is done, if they wait
// for another machine. In a store on this machine no call of a map does.
func (m *Map[K, V]) WithContext(ctx context.Context) *Map[K, V] { return m.as(m.within(ctx)) }

// Backward returns a handle that yields the same entries the other way round: in descending order
// of their keys.
func (m *Map[K, V]) Backward() *Map[K, V] { return m.as(m.backward()) }

func (m *Map[K, V]) as(h handle) *Map[K, V] { return &Map[K, V]{m.mapCore, h} }

// Name returns the name that the map was opened with.
func (m *Map[K, V]) Name() string { return m.name }

// DB returns the store that the map is kept in.
func (m *Map[K, V]) DB() *DB { return m.db }

// Get returns the value under key, which is the caller's own, and whether there is one. A failed
// read counts as absent, and its error goes to the error handler; Load returns it.
func (m *Map[K, V]) Get(key K) (v V, ok bool) {
	if m.from == nil {
		if c := m.find(key); c != nil {
			if m.flat {
				return c.value, true
			}
			v, err := m.ofCell(c, false)
			return v, m.found(err)
		}
	}
	v, err := m.load(key, false)
	return v, m.found(err)
}

// Peek returns the value under key without a copy, so the caller must not change what it points to:
// other readers may share it. If the value is in memory, Peek is as fast as a read of a Go map;
// otherwise it is Get. For a V without slices, maps, pointers and interfaces, Get is as fast.
func (m *Map[K, V]) Peek(key K) (v V, ok bool) {
	if m.from == nil {
		if c := m.find(key); c != nil {
			return c.value, true
		}
	}
	v, err := m.load(key, true)
	return v, m.found(err)
}

// Load is Get with an error: ErrNotFound when there is no entry, a *CorruptError when it is
// damaged, ErrType when it is not a V.
func (m *Map[K, V]) Load(key K) (V, error) {
	if m.from == nil {
		if c := m.find(key); c != nil {
			return m.ofCell(c, false)
		}
	}
	return m.load(key, false)
}

// Has reports whether there is an entry under key. It treats an error as Get does.
func (m *Map[K, V]) Has(key K) bool {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	err := m.encodeKey(buf, key)
	has := false
	switch {
	case err != nil:
	case m.from != nil:
		has, err = m.from.has(&m.place, buf.key)
	default:
		_, err = m.db.store.DeadlineOf(m.table, m.cells, buf.key)
		return m.found(err)
	}
	m.report(err)
	return has
}

// found reports whether a read has found an entry. An error that it cannot return is reported.
func (h *handle) found(err error) bool {
	if err != nil && !isNotFound(err) {
		h.report(err)
	}
	return err == nil
}

// load reads a value, which may be shared.
func (m *Map[K, V]) load(key K, shared bool) (v V, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return v, err
	}
	var e engine.Entry
	switch {
	case m.then != nil:
		own := unsafe.String(unsafe.SliceData(buf.key), len(buf.key))[len(m.prefix):]
		err = m.then.view.Read(&e, m.cells, m.cells.Hash(own), buf.key, buf.room())
	case m.from != nil:
		e, err = m.from.get(&m.place, buf.key)
	default:
		return m.loadNow(buf, shared)
	}
	if err != nil {
		return v, err
	}
	return m.valueOf(buf.key, &e, shared)
}

// loadNow reads the present value of the key in buf. A value from the log is kept in memory, if
// there is room.
func (m *Map[K, V]) loadNow(buf *buffer, shared bool) (v V, err error) {
	own := unsafe.String(unsafe.SliceData(buf.key), len(buf.key))[len(m.prefix):]
	hash := m.cells.Hash(own)
	if c := m.findOwn(hash, own); c != nil {
		return m.ofCell(c, shared)
	}
	var e engine.Entry
	if err := m.db.store.Read(&e, m.cells, true, hash, buf.key, buf.room()); err != nil {
		return v, err
	}
	cost := m.cost(len(e.Value))
	if e.Cell != nil || !e.Logged() || !m.cells.Admits(hash, cost) {
		return m.valueOf(buf.key, &e, shared)
	}
	c := new(cell[V])
	if err := m.values.decode(buf.key, &e, &c.value); err != nil {
		return v, err
	}
	c.Holds = true
	m.db.store.Publish(m.cells, hash, buf.key, &e, &c.Cell, cost)
	return m.ofCell(c, shared)
}

// valueOf is the value of an entry that was read.
func (m *Map[K, V]) valueOf(key []byte, e *engine.Entry, shared bool) (V, error) {
	if e.Cell != nil {
		return m.ofCell(cellOf[V](e.Cell), shared)
	}
	return m.decode(key, e)
}

// ofCell is the value of a cell: a copy, unless it may be shared. A value of SetInMemory is always
// shared.
func (m *Map[K, V]) ofCell(c *cell[V], shared bool) (V, error) {
	if shared || m.flat || c.Memory {
		return c.value, nil
	}
	return m.filled(func(v *V) error {
		*v = c.value
		return m.values.own(v, &c.value)
	})
}

// decode is the value of an entry that the log has.
func (m *Map[K, V]) decode(key []byte, e *engine.Entry) (V, error) {
	return m.filled(func(v *V) error { return m.values.decode(key, e, v) })
}

// filled is the value that fill puts into reused memory: a codec gets it as an interface, so it is
// on the heap.
func (m *mapCore[K, V]) filled(fill func(*V) error) (V, error) {
	p, _ := m.spare.Get().(*V)
	if p == nil {
		p = new(V)
	}
	err := fill(p)
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

// Set stores v under key. When it returns nil, the entry survives the death of the process, and the
// death of the machine once the sync interval has passed. The value is encoded before Set returns;
// the caller may change what it points to afterwards. When Set returns an error the map is as it
// was. The exception is ErrReadOnly after an I/O failure: then the outcome is known when the store
// is opened again.
//
// An entry that is set again gets the TTL of WithTTL, or none.
func (m *Map[K, V]) Set(key K, v V) error { return m.set(key, v, m.by) }

// SetFSync is Set that survives a power cut when it returns nil. Concurrent callers share the cost
// of a sync. The value is visible before it is durable. When the sync fails, the outcome is unknown
// and the store refuses further writes.
func (m *Map[K, V]) SetFSync(key K, v V) error { return m.set(key, v, engine.Power) }

// SetAsync is Set that returns before the log has the value. The value is visible at once. The log
// gets it within the sync interval, or by Map.Sync, DB.Sync or Close; of several such writes of one
// key within an interval it gets the last. When the process dies, the writes of the last interval
// are lost, and the entry is as it was before them. An older value never replaces a newer one.
//
// SetAsync returns the errors that it finds at once, such as a value that cannot be encoded. An
// error that shows later goes to the error handler, and Map.Sync, DB.Sync and Close return it.
func (m *Map[K, V]) SetAsync(key K, v V) error { return m.set(key, v, engine.Async) }

// SetInMemory puts v in place of the entry's value, in memory alone. Reads and updates of this map
// show it, and nothing else does. It is for what can be computed again, such as fields that are not
// stored. It stays until Close or the next write of another kind to the key; it expires with its
// entry, and is not given up for lack of memory. v is shared with all who read or update it. The
// log is not touched, except by a SetAsync of the key that is still waiting. When there is no
// entry, the error is ErrNotFound, and nothing changes.
func (m *Map[K, V]) SetInMemory(key K, v V) error { return m.setUntil(key, v, 0, engine.Memory) }

// SetTTL is Set of an entry that expires after d, which must be positive, counted from the call.
func (m *Map[K, V]) SetTTL(key K, v V, d time.Duration) error {
	deadline, err := m.db.store.Deadline(d)
	if err != nil {
		return err
	}
	return m.setUntil(key, v, deadline, m.by)
}

// SetUntil is Set of an entry that expires at deadline, which must lie ahead, and before the year
// 292,278,994. The store keeps it to the millisecond, rounded up.
func (m *Map[K, V]) SetUntil(key K, v V, deadline time.Time) error {
	at, err := m.db.store.DeadlineAt(deadline)
	if err != nil {
		return err
	}
	return m.setUntil(key, v, at, m.by)
}

func (m *Map[K, V]) set(key K, v V, d engine.Durability) error {
	var deadline uint64
	if m.ttl != 0 {
		var err error
		if deadline, err = m.db.store.Deadline(m.ttl); err != nil {
			return err
		}
	}
	return m.setUntil(key, v, deadline, d)
}

func (m *Map[K, V]) setUntil(key K, v V, deadline uint64, d engine.Durability) error {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return err
	}
	w := engine.Write{Key: buf.key, Own: m.keys.Text(&key), Cells: m.cells, Expiry: deadline, Durability: m.durability(d)}
	if err := m.fill(buf, &w, v); err != nil {
		return err
	}
	_, err := m.write(&m.place, &w)
	return err
}

// fill encodes the value of a write, and makes the cell that keeps it in memory.
func (m *Map[K, V]) fill(buf *buffer, w *engine.Write, v V) (err error) {
	c := &cell[V]{value: v}
	w.Cell = &c.Cell
	c.Holds = m.flat || w.Durability == engine.Memory
	encoded := 0
	switch {
	case w.Durability == engine.Memory:
		if !m.flat { // to estimate its memory; a value that cannot be encoded is allowed here
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

// Delete removes the entry of key and reports whether there was one; if not, it writes nothing. It
// is as durable as Set.
func (m *Map[K, V]) Delete(key K) (existed bool, err error) { return m.delete(key, m.by) }

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
	return m.write(&m.place, &engine.Write{Key: buf.key, Cells: m.cells, Delete: true, Durability: m.durability(d)})
}

// Len returns the number of entries. It is known at once for the map as it is now. In a snapshot it
// takes the longer, the more keys have changed since. In a transaction it looks at each entry, and
// an entry that another writer adds or removes before the transaction ends is a conflict. After an
// error, which is treated as by Get, the number is 0.
func (m *Map[K, V]) Len() int {
	n, err := 0, error(nil)
	switch {
	case m.closed.Load():
		err = ErrClosed
	case m.from == nil:
		return m.table.Len()
	default:
		n, err = m.from.len(&m.place)
	}
	if err != nil {
		m.report(err)
		return 0
	}
	return n
}

// Sync returns when every write to the map before the call is on the disk, including those of
// SetAsync.
func (m *Map[K, V]) Sync() error {
	switch {
	case m.closed.Load():
		return ErrClosed
	case m.cells == nil:
		return m.db.Sync()
	}
	return m.db.store.SyncCells(m.cells)
}

// Close makes the writes to the map durable and ends its use: every handle of it returns ErrClosed
// from then on, and the map can be opened with other types. Closing the map of OpenSingleMap closes
// its store. Calls after the first return nil.
func (m *Map[K, V]) Close() error {
	m.db.mu.Lock()
	if m.closed.Swap(true) {
		m.db.mu.Unlock()
		return nil
	}
	var err error
	if m.cells != nil {
		err = m.db.store.Detach(m.cells) // before another can be opened with cells of its own
	}
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
