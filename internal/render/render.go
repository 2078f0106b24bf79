package render

import (
	"sync"

	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/engine"
)

// Renderers are those of one store. A value of binary means nothing without the codec and the
// schema, and the log has both. A value whose codec cannot render, or whose schema the log does not
// have, is shown as its stored bytes.
type Renderers struct {
	Store Schemas
	Own   codec.Codec // that the store was opened with

	known sync.Map // schema number → codec.Renderer, or false for none
}

// Schemas knows the schemas by their numbers.
type Schemas interface {
	Schema(number uint64) (engine.Schema, bool)
}

// Of returns the renderer for the values of a schema, nil if they are shown as stored.
func (s *Renderers) Of(schema uint64) codec.Renderer {
	if schema == 0 {
		return nil
	}
	if r, ok := s.known.Load(schema); ok {
		r, _ := r.(codec.Renderer)
		return r
	}
	of, ok := s.Store.Schema(schema)
	if !ok {
		return nil
	}
	c, ok := s.codecNamed(of.Codec).(codec.Renders)
	if !ok {
		s.known.Store(schema, false)
		return nil
	}
	r, err := c.Renderer(of.Text)
	if err != nil {
		s.known.Store(schema, false)
		return nil
	}
	s.known.Store(schema, r)
	return r
}

// codecNamed finds a codec that comes with copal, or the one that the store was opened with.
func (s *Renderers) codecNamed(name string) codec.Codec {
	if s.Own.Name() == name {
		return s.Own
	}
	return Codec(name)
}

// Codec finds a codec that comes with copal, or returns nil.
func Codec(name string) codec.Codec {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary, codec.Bytes} {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
