package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/wire"
)

// ordered is a driver for the servers of copal. They know the order of keys, and values have the typed form.
type ordered struct{ *redis }

// served has the methods of the store as a whole.
type served struct{ ordered }

var (
	_ driver.Schemas   = (*served)(nil)
	_ driver.Sorted    = (*served)(nil)
	_ driver.KeyOrders = (*served)(nil)
	_ driver.Sessions  = (*served)(nil)
	_ driver.Feed      = (*served)(nil)
	_ driver.Session   = (*session)(nil)
)

func newServed(r *redis) *served {
	plain := *r // declarations carry no values
	r.schemas = &schemas{home: &plain, names: map[engine.Schema]uint64{}}
	return &served{ordered{r}}
}

// InOrder yields the entries in a range in its order, a page after the other.
func (o ordered) InOrder(ctx context.Context, in engine.Range, down, values bool) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		var after *string
		for count := entriesPerPage; ; count = min(2*count, mostPerPage) {
			page, more, err := o.page(ctx, &in, after, down, values, count)
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if !more || len(page) == 0 {
				return
			}
			last := string(page[len(page)-1].Key)
			after = &last
		}
	}
}

// The first page of a walk is small, because the caller may want no more. Each further one is
// larger, up to the most that a server returns: if keys are not ordered by their bytes the server
// sorts all of them for each page. It ends a page after a MiB.
const (
	entriesPerPage = 512
	mostPerPage    = 1 << 16
)

func (o ordered) page(ctx context.Context, in *engine.Range, after *string, down, values bool, count int) (list []driver.Entry, more bool, err error) {
	start, rest := in.Asked()
	c := ask("COPAL.RANGE", string(start), string(rest), "COUNT", itoa(count))
	if down {
		c.args = append(c.args, "REV")
	}
	if !values {
		c.args = append(c.args, "NOVALUES")
	}
	if after != nil {
		c.args = append(c.args, "AFTER", *after)
	}
	m, err := o.get(ctx, c)
	if err != nil {
		return nil, false, err
	}
	reply, err := m.ToArray()
	if err != nil || len(reply) != 2 {
		return nil, false, errors.Join(errAnswer, err)
	}
	more, err = reply[0].AsBool()
	if err != nil {
		return nil, false, refusal(err)
	}
	entries, err := reply[1].ToArray()
	if err != nil {
		return nil, false, refusal(err)
	}
	for _, each := range entries {
		e, err := o.entry(ctx, each)
		if err != nil {
			return nil, false, err
		}
		list = append(list, e)
	}
	return list, more, nil
}

var errAnswer = errors.New("copal: unexpected answer from the server")

func (o ordered) entry(ctx context.Context, m rueidis.RedisMessage) (driver.Entry, error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) != 5 {
		return driver.Entry{}, errors.Join(errAnswer, err)
	}
	key, err := parts[0].ToString()
	if err != nil {
		return driver.Entry{}, refusal(err)
	}
	return o.entryOf(ctx, []byte(key), parts[1:])
}

// entryOf returns an entry from the server's reply with type, value, deadline and content type.
func (r *redis) entryOf(ctx context.Context, key []byte, parts []rueidis.RedisMessage) (driver.Entry, error) {
	e := driver.Entry{Key: key}
	of, err := parts[0].ToString()
	if err != nil && !parts[0].IsNil() {
		return e, refusal(err)
	}
	e.Type = engine.CollectionType(of)
	if text, err := parts[1].ToString(); err == nil && text != "" {
		if e.Value, e.Schema, err = r.knownText(ctx, text); err != nil {
			return e, err
		}
	}
	deadline, err := whole(parts[2])
	if err != nil {
		return e, err
	}
	e.Deadline = uint64(deadline)
	if e.Content, err = parts[3].ToString(); err != nil {
		err = refusal(err)
	}
	return e, err
}

// getEntry reads a value and its deadline by one command.
func (r *redis) getEntry(ctx context.Context, key []byte) (driver.Entry, error) {
	m, err := r.get(ctx, read("COPAL.ENTRY", key))
	switch {
	case err != nil:
		return driver.Entry{}, err
	case m.IsNil():
		return driver.Entry{}, engine.ErrNotFound
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != 4 {
		return driver.Entry{}, errors.Join(errAnswer, err)
	}
	e, err := r.entryOf(ctx, bytes.Clone(key), parts)
	switch {
	case err == nil && e.Type != "":
		err = &engine.CollectionError{Key: e.Key, Type: string(e.Type)}
	case err == nil && e.Value == nil:
		err = errAnswer
	}
	return e, err
}

// KeyOrders returns the order of the keys of each map. A server of an older version knows none.
func (s *served) KeyOrders(ctx context.Context) (map[string]string, error) {
	m, err := s.get(ctx, ask("COPAL.MAP", "ORDERS"))
	if err != nil && strings.Contains(err.Error(), "nknown subcommand") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	of, err := m.AsStrMap()
	if err != nil {
		return nil, refusal(err)
	}
	return of, nil
}

// Entries yields the entries whose keys begin with prefix.
func (o ordered) Entries(ctx context.Context, prefix []byte, values bool) iter.Seq2[driver.Entry, error] {
	return o.InOrder(ctx, keyrange.Prefix(prefix), false, values)
}

// DeleteRange deletes the entries in a range, as one write.
func (o ordered) DeleteRange(ctx context.Context, in engine.Range, d engine.Durability) error {
	start, rest := in.Asked()
	_, err := o.change(ctx, d, plain("COPAL.DELRANGE", string(start), string(rest)))
	return err
}

// Len returns the number of entries whose keys begin with prefix.
func (o ordered) Len(ctx context.Context, prefix []byte) (int, error) {
	n, err := o.number(ctx, ask("COPAL.LEN", string(prefix)))
	return int(n), err
}

// schemas are those that this process has declared to the store, or got from it. Their numbers are
// the eight bytes by which the store names them, and so the same everywhere.
type schemas struct {
	home  *redis
	mu    sync.Mutex // guards names, and the writes of known
	names map[engine.Schema]uint64
	known atomic.Pointer[map[uint64]engine.Schema] // which never changes; another takes its place
}

func nameOf(s engine.Schema) uint64 {
	name := wire.SchemaName(s.Codec, s.Text)
	return binary.BigEndian.Uint64(name[:])
}

// SchemaNumber makes a schema known to the store.
func (s *served) SchemaNumber(schema engine.Schema) (uint64, error) {
	s.schemas.mu.Lock()
	number, declared := s.schemas.names[schema]
	s.schemas.mu.Unlock()
	if declared {
		return number, nil
	}
	if err := s.schemas.declare(context.Background(), schema); err != nil {
		return 0, err
	}
	return nameOf(schema), nil
}

// Schema returns the schema with a number. The schema of a value is known since the value was read.
func (s *served) Schema(number uint64) (engine.Schema, bool) { return s.schemas.get(number) }

func (s *schemas) get(number uint64) (schema engine.Schema, ok bool) {
	if all := s.known.Load(); all != nil {
		schema, ok = (*all)[number]
	}
	return schema, ok
}

func (s *schemas) keepLocked(number uint64, schema engine.Schema) {
	all := map[uint64]engine.Schema{number: schema}
	if was := s.known.Load(); was != nil {
		for other, of := range *was {
			all[other] = of
		}
	}
	s.known.Store(&all)
}

// known is unwrapMessage of a value for the caller: its schema is known then.
func (r *redis) known(ctx context.Context, m rueidis.RedisMessage) (value []byte, schema uint64, err error) {
	text, err := m.ToString()
	if err != nil {
		return nil, 0, refusal(err)
	}
	return r.knownText(ctx, text)
}

// knownText is known for a part of a reply.
func (r *redis) knownText(ctx context.Context, text string) (value []byte, schema uint64, err error) {
	value, schema, err = r.unwrap(text)
	if err == nil && schema != 0 {
		err = r.schemas.learn(ctx, schema)
	}
	if err != nil {
		return nil, 0, err
	}
	return value, schema, nil
}

// learn asks the store for a schema that is not known yet.
func (s *schemas) learn(ctx context.Context, number uint64) error {
	if _, ok := s.get(number); ok {
		return nil
	}
	name := string(binary.BigEndian.AppendUint64(nil, number))
	m, err := s.home.get(ctx, ask("COPAL.SCHEMA", "GET", name))
	switch {
	case err != nil:
		return fmt.Errorf("copal: the schema of a value: %w", err)
	case m.IsNil():
		return fmt.Errorf("copal: the store does not know the schema of a value, %x", name)
	}
	words, err := m.AsStrSlice()
	if err != nil || len(words) != 2 {
		return errors.Join(errAnswer, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(number, engine.Schema{Codec: words[0], Text: words[1]})
	return nil
}

// declare makes a schema known to the store. It does no harm to do so twice, so it counts as a read.
func (s *schemas) declare(ctx context.Context, schema engine.Schema) error {
	if _, err := s.home.get(ctx, ask("COPAL.SCHEMA", "SET", schema.Codec, schema.Text)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number := nameOf(schema)
	s.names[schema] = number
	s.keepLocked(number, schema)
	return nil
}

// declareAll declares all schemas that were declared before, or got from the store.
func (s *schemas) declareAll(ctx context.Context) error {
	all := s.known.Load()
	if all == nil {
		return nil
	}
	for _, schema := range *all {
		if err := s.declare(ctx, schema); err != nil {
			return err
		}
	}
	return nil
}
