package copal

import (
	"iter"

	"github.com/copaldb/copal/internal/engine"
)

// Keys in order.
//
// Every map can be walked in the order of its keys, and so can raw bytes. With the option Ordered, or
// OrderedKeys for raw keys that belong to no map, the store keeps the keys in order, and a walk
// begins at once, wherever it begins. Without, the first walk reads and sorts the keys, and the process
// keeps them in order while walks come: until more keys have come and gone since the last one than there
// were. The result is the same.
//
// Ranges are half-open: they have their lower bound and not their upper one, whichever way they are
// walked.

// Ordered keeps the keys of a map in order: numbers by value, NaN first, times by instant, false before
// true, structs and arrays by their first unequal part, strings, arrays of bytes and texts by their
// bytes.
// Keys that a raw write has left and that are none of the map's type come last.
//
// All, Keys, Values and Range go in that order then, and From and its like begin without a look at
// other keys. It costs what a key takes in a sorted file, prefixes shared, about 4 bytes and those in
// which keys differ; some 100 bytes of memory for each of the last 64 Ki keys that came or went; and
// one lock that writes of new keys, and deletions, hold for about a microsecond. Overwriting costs
// nothing.
//
// A map that was ordered once stays so, whether it is opened with the option or not. The first
// opening with it reads all keys. Given to Open, it holds for all maps.
//
// Without it, From and its like, First, and handles of Backward put the keys in order when they are first
// used, and find them so while they are used again and again, at the price above. An eighth of WithMaxMemory
// is for such orders. Where a map does not fit, more than a million keys or so, each walk reads all keys.
func Ordered() MapOption { return mapOption(func(m *mapConfig) { m.ordered = true }) }

// OrderedKeys is Ordered for raw keys that belong to no map: walks of Raw begin at once then.
func OrderedKeys() Option { return storeOption(func(c *config) { c.orderedKeys = true }) }

// All yields each key and its value, which is the caller's own. A map that is Ordered, and every
// handle of Backward, yields them in the order of the keys, others in none.
//
// An entry that is there throughout is yielded exactly once, with the value it has at that moment;
// one that comes or goes meanwhile may be yielded or not. A snapshot yields what it has. The store may
// be used, and changed, in the loop. An entry that cannot be read goes to the error handler and is
// left out.
//
// In a transaction, an error ends the loop and the transaction, which returns it. What the
// transaction does in the loop to an entry that has not been yielded yet shows; whether a new entry
// is yielded is not said. What others do before the transaction ends is a conflict: to any entry of
// the map or, of walks in order, to one between the first and the last that the loop came by.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.entries(m.items(true)) }

// Keys yields each key, as All does. No value is read, so of an ordered map the log is not either.
func (m *Map[K, V]) Keys() iter.Seq[K] { return m.keysOf(m.items(false)) }

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

// From yields the entries with keys in [from, ∞), in their order.
func (m *Map[K, V]) From(from K) iter.Seq2[K, V] { return m.entries(m.between(&from, nil, true)) }

// Until yields the entries with keys in (-∞, to), in their order.
func (m *Map[K, V]) Until(to K) iter.Seq2[K, V] { return m.entries(m.between(nil, &to, true)) }

// Between yields the entries with keys in [from, to), in their order.
func (m *Map[K, V]) Between(from, to K) iter.Seq2[K, V] {
	return m.entries(m.between(&from, &to, true))
}

// Prefix yields the entries whose keys, as text, begin with p, in the order of the keys: of strings
// those that begin so, of numbers those whose decimals do. Of keys whose order is that of their text
// no others are looked at.
func (m *Map[K, V]) Prefix(p string) iter.Seq2[K, V] { return m.entries(m.prefixed(p, true)) }

// KeysFrom yields the keys in [from, ∞), in their order, as Keys does: those that were there when the
// walk began.
func (m *Map[K, V]) KeysFrom(from K) iter.Seq[K] { return m.keysOf(m.between(&from, nil, false)) }

// KeysBetween yields the keys in [from, to), as KeysFrom does.
func (m *Map[K, V]) KeysBetween(from, to K) iter.Seq[K] {
	return m.keysOf(m.between(&from, &to, false))
}

// KeysPrefix yields the keys that Prefix does, as KeysFrom does.
func (m *Map[K, V]) KeysPrefix(p string) iter.Seq[K] { return m.keysOf(m.prefixed(p, false)) }

// First returns the entry with the least key; ok is false if there is none. Backward().First() is
// that with the greatest.
func (m *Map[K, V]) First() (key K, v V, ok bool) {
	for key, v := range m.entries(m.inOrder(engine.Span{}, true)) {
		return key, v, true
	}
	return key, v, false
}

// Range calls f for each entry, as All does, until f returns an error, which Range returns. Its own
// error is that of the first entry that could not be read, which ends it, too.
func (m *Map[K, V]) Range(f func(key K, v V) error) error {
	for item := range m.readable(m.items(true)) {
		k, v, err := m.entry(item)
		if err == nil {
			err = f(k, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// items are all entries.
//
//go:noinline
func (m *Map[K, V]) items(values bool) iter.Seq[engine.Item] {
	switch {
	case m.down || m.isOrdered():
		return m.inOrder(engine.Span{}, values)
	case m.from != nil:
		return m.from.items(&m.place, values)
	}
	return m.db.store.Entries(m.cells, values)
}

func (m *Map[K, V]) isOrdered() bool {
	return m.sorted || m.table != nil && m.db.store.KeepsOrder(m.table, m.order)
}

// inOrder are the entries of a span of sort keys.
//
//go:noinline
func (m *Map[K, V]) inOrder(span engine.Span, values bool) iter.Seq[engine.Item] {
	span.Down = m.down
	if m.from != nil {
		return m.from.inOrder(&m.place, m.order, span, values)
	}
	return m.db.store.InOrder(m.cells, m.order, span, values)
}

// between are the entries of [from, to); nil is no bound.
//
//go:noinline
func (m *Map[K, V]) between(from, to *K, values bool) iter.Seq[engine.Item] {
	span, err := m.span(from, to)
	if err != nil {
		return refused{err}.item
	}
	return m.inOrder(span, values)
}

// span has the sort keys in [from, to); nil is no bound.
func (m *Map[K, V]) span(from, to *K) (engine.Span, error) {
	span := engine.Span{HighOpen: true}
	for _, bound := range []struct {
		key  *K
		sort *[]byte
	}{{from, &span.Low}, {to, &span.High}} {
		if bound.key == nil {
			continue
		}
		own, err := m.keys.Append(nil, *bound.key)
		if err != nil {
			return span, typeError(err, "a key of map %q", m.name)
		}
		*bound.sort = m.order.AppendSortKey([]byte{}, string(own))
	}
	return span, nil
}

// prefixed are the entries whose keys' own text begins with p.
//
//go:noinline
func (m *Map[K, V]) prefixed(p string, values bool) iter.Seq[engine.Item] {
	if m.order.IsBytes() {
		return m.inOrder(engine.PrefixSpan([]byte(p)), values)
	}
	return beginning(p, len(m.prefix), m.inOrder(engine.Span{}, values))
}

// beginning are the items whose keys, behind so many bytes, begin with p.
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

// entries decodes items.
//
//go:noinline
func (m *Map[K, V]) entries(items iter.Seq[engine.Item]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for item := range m.readable(items) {
			k, v, err := m.entry(item)
			if err != nil && !m.report(err) || err == nil && !yield(k, v) {
				return
			}
		}
	}
}

// keysOf decodes the keys of items.
//
//go:noinline
func (m *Map[K, V]) keysOf(items iter.Seq[engine.Item]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for item := range m.readable(items) {
			k, err := m.key(item)
			if err != nil && !m.report(err) || err == nil && !yield(k) {
				return
			}
		}
	}
}

// readable are the items until the map is closed, which is an error.
func (m *mapCore[K, V]) readable(items iter.Seq[engine.Item]) iter.Seq[engine.Item] {
	return func(yield func(engine.Item) bool) {
		if m.closed.Load() {
			yield(engine.Item{Err: ErrClosed})
			return
		}
		for item := range items {
			if m.closed.Load() {
				yield(engine.Item{Err: ErrClosed})
				return
			}
			if !yield(item) {
				return
			}
		}
	}
}

// entry decodes an item.
func (m *Map[K, V]) entry(item engine.Item) (k K, v V, err error) {
	if k, err = m.key(item); err == nil {
		v, err = m.valueOf(item.Key, &item.Entry, false)
	}
	return k, v, err
}

// key decodes the key of an item.
func (m *mapCore[K, V]) key(item engine.Item) (k K, err error) {
	if item.Err != nil {
		return k, item.Err
	}
	if k, err = m.keys.Decode(item.Key[len(m.prefix):]); err != nil {
		err = typeError(err, "key %q of map %q", item.Key, m.name)
	}
	return k, err
}
