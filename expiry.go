package copal

import (
	"cmp"
	"fmt"
	"time"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// An entry can have a time to live. Its record keeps it as a deadline, which so survives whatever the
// record does. The deadline is exact to the millisecond by the clock of the machine, and never early.
// From then on no reader sees the entry and no count includes it; its space comes back by itself. A
// deadline lies before the year 292,278,994: a later one is an error. An entry that stays for ever has
// none.

// TTL returns the time that the entry of key has left to live, 0 for an entry without a deadline.
// The error is ErrNotFound when there is no entry.
func (m *Map[K, V]) TTL(key K) (time.Duration, error) { return m.bare.timeLeft(m.key(key)) }

// Deadline returns the time at which the entry of key expires, to the millisecond and in UTC, or
// the zero time for an entry without a deadline. SetUntil and ExpireAt set the same deadline from
// it. The error is ErrNotFound when there is no entry.
func (m *Map[K, V]) Deadline(key K) (time.Time, error) {
	deadline, err := m.bare.deadlineOf(m.key(key))
	return timeOf(deadline), err
}

// Expire replaces the deadline of the entry of key: it expires after d, which must be positive. The
// value stays, even one of SetInMemory. The error is ErrNotFound when there is no entry. Other
// errors, and the durability, are those of Set.
func (m *Map[K, V]) Expire(key K, d time.Duration) error {
	return m.bare.redate(m.key(key), m.bare.after(d))
}

// ExpireAt is Expire with a deadline, within the bounds of SetUntil.
func (m *Map[K, V]) ExpireAt(key K, deadline time.Time) error {
	return m.bare.redate(m.key(key), m.bare.until(deadline))
}

// Persist removes the deadline of the entry of key, if it has one. Durability and errors are those
// of Expire.
func (m *Map[K, V]) Persist(key K) error { return m.bare.redate(m.key(key), deadline{}) }

// Deadlines of a Map without its types.

// deadline is the new deadline of an entry, 0 for none.
type deadline struct {
	at  uint64
	err error // there is no such deadline
}

// usual is the deadline of an entry that is written without one.
func (m *bareMap) usual() deadline {
	if m.ttl == 0 {
		return deadline{}
	}
	return m.after(m.ttl)
}

// after is the deadline after some time.
func (h *handle) after(d time.Duration) deadline {
	at, err := h.db.deadlineAfter(d)
	return deadline{at, err}
}

// until is the deadline at a time.
func (h *handle) until(t time.Time) deadline {
	at, err := h.deadlineAt(t)
	return deadline{at, err}
}

func (m *bareMap) timeLeft(key *buffer) (time.Duration, error) {
	deadline, err := m.deadlineOf(key)
	return m.left(deadline), err
}

func (m *bareMap) deadlineOf(key *buffer) (uint64, error) {
	defer key.release()
	if key.err != nil {
		return 0, key.err
	}
	return m.handle.deadlineOf(&m.place, key.key)
}

func (m *bareMap) redate(key *buffer, to deadline) error {
	defer key.release()
	if err := cmp.Or(to.err, key.err); err != nil {
		return err
	}
	return m.handle.redate(&m.place, key.key, to.at)
}

// deadlineAfter is the deadline after some time. Where entries expire by the clock of another machine, that machine
// adds the time.
func (db *DB) deadlineAfter(d time.Duration) (uint64, error) {
	at, err := db.store.Deadline(d)
	if _, is := db.driver.(driver.Clocked); is && err == nil {
		return driver.FromNow | (uint64(d)+uint64(time.Millisecond)-1)/uint64(time.Millisecond), nil
	}
	return at, err
}

// deadlineAt is the deadline at a time, which must be in the future by the clock by which entries expire.
func (h *handle) deadlineAt(t time.Time) (uint64, error) {
	c, is := h.db.driver.(driver.Clocked)
	if !is {
		return h.db.store.DeadlineAt(t)
	}
	now, err := c.Time(h.context())
	if err != nil {
		return 0, err
	}
	at, err := engine.MillisAt(t)
	if err == nil && !t.After(now) {
		err = fmt.Errorf("copal: deadline %v has passed", t.UTC().Format(time.RFC3339Nano))
	}
	return at, err
}

// left is the time until a deadline, 0 for none.
func (h *handle) left(deadline uint64) time.Duration {
	if c, is := h.db.driver.(driver.Clocked); is && deadline != 0 {
		now, err := c.Time(h.context())
		if err == nil {
			return max(time.UnixMilli(int64(deadline)).Sub(now), 1)
		}
		h.report(err)
	}
	return h.db.store.Left(deadline)
}

// deadlineOf is the deadline of an entry, 0 for none.
func (h *handle) deadlineOf(at *place, key []byte) (uint64, error) {
	var deadline uint64
	var err error
	if h.from != nil {
		deadline, err = h.from.deadlineOf(at, key)
	} else {
		deadline, err = h.db.store.DeadlineOf(at.table, at.cells, key)
	}
	return deadline, at.missing(err, key)
}

// redate gives an entry another deadline, 0 for none.
func (h *handle) redate(at *place, key []byte, deadline uint64) error {
	var err error
	if h.from != nil {
		err = h.from.redate(at, key, deadline, h.by)
	} else {
		err = h.db.store.Expire(at.table, at.cells, key, deadline, h.by)
	}
	return at.missing(err, key)
}

// timeOf is a deadline of the store as a time, the zero time for none.
func timeOf(deadline uint64) time.Time {
	if deadline == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(deadline)).UTC()
}
