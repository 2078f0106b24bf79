package copal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/opened"
)

// Raw is all entries of a store as bytes: those of maps, whose keys begin with MapPrefix of the
// map's name, and those outside all maps. Keys and values may be any bytes, and empty. A map called
// users and the raw keys that begin with "users:" are the same entries; a typed read takes raw
// bytes as JSON text.
//
// A read returns the stored bytes of a value if its codec is JSON or Bytes. It returns the value as
// JSON if its codec is another that can render it (codec.Renders). A key that holds a collection is
// an entry: Delete, Has, TTL, Expire, ExpireAt and Persist treat it as any other, and Set replaces
// it. Reading it as a value is a *CollectionError.
//
// Like a *Map, a *Raw is a handle, is safe for concurrent use and needs no Close.
type Raw struct {
	handle
	fit   opened.Fitter // nil to store values without a codec
	shape *opened.Shape // nil to show values as Load says
}

// Raw returns the entries of the store as bytes.
func (db *DB) Raw() *Raw { return &Raw{handle: db.handle()} }

// Raw returns the entries of the snapshot as bytes: db.Raw().At(s).
func (s *Snapshot) Raw() *Raw { return s.db.Raw().At(s) }

// Raw returns the entries of the transaction as bytes: db.Raw().In(tx).
func (tx *Tx) Raw() *Raw {
	if tx.raw.db == nil {
		tx.raw.handle = tx.db.handle()
		tx.raw.in(tx)
	}
	return &tx.raw
}

// With returns a handle whose writes are as durable as d. Async is Write.
func (r *Raw) With(d Durability) *Raw {
	n := *r
	n.logged(d)
	return &n
}

// At returns a handle that reads a snapshot, as Map.At does.
func (r *Raw) At(s *Snapshot) *Raw {
	n := *r
	n.at(s)
	return &n
}

// In returns a handle that reads and writes in a transaction, as Map.In does.
func (r *Raw) In(tx *Tx) *Raw {
	n := *r
	n.in(tx)
	return &n
}

// WithContext returns a handle whose waiting calls end with ctx, as Map.WithContext says. A value
// that Create begins ends with ctx, too.
func (r *Raw) WithContext(ctx context.Context) *Raw {
	n := *r
	n.within(ctx)
	return &n
}

// Backward returns a handle that yields the same entries the other way round.
func (r *Raw) Backward() *Raw {
	n := *r
	n.backward()
	return &n
}

// Get returns the value under key, which is the caller's own, and whether there is one. A failed
// read counts as absent, and its error goes to the error handler; Load returns it.
func (r *Raw) Get(key []byte) (value []byte, ok bool) {
	value, err := r.load(key)
	return value, r.found(err)
}

// Load is Get with an error: ErrNotFound when there is no entry, a *CorruptError when it is
// damaged, a *CollectionError when the key holds a collection.
func (r *Raw) Load(key []byte) ([]byte, error) {
	value, err := r.load(key)
	return value, everywhere.missing(err, key)
}

func (r *Raw) load(key []byte) ([]byte, error) {
	if r.from != nil {
		e, err := r.from.get(&everywhere, key)
		if err != nil {
			return nil, err
		}
		if (r.tx == nil || e.Logged()) && r.isStored(e.Schema) {
			return e.Value, nil // the caller's own, unless the transaction has written it
		}
		return r.db.shownAs(r.shape, []byte{}, key, e.Value, e.Schema)
	}
	value, schema, err := r.db.store.AppendGet(nil, key, r.takes)
	if err != nil || r.isStored(schema) {
		return value, err
	}
	return r.db.shownAs(r.shape, nil, key, value, schema)
}

// View calls f with the value that Load returns, and returns the error of f. The value may be the
// bytes of the mapped file: f must not change them, and must not use them after it has returned.
// They stay the same while f runs, whatever is written, compacted or closed meanwhile. f may use
// the store. To read many values into one buffer, without the allocation of Load, append them to it:
//
//	err := raw.View(key, func(value []byte) error { dst = append(dst, value...); return nil })
//
// View copies no value that has reached the file (at once or within the sync interval), is at most
// 64 KiB long, and is not rendered as JSON. It copies others to memory that is reused.
//
// If the disk fails while f reads, f ends there, as by a panic, and View returns the error.
func (r *Raw) View(key []byte, f func(value []byte) error) error {
	if r.from != nil {
		value, err := r.Load(key)
		if err != nil {
			return err
		}
		return f(value)
	}
	err := r.db.store.ViewValue(key, r.takes, func(value []byte, schema uint64) error {
		if r.isStored(schema) {
			return f(value)
		}
		buf := buffers.Get().(*buffer)
		defer buf.release()
		shown, err := r.db.shownAs(r.shape, buf.value[:0], key, value, schema)
		if err != nil {
			return err
		}
		buf.value = shown
		return f(shown)
	})
	return everywhere.missing(err, key)
}

// Has reports whether there is an entry under key. It treats an error as Get does.
func (r *Raw) Has(key []byte) bool {
	var has bool
	var err error
	if r.from != nil {
		has, err = r.from.has(&everywhere, key)
	} else {
		has, err = r.db.store.Has(nil, key)
	}
	r.report(err)
	return err == nil && has
}

// Type returns the kind of entry under key: "value", or "hash", "list", "set", "zset" or "stream"
// for a collection. The error is ErrNotFound when there is no entry.
func (r *Raw) Type(key []byte) (string, error) {
	of, err := r.collections("").Type(r.context(), key)
	if err == nil && of == "" {
		return "value", nil
	}
	return string(of), everywhere.missing(err, key)
}

// Len returns the number of entries, those of maps included. For the present state of the store it
// takes constant time; in a snapshot or a transaction it walks through the entries.
func (r *Raw) Len() int {
	if r.from == nil {
		return int(r.db.store.Stats().Keys)
	}
	n, err := r.from.len(&everywhere)
	r.report(err)
	return n
}

// Set stores value under key, and copies both. Like Map.Set, it survives the death of the process
// when it returns.
func (r *Raw) Set(key, value []byte) error { return r.set(key, value, 0, r.by) }

// SetFSync is Set that survives the loss of power when it returns.
func (r *Raw) SetFSync(key, value []byte) error { return r.set(key, value, 0, engine.Power) }

// SetTTL is Set of an entry that expires after d, which must be positive. A later Set removes the
// deadline.
func (r *Raw) SetTTL(key, value []byte, d time.Duration) error {
	deadline, err := r.db.deadlineAfter(d)
	if err != nil {
		return err
	}
	return r.set(key, value, deadline, r.by)
}

// SetUntil is Set of an entry that expires at deadline, within the bounds of Map.SetUntil.
func (r *Raw) SetUntil(key, value []byte, deadline time.Time) error {
	at, err := r.deadlineAt(deadline)
	if err != nil {
		return err
	}
	return r.set(key, value, at, r.by)
}

// TellExpiry has Watch yield a Change, from now on, when a raw key outside all maps expires, as
// ExpiryEvents does for a map. The log remembers it from the next write of such a key on. A key
// that begins with the MapPrefix of a map is a raw key until the first write to the map. From then
// on the map's own ExpiryEvents counts. The error is ErrReadOnly when the store cannot be written
// to.
func (r *Raw) TellExpiry() error {
	if err := r.writable(r.by); err != nil {
		return err
	}
	if r.db.driver != nil {
		return unsupported("expiry events")
	}
	r.db.store.TellExpiry(r.db.store.RawTable())
	return nil
}

func (r *Raw) set(key, value []byte, deadline uint64, d engine.Durability) error {
	w := engine.Write{Key: key, Expiry: deadline, Durability: r.durability(d)}
	var err error
	if w.Value, w.Schema, err = r.fitted(key, value); err != nil {
		return err
	}
	_, err = r.write(&everywhere, &w)
	return err
}

// fitted returns the stored form of a value, and the number of its schema.
func (r *Raw) fitted(key, value []byte) (stored []byte, schema uint64, err error) {
	switch {
	case r.shape != nil:
		return r.shape.Take(value)
	case r.fit != nil:
		return r.fit(key, value)
	}
	return value, 0, nil
}

// isStored reports whether a read returns the stored bytes of the values of a schema.
func (r *Raw) isStored(schema uint64) bool { return r.shape == nil && r.db.renders.Of(schema) == nil }

// Delete removes the entry under key. It reports whether there was one.
func (r *Raw) Delete(key []byte) (existed bool, err error) { return r.delete(key, r.by) }

// DeleteFSync is Delete that survives the loss of power when it returns.
func (r *Raw) DeleteFSync(key []byte) (existed bool, err error) { return r.delete(key, engine.Power) }

func (r *Raw) delete(key []byte, d engine.Durability) (bool, error) {
	return r.write(&everywhere, &engine.Write{Key: key, Delete: true, Durability: r.durability(d)})
}

// Update changes the entry under key atomically, as Map.Update does.
func (r *Raw) Update(key []byte, f func(e *Entry[[]byte]) error) (value []byte, exists bool, err error) {
	return r.update(key, f, r.by)
}

// UpdateFSync is Update that survives the loss of power when it returns.
func (r *Raw) UpdateFSync(key []byte, f func(e *Entry[[]byte]) error) (value []byte, exists bool, err error) {
	return r.update(key, f, engine.Power)
}

// GetOrSet is Map.GetOrSet of raw bytes.
func (r *Raw) GetOrSet(key, value []byte) (_ []byte, found bool, err error) {
	if err := r.writable(r.by); err != nil {
		return nil, false, err
	}
	if now, err := r.Load(key); !isNotFound(err) {
		return now, err == nil, err
	}
	there := false
	now, _, err := r.Update(key, orSet(value, &there))
	return now, there && err == nil, err
}

// GetAndDelete is Map.GetAndDelete of raw bytes.
func (r *Raw) GetAndDelete(key []byte) (value []byte, existed bool, err error) {
	if _, _, err = r.Update(key, takeOut(&value, &existed)); err != nil {
		return nil, false, err
	}
	return value, existed, nil
}

func (r *Raw) update(key []byte, f func(*Entry[[]byte]) error, d engine.Durability) (value []byte, exists bool, err error) {
	err = r.updateEntry(&everywhere, key, false, r.durability(d), func(found engine.Found, w *engine.Write) (write bool, err error) {
		read := func() ([]byte, error) {
			if !found.Exists {
				return nil, nil
			}
			return r.db.shownAs(r.shape, []byte{}, key, found.Value, found.Schema)
		}
		e := Entry[[]byte]{Exists: found.Exists, TTL: r.left(found.Expiry), decision: put}
		ttl := e.TTL
		if e.Value, err = read(); err != nil {
			return false, err
		}
		if err = f(&e); err != nil {
			return false, err
		}
		value, exists = e.Value, true
		switch e.decision {
		case put:
			if w.Value, w.Schema, err = r.fitted(key, e.Value); err == nil {
				w.Expiry, err = r.deadlineAfter(&found, w, ttl, e.TTL)
			}
			return true, err
		case remove:
			w.Delete = true
			value, exists = nil, false
			return true, nil
		}
		exists = found.Exists
		value, err = read() // f may have changed its copy
		return false, err
	})
	if err != nil {
		return nil, false, err
	}
	return value, exists, nil
}

// TTL returns the time that the entry under key has left to live, 0 for an entry without a
// deadline. The error is ErrNotFound when there is no entry.
func (r *Raw) TTL(key []byte) (time.Duration, error) {
	deadline, err := r.deadlineOf(&everywhere, key)
	return r.left(deadline), err
}

// Deadline returns the time at which the entry under key expires, as Map.Deadline does.
func (r *Raw) Deadline(key []byte) (time.Time, error) {
	deadline, err := r.deadlineOf(&everywhere, key)
	return timeOf(deadline), err
}

// Expire replaces the deadline of the entry under key: it expires after d, which must be positive.
// The error is ErrNotFound when there is no entry. Other errors, and the durability, are those of
// Set.
func (r *Raw) Expire(key []byte, d time.Duration) error {
	deadline, err := r.db.deadlineAfter(d)
	if err != nil {
		return err
	}
	return r.redate(&everywhere, key, deadline)
}

// ExpireAt is Expire with a deadline, within the bounds of Map.SetUntil.
func (r *Raw) ExpireAt(key []byte, deadline time.Time) error {
	at, err := r.deadlineAt(deadline)
	if err != nil {
		return err
	}
	return r.redate(&everywhere, key, at)
}

// Persist removes the deadline of the entry under key, if it has one. The error is ErrNotFound when
// there is no entry. Other errors, and the durability, are those of Set.
func (r *Raw) Persist(key []byte) error { return r.redate(&everywhere, key, 0) }

// All yields each entry, those of maps included, in the bytewise order of their keys. Key and value
// are the caller's. A key that holds a collection goes to the error handler, as a *CollectionError.
// Otherwise it is Map.All.
//
// A walk starts at once over keys that the store keeps in bytewise order: raw keys with
// OrderedKeys, and keys of Ordered maps whose order is bytewise. The first walk with a bound, or of
// Backward, makes the store keep the other keys in order, too, as described at Ordered, except keys
// of maps in another order. Keys that are not kept in order are sorted in a thirty-second of
// WithMaxMemory, but at least 32 and at most 256 MiB. If they do not fit, as with more than a
// million or so, they are read several times.
func (r *Raw) All() iter.Seq2[[]byte, []byte] { return r.scan(engine.Span{}) }

// Keys yields each key, as All does, and reads no value. Where keys are kept in order, it yields
// those that existed when the walk began.
func (r *Raw) Keys() iter.Seq[[]byte] { return r.scanKeys(engine.Span{}) }

// From yields the entries with keys in [from, ∞).
func (r *Raw) From(from []byte) iter.Seq2[[]byte, []byte] { return r.scan(engine.Span{Low: from}) }

// Until yields the entries with keys in (-∞, to).
func (r *Raw) Until(to []byte) iter.Seq2[[]byte, []byte] { return r.Between(nil, to) }

// Between yields the entries with keys in [from, to). nil is no bound.
func (r *Raw) Between(from, to []byte) iter.Seq2[[]byte, []byte] {
	return r.scan(engine.Span{Low: from, High: to, HighOpen: true})
}

// Prefix yields the entries whose keys begin with p.
func (r *Raw) Prefix(p []byte) iter.Seq2[[]byte, []byte] { return r.scan(engine.PrefixSpan(p)) }

// KeysBetween yields the keys in [from, to), as Keys does. nil is no bound. The keys that begin with p
// are those from p on, up to the first that does not:
//
//	for key := range raw.KeysBetween(p, nil) {
//		if !bytes.HasPrefix(key, p) {
//			break
//		}
//	}
func (r *Raw) KeysBetween(from, to []byte) iter.Seq[[]byte] {
	return r.scanKeys(engine.Span{Low: from, High: to, HighOpen: true})
}

//go:noinline
func (r *Raw) scan(span engine.Span) iter.Seq2[[]byte, []byte] {
	span.Down = r.down
	return func(yield func(key, value []byte) bool) {
		var kept engine.Keeper
		for item := range r.scanned(span, true) {
			value, err := item.Value, item.Err
			switch {
			case err != nil:
			case r.tx != nil || !r.isStored(item.Schema):
				value, err = r.db.shownAs(r.shape, []byte{}, item.Key, value, item.Schema)
			case item.Lent:
				value = kept.Keep(value)
			}
			key := item.Key
			if r.from == nil { // a read of the present state lends its keys
				key = kept.Keep(key)
			}
			if err != nil && !r.goOn(err) || err == nil && !yield(key, value) {
				return
			}
		}
	}
}

//go:noinline
func (r *Raw) scanKeys(span engine.Span) iter.Seq[[]byte] {
	span.Down = r.down
	return func(yield func(key []byte) bool) {
		for item := range r.scanned(span, false) {
			if item.Err != nil && !r.goOn(item.Err) || item.Err == nil && !yield(item.Key) {
				return
			}
		}
	}
}

//go:noinline
func (r *Raw) scanned(span engine.Span, values bool) iter.Seq[engine.Item] {
	switch {
	case r.from != nil:
		return r.from.scan(span, values)
	case values:
		return r.db.store.ScanEntries(span)
	}
	return func(yield func(engine.Item) bool) {
		for key, err := range r.db.store.Scan(span) {
			if !yield(engine.Item{Key: key, Err: err}) {
				return
			}
		}
	}
}

// goOn reports an error of a walk, and returns whether the walk goes on.
func (r *Raw) goOn(err error) bool {
	return r.report(err) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrSnapshotLost)
}

// shown appends to dst the result of a raw read of key for the stored value.
func (db *DB) shown(dst, key, value []byte, schema uint64) ([]byte, error) {
	r := db.renders.Of(schema)
	if r == nil {
		return append(dst, value...), nil
	}
	out, err := r.Render(dst, value)
	if err != nil {
		s, _ := db.renders.Store.Schema(schema)
		return dst, typeError(err, "the value under key %q, written as %s", key, s.Codec)
	}
	return out, nil
}

// shownAs is shown in a shape, unless that is nil.
func (db *DB) shownAs(shape *opened.Shape, dst, key, value []byte, schema uint64) ([]byte, error) {
	if shape != nil {
		return shape.Show(dst, value, schema)
	}
	return db.shown(dst, key, value, schema)
}
