package copal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/feed"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
)

// Watching.
//
// The log is the list of all changes, and a watch reads it after the writers. So no writer waits
// for a watch, and a watch may be slow: the changes that it has not read are in the log. Watches
// that keep up share one reader. Only compaction could remove such changes: files that a watch has
// yet to read stay when they have been compacted, up to as many bytes as the log has, at least 64
// MiB. Beyond that the watch ends with ErrHistoryLost.

// Change is a change of one entry, or of one element of a collection, as DB.Watch yields it.
type Change struct {
	Key      []byte // the caller's
	Deleted  bool   // there is no entry, or no element, any more; it may be that there was none
	Expired  bool   // it was deleted by its Deadline, which has come: of maps with ExpiryEvents, and of raw keys after Raw.TellExpiry
	Range    bool   // all entries were deleted with keys in [Key, To), as the keys of the map are ordered: Covers reports whether a key is one of them
	To       []byte // the end of a range, nil for none
	Dropped  bool   // the range is a map that DB.Drop has removed
	Seq      uint64 // the sequence number by which the change counts
	Time     time.Time
	Deadline time.Time // from which on the entry has expired; zero if it does not
	Large    int64     // the length of a value of more than 1 MiB, which Value has to read; 0 for any other
	Idle     bool      // nothing has changed: every change up to Seq has been yielded; only with WithIdle
	More     bool      // further changes follow that count together with this one, under the same number: of a transaction, or a batch

	// The following fields describe a change of a collection. A new one is Created, and changes of
	// its elements follow. One that was renamed had its elements under the key From: a copy must
	// take them from the store, because changes of them that the watch reads after the renaming are
	// not yielded. Otherwise an Element has changed or, when that is nil, the Deadline.
	Collection string // "hash", "list", "set", "zset" or "stream" if the change is of a collection
	Element    []byte // the field of a hash, the member of a set or a sorted set, the position of an element of a list: bytes in whose order the elements are sorted
	Created    bool
	From       []byte

	db    *DB
	event feed.Event
	past  *feed.Past // of a watch with OldValues
	far   *farChange // in the place of event and past, of a store with a driver
}

// Value returns the result of Raw.Load after the change or, for an Element, the value of the field,
// the element of the list, or the score as text. It must be called before the loop asks for the
// next change. The error is ErrNotFound if the entry was deleted, and ErrHistoryLost if a value of
// more than 1 MiB has been replaced since, and compaction has taken some of it; the watch goes on
// then.
func (c *Change) Value() ([]byte, error) {
	if c.Deleted || c.Idle {
		return nil, ErrNotFound
	}
	e, err := c.now()
	if err != nil {
		return nil, err
	}
	return c.db.shown(nil, c.Key, e.Value, e.Schema)
}

// now is the entry, or element, after the change.
func (c *Change) now() (*engine.Entry, error) {
	if c.far != nil {
		return c.far.after()
	}
	value, err := feed.Value(c.db.store, &c.event)
	if err != nil {
		return nil, err
	}
	return &engine.Entry{Value: value, Schema: c.event.Schema}, nil
}

// Old returns the result of Value before the change, in a watch with OldValues. It must be called
// before the loop asks for the next change. For an Expired entry it returns the value that expired.
// The error is ErrNotFound if there was no entry, or it had expired, and for a Range: a snapshot of
// DB.AsOfSeq(c.Seq-1) has the entries of the range. It is ErrType if a value has replaced a
// collection, and ErrHandle without OldValues.
func (c *Change) Old() ([]byte, error) {
	e, err := c.old()
	if err != nil {
		return nil, err
	}
	return c.db.shown(nil, c.Key, e.Value, e.Schema)
}

func (c *Change) old() (*engine.Entry, error) {
	if c.Idle {
		return nil, ErrNotFound
	}
	switch {
	case c.far != nil && c.far.old:
		return c.far.before()
	case c.past == nil:
		return nil, fmt.Errorf("%w: the watch was begun without OldValues", ErrHandle)
	}
	value, schema, err := c.past.Value(&c.event)
	return &engine.Entry{Value: value, Schema: schema}, err
}

// Covers reports whether a whole key is one of those that were changed: the Key, or one of the range.
func (c *Change) Covers(key []byte) bool {
	if !c.Range {
		return bytes.Equal(key, c.Key)
	}
	if c.far != nil {
		return c.far.Covers(key)
	}
	r, err := c.event.Range()
	return err == nil && r.Has(key)
}

// WatchOption is a setting of DB.Watch and Map.Watch.
type WatchOption func(*watching)

type watching struct {
	prefix   []byte
	key      []byte // nil for all with the prefix
	after    *uint64
	until    *uint64
	old      bool
	follower func(*engine.Store, *seglog.Recovery) engine.Follower // with old
	idle     time.Duration                                         // 0 for no word of it
}

// WithPrefix leaves out entries whose whole keys, with the name of the map, do not begin with
// prefix. It is for DB.Watch: Map.Watch replaces it by the prefix of the map.
func WithPrefix(prefix []byte) WatchOption {
	prefix = bytes.Clone(prefix)
	return func(w *watching) { w.prefix = prefix }
}

// WithKey leaves out all entries but the one under a whole key, which begins with the name of the
// map: append(MapPrefix("users"), "alice"...). Thousands of watches of different keys cost hardly
// more than one.
func WithKey(key []byte) WatchOption {
	key = append([]byte{}, key...)
	return func(w *watching) { w.key = key }
}

// of returns the entries of the watch.
func (w *watching) of() feed.Of {
	if w.key != nil && bytes.HasPrefix(w.key, w.prefix) {
		return feed.Key(w.key)
	}
	return feed.Prefix(w.prefix)
}

// WithAfter first yields the changes since a sequence number: the number of a snapshot, or of the
// last change with More false that an earlier watch yielded, in this process or another. With 0 it
// yields all changes that the log has. The error is ErrHistoryLost if compaction has removed some
// of them.
func WithAfter(seq uint64) WatchOption {
	return func(w *watching) { w.after = &seq }
}

// WithUntil ends the watch, without an error, after the changes up to a sequence number. With the
// number of a snapshot the watch yields the changes up to the snapshot, and does not wait for more.
func WithUntil(seq uint64) WatchOption {
	return func(w *watching) { w.until = &seq }
}

// OldValues makes Change.Old available. The watch then opens the moment at which it begins, as
// DB.AsOfSeq does, and follows it: that costs a second index in memory for as long as the loop
// runs, and a second reading of the log. The error is ErrHistoryLost if that moment cannot be read
// any more, or if compaction has removed records that the watch has yet to read: a window of
// history (WithHistory) keeps them.
func OldValues() WatchOption {
	return func(w *watching) { w.old, w.follower = true, store.Follower }
}

// WithIdle yields a Change that is Idle and has no Key whenever there was no change for the given
// time. Its Seq is for WithAfter, as the number of a change is. So a watch of entries that change
// seldom can go on later even if compaction has removed the last change it yielded. The time must
// be positive. With WithUntil the option has no effect.
func WithIdle(every time.Duration) WatchOption {
	return func(w *watching) { w.idle = max(every, time.Millisecond) }
}

// changes opens the feed of the watch. The caller calls end.
func (w *watching) changes(db *DB, from seglog.Position) (next func(context.Context) (feed.Event, error), end func(), err error) {
	if w.until != nil {
		f, err := feed.Open(db.store, from, w.of())
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) (feed.Event, error) { return f.NextUntil(ctx, *w.until) }, f.Close, nil
	}
	f, err := db.hub().Watch(db.store, from, w.of())
	if err != nil {
		return nil, nil, err
	}
	if w.idle > 0 {
		return func(ctx context.Context) (feed.Event, error) { return w.nextOrIdle(ctx, f) }, f.Close, nil
	}
	return f.Next, f.Close, nil
}

// hub returns the hub of the store's watches.
func (db *DB) hub() *feed.Hub {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.watches == nil {
		db.watches = feed.NewHub(db.lead)
	}
	return db.watches.(*feed.Hub)
}

// nextOrIdle returns the next change, or none, with the number up to which all have been yielded.
func (w *watching) nextOrIdle(ctx context.Context, f *feed.Watcher) (feed.Event, error) {
	for {
		brief, cancel := context.WithTimeout(ctx, w.idle)
		e, err := f.Next(brief)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return e, err
		}
		if seq, ok := f.Told(); ok {
			return feed.Event{Seq: seq}, nil
		}
	}
}

// Watch yields every change of an entry, raw and typed, from the call on or from the number of
// WithAfter, once and in the order of the sequence numbers, as soon as reads show it. The changes
// of a transaction or batch come together, when it is committed. Watch waits for the next change
// until the context is done. Of asynchronous writes it yields those that the log gets: the last of
// each sync interval. It does not yield a SetInMemory. It yields the expiry of entries in maps with
// ExpiryEvents, and of raw keys after Raw.TellExpiry; for others Change.Deadline is the moment of
// expiry.
//
// The last pair has an error, the reason for the end: the error of the context, ErrClosed,
// ErrHistoryLost, or an error of reading the log. After ErrHistoryLost a consumer reads all entries
// again, best in a snapshot, and watches on with WithAfter(snapshot.Seq()).
//
// A ReadOnly store yields the changes of the process that writes. A change is yielded once it
// survives the death of the process, as after Map.Set; after a power cut the log may end before it,
// and other changes may have its number then.
//
// To wait for something without polling, call Watch, then look for it, and then begin the loop: the
// loop also yields the changes since the call. Each loop over the sequence begins at the moment of
// the call, so a new wait needs a new call. A sequence without a loop costs nothing, and keeps no
// files from compaction.
func (db *DB) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[Change, error] {
	var w watching
	for _, o := range opts {
		if o != nil {
			o(&w)
		}
	}
	if opened.RestOf.Load() == nil {
		opened.RestOf.Store(&restOf)
	}
	if db.driver != nil {
		return db.watchFar(ctx, &w)
	}
	from, err := db.store.Now()
	if w.after != nil {
		from = seglog.Position{Seq: *w.after}
	}
	return func(yield func(Change, error) bool) {
		if err != nil {
			yield(Change{}, err)
			return
		}
		next, end, err := w.changes(db, from)
		if err != nil {
			yield(Change{}, err)
			return
		}
		defer end()
		var past *feed.Past
		if w.old {
			if past, err = feed.OpenPast(db.store, from.Seq, w.follower); err != nil {
				yield(Change{}, db.lost(err))
				return
			}
			defer func() { db.store.Log().ReportError("closing the past of a watch", past.Close()) }()
		}
		for {
			e, err := next(ctx)
			if err == nil && e.Op == 0 {
				if !yield(Change{Seq: e.Seq, Idle: true, db: db}, nil) {
					return
				}
				continue
			}
			if err == nil && past != nil {
				err = past.Before(&e)
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			c := db.change(e)
			if c.past = past; !yield(c, nil) {
				return
			}
			if past != nil {
				if err := past.After(&e); err != nil {
					yield(Change{}, err)
					return
				}
			}
		}
	}
}

func (db *DB) change(e feed.Event) Change {
	c := Change{Key: e.Key, Deleted: e.Op != record.Set, Expired: e.Op == record.Expire, Range: e.Op == record.Range, Dropped: e.Drops, Seq: e.Seq, Time: e.Time, More: e.More,
		Collection: string(e.Collection()), Element: e.Element, Created: e.Created, From: e.From, Large: e.Large(), db: db, event: e}
	if e.Expiry != 0 {
		c.Deadline = time.UnixMilli(int64(e.Expiry))
	}
	if c.Range {
		if r, err := e.Range(); err == nil {
			c.To = r.Until()
		}
	}
	return c
}

// MapChange is a change of an entry of a map.
type MapChange[K comparable, V any] struct {
	Key    K // zero if a range was deleted
	Value  V // the caller's own; zero if the entry was deleted
	Change   // of which Key is the whole key, with the map's name

	in *Map[K, V]
}

// Covers reports whether the entry under key is one of those that were changed: it is Key, or in the range.
func (c *MapChange[K, V]) Covers(key K) bool {
	own := c.in.bound(key)
	return own.err == nil && c.Change.Covers(append(bytes.Clone(c.in.bare.prefix), own.key...))
}

// Watch is DB.Watch for one map; in a handle of At it begins after the snapshot. An error that
// comes with a change, such as a key or value that is not of the map's types, concerns only that
// change, and the watch goes on; an error without a change ends the watch. Watch of a closed map is
// ErrClosed; a watch that began before the map was closed goes on.
func (m *Map[K, V]) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[MapChange[K, V], error] {
	changes := m.bare.watch(ctx, opts)
	return func(yield func(MapChange[K, V], error) bool) {
		changes(func(c Change, err error) bool {
			now := MapChange[K, V]{Change: c, in: m}
			if err == nil && !c.Range && !c.Idle {
				err = now.decode()
			}
			return yield(now, err)
		})
	}
}

// Old returns Change.Old as a value of the map, which is the caller's own.
func (c *MapChange[K, V]) Old() (v V, err error) {
	e, err := c.old()
	if err != nil {
		return v, err
	}
	return valueOf[V](&c.in.bare, c.Change.Key, e, false)
}

// decode fills in the key and the value.
func (c *MapChange[K, V]) decode() (err error) {
	if c.Key, err = c.in.keys.Decode(c.Change.Key[len(c.in.bare.prefix):]); err != nil {
		return typeError(err, "key %q", c.Change.Key)
	}
	e, err := c.entry()
	if e != nil {
		c.Value, err = valueOf[V](&c.in.bare, c.Change.Key, e, false)
	}
	return err
}

// Map.Watch without the types of the map.

func (m *bareMap) watch(ctx context.Context, opts []WatchOption) iter.Seq2[Change, error] {
	if from, is := m.from.(refused); is {
		return func(yield func(Change, error) bool) { yield(Change{}, from.err) }
	}
	if m.then != nil {
		opts = append([]WatchOption{WithAfter(m.then.Seq())}, opts...)
	}
	changes := m.db.Watch(ctx, append(opts[:len(opts):len(opts)], WithPrefix(m.prefix))...)
	return func(yield func(Change, error) bool) {
		if m.closed.Load() {
			yield(Change{}, ErrClosed)
			return
		}
		changes(yield)
	}
}

// entry is the entry of a map after the change, nil if there is none.
func (c *Change) entry() (*engine.Entry, error) {
	if c.Collection != "" {
		return nil, &CollectionError{Key: c.Key, Type: c.Collection}
	}
	if c.Deleted {
		return nil, nil
	}
	return c.now()
}
