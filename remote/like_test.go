package remote

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/driver"
)

// pair is a store with the engine, and one on a server.
type pair struct {
	t   *testing.T
	rng *rand.Rand
	dbs [2]*copal.DB
}

// same calls f for both, and compares the results. Errors are the same if they are of the same
// kind.
func (p *pair) same(what string, f func(i int) []any) {
	p.t.Helper()
	var said [2][]any
	for i := range said {
		for _, v := range f(i) {
			if err, is := v.(error); is {
				v = "another error: " + err.Error()
				for _, kind := range []error{copal.ErrNotFound, copal.ErrType, errRefused} {
					if errors.Is(err, kind) {
						v = kind.Error()
					}
				}
			}
			said[i] = append(said[i], v)
		}
	}
	if !reflect.DeepEqual(said[0], said[1]) {
		p.t.Errorf("%s:\nthe engine says %v\nthe server     %v", what, said[0], said[1])
	}
}

var errRefused = errors.New("the function does not want that")

// person is a value that is not flat.
type person struct {
	Name string
	Tags []string
	N    int
}

// TestLikeTheEngine: whatever is done with maps, single values and collections, a store on a server
// gives the same results as one in a directory.
func TestLikeTheEngine(t *testing.T) {
	each(t, func(t *testing.T, at target) { likeTheEngine(t, at.driver(t)) })
}

func likeTheEngine(t *testing.T, d driver.Driver) {
	seeds := uint64(4)
	if os.Getenv("COPAL_LONG") == "1" {
		seeds = 100
	}
	for seed := range seeds {
		if t.Run(fmt.Sprint(seed), func(t *testing.T) { scriptLikeTheEngine(t, d, seed) }); t.Failed() {
			return
		}
	}
}

func scriptLikeTheEngine(t *testing.T, d driver.Driver, seed uint64) {
	p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 36))}
	near, err := copal.Open(t.TempDir(), copal.WithErrorHandler(onError(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	p.dbs = [2]*copal.DB{near, store(t, d)}
	if err := p.dbs[1].Raw().Clear(); err != nil {
		t.Fatal(err)
	}
	_, sorted := d.(driver.Sorted)
	text := func() string { return strings.Repeat("k", p.rng.IntN(2)) + fmt.Sprint(p.rng.IntN(8)) }
	odd := func() string { return []string{"", "*", "a[b]", "\\", "a\x00\r\n", "{t}", "ü?", "-^"}[p.rng.IntN(8)] }
	number := func() int { return p.rng.IntN(24) - 12 }
	steps := []func(){
		maps(p, sorted, "texts", text, func() person { return person{text(), []string{text()}, number()} }),
		maps(p, sorted, "odd*[x]", odd, odd),
		maps(p, sorted, "numbers", number, number, copal.WithCodec(codec.Binary), copal.WithTTL(time.Hour)),
		hashes(p, "hash"+tag, number, odd),
		sets(p, "set"+tag, odd),
		lists(p, "list"+tag, odd),
		sortedSets(p, "zset"+tag, text),
		p.crossings("hash"+tag, "set"+tag, "list"+tag, "zset"+tag, "single"+tag),
	}
	for range 250 {
		if steps[p.rng.IntN(len(steps))](); t.Failed() {
			return
		}
	}
}

// tag is in the names of keys that a cluster must keep together.
const tag = "{t}"

// unordered are pairs as text, in an order of their own.
func unordered[K, V any](seq iter.Seq2[K, V]) []any {
	list := ordinary(seq)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return list
}

// ordinary are pairs as text, in the order in which they come.
func ordinary[K, V any](seq iter.Seq2[K, V]) []any {
	list := []any{}
	for k, v := range seq {
		list = append(list, fmt.Sprintf("%v %v", k, v))
	}
	return list
}

func anys[V any](seq iter.Seq[V], sorted bool) []any {
	list := []any{}
	for v := range seq {
		list = append(list, fmt.Sprint(v))
	}
	if sorted {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	}
	return list
}

// maps opens a map in both, and returns a function that does one random thing with it.
func maps[K comparable, V any](p *pair, sorted bool, name string, newKey func() K, newValue func() V, opts ...copal.MapOption) func() {
	var all [2]*copal.Map[K, V]
	for i, db := range p.dbs {
		m, err := copal.OpenMap[K, V](db, name, opts...)
		if err != nil {
			p.t.Fatal(err)
		}
		all[i] = m
	}
	// All deadlines are far in the future, and exact.
	deadline := func() time.Time { return time.UnixMilli(4_000_000_000_000 + p.rng.Int64N(1000)) }
	return func() {
		key, other, v, until := newKey(), newKey(), newValue(), deadline()
		decide, n := p.rng.IntN(5), p.rng.IntN(22)
		down := p.rng.IntN(2) == 0
		p.same(fmt.Sprintf("%s %d of %v, %v, %v", name, n, key, other, v), func(i int) []any {
			m := all[i].WithContext(p.t.Context())
			w := m
			if down {
				w = m.Backward()
			}
			hasTTL := func() []any {
				at, err := m.Deadline(key)
				if at.Year() < 2050 && !at.IsZero() {
					at = time.UnixMilli(1) // from now on, and so not exact
				}
				return []any{at.UnixMilli(), err}
			}
			switch n {
			case 0, 1:
				return []any{m.Set(key, v)}
			case 2:
				return []any{m.SetUntil(key, v, until)}
			case 3:
				existed, err := m.Delete(key)
				return []any{existed, err}
			case 4:
				v, err := m.Load(key)
				got, ok := m.Get(key)
				return []any{v, err, got, ok, m.Has(key), m.Len()}
			case 5:
				now, found, err := m.GetOrSet(key, v)
				return append(hasTTL(), now, found, err)
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
						e.TTL = time.Hour
					case 4:
						return errRefused
					}
					return nil
				})
				return append(hasTTL(), now, exists, err)
			case 10:
				return []any{m.ExpireAt(key, until)}
			case 11:
				return []any{m.Persist(key)}
			case 12:
				return hasTTL()
			case 13, 14:
				return append(unordered(m.All()), anys(m.Keys(), true)...)
			case 15:
				return []any{m.DeleteRange(key, other), m.Len()}
			case 16:
				return []any{m.DeletePrefix("1"), m.Len()}
			case 17:
				return []any{m.Expire(key, -time.Second), m.Has(key)}
			case 18:
				return []any{m.SetAsync(key, v)}
			}
			if !sorted {
				return nil
			}
			switch n {
			case 19:
				return append(ordinary(w.From(key)), ordinary(w.Until(key))...)
			case 20:
				return append(ordinary(w.Between(key, other)), ordinary(w.Prefix("1"))...)
			}
			return anys(w.KeysBetween(key, other), false)
		})
	}
}

func hashes[F comparable, V any](p *pair, key string, newField func() F, newValue func() V) func() {
	var all [2]*copal.HashOf[F, V]
	for i, db := range p.dbs {
		all[i], _ = copal.OpenHash[F, V](db, key)
	}
	return func() {
		f, g, v, w := newField(), newField(), newValue(), newValue()
		decide, n, again := p.rng.IntN(5), p.rng.IntN(9), p.rng.IntN(2) == 0
		p.same(fmt.Sprintf("%s %d of %v, %v, %v", key, n, f, g, v), func(i int) []any {
			h := all[i]
			switch n {
			case 0, 1:
				return []any{h.Set(f, v)}
			case 2:
				return []any{h.SetAll(map[F]V{f: v, g: w})}
			case 3:
				existed, err := h.Delete(f, g)
				return []any{existed, err}
			case 4:
				v, err := h.Load(f)
				return []any{v, err, h.Has(g), h.Len()}
			case 5:
				return unordered(h.All())
			case 6:
				return append(ordinary(h.Between(f, g)), ordinary(h.Backward().From(f))...)
			case 7:
				existed, err := h.Clear()
				if again {
					err = errors.Join(err, h.Set(f, v))
				}
				return []any{existed, err}
			}
			now, exists, err := h.Update(f, func(e *copal.Entry[V]) error {
				switch e.Value = v; decide {
				case 1:
					e.Delete()
				case 2:
					e.Cancel()
				case 4:
					return errRefused
				}
				return nil
			})
			return []any{now, exists, err}
		})
	}
}

func sets[M comparable](p *pair, key string, newMember func() M) func() {
	var all [2]*copal.SetOf[M]
	for i, db := range p.dbs {
		all[i], _ = copal.OpenSet[M](db, key)
	}
	return func() {
		a, b, n := newMember(), newMember(), p.rng.IntN(5)
		p.same(fmt.Sprintf("%s %d of %v, %v", key, n, a, b), func(i int) []any {
			s := all[i]
			switch n {
			case 0, 1:
				added, err := s.Add(a, b)
				return []any{added, err}
			case 2:
				existed, err := s.Delete(a, b)
				return []any{existed, err}
			case 3:
				return []any{s.Has(a), s.Len()}
			}
			return anys(s.All(), true)
		})
	}
}

func lists[V any](p *pair, key string, newValue func() V) func() {
	var all [2]*copal.ListOf[V]
	for i, db := range p.dbs {
		all[i], _ = copal.OpenList[V](db, key)
	}
	return func() {
		v, w, n := newValue(), newValue(), p.rng.IntN(12)
		index, other := p.rng.IntN(14)-5, p.rng.IntN(9)-2
		p.same(fmt.Sprintf("%s %d of %v, %v at %d, %d", key, n, v, w, index, other), func(i int) []any {
			l := all[i]
			switch n {
			case 0, 1:
				return []any{l.PushBack(v, w)}
			case 2:
				length, err := l.Push(true, v, w)
				return []any{length, err}
			case 3:
				v, ok, err := l.PopFront()
				return []any{v, ok, err}
			case 4:
				v, ok, err := l.PopBack()
				return []any{v, ok, err}
			case 5:
				v, err := l.Load(index)
				return []any{v, err, l.Len()}
			case 6, 7:
				return []any{l.Insert(index, v, w)}
			case 8:
				return []any{l.Set(index, v)}
			case 9:
				return []any{l.DeleteRange(index, index+other)}
			case 10:
				return append(anys(l.Between(index, index+other), false), anys(l.Backward().Between(index, other), false)...)
			}
			return anys(l.All(), false)
		})
	}
}

func sortedSets[M comparable](p *pair, key string, newMember func() M) func() {
	var all [2]*copal.SortedSetOf[M]
	for i, db := range p.dbs {
		all[i], _ = copal.OpenSortedSet[M](db, key)
	}
	scores := []float64{-1e300, -2.5, 0, 1, 1.0 / 3, 2, 1e17}
	return func() {
		a, b, n := newMember(), newMember(), p.rng.IntN(12)
		x, y := scores[p.rng.IntN(len(scores))], scores[p.rng.IntN(len(scores))]
		from, to, down := p.rng.IntN(6), p.rng.IntN(8), p.rng.IntN(2) == 0
		p.same(fmt.Sprintf("%s %d of %v, %v, %v, %v", key, n, a, b, x, y), func(i int) []any {
			s := all[i]
			if down {
				s = s.Backward()
			}
			switch n {
			case 0, 1:
				return []any{s.Set(a, x)}
			case 2:
				return []any{s.SetAll(map[M]float64{a: x, b: y})}
			case 3:
				existed, err := s.Delete(a, b)
				return []any{existed, err}
			case 4:
				score, err := s.Load(a)
				rank, ok := s.Rank(a)
				return []any{score, err, rank, ok, s.Len(), s.Count(x, y)}
			case 5:
				return ordinary(s.Between(x, y))
			case 6:
				return append(ordinary(s.From(x)), ordinary(s.Until(y))...)
			case 7:
				return ordinary(s.Ranked(from, to))
			case 8:
				m, score, ok, err := s.PopMin()
				return []any{m, score, ok, err}
			case 9:
				m, score, ok, err := s.PopMax()
				return []any{m, score, ok, err}
			case 10:
				score, exists, err := s.Update(a, func(e *copal.Entry[float64]) error { e.Value += x; return nil })
				return []any{score, exists, err}
			}
			return ordinary(s.All())
		})
	}
}

// crossings returns a function that does one random thing with a key as a whole, or with a key as
// another type.
func (p *pair) crossings(keys ...string) func() {
	return func() {
		key, other, n := keys[p.rng.IntN(len(keys))], keys[p.rng.IntN(len(keys))], p.rng.IntN(9)
		p.same(fmt.Sprintf("%d of %q, %q", n, key, other), func(i int) []any {
			raw := p.dbs[i].Raw()
			switch n {
			case 0:
				v, err := copal.Load[string](p.dbs[i], key)
				return []any{v, err}
			case 1:
				return []any{copal.Set(p.dbs[i], "single"+tag, "value")}
			case 2:
				existed, err := raw.Delete([]byte(key))
				return []any{existed, err}
			case 3:
				of, err := raw.Type([]byte(key))
				return []any{of, err, raw.Has([]byte(key))}
			case 4:
				added, err := raw.StringSet([]byte(key)).Add("m")
				if key != "set"+tag {
					return []any{added, err}
				}
				return []any{err}
			case 5:
				if key == "list"+tag || key == "single"+tag {
					return []any{raw.List([]byte(key)).Len()}
				}
				err := raw.SortedSet([]byte(key)).Rename("zset" + tag)
				return []any{err}
			case 6:
				return []any{raw.ExpireAt([]byte(key), time.UnixMilli(4_000_000_000_000)), raw.Persist([]byte(key))}
			case 7:
				existed, err := raw.Hash([]byte(key)).Clear()
				return []any{existed, err}
			}
			_, err := raw.SortedSet([]byte(key)).Load("m")
			return []any{err}
		})
	}
}
