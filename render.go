package copal

import "github.com/copaldb/copal/internal/opened"

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
