package engine

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// countPassed counts the elements that walks come by, until the test ends.
func countPassed(t *testing.T) func() int {
	n, before := 0, elementPassed
	t.Cleanup(func() { elementPassed = before })
	elementPassed = func() { n++ }
	return func() (passed int) { passed, n = n, 0; return passed }
}

// rankModel has a hash, of which the elements of a span are counted, beside others whose elements stand before
// and behind.
type rankModel struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *Store
	content map[string]bool
}

func (m *rankModel) sub() string { return fmt.Sprintf("%03d", m.rng.IntN(1+m.rng.IntN(400))) }

func (m *rankModel) want(r Collections, content map[string]bool) {
	m.t.Helper()
	sp := Span{LowOpen: m.rng.IntN(2) == 0, HighOpen: m.rng.IntN(2) == 0}
	if m.rng.IntN(3) > 0 {
		sp.Low = []byte(m.sub())
	}
	if m.rng.IntN(3) > 0 {
		sp.High = []byte(m.sub())
	}
	var want []string
	for _, sub := range slices.Sorted(maps.Keys(content)) {
		if sp.Has([]byte(sub)) {
			want = append(want, sub)
		}
	}
	if n, err := r.CountIn([]byte("h"), HashType, sp); err != nil || n != int64(len(want)) {
		m.t.Fatalf("CountIn(%q, %v, %q, %v) = %d, %v, want %d", sp.Low, sp.LowOpen, sp.High, sp.HighOpen, n, err, len(want))
	}
	if m.rng.IntN(2) == 0 {
		return
	}
	if sp.Down = m.rng.IntN(2) == 0; sp.Down {
		slices.Reverse(want)
	}
	skip, got := m.rng.IntN(len(want)+10), []string(nil)
	if m.rng.IntN(9) == 0 {
		skip = math.MaxInt
	}
	for item := range r.Behind([]byte("h"), HashType, sp, int64(skip), false) {
		if item.Err != nil {
			m.t.Fatal(item.Err)
		}
		got = append(got, string(item.Key))
	}
	if want = want[min(skip, len(want)):]; !slices.Equal(got, want) {
		m.t.Fatalf("%d behind in %+v: %q, want %q", skip, sp, got, want)
	}
}

func (m *rankModel) open() {
	m.s = mustOpen(m.t, m.mem, func(o *Options) {
		o.SegmentBytes = 4000
		o.NoSnapshot = m.rng.IntN(4) == 0
		o.Inline = m.rng.IntN(2) == 0
	})
}

// Counts are those of a model, while elements come and go, are folded, snapshots of the index are taken, the
// process ends and dies; of views, of transactions that have changed elements, and of the store; and so are the
// elements behind the first so many.
func TestCountsAgainstAModel(t *testing.T) {
	fewMarks(t, 20)
	seeds := uint64(8)
	if longTest() {
		seeds = 300
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		m := &rankModel{t: t, rng: rand.New(rand.NewPCG(seed, 41)), mem: vfs.NewMem(), content: map[string]bool{}}
		m.open()
		mustChange(t, m.s, "before", hset("a", "", "b", ""))
		mustChange(t, m.s, "h", hset("x", "")) // so that the id stays
		m.content["x"] = true
		mustChange(t, m.s, "behind", hset("a", "", "b", ""))
		var v *View
		var viewed map[string]bool
		closeView := func() {
			if v != nil {
				v.Close()
			}
			v = nil
		}
		for range 600 {
			switch m.rng.IntN(20) {
			case 0:
				closeView()
				v, viewed = mustView(t, m.s), maps.Clone(m.content)
			case 1:
				if v != nil {
					m.want(v.Collections(), viewed)
				}
			case 2:
				if m.rng.IntN(4) == 0 {
					closeView()
					mustClose(t, m.s)
					m.open()
				}
			case 3:
				if m.rng.IntN(4) == 0 {
					closeView()
					m.mem = m.mem.ProcessCrash()
					m.s.Close()
					m.open()
				}
			case 4:
				if o := m.s.spaces[0].elements.order.Load(); o != nil {
					if err := o.fold(m.rng.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
				}
			case 5:
				own := maps.Clone(m.content)
				if err := m.s.Transact(Process, func(tx *Tx) error {
					m.want(tx.Collections(), own)
					sub := m.sub()
					own[sub] = true
					if err := tx.Change([]byte("h"), HashType, func(*Plan) ([]*Edit, error) { return hset(sub, "tx"), nil }); err != nil {
						return err
					}
					m.want(tx.Collections(), own)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				m.content = own
			case 6, 7, 8:
				m.want(m.s.Collections(), m.content)
			default:
				sub := m.sub()
				if m.content[sub] {
					mustChange(t, m.s, "h", hdel(sub))
					delete(m.content, sub)
				} else {
					mustChange(t, m.s, "h", hset(sub, ""))
					m.content[sub] = true
				}
			}
		}
		closeView()
		mustClose(t, m.s)
	}
}

// To count what a view, a transaction or a reader has, no element is walked over, either, and what stands in a
// file that is damaged is counted in another way.
func TestCountsWalkNowhere(t *testing.T) {
	fewMarks(t, 50)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 1000 {
		mustChange(t, s, "h", hset(fmt.Sprintf("%04d", i), ""))
		if i%300 == 0 {
			if err := s.spaces[0].elements.order.Load().fold(true); err != nil {
				t.Fatal(err)
			}
		}
	}
	passed := countPassed(t)
	want := func(what string, r Collections) {
		t.Helper()
		if n, err := r.CountIn([]byte("h"), HashType, Span{High: []byte("0777"), HighOpen: true}); n != 777 || err != nil {
			t.Errorf("%s: %d, %v", what, n, err)
		}
		if n := passed(); n != 0 {
			t.Errorf("%s: %d elements are walked over", what, n)
		}
		for item := range r.Behind([]byte("h"), HashType, Span{}, 777, false) {
			if string(item.Key) != "0777" || item.Err != nil {
				t.Errorf("%s: behind 777 there is %q, %v", what, item.Key, item.Err)
			}
			break
		}
		if n := passed(); n > 300 {
			t.Errorf("%s: %d elements are walked over to come to one", what, n)
		}
	}
	v := mustView(t, s)
	want("store", s.Collections())
	mustChange(t, s, "h", append(hdel("0001"), hset("0001a", "")...))
	passed() // it has looked for one that is left
	want("view", v.Collections())
	v.Close()
	if err := s.Transact(Process, func(tx *Tx) error { want("transaction", tx.Collections()); return nil }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
	want("reader", s.Collections())
	mustClose(t, s)

	var told []error
	s = mustOpen(t, mem, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
	defer mustClose(t, s)
	for _, name := range runsOf(t, mem) {
		logtest.Change(t, mem, "db/"+name, func(f vfs.File) error { return logtest.Flip(f, 250, 0) })
	}
	if n, err := s.Collections().CountIn([]byte("h"), HashType, Span{High: []byte("0777"), HighOpen: true}); n != 777 || err != nil {
		t.Errorf("with a damaged run: %d, %v", n, err)
	}
}

// TestCountsOfAViewFoldNothing: layers that were kept for a view, and cannot tell, stay as they are: no count folds
// what there is now for them.
func TestCountsOfAViewFoldNothing(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for i := range 10 {
		mustChange(t, s, "h", hset(fmt.Sprint(i), ""))
	}
	o := s.spaces[0].elements.order.Load()
	o.mu.Lock()
	o.layers.mark([]byte("ff:unknown"), true, false) // as recovery does
	o.mu.Unlock()
	v := mustView(t, s)
	defer v.Close()
	mustChange(t, s, "h", hset("behind the view", ""))
	before := o.folds
	for range 5 {
		if n, err := v.Collections().CountIn([]byte("h"), HashType, Span{}); n != 10 || err != nil {
			t.Fatalf("the view has %d elements, %v", n, err)
		}
	}
	if o.folds != before {
		t.Error("counts of a view have folded what there is now")
	}
	if n, err := s.Collections().CountIn([]byte("h"), HashType, Span{}); n != 11 || err != nil || o.folds == before {
		t.Errorf("the store has %d elements, %v; folded: %v", n, err, o.folds != before)
	}
}

// TestIndexesOfAReplacedCollection: a key that always has a collection always has a number and indexes, also while
// another one is moved over it and the elements of the former go.
func TestIndexesOfAReplacedCollection(t *testing.T) {
	defer func() { rankLooked = func() {} }()
	looks := map[string]func(r Collections) bool{
		"CountIn": func(r Collections) bool {
			n, err := r.CountIn([]byte("h"), HashType, Span{})
			return n == 3 && err == nil
		},
		"At": func(r Collections) bool {
			_, sub, err := r.At([]byte("h"), HashType, Span{}, 2)
			return string(sub) == "c" && err == nil
		},
		"Part": func(r Collections) bool {
			span, ok, err := r.Part([]byte("h"), HashType, 1, 3)
			return ok && err == nil && string(span.Low) == "b" && string(span.High) == "c"
		},
	}
	for name, look := range looks {
		s := mustOpen(t, vfs.NewMem())
		fill := func(key string) {
			mustChange(t, s, key, append(append(hset("a", "1"), hset("b", "2")...), hset("c", "3")...))
		}
		fill("h")
		once := true
		rankLooked = func() {
			if !once {
				return
			}
			once = false
			fill("t")
			if err := s.Rename([]byte("t"), []byte("h"), HashType, Process); err != nil {
				t.Error(err)
			}
			if err := s.Sweep(); err != nil {
				t.Error(err)
			}
		}
		if !look(s.Collections()) {
			t.Errorf("%s misses the collection", name)
		}
	}
}
