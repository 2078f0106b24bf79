package copal

import (
	"fmt"
	"time"

	"github.com/copaldb/copal/internal/engine"
)

// Entry is an entry in the hands of the function that Map.Update calls. When the function returns
// nil, Value is stored, whether the entry existed or not, unless Delete or Cancel was called.
type Entry[V any] struct {
	Value  V    // the present value, or the zero V; the function's own unless SetInMemory has put it there
	Exists bool // the entry exists

	// TTL is the time that the entry has left to live, 0 for ever. For an entry that does not exist it
	// is the TTL of WithTTL. Unless the function assigns to it, the entry keeps its exact deadline; an
	// assigned TTL counts from the end of the function. A field of a hash has none.
	TTL time.Duration

	decision decision
}

type decision int

const (
	keep decision = iota
	put
	remove
)

// Set stores v, as assigning to Value does, and takes back Delete and Cancel.
func (e *Entry[V]) Set(v V) { e.Value, e.decision = v, put }

// Delete removes the entry.
func (e *Entry[V]) Delete() { e.decision = remove }

// Cancel leaves the entry unchanged.
func (e *Entry[V]) Cancel() { e.decision = keep }

// Update changes the entry of key atomically: no other write comes between the value that f reads
// and the value that Update stores. Update returns the entry after the change. If f returns an
// error or panics, the entry does not change; Update returns the error. Durability and other errors
// are those of Set.
//
// If there is no entry, Update creates one with the Value that f leaves, even the zero value. To
// avoid that, f tests e.Exists, and calls e.Cancel or returns an error.
//
// f runs without any lock and may use the store. It must not wait for a goroutine that updates the
// same key. When another write wins, f runs again on the new entry, so it should have no other
// effects. From then on updates of the key run one at a time, in the order in which they came. If f
// writes the same key by other means, Update gives up with ErrNested, though such a write may have
// been made once.
func (m *Map[K, V]) Update(key K, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return m.update(key, f, m.bare.by)
}

// UpdateFSync is Update with the durability of SetFSync.
func (m *Map[K, V]) UpdateFSync(key K, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return m.update(key, f, engine.Power)
}

// UpdateAsync is Update with the durability of SetAsync.
func (m *Map[K, V]) UpdateAsync(key K, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return m.update(key, f, engine.Async)
}

// UpdateInMemory is Update that stores in memory alone, as SetInMemory does. If there is no entry,
// storing a value is ErrNotFound. It cannot delete, and cannot change a TTL.
func (m *Map[K, V]) UpdateInMemory(key K, f func(e *Entry[V]) error) (v V, exists bool, err error) {
	return m.update(key, f, engine.Memory)
}

// GetOrSet returns the value under key; if there is none, it sets v and returns that. found reports
// whether there was one. It is one step: of several goroutines, only one sets. A value that it sets
// is as durable as one of Set; an entry that it finds keeps its durability. Errors are those of
// Load and of Set.
func (m *Map[K, V]) GetOrSet(key K, v V) (_ V, found bool, err error) {
	if err := m.bare.writable(m.bare.by); err != nil {
		return *new(V), false, err
	}
	if now, err := m.Load(key); !isNotFound(err) {
		return now, err == nil, err
	}
	there := false // not found, which would be on the heap from the beginning
	now, _, err := m.Update(key, orSet(v, &there))
	return now, there && err == nil, err
}

// GetAndDelete removes the entry of key in one step. It returns the removed value, and whether
// there was one. Durability and errors are those of Delete.
func (m *Map[K, V]) GetAndDelete(key K) (v V, existed bool, err error) {
	if _, _, err = m.Update(key, takeOut(&v, &existed)); err != nil {
		return *new(V), false, err
	}
	return v, existed, nil
}

// orSet is the function of an update that sets v where it finds no entry.
func orSet[V any](v V, found *bool) func(*Entry[V]) error {
	return func(e *Entry[V]) error {
		if *found = e.Exists; *found {
			e.Cancel()
		} else {
			e.Set(v)
		}
		return nil
	}
}

// takeOut is the function of an update that deletes the entry, and says which value it had.
func takeOut[V any](v *V, existed *bool) func(*Entry[V]) error {
	return func(e *Entry[V]) error {
		*v, *existed = e.Value, e.Exists
		e.Delete()
		return nil
	}
}

func (m *Map[K, V]) update(key K, f func(*Entry[V]) error, d engine.Durability) (v V, exists bool, err error) {
	buf := m.key(key)
	defer buf.release()
	err = m.bare.update(buf, d, func(found engine.Found, w *engine.Write) (write bool, err error) {
		v, exists, write, err = decide(&m.bare, buf, &found, f, w)
		return write, err
	})
	if err != nil {
		return *new(V), false, err
	}
	return v, exists, nil
}

// decide calls f on the entry that was found, and prepares the write that f asks for.
func decide[V any](m *bareMap, buf *buffer, found *engine.Found, f func(*Entry[V]) error, w *engine.Write) (v V, exists, write bool, err error) {
	ttl := m.leftOf(found)
	e := Entry[V]{Exists: found.Exists, TTL: ttl, decision: put}
	if found.Exists {
		e.Value, err = valueOf[V](m, buf.key, &found.Entry, false)
	}
	if err == nil {
		err = f(&e)
	}
	if err != nil {
		return v, false, false, err
	}
	switch e.decision {
	case put:
		if err = fill(m, buf, w, e.Value); err == nil {
			w.Expiry, err = m.deadlineAfter(found, w, ttl, e.TTL)
		}
		return e.Value, true, true, err
	case remove:
		w.Delete = true
		return v, false, true, nil
	}
	if found.Exists { // f may have changed its copy
		v, err = valueOf[V](m, buf.key, &found.Entry, false)
	}
	return v, err == nil && found.Exists, false, err
}

// Updates of a Map without its types.

func (m *bareMap) update(key *buffer, d engine.Durability, decide engine.Decide) error {
	if key.err != nil {
		return key.err
	}
	return m.updateEntry(&m.place, key.key, m.flat, m.durability(d), decide)
}

// leftOf is the time that an entry has to live when its update begins.
func (m *bareMap) leftOf(found *engine.Found) time.Duration {
	if !found.Exists {
		return m.ttl
	}
	return m.left(found.Expiry)
}

// deadlineAfter is the deadline that an Update stores, from the TTL before and after its function.
func (h *handle) deadlineAfter(found *engine.Found, w *engine.Write, before, after time.Duration) (uint64, error) {
	switch {
	case before == after && found.Exists:
		return found.Expiry, nil
	case before != after && w.Durability == engine.Memory:
		return 0, fmt.Errorf("copal: UpdateInMemory cannot set a TTL, such as %v", after)
	case after == 0:
		return 0, nil
	}
	return h.db.deadlineAfter(after)
}
