package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/rdb"
)

// A Redis gives and takes a stream as a whole, as its commands DUMP and RESTORE have it. Such a
// dump lacks some facts in the elements of a directory, such as the time when a consumer was made,
// and a later Redis writes more than an earlier one takes. So comparisons with a Redis use the
// elements of a stream after internal/rdb has written and read them.

// dumpOf is a stream as a Redis takes it, nil if there is nothing of it.
func dumpOf(elements iter.Seq2[admin.Element, error]) ([]byte, error) {
	var list []admin.Element
	for e, err := range elements {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil, nil
	}
	slices.SortFunc(list, func(a, b admin.Element) int { return bytes.Compare(a.Name, b.Name) })
	v := &rdb.Value{Type: string(engine.StreamType)}
	for _, e := range list {
		v.Elements = append(v.Elements, e.Name, e.Value)
	}
	dump, err := rdb.Append(nil, v)
	if err != nil {
		return nil, fmt.Errorf("the stream has an element that no command of streams has written, and that a Redis does not take: %w", errors.ErrUnsupported)
	}
	return dump, nil
}

// elementsIn yields the elements of a stream that a Redis has written. The error is copal.ErrType for anything else.
func elementsIn(dump []byte) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		v, err := rdb.Parse(dump)
		switch {
		case err == nil && v.Type != string(engine.StreamType):
			err = fmt.Errorf("%w: a %s, and no stream", copal.ErrType, v.Type)
		case err != nil:
			err = fmt.Errorf("the stream is of a later version of Redis, or damaged (%v): %w", err, errors.ErrUnsupported)
		}
		if err != nil {
			yield(admin.Element{}, err)
			return
		}
		for i := 0; i < len(v.Elements); i += 2 {
			if !yield(admin.Element{Name: v.Elements[i], Value: v.Elements[i+1]}, nil) {
				return
			}
		}
	}
}

// elementsOf yields the elements of a collection in a view: complete or, unless typed, only the
// parts that every store keeps.
func elementsOf(v view, e *admin.Entry, typed bool) iter.Seq2[admin.Element, error] {
	elements := v.elements(e)
	switch {
	case typed:
		return elements
	case e.Collection == string(engine.StreamType):
		return Dumped(elements)
	}
	return func(yield func(admin.Element, error) bool) {
		for element, err := range elements {
			element.Codec, element.Schema = "", ""
			if !yield(element, err) {
				return
			}
		}
	}
}

// Dumped yields the elements of a stream after a dump.
func Dumped(elements iter.Seq2[admin.Element, error]) iter.Seq2[admin.Element, error] {
	dump, err := dumpOf(elements)
	if err != nil {
		return func(yield func(admin.Element, error) bool) { yield(admin.Element{}, err) }
	}
	if dump == nil {
		return func(func(admin.Element, error) bool) {}
	}
	return elementsIn(dump)
}

var errNoDumps = fmt.Errorf("the server has no streams: %w", errors.ErrUnsupported)

// stream yields the elements of a stream.
func (p present) stream(key []byte) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		err := errNoDumps
		var dump []byte
		if d, ok := p.s.d.(driver.Dumps); ok {
			dump, err = d.Dump(p.ctx, key)
		}
		if err != nil {
			yield(admin.Element{}, err)
			return
		}
		elementsIn(dump)(yield)
	}
}

// putStream is putCollection of a stream on a Redis.
func (s server) putStream(ctx context.Context, e *admin.Entry, elements iter.Seq2[admin.Element, error]) error {
	d, ok := s.d.(driver.Dumps)
	if !ok {
		return errNoDumps
	}
	dump, err := dumpOf(elements)
	if err != nil {
		return err
	}
	if dump == nil {
		_, err = s.d.Write(ctx, &driver.Write{Key: e.Key, Delete: true, Durability: engine.Process})
		return err
	}
	if err := fits(int64(len(dump))); err != nil {
		return err
	}
	return d.Restore(ctx, e.Key, dump, deadline(e), engine.Process)
}
