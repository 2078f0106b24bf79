package surface

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
)

// inMemory is a driver that keeps entries in a Go map.
type inMemory struct {
	clock   clock.Clock
	mu      sync.Mutex
	entries map[string]driver.Entry
	synced  int
	closed  bool
}

func newInMemory(c clock.Clock) *inMemory {
	return &inMemory{clock: c, entries: map[string]driver.Entry{}}
}

// lookLocked returns the entry under key, unless it has expired.
func (m *inMemory) lookLocked(key []byte) (driver.Entry, bool) {
	e, ok := m.entries[string(key)]
	return e, ok && (e.Deadline == 0 || e.Deadline > uint64(m.clock.Now().UnixMilli()))
}

func (m *inMemory) Get(ctx context.Context, key []byte, _ bool) (driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.lookLocked(key)
	if !ok {
		return driver.Entry{}, errors.Join(ctx.Err(), engine.ErrNotFound)
	}
	e.Value = bytes.Clone(e.Value)
	return e, ctx.Err()
}

func (m *inMemory) Has(ctx context.Context, key []byte) (bool, error) {
	_, err := m.Get(ctx, key, false)
	if errors.Is(err, engine.ErrNotFound) {
		return false, ctx.Err()
	}
	return err == nil, err
}

func (m *inMemory) Deadline(ctx context.Context, key []byte) (uint64, error) {
	e, err := m.Get(ctx, key, true)
	return e.Deadline, err
}

func (m *inMemory) Write(ctx context.Context, w *driver.Write) (existed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, existed := m.lookLocked(w.Key)
	if !existed {
		now = driver.Entry{} // not an expired one
	}
	if err := ctx.Err(); err != nil || w.If != nil && (existed != (w.If.Key != nil) || !bytes.Equal(now.Value, w.If.Value)) {
		return false, cmp.Or(err, driver.ErrConflict)
	}
	deadline := w.Deadline
	if w.If != nil && existed && deadline == w.If.Deadline {
		deadline = now.Deadline
	}
	if delete(m.entries, string(w.Key)); !w.Delete {
		m.entries[string(w.Key)] = driver.Entry{Key: bytes.Clone(w.Key), Value: bytes.Clone(w.Value), Deadline: deadline}
	}
	return existed, nil
}

func (m *inMemory) WriteAll(ctx context.Context, list []*driver.Write) error {
	for _, w := range list {
		if _, err := m.Write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (m *inMemory) Redate(ctx context.Context, key []byte, deadline uint64, _ engine.Durability) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.lookLocked(key)
	if !ok {
		return cmp.Or(ctx.Err(), engine.ErrNotFound)
	}
	e.Deadline = deadline
	m.entries[string(key)] = e
	return ctx.Err()
}

func (m *inMemory) Entries(ctx context.Context, prefix []byte, values bool) iter.Seq2[driver.Entry, error] {
	return m.InOrder(ctx, keyrange.Prefix(prefix), false, values)
}

func (m *inMemory) InOrder(ctx context.Context, r engine.Range, down, values bool) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		for _, key := range m.keys(r, down) {
			switch e, err := m.Get(ctx, key, values); {
			case errors.Is(err, engine.ErrNotFound):
			case !yield(e, err) || err != nil:
				return
			}
		}
	}
}

// keys returns the keys of a range, in its order.
func (m *inMemory) keys(r engine.Range, down bool) (keys [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.entries {
		if _, ok := m.lookLocked([]byte(key)); ok && r.Has([]byte(key)) {
			keys = append(keys, []byte(key))
		}
	}
	slices.SortFunc(keys, func(a, b []byte) int { return bytes.Compare(r.SortKey(a), r.SortKey(b)) })
	if down {
		slices.Reverse(keys)
	}
	return keys
}

func (m *inMemory) DeleteRange(ctx context.Context, r engine.Range, _ engine.Durability) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.entries, func(key string, _ driver.Entry) bool { return ctx.Err() == nil && r.Has([]byte(key)) })
	return ctx.Err()
}

func (m *inMemory) Len(ctx context.Context, prefix []byte) (int, error) {
	return len(m.keys(keyrange.Prefix(prefix), false)), ctx.Err()
}

func (m *inMemory) Sync(ctx context.Context) error { m.synced++; return ctx.Err() }
func (m *inMemory) Close() error                   { m.closed = true; return nil }

// taggedPerson is a value that is not flat.
type taggedPerson struct {
	Name string
	Tags []string
	N    int
}

// TestDrivenLikeTheEngine: for any operations on maps, raw bytes and single values, a store with a
// driver gives the same results as one with the engine.
func TestDrivenLikeTheEngine(t *testing.T) {
	kit.EachSeed(t, 100, 5_000, func(t *testing.T, seed uint64) {
		p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 29)), clock: logtest.NewClock()}
		var logs [2]kit.ErrorLog
		for i := range p.dbs {
			opts := []copal.Option{kit.WithClock(p.clock), logs[i].Option(), kit.WithInline()}
			var err error
			if i == 0 {
				p.dbs[i], err = copal.OpenMemory(opts...)
			} else {
				p.dbs[i], err = copal.OpenDriven(newInMemory(p.clock), opts...)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer kit.MustClose(t, p.dbs[i])
		}
		text := func() string { return strings.Repeat("k", p.rng.IntN(2)) + fmt.Sprint(p.rng.IntN(8)) }
		number := func() int { return p.rng.IntN(24) - 12 }
		steps := []func(){
			steps(p, "texts", text, func() taggedPerson { return taggedPerson{text(), []string{text()}, number()} }),
			steps(p, "numbers", number, number, copal.WithCodec(codec.Binary), copal.WithTTL(time.Hour)),
			p.raw(text),
		}
		for range 150 {
			steps[p.rng.IntN(len(steps))]()
			if p.rng.IntN(10) == 0 {
				p.clock.Advance(time.Duration(p.rng.IntN(40)) * time.Minute)
			}
			if t.Failed() {
				return
			}
		}
		for i := range logs {
			if len(logs[i].Errs) > 0 {
				t.Errorf("store %d has told %v", i, logs[i].Errs)
			}
		}
	})
}

// pair is a store with the engine, and one with a driver.
type pair struct {
	t     *testing.T
	rng   *rand.Rand
	clock *logtest.Clock
	dbs   [2]*copal.DB
}

// same calls f for both, and compares the results.
func (p *pair) same(what string, f func(i int) []any) {
	p.t.Helper()
	var said [2][]any
	for i := range said {
		for _, v := range f(i) {
			if err, is := v.(error); is {
				v = errors.Is(err, copal.ErrNotFound)
			}
			said[i] = append(said[i], v)
		}
	}
	if !reflect.DeepEqual(said[0], said[1]) {
		p.t.Errorf("%s: the engine says %v, the driver %v", what, said[0], said[1])
	}
}

var errRefused = errors.New("the function does not want that")

// steps opens a map in both, and returns a function that does one random thing with it.
func steps[K comparable, V any](p *pair, name string, newKey func() K, newValue func() V, opts ...copal.MapOption) func() {
	var all [2]*copal.Map[K, V]
	for i, db := range p.dbs {
		m, err := copal.OpenMap[K, V](db, name, opts...)
		if err != nil {
			p.t.Fatal(err)
		}
		all[i] = m
	}
	pairs := func(seq iter.Seq2[K, V], sorted bool) []any {
		var list []any
		for k, v := range seq {
			list = append(list, fmt.Sprint(k, " ", v))
		}
		if !sorted {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		}
		return list
	}
	return func() {
		key, other, v := newKey(), newKey(), newValue()
		ttl := time.Duration(1+p.rng.IntN(50)) * time.Minute
		down, decide := p.rng.IntN(2) == 0, p.rng.IntN(5)
		n := p.rng.IntN(22)
		p.same(fmt.Sprintf("%s %d of %v, %v, %v", name, n, key, other, v), func(i int) []any {
			m := all[i].WithContext(p.t.Context())
			w := m
			if down {
				w = m.Backward()
			}
			switch n {
			case 0, 1:
				return []any{m.Set(key, v)}
			case 2:
				return []any{m.SetTTL(key, v, ttl)}
			case 3:
				existed, err := m.Delete(key)
				return []any{existed, err}
			case 4:
				v, err := m.Load(key)
				got, ok := m.Get(key)
				peeked, _ := m.Peek(key)
				return []any{v, err, got, ok, peeked, m.Has(key), m.Len()}
			case 5:
				now, found, err := m.GetOrSet(key, v)
				return []any{now, found, err}
			case 6:
				was, existed, err := m.GetAndDelete(key)
				return []any{was, existed, err}
			case 7, 8, 9:
				now, exists, err := m.Update(key, func(e *copal.Entry[V]) error {
					switch e.Value = v; decide {
					case 1:
						e.Delete()
					case 2:
						e.Cancel()
					case 3:
						e.TTL = ttl
					case 4:
						return errRefused
					}
					return nil
				})
				return []any{now, exists, err != nil, errors.Is(err, errRefused)}
			case 10:
				return []any{m.Expire(key, ttl)}
			case 11:
				return []any{m.Persist(key)}
			case 12:
				left, err := m.TTL(key)
				at, _ := m.Deadline(key)
				return []any{left, err, at}
			case 13:
				return pairs(m.All(), false)
			case 14:
				return pairs(w.From(key), true)
			case 15:
				return pairs(w.Until(key), true)
			case 16:
				return pairs(w.Between(key, other), true)
			case 17:
				return pairs(w.Prefix("1"), true)
			case 18:
				k, v, ok := kit.FirstOf(w.Prefix(""))
				return []any{k, v, ok, slices.Collect(w.KeysBetween(key, other))}
			case 19:
				return []any{m.DeleteRange(key, other)}
			case 20:
				return []any{m.DeletePrefix("11")}
			}
			var list []any
			err := m.Backward().Range(func(k K, v V) error { list = append(list, k, v); return nil })
			return append(list, err, m.SetAsync(key, v), m.Sync())
		})
	}
}

// raw returns a function that does one random thing with raw bytes, or with a single value.
func (p *pair) raw(text func() string) func() {
	return func() {
		key, value := []byte(text()), []byte(fmt.Sprintf("%q", text()))
		switch p.rng.IntN(6) {
		case 0:
			key = append(copal.MapPrefix("texts"), key...)
		case 1:
			key = append(copal.MapPrefix("numbers"), "7"...)
		}
		n := p.rng.IntN(9)
		p.same(fmt.Sprintf("raw %d of %q, %q", n, key, value), func(i int) []any {
			raw := p.dbs[i].Raw()
			switch n {
			case 0:
				if bytes.Contains(key, []byte(":")) {
					return nil // the schema of the value is not the map's then
				}
				return []any{raw.Set(key, value)}
			case 1:
				existed, err := raw.Delete(key)
				return []any{existed, err}
			case 2:
				return []any{raw.Has(key), raw.Len()}
			case 3:
				return []any{slices.Collect(raw.KeysBetween(key, nil)), slices.Collect(kit.KeysWith(raw.Backward(), "numbers:"))}
			case 4:
				return []any{raw.DeleteRange(key, append(key, 'x'))}
			case 5:
				v, err := copal.Load[string](p.dbs[i], string(key))
				return []any{v, err}
			case 6:
				return []any{copal.Set(p.dbs[i], "single", string(value))}
			case 7:
				left, err := raw.TTL(key)
				return []any{left, err}
			}
			return []any{raw.Expire(key, time.Hour), p.dbs[i].Sync()}
		})
	}
}

// TestDrivenRefuses: a verb that a driver does not have is an error that names it, and nothing
// else.
func TestDrivenRefuses(t *testing.T) {
	d := newInMemory(logtest.NewClock())
	var told kit.ErrorLog
	db, err := copal.OpenDriven(d, told.Option())
	if err != nil {
		t.Fatal(err)
	}
	users, err := copal.OpenMap[string, int](db, "users")
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Set("ann", 1); err != nil {
		t.Fatal(err)
	}
	raw, key := db.Raw(), []byte("k")
	errs := map[string]func() error{
		"Snapshot":    func() error { _, err := db.Snapshot(); return err },
		"Update":      func() error { return db.Update(func(*copal.Tx) error { return nil }) },
		"View":        func() error { return db.View(func(*copal.Tx) error { return nil }) },
		"Watch":       func() error { return firstError(db.Watch(t.Context())) },
		"Map.Watch":   func() error { return firstError(users.Watch(t.Context())) },
		"SetInMemory": func() error { return users.SetInMemory("ann", 2) },
		"UpdateInMemory": func() error {
			_, _, err := users.UpdateInMemory("ann", func(*copal.Entry[int]) error { return nil })
			return err
		},
		"Drop":    func() error { return db.Drop("users") },
		"Compact": func() error { return db.Compact(t.Context(), nil) },
		"Refresh": db.Refresh,
		"Backup":  func() error { _, err := db.Backup(t.Context(), t.TempDir()+"/b", nil); return err },
		"Create":  func() error { w, err := raw.Create(key); return errors.Join(err, commit(w)) },
		"Open":    func() error { _, err := raw.Open(key); return err },
		"Hash":    func() error { return raw.Hash(key).Set("f", key) },
		"List":    func() error { return raw.List(key).PushBack(key) },
		"OnExpire": func() error {
			_, err := copal.OpenMap[string, int](db, "x", copal.WithOnExpire(func(string, int) {}))
			return err
		},
		"ExpiryEvents": func() error {
			_, err := copal.OpenMap[string, int](db, "x", copal.ExpiryEvents())
			return err
		},
		"OnExpire of an open map": func() error {
			_, err := copal.OpenMap[string, int](db, "users", copal.WithOnExpire(func(string, int) {}))
			return err
		},
		"ExpiryEvents of an open map": func() error {
			_, err := copal.OpenMap[string, int](db, "users", copal.ExpiryEvents())
			return err
		},
	}
	for name, f := range errs {
		if err := f(); !errors.Is(err, errors.ErrUnsupported) || !strings.HasPrefix(err.Error(), "copal: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := raw.Hash(key).Len(); n != 0 || len(told.Errs) != 1 || !errors.Is(told.Errs[0], errors.ErrUnsupported) {
		t.Errorf("a hash has %d fields; told is %v", n, told.Errs)
	}
	for range db.Maps() {
		t.Error("there are maps")
	}
	if keys := db.Stats().Keys; keys != 0 {
		t.Errorf("%d keys are counted", keys)
	}
	if v, err := users.Load("ann"); v != 1 || err != nil {
		t.Errorf("the map has %d, %v", v, err)
	}

	if _, err := copal.OpenMap[string, int](db, "users", copal.Ordered()); err == nil || !strings.Contains(err.Error(), "is open without Ordered") {
		t.Errorf("an open map is to be in order: %v", err)
	}
	if _, err := copal.OpenMap[string, int](db, "inorder", copal.Ordered()); err != nil {
		t.Errorf("another map is to be in order: %v", err)
	}
	if _, err := copal.OpenMap[string, int](db, "inorder"); err != nil {
		t.Errorf("that map again: %v", err)
	}
	if _, err := copal.OpenMap[string, int](db, "inorder", copal.Ordered()); err != nil {
		t.Errorf("that map in order again: %v", err)
	}

	unsorted, err := copal.OpenDriven(struct{ driver.Driver }{d}, told.Option())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copal.OpenMap[string, int](unsorted, "users", copal.Ordered()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a map in order, of a driver that has none: %v", err)
	}
	told.Errs = nil
	plain, err := copal.OpenMap[string, int](unsorted, "users")
	if err != nil {
		t.Fatal(err)
	}
	if all := maps.Collect(plain.All()); len(all) != 1 || len(told.Errs) != 0 {
		t.Errorf("there is %v, told is %v", all, told.Errs)
	}
	if all := maps.Collect(plain.From("")); len(all) != 0 || len(told.Errs) != 1 || !errors.Is(told.Errs[0], errors.ErrUnsupported) {
		t.Errorf("in order there is %v, told is %v", all, told.Errs)
	}

	if err := errors.Join(users.Close(), users.Close()); err != nil || d.synced == 0 || d.closed {
		t.Errorf("closing a map: %v; synced %d times, closed %v", err, d.synced, d.closed)
	}
	if err := users.Set("ann", 2); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("Set of a closed map: %v", err)
	}
	if err := db.Close(); err != nil || !d.closed {
		t.Errorf("Close: %v; closed %v", err, d.closed)
	}
}

func firstError[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

func commit(w *copal.ValueWriter) error {
	if w == nil {
		return nil
	}
	return w.Commit()
}

// TestDrivenContext: each call gets the context of its handle, and ends with it.
func TestDrivenContext(t *testing.T) {
	var told kit.ErrorLog
	db, err := copal.OpenDriven(newInMemory(logtest.NewClock()), told.Option())
	if err != nil {
		t.Fatal(err)
	}
	users, err := copal.OpenMap[string, int](db, "users")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	late := users.WithContext(ctx)
	if err := late.Set("ann", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	late = late.Backward().With(copal.FSync)
	calls := map[string]func() error{
		"Load":   func() error { _, err := late.Load("ann"); return err },
		"Set":    func() error { return late.Set("ann", 2) },
		"Delete": func() error { _, err := late.Delete("ann"); return err },
		"Update": func() error {
			_, _, err := late.Update("ann", func(*copal.Entry[int]) error { return nil })
			return err
		},
		"Expire":      func() error { return late.Expire("ann", time.Hour) },
		"TTL":         func() error { _, err := late.TTL("ann"); return err },
		"Range":       func() error { return late.Range(func(string, int) error { return nil }) },
		"DeleteRange": func() error { return late.DeleteRange("a", "b") },
		"Get":         func() error { late.Get("ann"); return told.Errs[len(told.Errs)-1] },
		"Len":         func() error { late.Len(); return told.Errs[len(told.Errs)-1] },
		"Raw":         func() error { return db.Raw().WithContext(ctx).Set([]byte("k"), nil) },
	}
	for name, f := range calls {
		if err := f(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, err := users.Load("ann"); v != 1 || err != nil {
		t.Errorf("the entry is %d, %v", v, err)
	}
}

// TestDrivenUpdates: updates among goroutines are all counted, and one that other writes always
// come before ends.
func TestDrivenUpdates(t *testing.T) {
	db, err := copal.OpenDriven(newInMemory(logtest.NewClock()))
	if err != nil {
		t.Fatal(err)
	}
	users, err := copal.OpenMap[string, int](db, "users")
	if err != nil {
		t.Fatal(err)
	}
	const goroutines, times = 8, 200
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for range times {
				if _, _, err := users.Update("n", func(e *copal.Entry[int]) error { e.Value++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n, _ := users.Get("n"); n != goroutines*times {
		t.Errorf("%d of %d updates are counted", n, goroutines*times)
	}
	calls := 0
	_, _, err = users.Update("n", func(e *copal.Entry[int]) error {
		calls++
		e.Value = -1
		return users.Set("n", calls)
	})
	if n, _ := users.Get("n"); err == nil || !strings.HasPrefix(err.Error(), "copal: ") || n != calls {
		t.Errorf("after %d calls there is %d: %v", calls, n, err)
	}
}
