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
	cache.Cell
	value V
}

// cellOf returns the cell whose head is c. Every cell that holds a value of a Map[K, V] is a
// cell[V].
func cellOf[V any](c *cache.Cell) *cell[V] { return (*cell[V])(unsafe.Pointer(c)) }

// cost estimates the memory of a cell from the length of its encoded value: what the value points
// to, such as strings, takes about as much memory as its encoding.
func (m *Map[K, V]) cost(encoded int) int { return int(unsafe.Sizeof(cell[V]{})) + encoded }

// held is the memory of the strings of a flat value, which is not encoded yet.
func (m *Map[K, V]) held(v *V) (bytes int) {
	for _, offset := range m.strings {
		bytes += len(*(*string)(unsafe.Add(unsafe.Pointer(v), offset)))
	}
	return bytes
}

// appendStrings appends the offsets of the strings in a value of flat type t that stands at offset.
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

// find returns the cell of key if it holds a value. It takes no lock.
func (m *Map[K, V]) find(key K) *cell[V] {
	var stack [keycodec.ViewBytes]byte
	own, ok := m.keys.View(&stack, &key)
	if !ok {
		return nil
	}
	return m.findOwn(m.cells.Hash(own), own)
}

func (m *Map[K, V]) findOwn(hash uint64, own string) *cell[V] {
	c := m.cells.Find(hash, own)
	if c == nil || !c.Holds || c.Expiry != 0 && m.db.store.Expired(c.Expiry) {
		return nil
	}
	c.Touch()
	return cellOf[V](c)
}

// cellValues is what the store needs to know of the values in cells. expired may be nil.
func (m *Map[K, V]) cellValues(expired func(K, V)) engine.Values {
	v := engine.Values{Encode: m.encodeCell, Copy: m.copyCell, Keys: m.order.Name()}
	if expired != nil {
		v.Expired = func(key []byte, e engine.Entry) { m.tell(expired, key, e) }
	}
	return v
}

// encodeCell encodes the value of a cell that holds one. The caller holds the lock of a key, and
// the schema has its number.
func (m *Map[K, V]) encodeCell(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
	dst, err := m.values.plan.Append(dst, &cellOf[V](c).value)
	if err != nil {
		return dst, 0, typeError(err, "key %q", c.Key())
	}
	return dst, m.values.number.Load(), nil
}

// copyCell returns another cell with the same value.
func (m *Map[K, V]) copyCell(c *cache.Cell) *cache.Cell {
	return &(&cell[V]{value: cellOf[V](c).value}).Cell
}
