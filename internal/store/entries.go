package store

import (
	"bytes"
	"iter"
)

// Entries is for going through all there is, so it takes more memory to sort keys in than walks do, which may be many at once: an
// eighth of what the store may use, but no more than mostRoom. Each time that the keys do not fit, all are read once more.
const mostRoom = 256 << 20

// Deadline is when the entry expires, in Unix milliseconds, 0 for never.
func (e *Entry) Deadline() uint64 { return e.expiry }

// Entries yields, in the order of their keys, the entries of key space 0 that the view has and that are in the span, as they are stored: the value
// encoded, with the number of its schema, the deadline, and the number and the time of the record. Key and value are the caller's. One value is
// in memory at a time. Errors are as in Items, and belong to Key if that is not nil.
//
//go:noinline
func (v *View) Entries(span Span) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		w := scan{store: v.store, view: v, span: span, walked: map[*Table]bool{}, room: v.store.roomToSort()}
		keys := w.keys(yield)
		defer keys.close()
		for !w.stop && keys.Next() && !w.stop {
			item, ok := v.itemOf(nil, bytes.Clone(keys.Key()), true)
			if ok && !yield(item) || ends(item.Err) {
				return
			}
		}
		if err := keys.Err(); err != nil && !w.stop {
			yield(Item{Err: err})
		}
	}
}

// roomToSort is how much memory one walk over everything takes to sort keys.
func (s *Store) roomToSort() int {
	return int(min(max(s.opts.MaxMemory/8, int64(SortBytes)), mostRoom))
}
