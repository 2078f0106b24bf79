package copal

import (
	"iter"
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Tx is a transaction: reads and writes over any number of maps and raw keys, as if they happened at one moment and
// nothing else meanwhile. It is handed to the function of DB.Update or DB.View, for that goroutine alone and until it returns;
// after that its methods return ErrTxDone.
//
// A transaction sees the store as it was when it began, async writes included, with its own writes on top. It does not see what
// SetInMemory has put over an entry.
type Tx struct {
	db *DB
	tx *engine.Tx
}

// Update calls f with a transaction, and makes what f has written count: all of it, or nothing when f returns an error, which Update
// returns, or panics. The outcome is that of some serial order of all transactions and all other writes, each of which is a transaction of its own.
// When Update returns nil the writes survive the death of the process, all or none, as those of Map.Set do.
//
// Nobody is kept waiting while f runs. At the end it shows whether something that f has read has changed meanwhile: then f runs again,
// on the store as it is now, so it should have no other effects. When that has happened a few times other transactions wait for this one, and in the end other
// writers, so it comes through. f must not wait for another goroutine that writes. A write by other means than the transaction is
// refused with ErrNested within f, and so is another Update.
//
// There is no limit to what a transaction writes but memory, which holds it until f returns, but for values of more than 1 MiB: those go to the log at once, and
// count when all counts.
func (db *DB) Update(f func(tx *Tx) error) error { return db.update(engine.Process, f) }

// UpdateFSync is Update whose writes survive the loss of power when it returns.
func (db *DB) UpdateFSync(f func(tx *Tx) error) error { return db.update(engine.Power, f) }

func (db *DB) update(d engine.Durability, f func(tx *Tx) error) error {
	return db.store.Transact(d, func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx}) })
}

// View calls f once with a transaction that only reads: everything as it was at one moment. Writes return ErrTxReadOnly. It
// keeps nobody waiting, and waits for nobody. The error is that of f, or of a read that had none to return.
func (db *DB) View(f func(tx *Tx) error) error {
	return db.store.Look(func(tx *engine.Tx) error { return f(&Tx{db: db, tx: tx}) })
}

// Get is DB.Get in the transaction.
func (tx *Tx) Get(key []byte) ([]byte, error) {
	e, err := tx.tx.Get(nil, key)
	if err != nil {
		return nil, err
	}
	return tx.db.shown([]byte{}, key, e.Value, e.Schema)
}

// Has reports whether there is an entry under key.
func (tx *Tx) Has(key []byte) (bool, error) { return tx.tx.Has(nil, key) }

// Put stores value under key, as raw bytes. Both are copied.
func (tx *Tx) Put(key, value []byte) error {
	return tx.tx.Write(nil, &engine.Write{Key: key, Value: value})
}

// PutUntil is Put of an entry that expires at deadline, as DB.PutUntil does.
func (tx *Tx) PutUntil(key, value []byte, deadline time.Time) error {
	at, err := tx.db.store.DeadlineAt(deadline)
	if err != nil {
		return err
	}
	return tx.tx.Write(nil, &engine.Write{Key: key, Value: value, Expiry: at})
}

// Deadline is DB.Deadline in the transaction.
func (tx *Tx) Deadline(key []byte) (time.Time, error) {
	deadline, err := tx.tx.DeadlineOf(nil, key)
	if err != nil {
		return time.Time{}, err
	}
	return timeOf(deadline), nil
}

// Delete removes the entry under key. It reports whether there was one.
func (tx *Tx) Delete(key []byte) (existed bool, err error) { return tx.tx.Delete(nil, nil, key) }

// Scan yields the entries whose keys begin with prefix, raw and typed, in the order of the bytes of their keys. What the loop does to an entry that has not been yielded yet
// shows; whether a new one is yielded is not said. After an error, which the transaction returns at its end, there are no more.
//
// What others do to keys that the loop has come by, and to keys that it would have come by, is a conflict; what lies behind the last key that it was
// left at is not. Memory and time are those of DB.Scan.
func (tx *Tx) Scan(prefix []byte) iter.Seq2[[]byte, []byte] {
	return tx.scan(engine.PrefixSpan(prefix))
}

// ScanRange is Scan for the keys from from on, up to to, but not that. nil is no bound.
func (tx *Tx) ScanRange(from, to []byte) iter.Seq2[[]byte, []byte] {
	return tx.scan(engine.Span{Low: from, High: to, HighOpen: true})
}

// ScanBackward is ScanRange in descending order.
func (tx *Tx) ScanBackward(from, to []byte) iter.Seq2[[]byte, []byte] {
	return tx.scan(engine.Span{Low: from, High: to, HighOpen: true, Down: true})
}

//go:noinline
func (tx *Tx) scan(sp engine.Span) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for item := range tx.tx.Scan(sp) {
			if item.Err != nil {
				tx.tx.Fail(item.Err)
				return
			}
			value, err := tx.db.shown([]byte{}, item.Key, item.Value, item.Schema)
			if err != nil {
				tx.tx.Fail(err)
				return
			}
			if !yield(item.Key, value) {
				return
			}
		}
	}
}

// TxMap is a map in a transaction; Map.In makes it.
type TxMap[K comparable, V any] struct {
	m  *Map[K, V]
	tx *Tx
}

// In is the map in the transaction. They must be of the same store.
func (m *Map[K, V]) In(tx *Tx) *TxMap[K, V] { return &TxMap[K, V]{m, tx} }

// Get returns the value under key, which is the caller's own, and whether there is one. An error of reading counts as absent, and
// the transaction returns it at its end; Load returns it at once.
func (t *TxMap[K, V]) Get(key K) (v V, ok bool) {
	v, err := t.Load(key)
	if err != nil && !isNotFound(err) {
		t.tx.tx.Fail(err)
	}
	return v, err == nil
}

// Load returns the value under key. The error is ErrNotFound when there is none, and else as that of Map.Load.
func (t *TxMap[K, V]) Load(key K) (v V, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	e, err := t.entry(buf, key)
	if err != nil {
		return v, err
	}
	return t.m.decode(buf.key, &e)
}

func (t *TxMap[K, V]) entry(buf *buffer, key K) (e engine.Entry, err error) {
	if err = t.key(buf, key); err != nil {
		return e, err
	}
	return t.tx.tx.Get(t.m.table, buf.key)
}

// key puts the whole key into buf.key.
func (t *TxMap[K, V]) key(buf *buffer, key K) error {
	if t.m.db != t.tx.db {
		return typeError(errOtherStore, "map %q", t.m.name)
	}
	return t.m.encodeKey(buf, key)
}

// Has reports whether there is a value under key. An error is treated as by Get.
func (t *TxMap[K, V]) Has(key K) bool {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	_, err := t.entry(buf, key)
	if err != nil && !isNotFound(err) {
		t.tx.tx.Fail(err)
	}
	return err == nil
}

// Set stores v under key, with the time to live of WithTTL if the map has one. The value is encoded before Set returns.
func (t *TxMap[K, V]) Set(key K, v V) error { return t.set(key, v, t.m.ttl) }

// SetTTL is Set of an entry that expires after d, which must be positive, counted from the call.
func (t *TxMap[K, V]) SetTTL(key K, v V, d time.Duration) error {
	if d <= 0 { // which set takes for none
		_, err := t.m.db.store.Deadline(d)
		return err
	}
	return t.set(key, v, d)
}

func (t *TxMap[K, V]) set(key K, v V, ttl time.Duration) (err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := t.key(buf, key); err != nil {
		return err
	}
	w := engine.Write{Key: buf.key, Cells: t.m.cells, Durability: engine.Process}
	if err := t.m.fill(buf, &w, v); err != nil {
		return err
	}
	if ttl != 0 {
		if w.Expiry, err = t.m.db.store.Deadline(ttl); err != nil {
			return err
		}
	}
	return t.tx.tx.Write(t.m.table, &w)
}

// TTL returns the time that the entry of key has left to live, 0 for one without a deadline. The error is ErrNotFound
// when there is no entry.
func (t *TxMap[K, V]) TTL(key K) (time.Duration, error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	e, err := t.entry(buf, key)
	return t.m.db.store.Left(e.Expiry()), err
}

// Delete removes the entry of key. It reports whether there was one.
func (t *TxMap[K, V]) Delete(key K) (existed bool, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := t.key(buf, key); err != nil {
		return false, err
	}
	return t.tx.tx.Delete(t.m.table, t.m.cells, buf.key)
}

// Len returns the number of entries. It takes a look at each of them, and any other that comes or goes before the transaction ends is a
// conflict. An error is treated as by Get.
func (t *TxMap[K, V]) Len() int {
	n, err := t.tx.tx.Len(t.m.table)
	if err != nil {
		t.tx.tx.Fail(err)
	}
	return n
}

// All yields each key and its value exactly once, in the order of the keys if the map is Ordered. The transaction may write in the loop: what it does to an entry that
// has not been yielded yet shows; whether a new one is yielded is not said. After an error, which the transaction returns at its
// end, there are no more. What others do before the transaction ends is a conflict: to any entry of the map or, of walks in order, to one that the loop came by or would have
// come by, up to the key at which it was left.
func (t *TxMap[K, V]) All() iter.Seq2[K, V] { return t.entries(t.items(true)) }

// items are the entries.
//
//go:noinline
func (t *TxMap[K, V]) items(values bool) iter.Seq[engine.Item] {
	if t.m.IsOrdered() {
		return t.inOrder(engine.Span{}, values)
	}
	return t.tx.tx.Items(t.m.table, values)
}

func (t *TxMap[K, V]) inOrder(sp engine.Span, values bool) iter.Seq[engine.Item] {
	return t.tx.tx.InOrder(t.m.table, t.m.by, sp, values)
}

// entries decodes items.
//
//go:noinline
func (t *TxMap[K, V]) entries(items iter.Seq[engine.Item]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for item := range items {
			k, err := t.keyOf(item)
			var v V
			if err == nil {
				v, err = t.m.decode(item.Key, &item.Entry)
			}
			if err != nil {
				t.tx.tx.Fail(err)
				return
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// Ascend is Map.Ascend in the transaction.
func (t *TxMap[K, V]) Ascend(from K) iter.Seq2[K, V] { return t.span(&from, nil, false, false, false) }

// Descend is Map.Descend in the transaction.
func (t *TxMap[K, V]) Descend(from K) iter.Seq2[K, V] { return t.span(nil, &from, false, false, true) }

// After is Map.After in the transaction.
func (t *TxMap[K, V]) After(key K) iter.Seq2[K, V] { return t.span(&key, nil, true, false, false) }

// Before is Map.Before in the transaction.
func (t *TxMap[K, V]) Before(key K) iter.Seq2[K, V] { return t.span(nil, &key, false, true, true) }

// Between is Map.Between in the transaction.
func (t *TxMap[K, V]) Between(from, to K) iter.Seq2[K, V] {
	return t.span(&from, &to, false, true, false)
}

// Backward is Map.Backward in the transaction.
func (t *TxMap[K, V]) Backward() iter.Seq2[K, V] { return t.span(nil, nil, false, false, true) }

// Prefix is Map.Prefix in the transaction.
func (t *TxMap[K, V]) Prefix(p string) iter.Seq2[K, V] {
	return t.entries(prefixed(len(t.m.prefix), t.m.by, p, func(sp engine.Span) iter.Seq[engine.Item] { return t.inOrder(sp, true) }))
}

// First is Map.First in the transaction.
func (t *TxMap[K, V]) First() (key K, v V, ok bool) {
	return first(t.entries(t.inOrder(engine.Span{}, true)))
}

// Last is Map.Last in the transaction.
func (t *TxMap[K, V]) Last() (key K, v V, ok bool) { return first(t.Backward()) }

// KeysFrom is Map.KeysFrom in the transaction.
func (t *TxMap[K, V]) KeysFrom(from K) iter.Seq[K] {
	return t.keysOf(t.bounded(&from, nil, engine.Span{}, false))
}

// span yields the entries between two keys, nil for none. Those keys are left out that are open.
func (t *TxMap[K, V]) span(low, high *K, lowOpen, highOpen, down bool) iter.Seq2[K, V] {
	return t.entries(t.bounded(low, high, engine.Span{LowOpen: lowOpen, HighOpen: highOpen, Down: down}, true))
}

// bounded are the items of a span that gets its bounds.
//
//go:noinline
func (t *TxMap[K, V]) bounded(low, high *K, sp engine.Span, values bool) iter.Seq[engine.Item] {
	for _, bound := range []struct {
		key *K
		to  *[]byte
	}{{low, &sp.Low}, {high, &sp.High}} {
		if bound.key == nil {
			continue
		}
		own, err := t.m.keys.Append(nil, *bound.key)
		if err != nil {
			t.tx.tx.Fail(typeError(err, "a key of map %q", t.m.name))
			return func(func(engine.Item) bool) {}
		}
		*bound.to = t.m.by.AppendSortKey([]byte{}, string(own))
	}
	return t.inOrder(sp, values)
}

func (t *TxMap[K, V]) keyOf(item engine.Item) (k K, err error) {
	if item.Err != nil {
		return k, item.Err
	}
	if k, err = t.m.keys.Decode(item.Key[len(t.m.prefix):]); err != nil {
		err = typeError(err, "key %q of map %q", item.Key, t.m.name)
	}
	return k, err
}

// Keys yields each key, as All does. No value is decoded.
func (t *TxMap[K, V]) Keys() iter.Seq[K] { return t.keysOf(t.items(false)) }

// keysOf decodes the keys of items.
//
//go:noinline
func (t *TxMap[K, V]) keysOf(items iter.Seq[engine.Item]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for item := range items {
			k, err := t.keyOf(item)
			if err != nil {
				t.tx.tx.Fail(err)
				return
			}
			if !yield(k) {
				return
			}
		}
	}
}

// Values yields each value, as All does.
//
//go:noinline
func (t *TxMap[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.All() {
			if !yield(v) {
				return
			}
		}
	}
}
