package copal

import (
	"reflect"

	"github.com/copaldb/copal/internal/engine"
)

// Set keeps one value under a name of its own, without a map: settings, a cursor, a checksum. The
// name is a raw key. It shares a key space with the keys of maps, which begin with the map's name
// and a colon, and no byte in it has a meaning. Like Map.Set, it survives the death of the process
// when it returns. A single value has no handle, and a transaction reaches it only as a raw key: a
// value that changes together with others should be an entry of a map.
func Set[T any](db *DB, name string, v T) error {
	t, err := db.typed(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	buf := buffers.Get().(*buffer)
	defer buf.release()
	key := []byte(name)
	value, schema, err := t.encode(buf, key, &v)
	if err != nil {
		return err
	}
	h := db.handle()
	_, err = h.write(&everywhere, &engine.Write{Key: key, Value: value, Schema: schema, Durability: engine.Process})
	return err
}

// Load returns the value under the raw key name, the caller's own. The error is ErrNotFound when
// there is none, a *CorruptError when it is damaged, and ErrType when it does not fit T.
func Load[T any](db *DB, name string) (T, error) {
	var v T
	t, err := db.typed(reflect.TypeFor[T]())
	if err != nil {
		return v, err
	}
	key := []byte(name)
	h := db.handle()
	e, err := h.get(&everywhere, key)
	if err != nil {
		return v, everywhere.missing(err, key)
	}
	if err := t.decode(key, &e, &v); err != nil {
		return *new(T), err
	}
	return v, nil
}

// typed returns the store's one instance for a type.
func (db *DB) typed(t reflect.Type) (*typed, error) {
	db.mu.Lock()
	v := db.values[t]
	db.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := newTyped(db.numbers(), db.config.maps.codec, t) // without the lock: a codec is the caller's function
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.values[t] == nil {
		db.values[t] = v
	}
	return db.values[t], nil
}
