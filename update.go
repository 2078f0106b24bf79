package copal

import "github.com/copaldb/copal/internal/store"

// Update is an entry in the hands of the function that Map.Update calls. When the
// function returns, Value is stored, whether the entry existed or not, unless Delete
// or Cancel was called.
type Update[V any] struct {
	Value  V    // the value there is, the function's own; the zero V when there is none
	Exists bool // whether there is one

	decision store.Decision
}

// Set stores v. It is the same as assigning to Value, and takes back Delete and Cancel.
func (u *Update[V]) Set(v V) { u.Value, u.decision = v, store.Put }

// Delete removes the entry.
func (u *Update[V]) Delete() { u.decision = store.Remove }

// Cancel leaves the entry as it is.
func (u *Update[V]) Cancel() { u.decision = store.Keep }

// Update changes the entry of key atomically: no other write comes between what f
// reads and what is stored. It returns the entry as it is afterwards. Durability and
// errors are those of Set; when f panics, nothing has changed.
//
// f runs without any lock and may use the store, but not write the same key by other means:
// then the update is given up with ErrNested. When another write wins, f runs again on the new
// entry, so it should have no other effects; and it must not wait for a
// goroutine that updates the same key.
func (m *Map[K, V]) Update(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, store.Process)
}

// UpdateFSync is Update with the durability of SetFSync.
func (m *Map[K, V]) UpdateFSync(key K, f func(u *Update[V])) (v V, exists bool, err error) {
	return m.update(key, f, store.Power)
}

func (m *Map[K, V]) update(key K, f func(*Update[V]), d store.Durability) (v V, exists bool, err error) {
	buf := buffers.Get().(*buffer)
	defer buf.release()
	if err := m.encodeKey(buf, key); err != nil {
		return v, false, err
	}
	err = m.db.store.Update(m.table, buf.key, d, func(e *store.Entry) (change store.Change, err error) {
		v, exists, change, err = m.decide(buf, e, f)
		return change, err
	})
	if err != nil {
		return *new(V), false, err
	}
	return v, exists, nil
}

// decide calls f on an entry, nil for none, and encodes what it wants.
func (m *Map[K, V]) decide(buf *buffer, e *store.Entry, f func(*Update[V])) (v V, exists bool, change store.Change, err error) {
	u := Update[V]{decision: store.Put}
	if e != nil {
		u.Exists = true
		if u.Value, err = m.decode(buf.key, *e); err != nil {
			return v, false, change, err
		}
	}
	f(&u)
	switch change.Decision = u.decision; u.decision {
	case store.Put:
		change.Value, change.Schema, err = m.values.encode(buf, buf.key, &u.Value)
		return u.Value, true, change, err
	case store.Remove:
		return v, false, change, nil
	}
	if e == nil {
		return v, false, change, nil
	}
	v, err = m.decode(buf.key, *e) // f may have changed its copy
	return v, err == nil, change, err
}
