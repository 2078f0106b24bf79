package copal

import (
	"cmp"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Version is the state of an entry from one record of the log to the next.
type Version[V any] struct {
	Value    V         // the caller's; zero if the entry was deleted
	Seq      uint64    // the sequence number from which on it counts: AsOfSeq shows it
	Time     time.Time // when it was written
	Deadline time.Time // from which on it has expired; zero if it does not
	Deleted  bool      // there is no entry from then on
	Expired  bool      // its deadline came before the next write; true for the value and, in a map with ExpiryEvents, for the deletion that follows it

	// Collection is "hash", "list", "set", "zset" or "stream" if the key has a collection from this
	// version on. Such a version has no value.
	Collection string
}

// History yields the versions of an entry, the newest first: all in the window that WithHistory
// keeps, and last the version at the beginning of the window. A deletion is a version, too. Each
// value is decoded as Get would have decoded it then.
//
// Without a window the versions are those that the log has. If the log has been compacted since the
// store was made, the last pair has ErrHistoryLost. An error that concerns a single version comes
// with the rest of that version, and the iteration goes on.
//
// It reads the log from its end, a segment at a time, back to the version at which the loop ends.
// The time depends on the bytes read, not on the number of versions. Memory holds the places of the
// versions that have not been yielded yet. Files that compaction replaces meanwhile stay until the
// loop ends.
func (m *Map[K, V]) History(key K) iter.Seq2[Version[V], error] {
	return func(yield func(Version[V], error) bool) {
		buf := m.key(key)
		defer buf.release()
		m.bare.history(buf.key, buf.err, func(v *engine.Version, err error) bool {
			out := versionOf[V](v)
			if err == nil && out.has() {
				out.Value, err = valueOf[V](&m.bare, buf.key, &v.Entry, false)
			}
			return yield(out, err)
		})
	}
}

// History is Map.History of a raw key. A value is the one that Load would have returned then.
func (r *Raw) History(key []byte) iter.Seq2[Version[[]byte], error] {
	return func(yield func(Version[[]byte], error) bool) {
		r.history(key, nil, func(v *engine.Version, err error) bool {
			out := versionOf[[]byte](v)
			if err == nil && out.has() {
				out.Value, err = r.db.shown(nil, key, v.Value, v.Schema)
			}
			return yield(out, err)
		})
	}
}

// versionOf returns a version without its value.
func versionOf[V any](v *engine.Version) Version[V] {
	out := Version[V]{Seq: v.Seq, Time: v.Time, Deleted: v.Deleted, Expired: v.Expired, Collection: v.Collection}
	if at := v.Deadline(); at != 0 {
		out.Deadline = time.UnixMilli(int64(at))
	}
	return out
}

// has reports whether the version has a value.
func (v *Version[V]) has() bool { return !v.Deleted && v.Collection == "" }

// history calls yield with each version of an entry, unless its key has an error.
func (h *handle) history(key []byte, err error, yield func(*engine.Version, error) bool) {
	if err := cmp.Or(err, h.present()); err != nil {
		yield(new(engine.Version), err)
		return
	}
	for v, err := range h.db.store.History(key) {
		if err != nil {
			yield(new(engine.Version), h.db.lost(err))
			return
		}
		if !yield(&v, nil) {
			return
		}
	}
}

// errHistoryNow: a life goes on from moment to moment, so none of them has one.
const errHistoryNow misuse = "the history of an entry is read outside of a transaction and of a snapshot"

// present returns an error for a handle that is not of the present state of the store.
func (h *handle) present() error {
	if from, is := h.from.(refused); is {
		return from.err
	}
	if h.from != nil {
		return errHistoryNow
	}
	return nil
}
