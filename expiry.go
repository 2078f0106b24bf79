package copal

import (
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// An entry can have a time to live: it is kept as a deadline, in its record, and so
// survives whatever the record does. The deadline is exact to the millisecond by the
// clock of the machine, and never before the time has passed. From then on the entry
// is not there, for anybody and in no count; the space that it takes comes back by itself.
// A deadline lies before the year 292,278,994: a later one is an error, and what is to
// stay for ever has none.

// SetTTL is Set of an entry that expires after d, which must be positive. A later Set without a time to live
// takes the deadline away, or replaces it with that of WithTTL.
func (m *Map[K, V]) SetTTL(key K, v V, d time.Duration) error {
	return m.setTTL(key, v, d, engine.Process)
}

// SetTTLFSync is SetTTL with the durability of SetFSync.
func (m *Map[K, V]) SetTTLFSync(key K, v V, d time.Duration) error {
	return m.setTTL(key, v, d, engine.Power)
}

// SetTTLAsync is SetTTL with the durability of SetAsync. What expires before the log has it is never written.
func (m *Map[K, V]) SetTTLAsync(key K, v V, d time.Duration) error {
	return m.setTTL(key, v, d, engine.Async)
}

func (m *Map[K, V]) setTTL(key K, v V, ttl time.Duration, d engine.Durability) error {
	if ttl <= 0 { // which set takes for none
		_, err := m.db.store.Deadline(ttl)
		return err
	}
	return m.set(key, v, ttl, d)
}

// TTL returns the time that the entry of key has left to live, 0 for one without a deadline. The error is
// ErrNotFound when there is no entry.
func (m *Map[K, V]) TTL(key K) (time.Duration, error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return 0, err
	}
	deadline, err := m.db.store.DeadlineOf(m.table, m.cells, buf.key)
	return m.db.store.Left(deadline), err
}

// Expire lets the entry of key expire after d, which must be positive, whatever deadline it had. The value stays, also
// one of SetInMemory. The error is ErrNotFound when there is no entry, else that of Set, as is the durability.
func (m *Map[K, V]) Expire(key K, d time.Duration) error { return m.expire(key, d, engine.Process) }

// ExpireFSync is Expire with the durability of SetFSync.
func (m *Map[K, V]) ExpireFSync(key K, d time.Duration) error { return m.expire(key, d, engine.Power) }

// ExpireAsync is Expire with the durability of SetAsync.
func (m *Map[K, V]) ExpireAsync(key K, d time.Duration) error { return m.expire(key, d, engine.Async) }

func (m *Map[K, V]) expire(key K, ttl time.Duration, d engine.Durability) error {
	deadline, err := m.db.store.Deadline(ttl)
	if err != nil {
		return err
	}
	return m.changeDeadline(key, deadline, d)
}

// Persist takes the deadline of the entry of key away, if it has one. Durability and errors are those of Expire.
func (m *Map[K, V]) Persist(key K) error { return m.changeDeadline(key, 0, engine.Process) }

// PersistFSync is Persist with the durability of SetFSync.
func (m *Map[K, V]) PersistFSync(key K) error { return m.changeDeadline(key, 0, engine.Power) }

// PersistAsync is Persist with the durability of SetAsync.
func (m *Map[K, V]) PersistAsync(key K) error { return m.changeDeadline(key, 0, engine.Async) }

func (m *Map[K, V]) changeDeadline(key K, deadline uint64, d engine.Durability) error {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return err
	}
	return m.db.store.Expire(m.table, m.cells, buf.key, deadline, d)
}

// tell passes an entry that has expired to the function of OnExpire.
func (m *Map[K, V]) tell(f func(K, V), key []byte, e engine.Entry) {
	item := engine.Item{Key: key, Entry: e}
	if m.closed.Load() {
		return
	}
	k, ok := m.key(item)
	if !ok {
		return
	}
	v, err := m.value(item)
	if err != nil {
		m.db.report(err)
		return
	}
	f(k, v)
}

// PutTTL is Put of an entry that expires after d, which must be positive. A later Put takes the deadline away.
func (db *DB) PutTTL(key, value []byte, d time.Duration) error {
	deadline, err := db.store.Deadline(d)
	if err != nil {
		return err
	}
	_, err = db.store.Write(nil, &engine.Write{Key: key, Value: value, Expiry: deadline})
	return err
}

// TTL returns the time that the entry under key has left to live, 0 for one without a deadline. The error is
// ErrNotFound when there is no entry.
func (db *DB) TTL(key []byte) (time.Duration, error) {
	deadline, err := db.store.DeadlineOf(nil, nil, key)
	return db.store.Left(deadline), err
}

// Expire lets the entry under key expire after d, which must be positive, whatever deadline it had. The error is
// ErrNotFound when there is no entry, else that of Put, as is the durability.
func (db *DB) Expire(key []byte, d time.Duration) error {
	deadline, err := db.store.Deadline(d)
	if err != nil {
		return err
	}
	return db.store.Expire(nil, nil, key, deadline, engine.Process)
}

// Persist takes the deadline of the entry under key away, if it has one. Durability and errors are those of Expire.
func (db *DB) Persist(key []byte) error {
	return db.store.Expire(nil, nil, key, 0, engine.Process)
}

// PutUntil is Put of an entry that expires at deadline, which must lie ahead, and before the year 292,278,994. It is kept to the millisecond, rounded up. A later Put
// takes it away.
func (db *DB) PutUntil(key, value []byte, deadline time.Time) error {
	at, err := db.store.DeadlineAt(deadline)
	if err != nil {
		return err
	}
	_, err = db.store.Write(nil, &engine.Write{Key: key, Value: value, Expiry: at})
	return err
}

// Deadline returns when the entry under key expires, to the millisecond and in UTC; the zero time for one that does not. Given to
// PutUntil or ExpireAt, it is the same deadline again. The error is ErrNotFound when there is no entry.
func (db *DB) Deadline(key []byte) (time.Time, error) {
	deadline, err := db.store.DeadlineOf(nil, nil, key)
	if err != nil {
		return time.Time{}, err
	}
	return timeOf(deadline), nil
}

// timeOf is a deadline of the store as a time, the zero time for none.
func timeOf(deadline uint64) time.Time {
	if deadline == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(deadline)).UTC()
}

// ExpireAt is Expire at a moment, with the bounds of PutUntil, and kept as by that.
func (db *DB) ExpireAt(key []byte, deadline time.Time) error {
	at, err := db.store.DeadlineAt(deadline)
	if err != nil {
		return err
	}
	return db.store.Expire(nil, nil, key, at, engine.Process)
}
