package copal

import (
	"reflect"
	"unsafe"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// cell is a value of a map in memory. The store knows its head alone.
type cell[V any] struct {
	head  cache.Cell
	value V
}

// cellOf returns the cell whose head is c. Every cell that holds a value of a Map[K, V] is a
// cell[V].
func cellOf[V any](c *cache.Cell) *cell[V] { return (*cell[V])(unsafe.Pointer(c)) }

// find returns the cell of key if it holds a value, and the handle is of the present. It takes no lock.
func (m *Map[K, V]) find(key K) *cell[V] {
	var stack [keycodec.ViewBytes]byte
	if m.bare.from != nil {
		return nil
	}
	own, ok := m.keys.View(&stack, &key)
	if !ok {
		return nil
	}
	return cellOf[V](m.bare.find(m.bare.cells.Hash(own), own))
}

// valueOf is the value of an entry that was read.
func valueOf[V any](m *bareMap, key []byte, e *engine.Entry, shared bool) (V, error) {
	if e.Cell != nil {
		return ofCell(m, cellOf[V](e.Cell), shared)
	}
	p := m.spare.Get().(*V)
	return taken(m, p, m.values.decode(key, e, p))
}

// ofCell is the value of a cell: a copy, unless it may be shared. A value of SetInMemory is always
// shared.
func ofCell[V any](m *bareMap, c *cell[V], shared bool) (V, error) {
	if shared || m.flat || c.head.Memory {
		return c.value, nil
	}
	p := m.spare.Get().(*V)
	*p = c.value
	return taken(m, p, m.values.own(p, &c.value))
}

// taken is the value in reused memory, to which that goes back: a codec gets it as an interface, so it is on the heap.
func taken[V any](m *bareMap, p *V, err error) (v V, _ error) {
	if err == nil {
		v = *p
	}
	*p = *new(V)
	m.spare.Put(p)
	return v, err
}

// fill encodes the value of a write, and makes the cell that keeps it in memory.
func fill[V any](m *bareMap, buf *buffer, w *engine.Write, v V) error {
	c := &cell[V]{value: v}
	err := m.fill(buf, w, &c.head, &c.value)
	if !c.head.Holds {
		c.value = *new(V) // the caller may change the targets of its pointers
	}
	return err
}

// Cells of a Map without its types.

// newCell makes a cell that does not hold a value.
func (m *mapCore) newCell() *cache.Cell { return (*cache.Cell)(reflect.New(m.cell).UnsafePointer()) }

// valueIn is a pointer to the value in a cell, a *V.
func (m *mapCore) valueIn(c *cache.Cell) any {
	return reflect.NewAt(m.values.goval, m.inCell(c)).Interface()
}

func (m *mapCore) inCell(c *cache.Cell) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(c), m.valueAt)
}

// cost estimates the memory of a cell from the length of its encoded value: the targets of its
// pointers, such as strings, take about as much memory as their encoding.
func (m *mapCore) cost(encoded int) int { return m.cellSize + encoded }

// held is the memory of the strings of a flat value in a cell, which is not encoded yet.
func (m *mapCore) held(c *cache.Cell) (bytes int) {
	for _, offset := range m.strings {
		bytes += len(*(*string)(unsafe.Add(unsafe.Pointer(c), offset)))
	}
	return bytes
}

// appendStrings appends the offsets of the strings in a value of flat type t at offset.
func appendStrings(to []uintptr, t reflect.Type, offset uintptr) []uintptr {
	switch t.Kind() {
	case reflect.String:
		to = append(to, offset)
	case reflect.Array:
		for i := range t.Len() {
			to = appendStrings(to, t.Elem(), offset+uintptr(i)*t.Elem().Size())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			to = appendStrings(to, t.Field(i).Type, offset+t.Field(i).Offset)
		}
	}
	return to
}

// find returns a cell if it holds a value.
func (m *bareMap) find(hash uint64, own string) *cache.Cell {
	c := m.cells.Find(hash, own)
	if c == nil || !c.Holds || c.Expiry != 0 && m.db.store.Expired(c.Expiry) {
		return nil
	}
	c.Touch()
	return c
}

// cellValues returns the functions by which the store handles the values in cells. tell gets
// entries that have expired, and may be nil.
func (m *bareMap) cellValues(tell func(engine.Item) error) engine.Values {
	v := engine.Values{Encode: m.encodeCell, Copy: m.copyCell, Keys: m.order.Name()}
	if tell != nil {
		v.Expired = func(key []byte, e engine.Entry) {
			if !m.closed.Load() {
				m.report(tell(engine.Item{Key: key, Entry: e}))
			}
		}
	}
	return v
}

// encodeCell encodes the value of a cell that holds one. The caller holds the lock of a key, and
// the schema has its number.
func (m *mapCore) encodeCell(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
	dst, err := m.values.plan.Append(dst, m.valueIn(c))
	if err != nil {
		return dst, 0, typeError(err, "key %q", c.Key())
	}
	return dst, m.values.number.Load(), nil
}

// copyCell returns another cell with the same value.
func (m *mapCore) copyCell(c *cache.Cell) *cache.Cell {
	other := m.newCell()
	value := reflect.NewAt(m.values.goval, m.inCell(c))
	reflect.NewAt(m.values.goval, m.inCell(other)).Elem().Set(value.Elem())
	return other
}
