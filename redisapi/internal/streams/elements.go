package streams

import (
	"fmt"
	"iter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisstream"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// noStream is the error of an element that is none of a stream.
func noStream(name string) error {
	return fmt.Errorf("an element of the stream, %q, has been written by other means, and makes no sense", name)
}

// stream reads and writes the stream under a key, in a transaction. head, which is kept, is read first.
type stream struct {
	c    *command.Call
	key  []byte
	of   *copal.HashOf[string, []byte]
	head redisstream.Head
}

// openStream is that under a key. ok is false if there is none, and of another type there is an error.
func openStream(c *command.Call, key []byte) (s *stream, ok bool, err error) {
	ok, err = c.Exists(key, "stream")
	if err != nil {
		return nil, false, err
	}
	s = &stream{c: c, key: key, of: c.Store.Stream(key)}
	if ok {
		err = s.readHead()
	}
	return s, ok, err
}

func (s *stream) readHead() error {
	value, err := s.of.Load(redisstream.HeadName)
	switch {
	case command.IsMissing(err):
	case err != nil:
		return err
	default:
		var ok bool
		if s.head, ok = redisstream.ParseHead(value); !ok {
			return noStream(redisstream.HeadName)
		}
	}
	if id, ok := s.edge(true); ok {
		s.head.Last = redisstream.MaxID(s.head.Last, id)
	}
	return nil
}

func (s *stream) writeHead(by redisstream.By) error {
	s.head.By = by
	return s.of.Set(redisstream.HeadName, s.head.Value())
}

// edge is the id of the first or the last entry. ok is false if there is none.
func (s *stream) edge(last bool) (id redisstream.ID, ok bool) {
	of := s.of
	if last {
		of = of.Backward()
	}
	for name := range of.KeysBetween("e", "f") {
		return redisstream.IDOf(name)
	}
	return id, false
}

func (s *stream) length() int { return s.of.Count("e", "f") }

func (s *stream) has(id redisstream.ID) bool { return s.of.Has(redisstream.EntryName(id)) }

// streamSpan are ids from one to another, that included.
type streamSpan struct{ from, to redisstream.ID }

func (sp streamSpan) names(prefix string) (from, to string) {
	from = prefix + string(sp.from.Bytes())
	if behind, ok := sp.to.Next(); ok {
		return from, prefix + string(behind.Bytes())
	}
	return from, redisstream.Ending(prefix)
}

// streamEntry is one of a stream: fields and values in turn.
type streamEntry struct {
	id     redisstream.ID
	fields [][]byte
}

// entries are up to so many of a span, 0 for all, in order or the other way round.
func (s *stream) entries(sp streamSpan, count int64, backward bool) (list []streamEntry, err error) {
	of := s.of
	if backward {
		of = of.Backward()
	}
	for name, value := range command.Steps2(s.c, of.Between(sp.names("e"))) {
		id, ok := redisstream.IDOf(name)
		fields, whole := redisstream.FieldsOf(value)
		if !ok || !whole {
			return nil, noStream(name)
		}
		list = append(list, streamEntry{id, fields})
		s.c.Uses(len(value) + 24*len(fields) + command.EntryBytes)
		if int64(len(list)) == count {
			break
		}
	}
	return list, s.c.Err()
}

// load is an entry. ok is false if it is not there.
func (s *stream) load(id redisstream.ID) (fields [][]byte, ok bool, err error) {
	value, err := s.of.Load(redisstream.EntryName(id))
	switch {
	case command.IsMissing(err):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	if fields, ok = redisstream.FieldsOf(value); !ok {
		err = noStream(redisstream.EntryName(id))
	}
	return fields, ok, err
}

// drop takes entries out, and returns how many there were.
func (s *stream) drop(ids iter.Seq[redisstream.ID], by redisstream.By) (n int, err error) {
	var names []string
	for id := range command.Steps(s.c, ids) {
		s.c.Uses(2 * command.EntryBytes)
		names = append(names, redisstream.EntryName(id))
	}
	if err := s.c.Err(); err != nil {
		return 0, err
	}
	if n, err = s.of.Delete(names...); n == 0 || err != nil {
		return 0, err
	}
	s.head.Gone += int64(n)
	err = s.writeHead(by)
	if by == redisstream.Trimming {
		s.c.Event("xtrim", s.key)
	} else {
		s.c.Event("xdel", s.key)
	}
	return n, err
}

// valueOf reads an element that parse understands. ok is false if it is not there.
func valueOf[T any](s *stream, name string, parse func([]byte) (T, bool)) (v T, ok bool, err error) {
	value, err := s.of.Load(name)
	switch {
	case command.IsMissing(err):
		return v, false, nil
	case err != nil:
		return v, false, err
	}
	if v, ok = parse(value); !ok {
		err = noStream(name)
	}
	return v, ok, err
}
