package copal

import (
	"github.com/copaldb/copal/codec"
)

// A raw read shows a value as JSON if its codec has a form of its own, as binary does: the stored bytes
// tell a reader nothing without the codec and the schema, and the log knows both. A value whose codec
// cannot render, or whose schema the log does not have, is shown as it is stored.

// renderer returns the renderer for the values of a schema, nil if they are shown as they are
// stored.
func (db *DB) renderer(schema uint64) codec.Renderer {
	if schema == 0 {
		return nil
	}
	if r, ok := db.renderers.Load(schema); ok {
		r, _ := r.(codec.Renderer)
		return r
	}
	s, ok := db.store.Schema(schema)
	if !ok {
		return nil
	}
	c, ok := db.codecNamed(s.Codec).(codec.Renders)
	if !ok {
		db.renderers.Store(schema, false)
		return nil
	}
	r, err := c.Renderer(s.Text)
	if err != nil {
		db.renderers.Store(schema, false)
		return nil
	}
	db.renderers.Store(schema, r)
	return r
}

// codecNamed finds a codec that comes with copal, or the one that the store was opened with.
func (db *DB) codecNamed(name string) codec.Codec {
	if own := db.config.maps.codec; own.Name() == name {
		return own
	}
	return codecNamed(name)
}

// shown appends to dst what a raw read of key shows of the value that is stored there.
func (db *DB) shown(dst, key, value []byte, schema uint64) ([]byte, error) {
	r := db.renderer(schema)
	if r == nil {
		return append(dst, value...), nil
	}
	out, err := r.Render(dst, value)
	if err != nil {
		s, _ := db.store.Schema(schema)
		return dst, typeError(err, "the value under key %q, written as %s", key, s.Codec)
	}
	return out, nil
}
