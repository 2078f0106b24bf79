package copal

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/seglog"
)

// Snapshot is a store as it was when the snapshot was taken: all its maps, collections and raw
// keys, at one moment between two writes. users.At(s) is a map in it; collections and raw bytes
// have At, too. A snapshot does not change while others write, delete and compact and while entries
// expire, and it blocks no other call. It has every write that was acknowledged when it was taken,
// those of SetAsync included, but no value of SetInMemory. It is safe for concurrent use.
//
// While a snapshot is open, the store keeps two things for it. In memory it keeps the place of the
// old record of each key that changes, 80 to 140 bytes with the key. On the disk it keeps the files
// that compaction would remove, if they are as old as the snapshot. Close gives both back, and
// Stats counts them. A transaction needs no snapshot. A snapshot survives neither Close of the
// store nor the process; Backup does.
type Snapshot struct {
	db   *DB
	view *engine.View
	far  driver.Session // in its place, of a store with a driver
}

// Snapshot takes a snapshot, which the caller must close. It takes microseconds, whatever the size
// of the store, and longer only if SetAsync has left much to be written. The error is ErrClosed, or
// says why the asynchronous writes could not be written.
func (db *DB) Snapshot() (*Snapshot, error) {
	if db.driver != nil {
		return db.snapshotFar()
	}
	v, err := db.store.OpenView()
	if err != nil {
		return nil, err
	}
	return db.taken(&Snapshot{db: db, view: v}), nil
}

// taken is a new snapshot.
func (db *DB) taken(s *Snapshot) *Snapshot {
	if opened.View.Load() == nil {
		opened.View.Store(&viewOf)
	}
	return s
}

// AsOf returns a snapshot of an earlier moment: the state of the store at t, with everything that
// was written within the millisecond of t. Entries that had expired at t are absent, and those that
// have expired since are present. A SetAsync counts from the time when the log had it.
//
// Until the log is compacted it has every moment since the store was made; from then on it has
// those in the window that WithHistory keeps. For earlier ones the error is ErrHistoryLost. A time
// in the future is an error. If the clock was ahead and was set back, times are errors until the
// clock passes the latest time of a record; AsOfSeq works for them. The error handler and Stats
// report such a clock.
//
// It also works in a ReadOnly store. AsOf reads the log up to the moment, from the nearest earlier
// snapshot of the index; without one, as after a compaction, it takes as long as to open the store
// without its index. While the snapshot is open the store has a second index in memory. Reads of it
// are as fast as reads of the present. The caller must close the snapshot; DB.Close closes it, too.
func (db *DB) AsOf(t time.Time) (*Snapshot, error) {
	return db.asOf(seglog.AtTime(uint64(max(t.UnixMilli(), 0))))
}

// AsOfSeq is AsOf for the moment after the record with sequence number n, such as Change.Seq or
// Snapshot.Seq. With 0 the snapshot is empty. Writes that take effect together with a later record
// are absent. A number that the log has not reached is an error.
func (db *DB) AsOfSeq(n uint64) (*Snapshot, error) { return db.asOf(seglog.AtSeq(n)) }

func (db *DB) asOf(at seglog.Moment) (*Snapshot, error) {
	v, err := db.store.AsOf(at)
	if err != nil {
		return nil, db.lost(err)
	}
	return db.taken(&Snapshot{db: db, view: v}), nil
}

// lost adds to an ErrHistoryLost the readable part of the past, and the way to keep more.
func (db *DB) lost(err error) error {
	if !errors.Is(err, ErrHistoryLost) {
		return err
	}
	log := db.store.Log()
	_, whole := log.HistoryFrom()
	switch window := log.History(); {
	case window != nil:
		return lostHistory(fmt.Sprintf("the window of history begins at %v with record %d, after that moment; a longer WithHistory keeps more from now on",
			time.UnixMilli(int64(window.Time)), window.Seq))
	case !whole:
		return lostHistory("the history is lost: the log has been compacted, and no window is kept; WithHistory keeps one from now on")
	}
	return lostHistory("the store was made after that moment")
}

// lostHistory is an ErrHistoryLost that says why.
type lostHistory string

func (e lostHistory) Error() string        { return "copal: " + string(e) }
func (e lostHistory) Is(target error) bool { return target == ErrHistoryLost }

// Close releases the memory and files that the store keeps for the snapshot. From then on every
// read of it is ErrClosed. Calls after the first do nothing. The error is nil.
func (s *Snapshot) Close() error {
	if s.far != nil {
		return s.far.Close()
	}
	s.view.Close()
	return nil
}

// Seq returns the sequence number of the last record in the snapshot. Of two snapshots of a store
// the one with the higher number was taken later. With the same number, the log got no record
// between them; entries may have expired.
func (s *Snapshot) Seq() uint64 { seq, _ := s.moment(); return seq }

// Time returns the moment at which the snapshot was taken; entries that expire later stay in it.
func (s *Snapshot) Time() time.Time { _, at := s.moment(); return time.UnixMilli(int64(at)) }

func (s *Snapshot) moment() (seq, time uint64) {
	if s.far != nil {
		return s.far.Moment()
	}
	return s.view.Seq(), s.view.Time()
}

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
const errHistoryNow misuse = "History cannot be read in a transaction or a snapshot"

// present returns an error for a handle that is not of the present state of the store.
func (h *handle) present() error {
	if from, is := h.from.(refused); is {
		return from.err
	}
	if _, is := h.from.(driven); is && h.then == nil && h.tx == nil {
		return unsupported("history")
	}
	if h.from != nil {
		return errHistoryNow
	}
	return nil
}
