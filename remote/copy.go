package remote

import (
	"context"
	"errors"
	"iter"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// Methods that only copies of whole stores use.

var (
	_ driver.Dumps = (*redis)(nil)
	_ driver.Maps  = (*served)(nil)
)

// Dump returns the entry of a key in the dump format of Redis.
func (r *redis) Dump(ctx context.Context, key []byte) ([]byte, error) {
	m, err := r.get(ctx, read("DUMP", key))
	switch {
	case err != nil:
		return nil, err
	case m.IsNil():
		return nil, engine.ErrNotFound
	}
	dump, err := m.AsBytes()
	if err != nil {
		return nil, refusal(err)
	}
	return dump, nil
}

// Restore sets a key to the result of Dump.
func (r *redis) Restore(ctx context.Context, key, dump []byte, deadline uint64, d engine.Durability) error {
	_, err := r.change(ctx, d, write("RESTORE", key, millis(deadline), string(dump), "REPLACE", "ABSTTL"))
	return err
}

// Elements yields all elements, those of a stream a page after the other.
func (o ordered) Elements(ctx context.Context, of driver.Of) iter.Seq2[driver.Element, error] {
	if of.Type != engine.StreamType {
		return o.redis.Elements(ctx, of)
	}
	return func(yield func(driver.Element, error) bool) {
		for args := []string{"COUNT", perPage}; ; {
			more, page, err := o.streamPage(ctx, of.Key, args)
			if err != nil {
				yield(driver.Element{}, o.fits(ctx, of.Key, err))
				return
			}
			for i := 0; i+1 < len(page); i += 2 {
				if !yield(driver.Element{Sub: []byte(page[i]), Value: []byte(page[i+1])}, nil) {
					return
				}
			}
			if !more || len(page) < 2 {
				return
			}
			args = []string{"COUNT", perPage, "AFTER", page[len(page)-2]}
		}
	}
}

func (o ordered) streamPage(ctx context.Context, key []byte, args []string) (more bool, page []string, err error) {
	c := read("COPAL.STREAM", key, args...)
	c.words = []string{"GET"}
	m, err := o.get(ctx, c)
	if err != nil {
		return false, nil, err
	}
	parts, err := m.ToArray()
	if err == nil && len(parts) != 2 {
		err = errAnswer
	}
	if err == nil {
		more, err = parts[0].AsBool()
	}
	if err == nil {
		page, err = parts[1].AsStrSlice()
	}
	return more, page, err
}

// Edit sets and deletes elements, of a stream only sets them.
func (o ordered) Edit(ctx context.Context, of driver.Of, edits []driver.Element, d engine.Durability) (existed int, err error) {
	if of.Type != engine.StreamType {
		return o.redis.Edit(ctx, of, edits, d)
	}
	c := write("COPAL.STREAM", of.Key)
	c.words = []string{"SET"}
	for _, e := range edits {
		if e.Delete {
			return 0, errors.ErrUnsupported
		}
		c.args = append(c.args, string(e.Sub), string(e.Value))
	}
	if len(edits) > 0 {
		_, err = o.change(ctx, d, c)
	}
	return 0, o.fits(ctx, of.Key, err)
}

// Maps returns the names of the declared maps of the store.
func (s *served) Maps(ctx context.Context) ([]string, error) {
	m, err := s.get(ctx, ask("COPAL.MAP", "LIST"))
	if err != nil {
		return nil, err
	}
	names, err := m.AsStrSlice()
	if err != nil {
		return nil, refusal(err)
	}
	return names, nil
}

// DeclareMap makes a map known to the store. To do so twice does no harm, so it counts as a read.
func (s *served) DeclareMap(ctx context.Context, name string) error {
	_, err := s.get(ctx, ask("COPAL.MAP", "DECLARE", name))
	return err
}
