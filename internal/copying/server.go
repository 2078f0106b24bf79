package copying

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
)

// server is a store that a driver keeps, on another machine or in another process. With sessions, as copal serve has
// them, its views are moments; without, as on a Redis, they are the present.
type server struct{ d driver.Driver }

func (s server) view(ctx context.Context) (view, error) {
	sessions, ok := s.d.(driver.Sessions)
	if !ok {
		return present{ctx, s}, nil
	}
	session, err := sessions.Snapshot(ctx)
	return sessionView{ctx, s, session}, err
}

func (s server) typed() bool { _, ok := s.d.(driver.Schemas); return ok }

func (s server) moments() bool { _, ok := s.d.(driver.Sessions); return ok }

func (s server) maps(ctx context.Context) ([]string, error) {
	if d, ok := s.d.(driver.Maps); ok {
		return d.Maps(ctx)
	}
	return nil, nil
}

func (s server) declare(ctx context.Context, name string) error {
	if d, ok := s.d.(driver.Maps); ok {
		return d.DeclareMap(ctx, name)
	}
	return nil // a Redis knows keys alone
}

// sync makes the writes durable, if the server can.
func (s server) sync(ctx context.Context) error {
	if err := s.d.Sync(ctx); !errors.Is(err, copal.ErrDurability) {
		return err
	}
	return nil
}

// schemaOf is the schema with a number of the store.
func (s server) schemaOf(number uint64, key []byte) (engine.Schema, error) {
	if number == 0 {
		return engine.Schema{}, nil
	}
	if schemas, ok := s.d.(driver.Schemas); ok {
		if schema, ok := schemas.Schema(number); ok {
			return schema, nil
		}
	}
	return engine.Schema{}, fmt.Errorf("%w: key %q has a value of a schema that the server does not know", copal.ErrCorrupt, key)
}

// numberOf is the number of a schema in the store, 0 where it keeps none.
func (s server) numberOf(codec, text string) (uint64, error) {
	schemas, ok := s.d.(driver.Schemas)
	if !ok || codec == "" {
		return 0, nil
	}
	return schemas.SchemaNumber(engine.Schema{Codec: codec, Text: text})
}

func (s server) entryOf(e *driver.Entry) (admin.Entry, error) {
	schema, err := s.schemaOf(e.Schema, e.Key)
	out := admin.Entry{Key: e.Key, Value: e.Value, Codec: schema.Codec, Schema: schema.Text, Content: e.Content, Collection: string(e.Type)}
	if e.Deadline != 0 {
		out.Expires = time.UnixMilli(int64(e.Deadline))
	}
	return out, err
}

// elementsOf yields the elements of a collection in a session, or now.
func (s server) elementsOf(ctx context.Context, in driver.Driver, e *admin.Entry) iter.Seq2[admin.Element, error] {
	return func(yield func(admin.Element, error) bool) {
		collections, ok := in.(driver.Whole)
		if !ok {
			yield(admin.Element{}, fmt.Errorf("the server has no collections: %w", errors.ErrUnsupported))
			return
		}
		for element, err := range collections.Elements(ctx, of(e)) {
			schema, unknown := s.schemaOf(element.Schema, e.Key)
			out := admin.Element{Name: element.Sub, Value: element.Value, Codec: schema.Codec, Schema: schema.Text}
			if e.Collection == string(engine.SortedSetType) {
				out.Value = scoreText(element.Score)
			}
			if !yield(out, errors.Join(err, unknown)) {
				return
			}
		}
	}
}

func of(e *admin.Entry) driver.Of {
	return driver.Of{Key: e.Key, Type: engine.CollectionType(e.Collection)}
}

// scoreText is a score as an element of a view has it.
func scoreText(score float64) []byte { return strconv.AppendFloat(nil, score, 'g', -1, 64) }

// sessionView is a moment of a store that has sessions.
type sessionView struct {
	ctx     context.Context
	s       server
	session driver.Session
}

func (v sessionView) entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for e, err := range v.session.InOrder(v.ctx, keyrange.Keys(engine.Span{Low: from, High: to, HighOpen: true}), false, true) {
			var out admin.Entry
			if err == nil {
				out, err = v.s.entryOf(&e)
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

func (v sessionView) elements(e *admin.Entry) iter.Seq2[admin.Element, error] {
	return v.s.elementsOf(v.ctx, v.session, e)
}

func (v sessionView) open(*admin.Entry) (io.ReadCloser, error) { return nil, errors.ErrUnsupported } // none is left out
func (p present) open(*admin.Entry) (io.ReadCloser, error)     { return nil, errors.ErrUnsupported }

func (v sessionView) seq() uint64 { seq, _ := v.session.Moment(); return seq }
func (v sessionView) close()      { v.session.Close() }

func (v sessionView) total() int64 {
	n, _ := v.session.Len(v.ctx, nil) // which is for the eye alone
	return int64(n)
}

// present is a store that has no moments and no order of keys. A walk has all keys in memory.
// Writes during the walk may be in it or not.
type present struct {
	ctx context.Context
	s   server
}

func (p present) seq() uint64 { return 0 }
func (p present) close()      {}

func (p present) total() int64 {
	n, _ := p.s.d.Len(p.ctx, nil)
	return int64(n)
}

// elements yields nothing of a collection that has gone meanwhile, or has become something else.
func (p present) elements(e *admin.Entry) iter.Seq2[admin.Element, error] {
	elements := p.s.elementsOf(p.ctx, p.s.d, e)
	if e.Collection == string(engine.StreamType) {
		elements = p.stream(e.Key)
	}
	return func(yield func(admin.Element, error) bool) {
		for element, err := range elements {
			if errors.Is(err, copal.ErrType) || errors.Is(err, copal.ErrNotFound) || !yield(element, err) {
				return
			}
		}
	}
}

func (p present) entries(from, to []byte) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		keys, err := p.keys(from, to)
		if err != nil {
			yield(admin.Entry{}, err)
			return
		}
		for some := range slices.Chunk(keys, together) {
			list, errs := p.look(some)
			for i := range some {
				if errors.Is(errs[i], copal.ErrNotFound) { // it has gone meanwhile
					continue
				}
				if !yield(list[i], errs[i]) {
					return
				}
			}
		}
	}
}

// keys are the keys in [from, to), in order.
func (p present) keys(from, to []byte) (keys [][]byte, err error) {
	for e, err := range p.s.d.Entries(p.ctx, nil, false) {
		if err != nil {
			return nil, err
		}
		if bytes.Compare(e.Key, from) >= 0 && (to == nil || bytes.Compare(e.Key, to) < 0) {
			keys = append(keys, e.Key)
		}
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys, nil
}

// together is how many keys are read or written at a time: the driver sends simultaneous requests
// in one piece.
const together = 256

// look reads some entries at once.
func (p present) look(keys [][]byte) ([]admin.Entry, []error) {
	list, errs := make([]admin.Entry, len(keys)), make([]error, len(keys))
	var wait sync.WaitGroup
	for i, key := range keys {
		wait.Go(func() { list[i], errs[i] = p.one(key) })
	}
	wait.Wait()
	return list, errs
}

func (p present) one(key []byte) (admin.Entry, error)     { return p.s.one(p.ctx, p.s.d, key) }
func (v sessionView) one(key []byte) (admin.Entry, error) { return v.s.one(v.ctx, v.session, key) }

// mostLooks is the number of tries to read a key whose type changes each time.
const mostLooks = 100

// one is the entry under a key in a session, or now.
func (s server) one(ctx context.Context, in driver.Driver, key []byte) (e admin.Entry, err error) {
	for range mostLooks {
		e, err = s.look(ctx, in, key)
		if !errors.Is(err, copal.ErrType) { // which is not known: it held a collection when it was read, and not any more
			break
		}
	}
	return e, err
}

func (s server) look(ctx context.Context, in driver.Driver, key []byte) (admin.Entry, error) {
	e, err := in.Get(ctx, key, true)
	if c := (*engine.CollectionError)(nil); errors.As(err, &c) {
		e = driver.Entry{Type: engine.CollectionType(c.Type)}
		e.Deadline, err = in.Deadline(ctx, key)
	}
	if err != nil {
		return admin.Entry{}, err
	}
	e.Key = key
	return s.entryOf(&e)
}

// mostServed is the length of the longest value on a server: a Redis takes no longer one unless it
// is configured to, nor does copal serve. It would end the connection without a reason.
const mostServed = 512<<20 - 8

func fits(bytes int64) error {
	if bytes > mostServed {
		return fmt.Errorf("%w: a value of %d bytes, and servers take up to %d", copal.ErrTooLarge, bytes, int64(mostServed))
	}
	return nil
}

func (s server) putLarge(ctx context.Context, e *admin.Entry, value io.Reader) error {
	if err := fits(e.Large); err != nil {
		return err
	}
	whole, err := inMemory(e, value)
	if err != nil {
		return err
	}
	return s.put(ctx, []*admin.Entry{whole})
}

// put writes the last entry after the others: it is the position.
func (s server) put(ctx context.Context, list []*admin.Entry) error {
	writes := make([]*driver.Write, len(list))
	for i, e := range list {
		w := &driver.Write{Key: e.Key, Value: e.Value, Delete: e.Deleted, Deadline: deadline(e), Content: e.Content, Durability: engine.Process}
		err := fits(int64(len(e.Value)))
		if err == nil {
			w.Schema, err = s.numberOf(e.Codec, e.Schema)
		}
		if err != nil {
			return err
		}
		writes[i] = w
	}
	if len(writes) > 1 {
		err := s.d.WriteAll(ctx, writes)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	last := len(writes) - 1
	for some := range slices.Chunk(writes[:last], together) {
		errs := make([]error, len(some))
		var wait sync.WaitGroup
		for i, w := range some {
			wait.Go(func() { _, errs[i] = s.d.Write(ctx, w) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	_, err := s.d.Write(ctx, writes[last])
	return err
}

func deadline(e *admin.Entry) uint64 {
	if e.Expires.IsZero() {
		return 0
	}
	return uint64(e.Expires.UnixMilli())
}

func (s server) putCollection(ctx context.Context, e *admin.Entry, elements iter.Seq2[admin.Element, error]) error {
	collections, ok := s.d.(driver.Collections)
	if !ok {
		return fmt.Errorf("the server has no collections: %w", errors.ErrUnsupported)
	}
	if e.Collection == string(engine.StreamType) && !s.typed() {
		return s.putStream(ctx, e, elements)
	}
	if _, err := s.d.Write(ctx, &driver.Write{Key: e.Key, Delete: true, Durability: engine.Process}); err != nil {
		return err
	}
	err := inPieces(elements, func(list []admin.Element) (err error) {
		edits := make([]driver.Element, len(list))
		for i, each := range list {
			edits[i] = driver.Element{Sub: each.Name, Value: each.Value}
			if err = fits(int64(len(each.Value))); err == nil {
				edits[i].Schema, err = s.numberOf(each.Codec, each.Schema)
			}
			if err != nil {
				return err
			}
			if e.Collection == string(engine.SortedSetType) {
				edits[i].Value = nil
				if edits[i].Score, err = strconv.ParseFloat(string(each.Value), 64); err != nil {
					return err
				}
			}
		}
		if e.Collection == string(engine.ListType) {
			_, err = collections.Push(ctx, of(e), edits, false, false, engine.Process)
		} else {
			_, err = collections.Edit(ctx, of(e), edits, engine.Process)
		}
		return err
	})
	if err == nil && !e.Expires.IsZero() {
		err = s.d.Redate(ctx, e.Key, deadline(e), engine.Process)
	}
	if errors.Is(err, copal.ErrNotFound) { // its deadline has come
		return nil
	}
	return err
}

func (s server) changes(ctx context.Context, after, until uint64) iter.Seq2[change, error] {
	return s.watch(ctx, driver.Watching{After: after, Until: &until})
}

func (s server) watch(ctx context.Context, what driver.Watching) iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		feed, ok := s.d.(driver.Feed)
		if !ok {
			yield(change{}, errors.ErrUnsupported)
			return
		}
		for c, err := range feed.Watch(ctx, what) {
			if err == nil && c.Idle {
				continue
			}
			if !yield(change{c.Key, c.From, c.To, c.Range}, err) {
				return
			}
		}
	}
}

func (s server) wait(ctx context.Context, after uint64) error {
	for _, err := range s.watch(ctx, driver.Watching{After: after}) {
		return err
	}
	return ctx.Err()
}

func (s server) listen(ctx context.Context) (driver.Notices, error) {
	if d, ok := s.d.(driver.Noticing); ok {
		return d.Listen(ctx)
	}
	return nil, errors.ErrUnsupported
}
