package collections

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// collectionsModel has the expected elements of a set, a list and a sorted set.
type collectionsModel struct {
	set    map[int]bool
	list   []string
	scores map[string]float64
}

// TestCollectionsAgainstAModel compares random changes of a set, a list and a sorted set with a
// map, a slice and a map, among reopenings.
func TestCollectionsAgainstAModel(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 5))
	m := collectionsModel{map[int]bool{}, nil, map[string]float64{}}
	for range 4 {
		db, err := copal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		set, err1 := copal.OpenSet[int](db, "set")
		list, err2 := copal.OpenList[string](db, "list")
		scores, err3 := copal.OpenSortedSet[string](db, "scores")
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for i := range 150 {
			m.changeSet(t, rng, set)
			m.changeList(t, rng, list)
			m.changeScores(t, rng, scores)
			if t.Failed() {
				t.Fatalf("at step %d", i)
			}
			if i%10 == 0 {
				m.compare(t, set, list, scores)
			}
		}
		m.compare(t, set, list, scores)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *collectionsModel) changeSet(t *testing.T, rng *rand.Rand, set *copal.SetOf[int]) {
	a, b := rng.IntN(30)-10, rng.IntN(30)-10
	want := 0
	for i, n := range []int{a, b} {
		if (i == 0 || a != b) && m.set[n] == (a > 5) {
			want++
		}
	}
	var got int
	var err error
	if a > 5 {
		got, err = set.Delete(a, b)
		delete(m.set, a)
		delete(m.set, b)
	} else {
		got, err = set.Add(a, b)
		m.set[a], m.set[b] = true, true
	}
	if got != want || err != nil {
		t.Errorf("changing %d and %d changes %d, %v, want %d", a, b, got, err, want)
	}
}

func (m *collectionsModel) changeList(t *testing.T, rng *rand.Rand, list *copal.ListOf[string]) {
	word := fmt.Sprint("word ", rng.IntN(1000))
	var err error
	pop := func(front bool) {
		f, at := list.PopBack, len(m.list)-1
		if front {
			f, at = list.PopFront, 0
		}
		v, ok, e := f()
		if err = e; ok != (len(m.list) > 0) || ok && v != m.list[at] {
			t.Errorf("popped %q, %v of %q", v, ok, m.list)
		}
		if ok {
			m.list = slices.Delete(m.list, at, at+1)
		}
	}
	switch at := rng.IntN(12) - 4; rng.IntN(12) {
	case 0, 1:
		var n int
		n, err = list.Push(false, word, "and")
		if m.list = append(m.list, word, "and"); err == nil && n != len(m.list) {
			err = fmt.Errorf("Push returns %d, the list has %d elements", n, len(m.list))
		}
	case 2, 3:
		err = list.PushFront(word, "before")
		m.list = append([]string{"before", word}, m.list...)
	case 4, 5:
		pop(true)
	case 6:
		pop(false)
	case 7:
		index := at
		if at < 0 {
			index += len(m.list)
		}
		if err = list.Set(at, word); index >= 0 && index < len(m.list) {
			m.list[index] = word
		} else if errors.Is(err, copal.ErrNotFound) {
			err = nil
		} else {
			t.Errorf("setting what is not there: %v", err)
		}
	case 8:
		from := rng.IntN(len(m.list) + 1)
		to := min(from+rng.IntN(4), len(m.list))
		err = list.DeleteRange(from, to)
		m.list = slices.Delete(m.list, from, to)
	case 9, 10, 11:
		index := rng.IntN(len(m.list) + 1)
		if at < 0 { // where many went before
			index = len(m.list) / 2
		}
		at := index
		if at < len(m.list) && rng.IntN(2) == 0 {
			at -= len(m.list)
		}
		err = list.Insert(at, word, "inserted")
		m.list = slices.Insert(m.list, index, word, "inserted")
	}
	if err != nil {
		t.Error(err)
	}
}

func (m *collectionsModel) changeScores(t *testing.T, rng *rand.Rand, scores *copal.SortedSetOf[string]) {
	name := fmt.Sprint("name ", rng.IntN(20))
	score := []float64{0, math.Copysign(0, -1), -1, 1, 1.5, 1e300, math.Inf(1), math.Inf(-1), rng.NormFloat64()}[rng.IntN(9)]
	old, had := m.scores[name]
	switch rng.IntN(4) {
	case 0, 1:
		m.scores[name] = score
		if err := scores.Set(name, score); err != nil {
			t.Errorf("setting %q: %v", name, err)
		}
	case 2:
		m.scores[name] = old + 2
		found := false
		now, exists, err := scores.Update(name, func(e *copal.Entry[float64]) error {
			found = e.Exists
			e.Value += 2
			return nil
		})
		if now != old+2 || !exists || found != had || err != nil {
			t.Errorf("updating %q: %v, %v, %v, found %v, want %v, found %v", name, now, exists, err, found, old+2, had)
		}
	case 3:
		delete(m.scores, name)
		if n, err := scores.Delete(name, name); (n == 1) != had || err != nil {
			t.Errorf("removing %q: %d, %v", name, n, err)
		}
	}
}

func (m *collectionsModel) compare(t *testing.T, set *copal.SetOf[int], list *copal.ListOf[string], scores *copal.SortedSetOf[string]) {
	t.Helper()
	members := slices.Sorted(maps.Keys(m.set))
	if got := slices.Collect(set.All()); !slices.Equal(got, members) || set.Len() != len(members) {
		t.Errorf("the set is %v, counted %d, want %v", got, set.Len(), members)
	}
	if got := slices.Collect(set.From(0)); !slices.Equal(got, slices.DeleteFunc(members, func(n int) bool { return n < 0 })) {
		t.Errorf("the set from 0 on is %v", got)
	}
	if got := slices.Collect(list.All()); !slices.Equal(got, m.list) || list.Len() != len(m.list) {
		t.Errorf("the list is %q, counted %d, want %q", got, list.Len(), m.list)
	}
	for i, word := range m.list {
		front, err1 := list.Load(i)
		back, err2 := list.Load(i - len(m.list))
		if front != word || back != word || err1 != nil || err2 != nil {
			t.Errorf("element %d is %q, %v, and from behind %q, %v", i, front, err1, back, err2)
		}
	}
	for _, span := range [][2]int{{0, 3}, {-3, 100}, {2, -1}, {5, 2}} {
		from, to := span[0], span[1]
		if from < 0 {
			from = max(from+len(m.list), 0)
		}
		if to < 0 {
			to += len(m.list)
		}
		to = min(max(to, 0), len(m.list))
		if got := slices.Collect(list.Between(span[0], span[1])); !slices.Equal(got, m.list[min(from, max(to, 0)):to]) {
			t.Errorf("elements %v of %q are %q", span, m.list, got)
		}
	}
	m.compareScores(t, scores)
}

func (m *collectionsModel) compareScores(t *testing.T, scores *copal.SortedSetOf[string]) {
	t.Helper()
	names := slices.SortedFunc(maps.Keys(m.scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.scores[a], m.scores[b]), cmp.Compare(a, b))
	})
	var got []string
	for name, score := range scores.All() {
		if got = append(got, name); score != m.scores[name] {
			t.Errorf("%q has the score %v, want %v", name, score, m.scores[name])
		}
	}
	if !slices.Equal(got, names) || scores.Len() != len(names) {
		t.Errorf("the order is %q, counted %d, want %q", got, scores.Len(), names)
	}
	for rank, name := range names {
		if r, ok := scores.Rank(name); r != rank || !ok {
			t.Errorf("%q has rank %d, want %d", name, r, rank)
		}
	}
	keys := func(list func(func(string, float64) bool)) (keys []string) {
		for name := range list {
			keys = append(keys, name)
		}
		return keys
	}
	low, high := min(3, len(names)), min(6, len(names))
	if got := keys(scores.Ranked(3, 6)); !slices.Equal(got, names[low:high]) {
		t.Errorf("ranks 3 to 6 are %q of %q", got, names)
	}
	slices.Reverse(names)
	if got := keys(scores.Backward().All()); !slices.Equal(got, names) {
		t.Errorf("backward it is %q, want %q", got, names)
	}
	slices.Reverse(names)
	within := slices.DeleteFunc(names, func(name string) bool { return m.scores[name] < -1 || m.scores[name] >= 1.5 })
	if got := keys(scores.Between(-1, 1.5)); !slices.Equal(got, within) {
		t.Errorf("in [-1, 1.5) are %q, want %q", got, within)
	}
}

// TestListIsAQueue: some goroutines push and others pop, each element once and in order.
func TestListIsAQueue(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	list, err := copal.OpenList[[2]int](db, "queue")
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 100
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := list.PushBack([2]int{w, i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	popped := map[[2]int]bool{}
	for range 2 {
		all.Go(func() {
			last := [writers]int{-1, -1, -1, -1}
			for n := 0; n < writers*each/2 && !t.Failed(); {
				v, ok, err := list.PopFront()
				if err != nil {
					t.Error(err)
				}
				if !ok {
					continue
				}
				n++
				if v[1] <= last[v[0]] {
					t.Errorf("%v comes behind %d", v, last[v[0]])
				}
				last[v[0]] = v[1]
				mu.Lock()
				popped[v] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(popped) != writers*each || list.Len() != 0 {
		t.Errorf("%d popped, %d left", len(popped), list.Len())
	}
}

// TestSortedSetCountsEveryUpdate: changes of one member by many at once, which each follow from the
// score before.
func TestSortedSetCountsEveryUpdate(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := copal.OpenSortedSet[string](db, "s")
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 50
	more := func(e *copal.Entry[float64]) error { e.Value++; return nil }
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range each {
				var err error
				if w%2 == 0 {
					_, _, err = s.Update("shared", more)
				} else {
					err = db.Update(func(tx *copal.Tx) error { _, _, err := s.In(tx).Update("shared", more); return err })
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := maps.Collect(s.All()); !maps.Equal(got, map[string]float64{"shared": writers * each}) || s.Len() != 1 {
		t.Errorf("it is %v, of %d", got, s.Len())
	}
}

// TestSortedSetCornerCases: no score is NaN, also by way of infinities, and members that are one
// key are one member.
func TestSortedSetCornerCases(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := copal.OpenSortedSet[time.Time](db, "s")
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1e12)
	if err := s.Set(now, math.NaN()); err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("NaN: %v", err)
	}
	if s.Len() != 0 {
		t.Errorf("it has %d members", s.Len())
	}
	for range 10 { // in any order
		if err := s.SetAll(map[time.Time]float64{now: 1, now.Add(1): 2, now.Add(2): math.NaN()}); err == nil || errors.Is(err, copal.ErrType) || s.Len() != 0 {
			t.Errorf("with NaN: %v, %d members", err, s.Len())
		}
	}
	err = s.SetAll(map[time.Time]float64{now.UTC(): math.Inf(1), now.In(time.FixedZone("", 3600)): math.Inf(1)})
	if err != nil || s.Len() != 1 {
		t.Errorf("one instant in two zones: %v, %d members", err, s.Len())
	}
	less := func(e *copal.Entry[float64]) error { e.Value += math.Inf(-1); return nil }
	if score, exists, err := s.Update(now, less); score != 0 || exists || err == nil || errors.Is(err, copal.ErrType) {
		t.Errorf("infinity less infinity: %v, %v", score, err)
	}
	for _, bounds := range [][2]float64{{math.NaN(), math.Inf(1)}, {math.Inf(-1), math.NaN()}, {math.NaN(), math.NaN()}} {
		for m := range s.Between(bounds[0], bounds[1]) {
			t.Errorf("between %v there is %v", bounds, m)
		}
	}
	if score, ok := s.Get(now); score != math.Inf(1) || !ok {
		t.Errorf("the score is %v, %v", score, ok)
	}
	if n, err := db.Raw().Delete([]byte("s")); !n || err != nil {
		t.Errorf("deleting it as any entry: %v, %v", n, err)
	}
	if _, ok := s.Rank(now); ok || s.Len() != 0 {
		t.Errorf("it is still there, with %d members", s.Len())
	}
}

// TestCollectionsInATransaction: all kinds of them with values, seen from within, and from outside
// only when it has committed.
func TestCollectionsInATransaction(t *testing.T) {
	var told []error
	db, err := copal.OpenMemory(copal.WithErrorHandler(func(err error) { told = append(told, err) }))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	hash, err1 := copal.OpenHash[string, int](db, "hash")
	list, err2 := copal.OpenList[string](db, "list")
	set, err3 := copal.OpenSet[int](db, "set")
	scores, err4 := copal.OpenSortedSet[string](db, "scores")
	if err := errors.Join(err1, err2, err3, err4, hash.Set("old", 1), list.PushBack("x", "y")); err != nil {
		t.Fatal(err)
	}
	raw := db.Raw().Hash([]byte("raw"))
	errNo := errors.New("no")
	for _, want := range []error{errNo, nil} {
		err := db.Update(func(tx *copal.Tx) error {
			h, l, s, z := hash.In(tx), list.In(tx), set.In(tx), scores.In(tx)
			_, _, err1 := h.Update("n", func(u *copal.Entry[int]) error { u.Value += 5; return nil })
			_, err2 := h.Delete("old")
			word, ok, err3 := l.PopFront()
			_, err4 := s.Add(3, 1, 2)
			err5 := z.SetAll(map[string]float64{word: 2, "z": 1})
			err6 := raw.In(tx).Set("f", []byte("v"))
			err7 := db.Raw().List([]byte("list")).In(tx).PushBack([]byte(`"raw"`))
			if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, tx.Raw().Set([]byte("value"), nil)); err != nil {
				return err
			}
			_, ranked := z.Rank(word)
			n, _ := h.Get("n")
			if !ok || word != "x" || n != 5 || h.Len() != 1 || l.Len() != 2 || s.Len() != 3 || !ranked || z.Len() != 2 {
				t.Errorf("within it is %q, %d, %d, %d, %d", word, n, h.Len(), l.Len(), s.Len())
			}
			if got := fmt.Sprint(slices.Collect(l.All()), slices.Collect(s.All()), maps.Collect(h.All()), maps.Collect(z.Between(0, 5))); got != "[y raw] [1 2 3] map[n:5] map[x:2 z:1]" {
				t.Errorf("within there is %s", got)
			}
			if hash.Has("n") || set.Len() != 0 || list.Len() != 2 {
				t.Error("it shows before it has committed")
			}
			return want
		})
		if err != want {
			t.Fatalf("Update: %v", err)
		}
		if want != nil && (hash.Len() != 1 || list.Len() != 2 || set.Len() != 0 || scores.Len() != 0 || raw.Len() != 0) {
			t.Error("something is left of what was given up")
		}
	}
	if got := fmt.Sprint(slices.Collect(list.All()), slices.Collect(set.All()), maps.Collect(hash.All()), maps.Collect(scores.All())); got != "[y raw] [1 2 3] map[n:5] map[x:2 z:1]" {
		t.Errorf("there is %s", got)
	}
	if err := db.Update(func(tx *copal.Tx) error {
		_, err := hash.In(tx).Clear()
		return errors.Join(err, set.In(tx).Rename("hash"), list.In(tx).Expire(time.Hour), scores.In(tx).Persist())
	}); err != nil {
		t.Fatal(err)
	}
	if left, err := list.TTL(); left < time.Minute*59 || err != nil {
		t.Errorf("the list has %v left, %v", left, err)
	}
	told = nil
	if _, ok := hash.Get("n"); ok || len(told) != 1 || !errors.Is(told[0], copal.ErrType) {
		t.Errorf("a set in the place of the hash: %v", told)
	}
	if err := db.View(func(tx *copal.Tx) error { return list.In(tx).PushBack("z") }); !errors.Is(err, copal.ErrTxReadOnly) {
		t.Errorf("a push where is only read: %v", err)
	}
	if err := db.Update(func(tx *copal.Tx) error { hash.In(tx).Has("n"); return nil }); !errors.Is(err, copal.ErrType) {
		t.Errorf("a read that cannot return its error: %v", err)
	}
	var late *copal.ListOf[string]
	if err := db.Update(func(tx *copal.Tx) error { late = list.In(tx); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := late.PushBack("late"); !errors.Is(err, copal.ErrTxDone) {
		t.Errorf("a push when it is over: %v", err)
	}
	other, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Update(func(tx *copal.Tx) error { return list.In(tx).PushBack("x") }); !errors.Is(err, copal.ErrHandle) {
		t.Errorf("a transaction of another store: %v", err)
	}
	// Walks over values leave collections out, and report them except in a transaction.
	told = nil
	var keys []string
	for key := range db.Raw().Prefix(nil) {
		keys = append(keys, string(key))
	}
	if err := db.View(func(tx *copal.Tx) error {
		for key := range tx.Raw().Prefix(nil) {
			keys = append(keys, string(key))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if s, err := db.Snapshot(); err != nil {
		t.Error(err)
	} else {
		for key := range s.Raw().Prefix(nil) {
			keys = append(keys, string(key))
		}
		s.Close()
	}
	if n := len(slices.Collect(db.Raw().Keys())); !slices.Equal(keys, []string{"value", "value", "value"}) || n != 5 || len(told) != 2*4 {
		t.Errorf("the values are %q, of %d keys; %v", keys, n, told)
	}
	for _, err := range told {
		if is := (*copal.CollectionError)(nil); !errors.As(err, &is) {
			t.Errorf("what is no value: %v", err)
		}
	}
}

// A transaction that removes absent elements changes nothing: no record is written, and no watch
// yields a change.
func TestNoChangeOfACollectionInATransaction(t *testing.T) {
	db := kit.Memory(t)
	h := db.Raw().Hash([]byte("h"))
	if err := h.Set("field", []byte("value")); err != nil {
		t.Fatal(err)
	}
	before := db.Stats().Records
	err := db.Update(func(tx *copal.Tx) error {
		n, err := h.In(tx).Delete("other")
		if n != 0 {
			t.Errorf("Delete of what is not there = %d", n)
		}
		return err
	})
	if after := db.Stats().Records; err != nil || after != before {
		t.Errorf("%v, and %d records were written", err, after-before)
	}
	if v, err := h.Load("field"); string(v) != "value" || err != nil || h.Len() != 1 {
		t.Errorf("the hash has %q, %v, and %d fields", v, err, h.Len())
	}
}

// A member that is there is added by no write: not outside of a transaction, and not in one.
func TestAddOfWhatIsThere(t *testing.T) {
	db := kit.Memory(t)
	s := db.Raw().StringSet([]byte("s"))
	add := func(s *copal.SetOf[string], want int, members ...string) {
		t.Helper()
		if n, err := s.Add(members...); n != want || err != nil {
			t.Errorf("Add(%q) = %d, %v", members, n, err)
		}
	}
	add(s, 2, "a", "b")
	before := db.Stats().Records
	add(s, 0, "a")
	add(s, 0, "b", "a", "b")
	err := db.Update(func(tx *copal.Tx) error {
		add(s.In(tx), 0, "a", "b")
		return nil
	})
	if after := db.Stats().Records; err != nil || after != before {
		t.Errorf("%v, and %d records were written", err, after-before)
	}
	add(s, 1, "b", "c")
	if after := db.Stats().Records; after != before+1 || s.Len() != 3 {
		t.Errorf("%d records were written, and the set has %d members", after-before, s.Len())
	}
}

// callsBack is an element of which the decoder calls a function.
type callsBack struct{ N int }

var onDecode func()

func (c *callsBack) UnmarshalJSON(b []byte) error {
	if f := onDecode; f != nil {
		onDecode = nil
		f()
	}
	type plain callsBack
	return json.Unmarshal(b, (*plain)(c))
}

func (c callsBack) MarshalJSON() ([]byte, error) {
	type plain callsBack
	return json.Marshal(plain(c))
}

// TestPopWithADecoderThatUsesTheStore: no lock is held while an element is decoded, and an element
// popped there is not popped twice.
func TestPopWithADecoderThatUsesTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(db *copal.DB, l *copal.ListOf[callsBack]) error
		want []int // of the pop, and left
	}{
		"PushFront": {func(_ *copal.DB, l *copal.ListOf[callsBack]) error { return l.PushFront(callsBack{3}) }, []int{3, 1, 2}},
		"PopFront":  {func(_ *copal.DB, l *copal.ListOf[callsBack]) error { _, _, err := l.PopFront(); return err }, []int{2}},
		"Clear": {func(_ *copal.DB, l *copal.ListOf[callsBack]) error {
			_, err := l.Clear()
			return errors.Join(err, l.PushBack(callsBack{4}))
		}, []int{4}},
		"OpenMap": {func(db *copal.DB, _ *copal.ListOf[callsBack]) error {
			_, err := copal.OpenMap[string, int](db, "m")
			return err
		}, []int{1, 2}},
		"writes of many other keys": {func(db *copal.DB, _ *copal.ListOf[callsBack]) (err error) {
			for i := range 3000 {
				err = errors.Join(err, db.Raw().Set(fmt.Append(nil, i), nil))
			}
			return err
		}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := copal.OpenMemory()
			if err != nil {
				t.Fatal(err)
			}
			defer kit.MustClose(t, db)
			l, err := copal.OpenList[callsBack](db, "l")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.PushBack(callsBack{1}, callsBack{2}); err != nil {
				t.Fatal(err)
			}
			onDecode = func() {
				if err := c.do(db, l); err != nil {
					t.Error(err)
				}
			}
			v, ok, err := l.PopFront()
			if !ok || err != nil {
				t.Fatalf("PopFront: %v, %v", ok, err)
			}
			got := []int{v.N}
			for left := range l.All() {
				got = append(got, left.N)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("popped, and left: %v, want %v", got, c.want)
			}
		})
	}
}

// TestCollectionInAMap: a collection whose key begins with the name of a map is an entry of it.
func TestCollectionInAMap(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	list, err := copal.OpenList[int](db, "m:list")
	kit.Must(t, errors.Join(err, list.PushBack(1, 2)))
	if _, err := m.Load("list"); m.Len() != 1 || !m.Has("list") || !errors.Is(err, copal.ErrType) {
		t.Errorf("%d entries, and it is %v", m.Len(), err)
	}
	kit.Must(t, m.Set("list", 7))
	if err := list.PushBack(3); !errors.Is(err, copal.ErrType) {
		t.Errorf("the list is there behind a Set of its key: %v", err)
	}
}
