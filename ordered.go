package copal

import (
	"iter"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keycodec"
)

// Keys in order.
//
// Every map can be gone through in the order of its keys, and so can raw keys. With the option Ordered, or OrderedKeys for raw
// ones, the store keeps the keys in order, and a walk begins at once, wherever it begins. Without, the keys are read and sorted first,
// in bounded memory: the result is the same, and nothing is paid by who does not ask for it.
//
// A walk yields each key that is there throughout exactly once, in its place, with the value that it has when it is its
// turn. What comes or goes meanwhile may be yielded or not. The store may be used, and changed, in the loop.

// Ordered keeps the keys of a map in order: numbers by value, NaN first, times by instant, false before true, arrays by their first unequal
// element, strings, arrays of bytes and texts by their bytes. Keys that a raw write has left and
// that are none of the map's type come last.
//
// All, Keys, Values and Range go in that order then, and Ascend and its kin begin without a look at other keys. It costs what a key takes in a sorted
// file, prefixes shared, about 4 bytes and those in which keys differ; some 100 bytes of memory for each of the last 64 Ki keys
// that came or went; and one lock that writes of new keys, and deletions, hold for about a microsecond. Overwriting costs nothing.
//
// A map that was ordered once stays so, whether it is opened with the option or not. The first opening with it
// reads all keys. Given to Open, it holds for all maps.
func Ordered() MapOption { return mapOption(func(m *mapConfig) { m.ordered = true }) }

// OrderedKeys is Ordered for the raw keys, those that belong to no map: Scan and ScanRange begin at once then.
func OrderedKeys() Option { return storeOption(func(c *config) { c.orderedKeys = true }) }

// IsOrdered reports whether the map's keys are kept in order.
func (m *Map[K, V]) IsOrdered() bool { return m.db.store.KeepsOrder(m.table, m.by) }

// Ascend yields the entries from key from on, in ascending order.
func (m *Map[K, V]) Ascend(from K) iter.Seq2[K, V] { return m.span(&from, nil, false, false) }

// Descend yields the entries from key from on, in descending order.
func (m *Map[K, V]) Descend(from K) iter.Seq2[K, V] { return m.span(nil, &from, false, true) }

// After yields the entries behind key, in ascending order. A list is shown page by page with the last key of each page:
//
//	for k, v := range m.After(last) {
//		page = append(page, v)
//		if last = k; len(page) == 20 {
//			break
//		}
//	}
func (m *Map[K, V]) After(key K) iter.Seq2[K, V] { return m.span(&key, nil, true, false) }

// Before yields the entries before key, in descending order.
func (m *Map[K, V]) Before(key K) iter.Seq2[K, V] { return m.span(nil, &key, true, true) }

// Between yields the entries from key from on, up to key to, but not that, in ascending order.
//
//go:noinline
func (m *Map[K, V]) Between(from, to K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if sp, ok := m.bounds(&from, &to, false, false); ok {
			sp.HighOpen = true
			m.inOrder(sp)(yield)
		}
	}
}

// Prefix yields the entries whose keys, as text, begin with p, in the order of the keys: of strings those that begin so, of numbers those
// whose decimals do. Of keys whose order is that of their text no others are looked at.
//
//go:noinline
func (m *Map[K, V]) Prefix(p string) iter.Seq2[K, V] {
	return m.entries(prefixed(len(m.prefix), m.by, p, func(sp engine.Span) iter.Seq[engine.Item] { return m.db.store.InOrder(m.cells, m.by, sp, true) }))
}

// prefixed are the items of a map of which the keys' own bytes, behind so many others, begin with p. inOrder are those of a span.
func prefixed(before int, by keycodec.Order, p string, inOrder func(engine.Span) iter.Seq[engine.Item]) iter.Seq[engine.Item] {
	if by.IsBytes() {
		return inOrder(engine.PrefixSpan([]byte(p)))
	}
	return func(yield func(engine.Item) bool) {
		for item := range inOrder(engine.Span{}) {
			if own := item.Key[min(before, len(item.Key)):]; item.Err == nil && (len(own) < len(p) || string(own[:len(p)]) != p) {
				continue
			}
			if !yield(item) {
				return
			}
		}
	}
}

// Backward yields all entries in descending order.
func (m *Map[K, V]) Backward() iter.Seq2[K, V] { return m.inOrder(engine.Span{Down: true}) }

// First returns the entry with the least key; ok is false if there is none.
func (m *Map[K, V]) First() (key K, v V, ok bool) {
	return first(m.inOrder(engine.Span{}))
}

// Last returns the entry with the greatest key; ok is false if there is none.
func (m *Map[K, V]) Last() (key K, v V, ok bool) { return first(m.Backward()) }

func first[K, V any](list iter.Seq2[K, V]) (key K, v V, ok bool) {
	for key, v := range list {
		return key, v, true
	}
	return key, v, false
}

// KeysFrom yields the keys from key from on, in ascending order. No value is read, so of an ordered map the log is not either. The keys are
// those that were there when the walk began.
//
//go:noinline
func (m *Map[K, V]) KeysFrom(from K) iter.Seq[K] {
	return func(yield func(K) bool) {
		if low, ok := m.sortKey(from); ok {
			m.keysOf(m.db.store.InOrder(m.cells, m.by, engine.Span{Low: low}, false))(yield)
		}
	}
}

// span yields the entries between two keys, nil for none. With open the keys themselves are left out.
//
//go:noinline
func (m *Map[K, V]) span(low, high *K, open, down bool) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if sp, ok := m.bounds(low, high, open, down); ok {
			m.inOrder(sp)(yield)
		}
	}
}

// bounds is the span between two keys, as in span.
func (m *Map[K, V]) bounds(low, high *K, open, down bool) (sp engine.Span, ok bool) {
	sp = engine.Span{LowOpen: open, HighOpen: open, Down: down}
	ok = true
	if low != nil {
		sp.Low, ok = m.sortKey(*low)
	}
	if high != nil && ok {
		sp.High, ok = m.sortKey(*high)
	}
	return sp, ok
}

// sortKey is that of a key. One that has no encoding is reported.
func (m *Map[K, V]) sortKey(key K) (b []byte, ok bool) {
	own, err := m.keys.Append(nil, key)
	if err != nil {
		m.db.report(typeError(err, "a key of map %q", m.name))
		return nil, false
	}
	return m.by.AppendSortKey([]byte{}, string(own)), true
}

//go:noinline
func (m *Map[K, V]) inOrder(sp engine.Span) iter.Seq2[K, V] {
	return m.entries(m.db.store.InOrder(m.cells, m.by, sp, true))
}

// Scan yields the entries whose keys begin with prefix, raw and typed, in the order
// of the bytes of their keys. Key and value are the caller's. The values are read one by one, and an entry
// that is deleted meanwhile is left out. A read that fails goes to the error handler, and so does a collection, as a *CollectionError.
//
// Keys that are kept in order (OrderedKeys; and of maps Ordered, if the order of their keys is that of the bytes) are yielded at once. All others
// are sorted in a thirty-second of MaxMemory, but at least 32 and at most 256 MiB: where there are more of them than that holds, a million or so in
// the least, they are read several times.
func (db *DB) Scan(prefix []byte) iter.Seq2[[]byte, []byte] {
	return db.scan(engine.PrefixSpan(prefix))
}

// ScanKeys is Scan without the values. Keys that are kept in order are those that were there when the walk began.
func (db *DB) ScanKeys(prefix []byte) iter.Seq[[]byte] {
	return db.scanKeys(engine.PrefixSpan(prefix))
}

// ScanRange is Scan for the keys from from on, up to to, but not that. nil is no bound.
func (db *DB) ScanRange(from, to []byte) iter.Seq2[[]byte, []byte] {
	return db.scan(engine.Span{Low: from, High: to, HighOpen: true})
}

// ScanRangeKeys is ScanRange without the values, as ScanKeys is Scan.
func (db *DB) ScanRangeKeys(from, to []byte) iter.Seq[[]byte] {
	return db.scanKeys(engine.Span{Low: from, High: to, HighOpen: true})
}

// ScanBackward is ScanRange in descending order: from the last key before to down to from.
func (db *DB) ScanBackward(from, to []byte) iter.Seq2[[]byte, []byte] {
	return db.scan(engine.Span{Low: from, High: to, HighOpen: true, Down: true})
}

// ScanBackwardKeys is ScanBackward without the values, as ScanKeys is Scan.
func (db *DB) ScanBackwardKeys(from, to []byte) iter.Seq[[]byte] {
	return db.scanKeys(engine.Span{Low: from, High: to, HighOpen: true, Down: true})
}

//go:noinline
func (db *DB) scan(sp engine.Span) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var kept engine.Keeper
		for item := range db.store.ScanEntries(sp) {
			value, err := item.Value, item.Err
			if err == nil && db.renderer(item.Schema) != nil {
				value, err = db.shown(nil, item.Key, value, item.Schema)
			} else if item.Lent {
				value = kept.Keep(value)
			}
			if err != nil {
				db.report(err)
				continue
			}
			if !yield(kept.Keep(item.Key), value) {
				return
			}
		}
	}
}

//go:noinline
func (db *DB) scanKeys(sp engine.Span) iter.Seq[[]byte] {
	return func(yield func(key []byte) bool) {
		for key, err := range db.store.Scan(sp) {
			if err != nil {
				db.report(err)
				continue
			}
			if !yield(key) {
				return
			}
		}
	}
}
