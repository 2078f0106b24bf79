package copal

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/opened"
)

// bareMap is a Map without its types: its keys are bytes, its values those that typed encodes. The
// parts of Map's methods that need no type are here, because the compiler makes a copy of each
// method of Map for each type of map in a program.
type bareMap struct {
	*mapCore
	handle
}

// mapCore is the shared part of all handles of an open map.
type mapCore struct {
	place
	name     string
	keysType reflect.Type
	order    keycodec.Order // of the keys
	values   *typed
	sorted   bool          // by a driver
	ttl      time.Duration // of an entry that is written without one, 0 for none
	flat     bool          // codec.Flat: a value that the caller set equals the one that the log returns
	strings  []uintptr     // offsets of the strings of a flat value in its cell
	cell     reflect.Type  // cell[V]
	cellSize int           // of that
	valueAt  uintptr       // offset of the value in that
	spare    sync.Pool     // of *V, zero
	self     any           // the *Map[K, V] that OpenMap returns
	closed   atomic.Bool
	single   bool // Close closes the store
}

// mapConfig returns the settings of the options of OpenMap. onExpire is the type of the function of
// WithOnExpire.
func (db *DB) mapConfig(name string, opts []MapOption, onExpire reflect.Type) (mapConfig, error) {
	c := db.config.maps
	for _, o := range opts {
		if o != nil {
			o.applyMap(&c)
		}
	}
	if err := c.check(); err != nil {
		return c, err
	}
	if t := reflect.TypeOf(c.expired); t != nil && t != onExpire && c.ownExpired {
		return c, fmt.Errorf("%w: WithOnExpire of map %q has a %v, and needs a %v", ErrType, name, t, onExpire)
	}
	if name == "" {
		return c, errors.New("copal: OpenMap needs the name of a map")
	}
	return c, nil
}

// make makes a map of its types, which is not open yet. It holds no lock: codecs are the caller's functions.
func (m *bareMap) make(db *DB, name string, c *mapConfig, keys reflect.Type, order keycodec.Order, goval, cell reflect.Type) error {
	values, table, err := db.valuesOf(name, c.codec, goval)
	if err != nil {
		return err
	}
	prefix := MapPrefix(name)
	m.handle = db.handle()
	m.mapCore = &mapCore{
		place: place{prefix: prefix[:len(prefix):len(prefix)], table: table},
		name:  name, keysType: keys, order: order, values: values, ttl: c.ttl,
		cell: cell, cellSize: int(cell.Size()), valueAt: cell.Field(1).Offset,
		flat:  values.ours && codec.Flat(goval),
		spare: sync.Pool{New: func() any { return reflect.New(goval).Interface() }},
	}
	if m.flat {
		m.strings = appendStrings(nil, goval, m.valueAt)
	}
	return nil
}

// valuesOf returns the typed of map name, which encodes and decodes its values, and its table. It
// has checked that the schemas in the map fit the type.
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

// open makes self, whose bareMap is m, the open map of its name and returns it; or, if that map is open with the
// same types already, returns that. tell, which may be nil, gets entries that have expired.
func (m *bareMap) open(self any, c *mapConfig, tell func(engine.Item) error) (any, error) {
	m.self = self
	open, err := m.register(c, tell)
	if err != nil {
		return nil, err
	}
	if m.db.driver != nil {
		return open.self, nil
	}
	if c.expiry {
		m.db.store.TellExpiry(open.table)
	}
	if c.ordered {
		if err := m.db.store.Order(open.table, open.order); err != nil { // only once the keys are known to be of this type
			if open == m.mapCore {
				err = errors.Join(err, m.close())
			}
			return nil, err
		}
	}
	return open.self, nil
}

func (m *bareMap) register(c *mapConfig, tell func(engine.Item) error) (*mapCore, error) {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	if d := m.db.drives(); d != nil {
		if err := m.take(d, c, tell != nil); err != nil {
			return nil, err
		}
	}
	if open, ok := m.db.maps[m.name]; ok {
		if reflect.TypeOf(open.self) != reflect.TypeOf(m.self) {
			return nil, fmt.Errorf("%w: map %q is open as a %T", ErrType, m.name, open.self)
		}
		if err := open.differs(m.db, c); err != nil {
			return nil, err
		}
		return open, nil
	}
	if m.db.driver != nil {
		m.db.maps[m.name] = m.mapCore
		return m.mapCore, nil
	}
	if name := m.table.KeysName(); name != "" && name != m.order.Name() {
		err := fmt.Errorf("its keys are in the order %s, and those of type %v are in the order %s: open it with keys like its own", name, m.keysType, m.order.Name())
		return nil, typeError(err, "map %q", m.name)
	}
	m.db.maps[m.name] = m.mapCore
	opened.FormOf.Store(&formOf)
	m.cells = m.db.store.Attach(m.table, m.cellValues(tell))
	return m.mapCore, nil
}

// take refuses options that a driver cannot keep.
func (m *mapCore) take(d driver.Driver, c *mapConfig, tells bool) error {
	_, sorted := d.(driver.Sorted)
	switch {
	case c.ordered && !sorted:
		return unsupported("order of keys")
	case tells, c.expiry:
		return unsupported("word of entries that have expired")
	}
	m.sorted = c.ordered
	return nil
}

// differs returns an error if options contradict those of the open map.
func (m *mapCore) differs(db *DB, c *mapConfig) error {
	const advice = "close it first, or leave the option out"
	switch name := m.values.codec.Name(); {
	case c.ownCodec && c.codec.Name() != name:
		return fmt.Errorf("copal: map %q is open with codec %s, not %s: "+advice, m.name, name, c.codec.Name())
	case c.ownTTL && c.ttl != m.ttl:
		return fmt.Errorf("copal: map %q is open with a TTL of %v, not %v: "+advice, m.name, m.ttl, c.ttl)
	case db.driver != nil && c.ordered && !m.sorted: // the engine puts an open map in order
		return fmt.Errorf("copal: map %q is open without Ordered: "+advice, m.name)
	case c.ownExpired:
		return fmt.Errorf("copal: map %q is open, and WithOnExpire comes too late: "+advice, m.name)
	}
	return nil
}

// keyError is the error of a key that cannot be encoded.
func (m *mapCore) keyError(err error) error { return typeError(err, "a key of map %q", m.name) }

// found reports whether a read has found an entry. An error that it cannot return is reported.
func (h *handle) found(err error) bool {
	if err != nil && !isNotFound(err) {
		h.report(err)
	}
	return err == nil
}

// A method that gets a key in a buffer releases the buffer, except read and update, whose callers
// still need it.

func (m *bareMap) has(key *buffer) bool {
	defer key.release()
	has, err := false, key.err
	switch {
	case err != nil:
	case m.from != nil:
		has, err = m.from.has(&m.place, key.key)
	default:
		_, err = m.db.store.DeadlineOf(m.table, m.cells, key.key)
		return m.found(err)
	}
	m.report(err)
	return has
}

// read reads an entry. A value of the log that memory keeps is decoded into a cell, which the entry
// has then, if there is room.
func (m *bareMap) read(key *buffer, e *engine.Entry, shared bool) (err error) {
	switch {
	case key.err != nil:
		return key.err
	case m.then != nil && m.cells != nil:
		return m.then.view.Read(e, m.cells, m.cells.Hash(m.own(key)), key.key, key.room())
	case m.from != nil:
		return m.readFrom(key, e)
	}
	own := m.own(key)
	hash := m.cells.Hash(own)
	if e.Cell = m.find(hash, own); e.Cell != nil {
		return nil
	}
	if err := m.db.store.Read(e, m.cells, true, hash, key.key, key.room()); err != nil {
		return err
	}
	cost := m.cost(len(e.Value))
	if e.Cell != nil || !e.Logged() || !m.cells.Admits(hash, cost) {
		return nil
	}
	c := m.newCell()
	if err := m.values.decode(key.key, e, m.valueIn(c)); err != nil {
		return err
	}
	c.Holds = true
	m.db.store.Publish(m.cells, hash, key.key, e, c, cost)
	e.Cell = c
	return nil
}

// own is a key in a buffer without the prefix.
func (m *mapCore) own(key *buffer) string {
	return unsafe.String(unsafe.SliceData(key.key), len(key.key))[len(m.prefix):]
}

// fill encodes the value that v points to for a write. It is the value in the cell, which keeps it
// in memory.
func (m *mapCore) fill(buf *buffer, w *engine.Write, c *cache.Cell, v any) (err error) {
	w.Cell = c
	c.Holds = m.flat || w.Durability == engine.Memory
	encoded := 0
	switch {
	case w.Durability == engine.Memory:
		if !m.flat { // to estimate its memory; a value that cannot be encoded is allowed here
			if b, err := m.values.plan.Append(buf.value[:0], v); err == nil {
				encoded = len(b)
			}
		}
	case w.Durability == engine.Async && m.values.never && m.cells != nil:
		w.Later = true
		_, err = m.values.schema() // which the log has to know by then
	default:
		w.Value, w.Schema, err = m.values.encode(buf, w.Key, v)
	}
	w.Cost = m.cost(encoded + len(w.Value))
	if w.Later || w.Durability == engine.Memory && m.flat {
		w.Cost += m.held(c)
	}
	return err
}

func (m *bareMap) delete(key *buffer, d engine.Durability) (existed bool, err error) {
	defer key.release()
	if key.err != nil {
		return false, key.err
	}
	return m.write(&m.place, &engine.Write{Key: key.key, Cells: m.cells, Delete: true, Durability: m.durability(d)})
}

func (m *bareMap) len() int {
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

func (m *bareMap) sync() error {
	switch {
	case m.closed.Load():
		return ErrClosed
	case m.cells == nil:
		return m.db.Sync()
	}
	return m.db.store.SyncCells(m.cells)
}

func (m *bareMap) close() error {
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
