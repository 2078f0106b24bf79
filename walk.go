package copal

import (
	"iter"

	"github.com/copaldb/copal/internal/engine"
)

// Keys in order.
//
// Every map can be walked in the order of its keys, and so can raw bytes. With the option Ordered, or
// OrderedKeys for raw keys that belong to no map, the store keeps the keys in order, and a walk begins
// at once, wherever it begins. Without the option, the first walk reads and sorts the keys. The process
// then keeps them in order as long as walks come, and gives the order up when more keys have come and
// gone since the last walk than there were. The result is the same.
//
// Ranges are half-open: they include their lower bound and exclude their upper one, in whichever
// direction they are walked.

// Ordered keeps the keys of a map in order. The order is
//
//   - of numbers by value, NaN first;
//   - of times by instant;
//   - of false before true;
//   - of strings, arrays of bytes and texts by their bytes;
//   - of structs and other arrays by their first unequal part.
//
// Keys of raw writes that are not of the map's type come last.
//
// In an ordered map All, Keys, Values and Range go in that order, and From, Until, Between and
// Prefix begin without a look at other keys. Each key costs about 4 bytes in a sorted file, and the
// bytes in which it differs from the previous key. Each of the last 64 Ki keys that were added or
// removed costs some 100 bytes of memory. A write of a new key and a deletion hold one lock for
// about a microsecond. Overwriting costs nothing.
//
// A map that was opened with Ordered once stays ordered without it. The first opening with it reads
// all keys. Given to Open, the option holds for all maps.
//
// Without it, these four and the walks of Backward put the keys in order when one of them is first
// used, and keep them in order while such walks are frequent, at the same cost. An eighth of
// WithMaxMemory is for such orders. If a map does not fit, as with more than a million keys or so,
// each walk reads all keys.
func Ordered() MapOption { return mapOption(func(m *mapConfig) { m.ordered = true }) }

// OrderedKeys is Ordered for raw keys that belong to no map: walks of Raw then begin at once.
func OrderedKeys() Option { return storeOption(func(c *config) { c.orderedKeys = true }) }

// All yields each key and its value, which is the caller's own. A map that is Ordered, and every
// handle of Backward, yields them in the order of the keys; otherwise there is no order, and
// Prefix("") yields all in order. Break the loop to read only the first:
//
//	for k, v := range m.All() {
//		fmt.Println(k, v)
//		break
//	}
//
// An entry that exists throughout is yielded exactly once, with the value it has at that moment. An
// entry that is added or removed meanwhile may be yielded or not. A walk in a snapshot yields
// exactly its entries. The loop may use and change the store. An entry that cannot be read is left
// out, and its error goes to the error handler.
//
// In a transaction, an error ends the loop and the transaction, which returns it. If the loop
// changes an entry that has not been yielded yet, the change shows; a new entry may be yielded or
// not. A change by another writer before the transaction ends is a conflict: of any entry of the
// map or, in a walk in order, of an entry between the first and the last that the loop passed.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.entries(m.bare.items(true)) }

// Keys yields each key, as All does. It reads no value; in an ordered map it does not read the log.
func (m *Map[K, V]) Keys() iter.Seq[K] { return m.keysOf(m.bare.items(false)) }

// Values yields each value, as All does.
//
//go:noinline
func (m *Map[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		m.All()(func(_ K, v V) bool { return yield(v) })
	}
}

// From yields the entries with keys in [from, ∞), in their order.
func (m *Map[K, V]) From(from K) iter.Seq2[K, V] {
	return m.entries(m.bare.between(m.bound(from), bound{}, true))
}

// Until yields the entries with keys in (-∞, to), in their order.
func (m *Map[K, V]) Until(to K) iter.Seq2[K, V] {
	return m.entries(m.bare.between(bound{}, m.bound(to), true))
}

// Between yields the entries with keys in [from, to), in their order. If keys are structs, those
// with the string s in the first field lie in [K{s}, K{s + "\x00"}), where each other field of the
// bounds has its least value. The least value of a string, an unsigned integer or a bool is its
// zero value, which also serves for times after the year 1. For an int it is math.MinInt, and for a
// float NaN.
func (m *Map[K, V]) Between(from, to K) iter.Seq2[K, V] {
	return m.entries(m.bare.between(m.bound(from), m.bound(to), true))
}

// Prefix yields the entries whose keys, as text, begin with p, in the order of the keys: strings
// that begin with p, and numbers whose decimal digits do. If the keys are in the order of their
// text, it looks at no others.
func (m *Map[K, V]) Prefix(p string) iter.Seq2[K, V] { return m.entries(m.bare.prefixed(p)) }

// KeysBetween yields the keys in [from, to), in their order, as Keys does. They are those that existed
// when the walk began.
func (m *Map[K, V]) KeysBetween(from, to K) iter.Seq[K] {
	return m.keysOf(m.bare.between(m.bound(from), m.bound(to), false))
}

// Range calls f for each entry, as All does, until f returns an error, which Range returns. An
// entry that cannot be read ends Range with its error.
func (m *Map[K, V]) Range(f func(key K, v V) error) error {
	var err error
	m.bare.walk(m.bare.items(true), func(item engine.Item) bool {
		k, v, failed := m.entry(&item)
		if err = failed; err == nil {
			err = f(k, v)
		}
		return err == nil
	})
	return err
}

// bound is an end of a range of keys: the text of a key, or nil for none.
type bound struct {
	key []byte
	err error // of encoding it
}

func (m *Map[K, V]) bound(key K) bound {
	text, err := m.keys.Append([]byte{}, key)
	if err != nil {
		err = m.bare.keyError(err)
	}
	return bound{text, err}
}

// entries decodes items. Like keysOf it is not inlined, so that its loop is compiled once, and not in each caller.
//
//go:noinline
func (m *Map[K, V]) entries(items iter.Seq[engine.Item]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		m.bare.walk(items, func(item engine.Item) bool {
			k, v, err := m.entry(&item)
			if err != nil {
				return m.bare.report(err)
			}
			return yield(k, v)
		})
	}
}

// keysOf decodes the keys of items.
//
//go:noinline
func (m *Map[K, V]) keysOf(items iter.Seq[engine.Item]) iter.Seq[K] {
	return func(yield func(K) bool) {
		m.bare.walk(items, func(item engine.Item) bool {
			k, err := m.keyOf(&item)
			if err != nil {
				return m.bare.report(err)
			}
			return yield(k)
		})
	}
}

// entry decodes an item.
func (m *Map[K, V]) entry(item *engine.Item) (k K, v V, err error) {
	if k, err = m.keyOf(item); err == nil {
		v, err = valueOf[V](&m.bare, item.Key, &item.Entry, false)
	}
	return k, v, err
}

// keyOf decodes the key of an item.
func (m *Map[K, V]) keyOf(item *engine.Item) (k K, err error) {
	if item.Err != nil {
		return k, item.Err
	}
	if k, err = m.keys.Decode(item.Key[len(m.bare.prefix):]); err != nil {
		err = typeError(err, "map %q", m.bare.name)
	}
	return k, err
}

// Walks of a Map without its types.

// items are all entries.
func (m *bareMap) items(values bool) iter.Seq[engine.Item] {
	switch {
	case m.down || m.isOrdered():
		return m.inOrder(engine.Span{}, values)
	case m.from != nil:
		return m.from.items(&m.place, values)
	}
	return m.db.store.Entries(m.cells, values)
}

func (m *bareMap) isOrdered() bool {
	return m.sorted || m.table != nil && m.db.store.KeepsOrder(m.table, m.order)
}

// inOrder are the entries of a span of sort keys.
func (m *bareMap) inOrder(span engine.Span, values bool) iter.Seq[engine.Item] {
	span.Down = m.down
	if m.from != nil {
		return m.from.inOrder(&m.place, m.order, span, values)
	}
	return m.db.store.InOrder(m.cells, m.order, span, values)
}

// between are the entries of [from, to).
func (m *bareMap) between(from, to bound, values bool) iter.Seq[engine.Item] {
	span, err := m.span(from, to)
	if err != nil {
		return refused{err}.item
	}
	return m.inOrder(span, values)
}

// span has the sort keys in [from, to).
func (m *bareMap) span(from, to bound) (span engine.Span, err error) {
	span.HighOpen = true
	if span.Low, err = m.sortKey(from); err == nil {
		span.High, err = m.sortKey(to)
	}
	return span, err
}

func (m *bareMap) sortKey(b bound) ([]byte, error) {
	if b.key == nil || b.err != nil {
		return nil, b.err
	}
	return m.order.AppendSortKey([]byte{}, string(b.key)), nil
}

// prefixed are the entries whose keys' own text begins with p.
func (m *bareMap) prefixed(p string) iter.Seq[engine.Item] {
	if m.order.IsBytes() {
		return m.inOrder(engine.PrefixSpan([]byte(p)), true)
	}
	return beginning(p, len(m.prefix), m.inOrder(engine.Span{}, true))
}

// beginning yields the items whose keys, after so many bytes, begin with p.
func beginning(p string, behind int, items iter.Seq[engine.Item]) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		for item := range items {
			own := item.Key[min(behind, len(item.Key)):]
			if item.Err == nil && (len(own) < len(p) || string(own[:len(p)]) != p) {
				continue
			}
			if !yield(item) {
				return
			}
		}
	}
}

// walk calls f with each item until f returns false. When the map is closed, that is the last error.
func (m *bareMap) walk(items iter.Seq[engine.Item], f func(engine.Item) bool) {
	if m.closed.Load() {
		f(engine.Item{Err: ErrClosed})
		return
	}
	for item := range items {
		if m.closed.Load() {
			f(engine.Item{Err: ErrClosed})
			return
		}
		if !f(item) {
			return
		}
	}
}
