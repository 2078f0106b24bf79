package copal

import (
	"fmt"
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Update is an entry in the hands of the function that Map.Update calls. When the
// function returns, Value is stored, whether the entry existed or not, unless Delete
// or Cancel was called.
type Update[V any] struct {
	Value  V    // the value there is, the function's own unless SetInMemory has put it there; the zero V when there is none
	Exists bool // whether there is one

	// TTL is the time that the entry has left to live, 0 for ever; of one that does not exist, that of WithTTL.
	// As long as it is not assigned to, the entry keeps its deadline, to the millisecond; what is assigned
	// counts from the end of the function on.
	TTL time.Duration

	decision decision
}

type decision int

const (
	keep decision = iota
	put
	remove
)

// Set stores v. It is the same as assigning to Value, and takes back Delete and Cancel.
func (u *Update[V]) Set(v V) { u.Value, u.decision = v, put }

// Delete removes the entry.
func (u *Update[V]) Delete() { u.decision = remove }

// Cancel leaves the entry as it is.
func (u *Update[V]) Cancel() { u.decision = keep }

// Update changes the entry of key atomically: no other write comes between what f
// reads and what is stored. It returns the entry as it is afterwards. Durability and
// errors are those of Set; when f panics, nothing has changed.
//
// f runs without any lock and may use the store, but not write the same key by other means:
// then the update is given up with ErrNested, though such a write may have been made once. When another write wins, f runs again on the new
// entry, so it should have no other effects; and it must not wait for a
// goroutine that updates the same key.
func (m *Map[K, V]) Update(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, engine.Process)
}

// UpdateFSync is Update with the durability of SetFSync.
func (m *Map[K, V]) UpdateFSync(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, engine.Power)
}

// UpdateAsync is Update with the durability of SetAsync.
func (m *Map[K, V]) UpdateAsync(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, engine.Async)
}

// UpdateInMemory is Update whose outcome is for memory alone, as that of SetInMemory: where there is no entry, what it leaves is refused with ErrNotFound. It deletes nothing, and
// changes no TTL.
func (m *Map[K, V]) UpdateInMemory(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, engine.Memory)
}

func (m *Map[K, V]) update(key K, f func(*Update[V]), d engine.Durability) (v V, exists bool, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return v, false, err
	}
	err = m.db.store.Update(m.table, m.cells, buf.key, m.flat, d, func(found engine.Found, w *engine.Write) (write bool, err error) {
		v, exists, write, err = m.decide(buf, found, f, w)
		return write, err
	})
	if err != nil {
		return *new(V), false, err
	}
	return v, exists, nil
}

// decide calls f on what was found, and prepares the write that it wants.
func (m *Map[K, V]) decide(buf *buffer, found engine.Found, f func(*Update[V]), w *engine.Write) (v V, exists, write bool, err error) {
	u := Update[V]{Exists: found.Exists, TTL: m.ttl, decision: put}
	if found.Exists {
		u.TTL = m.db.store.Left(found.Expiry)
	}
	ttl := u.TTL
	if u.Value, err = m.own(buf, found); err != nil {
		return v, false, false, err
	}
	f(&u)
	switch u.decision {
	case put:
		if err = m.fill(buf, w, u.Value); err == nil {
			w.Expiry, err = m.deadline(&found, w, ttl, u.TTL)
		}
		return u.Value, true, true, err
	case remove:
		w.Delete = true
		return v, false, true, nil
	}
	v, err = m.own(buf, found) // f may have changed its copy
	return v, err == nil && found.Exists, false, err
}

// deadline is that of an entry that is written by an Update which has found one TTL and left another.
func (m *Map[K, V]) deadline(found *engine.Found, w *engine.Write, before, after time.Duration) (uint64, error) {
	switch {
	case before == after && found.Exists:
		return found.Expiry, nil
	case before != after && w.Durability == engine.Memory:
		return 0, fmt.Errorf("copal: a TTL of %v by UpdateInMemory, which changes nothing that the log has", after)
	case after == 0:
		return 0, nil
	}
	return m.db.store.Deadline(after)
}

// own is the value that was found, for the one who asks alone, but for one that is only in memory.
func (m *Map[K, V]) own(buf *buffer, found engine.Found) (v V, err error) {
	switch {
	case !found.Exists:
		return v, nil
	case found.Cell != nil:
		return cellOf[V](found.Cell).value, nil
	}
	return m.decode(buf.key, &found.Entry)
}
