package engine

import (
	"bytes"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Entries usually goes through the whole store, so it takes more memory to sort keys than walks do, which may
// be many at once: an eighth of MaxMemory, but no more than mostRoom. Each time that the keys do not fit, all
// are read once more.
const mostRoom = 256 << 20

// Deadline returns the deadline of the entry, in Unix milliseconds, 0 for none.
func (e *Entry) Deadline() uint64 { return e.expiry }

// Entries yields, in the order of their keys, the entries of key space 0 that the view has and that are in the
// span, in their stored form: the encoded value, with the number of its schema, the deadline, and the number
// and the time of the record. For a collection it yields the content of its meta instead of a value. Key and
// value are the caller's. One value is in memory at a time. Errors are as in Items, and belong to Key if that
// is not nil.
//
//go:noinline
func (v *View) Entries(span Span) iter.Seq2[Item, *Collection] {
	return func(yield func(Item, *Collection) bool) {
		w := scan{store: v.store, view: v, span: span, walked: map[*Table]bool{}, room: v.store.roomToSort()}
		keys := w.keys(func(item Item) bool { return yield(item, nil) })
		defer keys.close()
		for !w.stop && keys.Next() && !w.stop {
			item := Item{Key: bytes.Clone(keys.Key())}
			var c *Collection
			item.Entry, c, item.Err = v.stored(item.Key)
			if item.Err != ErrNotFound && !yield(item, c) || ends(item.Err) {
				return
			}
		}
		if err := keys.Err(); err != nil && !w.stop {
			yield(Item{Err: err}, nil)
		}
	}
}

// stored returns the entry of a key: a value, or the content of the meta of a collection.
func (v *View) stored(key []byte) (out Entry, c *Collection, err error) {
	in, err := v.use()
	if err != nil {
		return out, nil, err
	}
	defer v.store.life.leave(in)
	r := v.asItWas()
	t := r.tableOf(nil, key)
	var e seglog.Record
	var f sight
	if err = r.record(&e, &f, t, t.hash(key), key, nil); err != nil {
		return out, nil, err
	}
	if e.Kind != record.Meta {
		err = v.store.entryTo(&out, &e, &f)
		return out, nil, err
	}
	found, err := v.store.collectionOf(&e, f.at, "")
	out = Entry{Seq: e.Seq, Time: time.UnixMilli(int64(e.Written)), hit: hitOf(f.at, &e.Head, e.Bytes)}
	return out, &found, err
}

// Restore writes elements of a collection of this type under a key. With anew it first deletes the entry there,
// in another change than the elements: a crash may leave nothing.
func (s *Store) Restore(key []byte, of CollectionType, edits []*Edit, anew bool) error {
	if anew {
		if _, err := s.Delete(nil, key, Process); err != nil {
			return err
		}
	}
	return s.Change(key, of, Process, func(*Plan) ([]*Edit, error) { return edits, nil })
}

// roomToSort returns the memory in which one walk over everything sorts keys.
func (s *Store) roomToSort() int {
	return int(min(max(s.opts.MaxMemory/8, int64(s.sortBytes())), mostRoom))
}
