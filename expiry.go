package copal

import (
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// An entry can have a time to live. Its record keeps it as a deadline, which so survives whatever the
// record does. The deadline is exact to the millisecond by the clock of the machine, and never early.
// From then on no reader sees the entry and no count includes it; its space comes back by itself. A
// deadline lies before the year 292,278,994: a later one is an error. An entry that stays for ever has
// none.

// TTL returns the time that the entry of key has left to live, 0 for an entry without a deadline.
// The error is ErrNotFound when there is no entry.
func (m *Map[K, V]) TTL(key K) (time.Duration, error) {
	deadline, err := m.deadlineOf(key)
	return m.db.store.Left(deadline), err
}

// Deadline returns when the entry of key expires, to the millisecond and in UTC, and the zero time
// for an entry without a deadline. SetUntil and ExpireAt set the same deadline from it. The error
// is ErrNotFound when there is no entry.
func (m *Map[K, V]) Deadline(key K) (time.Time, error) {
	deadline, err := m.deadlineOf(key)
	return timeOf(deadline), err
}

// Expire replaces the deadline of the entry of key: it expires after d, which must be positive. The
// value stays, even one of SetInMemory. The error is ErrNotFound when there is no entry. Other
// errors, and the durability, are those of Set.
func (m *Map[K, V]) Expire(key K, d time.Duration) error {
	deadline, err := m.db.store.Deadline(d)
	if err != nil {
		return err
	}
	return m.redate(key, deadline)
}

// ExpireAt is Expire with a deadline, within the bounds of SetUntil.
func (m *Map[K, V]) ExpireAt(key K, deadline time.Time) error {
	at, err := m.db.store.DeadlineAt(deadline)
	if err != nil {
		return err
	}
	return m.redate(key, at)
}

// Persist takes the deadline of the entry of key away, if it has one. Durability and errors are
// those of Expire.
func (m *Map[K, V]) Persist(key K) error { return m.redate(key, 0) }

func (m *Map[K, V]) deadlineOf(key K) (uint64, error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return 0, err
	}
	return m.handle.deadlineOf(&m.place, buf.key)
}

func (m *Map[K, V]) redate(key K, deadline uint64) error {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return err
	}
	return m.handle.redate(&m.place, buf.key, deadline)
}

// tell passes an entry that has expired to the function of OnExpire.
func (m *Map[K, V]) tell(f func(K, V), key []byte, e engine.Entry) {
	if m.closed.Load() {
		return
	}
	k, v, err := m.entry(engine.Item{Key: key, Entry: e})
	if err != nil {
		m.report(err)
		return
	}
	f(k, v)
}

// deadlineOf is the deadline of an entry, 0 for none.
func (h *handle) deadlineOf(at *place, key []byte) (uint64, error) {
	if h.from != nil {
		return h.from.deadlineOf(at, key)
	}
	return h.db.store.DeadlineOf(at.table, at.cells, key)
}

// redate gives an entry another deadline, 0 for none.
func (h *handle) redate(at *place, key []byte, deadline uint64) error {
	if h.from != nil {
		return h.from.redate(at, key, deadline, h.by)
	}
	return h.db.store.Expire(at.table, at.cells, key, deadline, h.by)
}

// timeOf is a deadline of the store as a time, the zero time for none.
func timeOf(deadline uint64) time.Time {
	if deadline == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(deadline)).UTC()
}
