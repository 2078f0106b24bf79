package copal

import (
	"bytes"

	"github.com/copaldb/copal/internal/engine"
)

// Put stores value under key, as raw bytes. Both may be any bytes, and empty. A map
// called users and the raw keys that begin with "users:" are the same entries; a
// typed read takes raw bytes as JSON text. Like Map.Set, Put survives the death of the
// process when it returns.
func (db *DB) Put(key, value []byte) error {
	return db.store.Set(nil, key, value, 0, engine.Process)
}

// PutFSync is Put that survives the loss of power when it returns.
func (db *DB) PutFSync(key, value []byte) error {
	return db.store.Set(nil, key, value, 0, engine.Power)
}

// Get returns what is stored under key. Of raw entries, and of those of maps whose codec is JSON or bytes, it is the
// stored bytes themselves; those of other codecs are shown as JSON, as codec.Renderer says.
// They are the caller's. The error is ErrNotFound when there is no entry.
func (db *DB) Get(key []byte) ([]byte, error) { return db.AppendGet(nil, key) }

// AppendGet appends to dst what Get returns, and returns the extended slice. Where dst has room it allocates nothing, but for
// values of more than 64 KiB and for what is shown as JSON. With an error dst comes back as it was, beyond its length perhaps overwritten.
func (db *DB) AppendGet(dst, key []byte) ([]byte, error) {
	out, schema, err := db.store.AppendGet(dst, key)
	if err != nil {
		return dst, err
	}
	if schema == 0 || db.renderer(schema) == nil {
		return out, nil
	}
	return db.shown(dst, key, bytes.Clone(out[len(dst):]), schema)
}

// ViewValue calls f with what Get returns, and returns what f does. The bytes are those of the mapped file itself where that is possible:
// they must not be changed, nor used when f has returned. They stay what they are while f runs, whatever is
// written, compacted or closed meanwhile; f may use the store. Not copied is what has reached the file, which
// is at once or within the sync interval, is no longer than 64 KiB, and is shown as it is stored; the rest is in memory that is used again.
//
// Should the disk fail while f reads, then f ends where it is, as by a panic, and the error says so.
func (db *DB) ViewValue(key []byte, f func(value []byte) error) error {
	return db.store.ViewValue(key, func(value []byte, schema uint64) error {
		if schema == 0 || db.renderer(schema) == nil {
			return f(value)
		}
		shown, err := db.shown(nil, key, value, schema)
		if err != nil {
			return err
		}
		return f(shown)
	})
}

// Has reports whether there is an entry under key.
func (db *DB) Has(key []byte) (bool, error) { return db.store.Has(nil, key) }

// Delete removes the entry under key. It reports whether there was one.
func (db *DB) Delete(key []byte) (existed bool, err error) {
	return db.store.Delete(nil, key, engine.Process)
}

// DeleteFSync is Delete that survives the loss of power when it returns.
func (db *DB) DeleteFSync(key []byte) (existed bool, err error) {
	return db.store.Delete(nil, key, engine.Power)
}

// Len is the number of entries in the store, raw and typed. It takes no time, whatever there is.
func (db *DB) Len() int { return int(db.store.Stats().Keys) }
