package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A collection in tests is written as text, so that it is one value of the oracle: its type, and its elements
// in their order.

func hashText(elements map[string]string) string {
	var words []string
	for _, sub := range slices.Sorted(maps.Keys(elements)) {
		words = append(words, fmt.Sprintf("%q:%q", sub, elements[sub]))
	}
	return "hash{" + strings.Join(words, " ") + "}"
}

// readHash is the text of a hash as the store has it. Its count, its walk and its elements must agree.
func readHash(r Collections, key string) (string, error) {
	if _, err := r.Find([]byte(key), HashType); err != nil {
		return "", err
	}
	n, err := r.CountIn([]byte(key), HashType, Span{})
	if err != nil {
		return "", err
	}
	elements := map[string]string{}
	last := ""
	for item := range r.All([]byte(key), HashType, Span{}, true) {
		if item.Err != nil {
			return "", item.Err
		}
		sub := string(item.Key)
		if len(elements) > 0 && sub <= last {
			return "", fmt.Errorf("%q comes behind %q", sub, last)
		}
		elements[sub], last = string(item.Value), sub
		e, err := r.Get([]byte(key), HashType, item.Key)
		if err != nil {
			return "", err
		}
		if string(e.Value) != string(item.Value) {
			return "", fmt.Errorf("element %q is %q, and %q in the walk", sub, e.Value, item.Value)
		}
	}
	if int(n) != len(elements) || n == 0 {
		return "", fmt.Errorf("%d elements counted, %d there: %q", n, len(elements), hashText(elements))
	}
	return hashText(elements), nil
}

// hset and hdel are changes of elements.
func hset(words ...string) (edits []*Edit) {
	for i := 0; i < len(words); i += 2 {
		edits = append(edits, &Edit{Sub: []byte(words[i]), Value: []byte(words[i+1])})
	}
	return edits
}

func hdel(subs ...string) (edits []*Edit) {
	for _, sub := range subs {
		edits = append(edits, &Edit{Sub: []byte(sub), Delete: true})
	}
	return edits
}

func tryChange(s *Store, key string, edits []*Edit) error {
	return s.Change([]byte(key), HashType, Process, func(*Plan) ([]*Edit, error) { return edits, nil })
}

func mustChange(t testing.TB, s *Store, key string, edits []*Edit) {
	t.Helper()
	if err := tryChange(s, key, edits); err != nil {
		t.Fatalf("Change(%q): %v", key, err)
	}
}

func wantHash(t testing.TB, r Collections, key string, words ...string) {
	t.Helper()
	want := map[string]string{}
	for i := 0; i < len(words); i += 2 {
		want[words[i]] = words[i+1]
	}
	got, err := readHash(r, key)
	if len(want) == 0 {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("%q is %s, %v, want none", key, got, err)
		}
		return
	}
	if err != nil || got != hashText(want) {
		t.Fatalf("%q is %s, %v, want %s", key, got, err, hashText(want))
	}
}

// leftover is an error unless the index has the elements of the collections that there are, and no others.
func leftover(s *Store) error {
	want := 0
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if !errors.Is(item.Err, ErrType) {
				continue
			}
			n, err := s.Collections().CountIn(item.Key, "", Span{})
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("the collection under %q has no elements", item.Key)
			}
			want += int(n) + 1
		}
	}
	if n := s.spaces[0].elements.index.Len(); n != want {
		return fmt.Errorf("the index has %d elements, the collections have %d with the owners", n, want)
	}
	return nil
}

func wantNoLeft(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if err := leftover(s); err != nil {
		t.Fatal(err)
	}
}

func TestCollectionKeepsElements(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "h", hset("b", "2", "a", "1", "", "none", "a:b;\x00\xff\n", "odd"))
	wantHash(t, s.Collections(), "h", "", "none", "a", "1", "a:b;\x00\xff\n", "odd", "b", "2")
	edits := append(hset("a", "one", "c", "3", "c", "three"), hdel("b", "nowhere")...)
	mustChange(t, s, "h", edits)
	if want := []bool{true, false, true, true, false}; !slices.EqualFunc(edits, want, func(e *Edit, had bool) bool { return e.Existed == had }) {
		t.Errorf("what had been there: %+v", edits)
	}
	want := []string{"", "none", "a", "one", "a:b;\x00\xff\n", "odd", "c", "three"}
	wantHash(t, s.Collections(), "h", want...)
	if n := s.Stats().Keys; n != 1 {
		t.Errorf("%d keys are counted, not the one", n)
	}
	for _, crash := range []bool{false, true} {
		if crash {
			mem = mem.ProcessCrash()
		} else {
			mustClose(t, s)
		}
		s = mustOpen(t, mem)
		wantHash(t, s.Collections(), "h", want...)
		wantNoLeft(t, s)
	}
	mustChange(t, s, "h", hdel("", "a", "c", "a:b;\x00\xff\n"))
	wantHash(t, s.Collections(), "h")
	if ok, err := s.Has(nil, []byte("h")); ok || err != nil {
		t.Errorf("an empty collection is there: %v, %v", ok, err)
	}
	wantNoLeft(t, s)
	mustClose(t, s)
}

func TestCollectionRange(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for _, key := range []string{"before", "h", "later"} { // whose elements stand on both sides
		mustChange(t, s, key, hset("a", "", "b", "", "ba", "", "bb", "", "c", ""))
	}
	for _, c := range []struct {
		span Span
		want string
	}{
		{Span{}, "a b ba bb c"},
		{Span{Down: true}, "c bb ba b a"},
		{Span{Low: []byte("b")}, "b ba bb c"},
		{Span{Low: []byte("b"), LowOpen: true}, "ba bb c"},
		{Span{High: []byte("bb"), HighOpen: true}, "a b ba"},
		{Span{High: []byte("bb"), Down: true}, "bb ba b a"},
		{Span{Low: []byte{}, High: []byte("b")}, "a b"},
		{PrefixSpan([]byte("b")), "b ba bb"},
		{Span{Low: []byte("d")}, ""},
	} {
		var got []string
		for item := range s.Collections().All([]byte("h"), HashType, c.span, false) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			got = append(got, string(item.Key))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q", c.span, got, c.want)
		}
	}
}

// TestCollectionAndValueOnOneKey: a key has one or the other, and reads and changes of the other are ErrType,
// which names the key.
func TestCollectionAndValueOnOneKey(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustSet(t, s, "v", "value")
	mustChange(t, s, "h", hset("a", "1"))
	h, v := []byte("h"), []byte("v")
	view, err := s.OpenView()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for name, f := range map[string]func() error{
		"Get":       func() error { _, err := s.Get(nil, h); return err },
		"AppendGet": func() error { _, _, err := s.AppendGet(nil, h, nil); return err },
		"ViewValue": func() error { return s.ViewValue(h, nil, func([]byte, uint64) error { return nil }) },
		"Update": func() error {
			_, err := s.Update(nil, nil, h, false, Process, nil, func(Found, *Write) (bool, error) { return false, nil })
			return err
		},
		"View":        func() error { _, err := view.Get(nil, h); return err },
		"Transaction": func() error { return s.Transact(Process, func(tx *Tx) error { _, err := tx.Get(nil, h); return err }) },
		"other type":  func() error { _, err := s.Collections().Find(h, SetType); return err },
		"other write": func() error {
			return s.Change(h, SetType, Process, func(*Plan) ([]*Edit, error) { return hset("x", ""), nil })
		},
		"hash of a value":    func() error { _, err := s.Collections().Find(v, HashType); return err },
		"element of a value": func() error { _, err := s.Collections().Get(v, HashType, []byte("a")); return err },
		"write into a value": func() error { return tryChange(s, "v", hset("a", "1")) },
		"view of a value":    func() error { _, err := view.Collections().Get(v, HashType, []byte("a")); return err },
		"clearing a value":   func() error { _, err := s.Clear(v, HashType, Process); return err },
		"renaming a value":   func() error { return s.Rename(v, []byte("w"), HashType, Process) },
		"redating a value":   func() error { return s.Redate(v, HashType, s.now()+1e6, Process) },
		"redating another":   func() error { return s.Redate(h, ListType, 0, Process) },
		"clearing another":   func() error { _, err := s.Clear(h, ListType, Process); return err },
		"renaming another":   func() error { return s.Rename(h, []byte("w"), ListType, Process) },
		"walk of another type": func() error {
			for item := range s.Collections().All(h, ListType, Span{}, true) {
				return item.Err
			}
			return nil
		},
	} {
		err := f()
		if !errors.Is(err, ErrType) || !strings.Contains(err.Error(), `"h"`) && !strings.Contains(err.Error(), `"v"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantHash(t, s.Collections(), "h", "a", "1")
	wantValue(t, s, "v", "value")
	var keys []string
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	if !slices.Equal(keys, []string{"h", "v"}) || s.Stats().Keys != 2 {
		t.Errorf("the keys are %q, %d counted", keys, s.Stats().Keys)
	}
	mustSet(t, s, "h", "now a value")
	wantValue(t, s, "h", "now a value")
	wantHash(t, view.Collections(), "h", "a", "1")
	if existed, err := s.Delete(nil, h, Process); !existed || err != nil {
		t.Error(existed, err)
	}
	mustChange(t, s, "h", hset("b", "2"))
	wantHash(t, s.Collections(), "h", "b", "2")
	wantNoLeft(t, s)
	if existed, err := s.Delete(nil, h, Process); !existed || err != nil {
		t.Error(existed, err)
	}
	wantHash(t, s.Collections(), "h")
	wantHash(t, view.Collections(), "h", "a", "1") // swept in between
	wantNoLeft(t, s)
}

// TestCollectionInAMap: a collection under a key that belongs to a map, open or not, is one of its entries, and
// none of its values.
func TestCollectionInAMap(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "m:h", hset("a", "1"))
	cells := attached(t, s, "m") // which moves it from the raw table
	wantHash(t, s.Collections(), "m:h", "a", "1")
	mustChange(t, s, "m:h", hset("b", "2"))
	if got := cells.owner.Schemas(); len(got) != 0 {
		t.Errorf("the map has values of schemas %v", got)
	}
	if n := cells.owner.Len(); n != 1 {
		t.Errorf("the map has %d entries", n)
	}
	if err := s.Expire(cells.owner, cells, []byte("m:h"), s.now()+1e9, Async); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(nil); err != nil {
		t.Fatal(err)
	}
	wantHash(t, s.Collections(), "m:h", "a", "1", "b", "2")
	// What memory has for the log comes first.
	cells.setAsync(t, s, "h", "x")
	if err := s.Redate([]byte("m:h"), HashType, s.now()+1e6, Process); !errors.Is(err, ErrType) {
		t.Errorf("a deadline for a collection where memory has a value: %v", err)
	}
	if d, err := s.DeadlineOf(cells.owner, cells, []byte("m:h")); d != 0 || err != nil {
		t.Errorf("the value has the deadline %d, %v", d, err)
	}
	if err := tryChange(s, "m:h", hset("c", "3")); !errors.Is(err, ErrType) {
		t.Errorf("a change of what is a value in memory: %v", err)
	}
	if _, err := s.Write(cells.owner, &Write{Key: []byte("m:h"), Cells: cells, Delete: true, Durability: Async}); err != nil {
		t.Fatal(err)
	}
	mustChange(t, s, "m:h", hset("d", "4"))
	wantHash(t, s.Collections(), "m:h", "d", "4")
	mustClose(t, s)
	s = mustOpen(t, mem)
	wantHash(t, s.Collections(), "m:h", "d", "4")
	wantNoLeft(t, s)
	mustClose(t, s)
}

func TestCollectionRename(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "a", hset("x", "1", "y", "2"))
	mustChange(t, s, "b", hset("x", "other"))
	mustSet(t, s, "v", "value")
	deadline := s.now() + 1e9
	if err := s.Expire(nil, nil, []byte("a"), deadline, Process); err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		t.Helper()
		if err := s.Rename([]byte(from), []byte(to), HashType, Process); err != nil {
			t.Fatalf("Rename(%q, %q): %v", from, to, err)
		}
		if from != to {
			wantHash(t, s.Collections(), from)
		}
		wantHash(t, s.Collections(), to, "x", "1", "y", "2")
		if d, err := s.DeadlineOf(nil, nil, []byte(to)); d != deadline || err != nil {
			t.Errorf("%q has the deadline %d, %v", to, d, err)
		}
		wantNoLeft(t, s) // and all that there is
		wantHash(t, s.Collections(), to, "x", "1", "y", "2")
	}
	rename("a", "a")
	rename("a", "b") // over a collection
	rename("b", "v") // over a value
	rename("v", "new")
	if err := s.Rename([]byte("a"), []byte("z"), HashType, Process); err != ErrNotFound {
		t.Errorf("renaming what is not there: %v", err)
	}
	mustChange(t, s, "a", hset("z", "9"))
	for range 2 {
		mustClose(t, s)
		s = mustOpen(t, mem)
		wantHash(t, s.Collections(), "new", "x", "1", "y", "2")
		wantHash(t, s.Collections(), "a", "z", "9")
		wantNoLeft(t, s)
		s.housekeeping.Lock()
		if err := s.log.RemoveSnapshot(); err != nil { // the next time the log is read
			t.Fatal(err)
		}
		s.housekeeping.Unlock()
	}
	mustClose(t, s)
}

// TestCollectionExpires: the deadline of the whole is kept by changes of elements, and elements do not outlive it.
func TestCollectionExpires(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	open := func() *Store { return mustOpen(t, mem, func(o *Options) { o.Clock = clock }) }
	s := open()
	mustChange(t, s, "h", hset("a", "1"))
	if err := s.Expire(nil, nil, []byte("h"), s.now()+1000, Process); err != nil {
		t.Fatal(err)
	}
	mustChange(t, s, "h", hset("b", "2"))
	wantNoLeft(t, s)
	wantHash(t, s.Collections(), "h", "a", "1", "b", "2")
	mustClose(t, s)
	s = open()
	wantHash(t, s.Collections(), "h", "a", "1", "b", "2")
	view, err := s.OpenView()
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(1000 * 1e6)
	wantHash(t, s.Collections(), "h")
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys", n)
	}
	wantNoLeft(t, s)
	wantHash(t, view.Collections(), "h", "a", "1", "b", "2")
	view.Close()
	mustChange(t, s, "h", hset("c", "3"))
	wantHash(t, s.Collections(), "h", "c", "3")
	if d, err := s.DeadlineOf(nil, nil, []byte("h")); d != 0 || err != nil {
		t.Errorf("the deadline is %d, %v", d, err)
	}
	s = mustOpen(t, mem.ProcessCrash(), func(o *Options) { o.Clock = clock })
	wantHash(t, s.Collections(), "h", "c", "3")
	wantNoLeft(t, s)
	mustClose(t, s)
}

// TestCollectionsAgainstAModel compares random changes with maps, among compactions, snapshots, views, sweeps
// and crashes.
func TestCollectionsAgainstAModel(t *testing.T) {
	steps := 1500
	if longTest() {
		steps = 200_000
	}
	rng := rand.New(rand.NewPCG(5, 19))
	options := func(o *Options) { o.SegmentBytes, o.GroupBytes = 2000, 600 }
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem, options)
	model := map[string]map[string]string{}
	var view *View
	var viewed map[string]map[string]string
	keys := []string{"a", "b", "m:a", "m:b", ""}
	for i := range steps {
		key := keys[rng.IntN(len(keys))]
		var err error
		switch op := rng.IntN(40); {
		case op < 20:
			var edits []*Edit
			now := maps.Clone(model[key])
			if now == nil {
				now = map[string]string{}
			}
			most := 4
			if op == 0 {
				most = 60
			}
			for range 1 + rng.IntN(most) {
				sub := fmt.Sprint(rng.IntN(3 * most))
				if rng.IntN(3) == 0 {
					edits = append(edits, hdel(sub)...)
					delete(now, sub)
				} else {
					value := fmt.Sprintf("%d of %d", len(edits), i)
					edits = append(edits, hset(sub, value)...)
					now[sub] = value
				}
			}
			model[key] = now
			err = tryChange(s, key, edits)
		case op < 22:
			_, err = s.Clear([]byte(key), HashType, Process)
			delete(model, key)
		case op < 23:
			_, err = s.Delete(nil, []byte(key), Process)
			delete(model, key)
		case op < 26:
			to := keys[rng.IntN(len(keys))]
			if err = s.Rename([]byte(key), []byte(to), HashType, Process); err == ErrNotFound && len(model[key]) == 0 {
				err = nil
			} else if from := model[key]; key != to {
				delete(model, key)
				model[to] = from
			}
		case op < 29:
			err = compactRun(s, rng.IntN(100))
		case op < 30:
			err = s.Compact(context.Background(), nil)
		case op < 31:
			s.housekeeping.Lock()
			err = s.takeSnapshot(nil)
			s.housekeeping.Unlock()
		case op < 33:
			err = s.Sweep()
		case op < 34:
			if view != nil {
				view.Close()
			}
			view, err = s.OpenView()
			viewed = map[string]map[string]string{}
			for k, v := range model {
				viewed[k] = maps.Clone(v)
			}
		case op < 35:
			_, err = s.Map("m")
		case op < 37:
			if view != nil {
				view.Close()
				view = nil
			}
			if rng.IntN(2) == 0 {
				mustClose(t, s)
			} else {
				mem = mem.ProcessCrash()
			}
			s = mustOpen(t, mem, options)
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		for _, key := range keys {
			wantModel(t, s.Collections(), key, model[key])
			if view != nil && i%4 == 0 {
				wantModel(t, view.Collections(), key, viewed[key])
			}
		}
		if t.Failed() {
			t.Fatalf("at step %d", i)
		}
	}
	if view != nil {
		view.Close()
	}
	wantNoLeft(t, s)
	mustClose(t, s)
}

func wantModel(t testing.TB, r Collections, key string, want map[string]string) {
	t.Helper()
	var words []string
	for k, v := range want {
		words = append(words, k, v)
	}
	wantHash(t, r, key, words...)
}

// TestCollectionsBesideHousekeeping: many goroutines change collections of their own, all a shared one, while
// the store sweeps, compacts and takes snapshots of its index by itself, and views are read.
func TestCollectionsBesideHousekeeping(t *testing.T) {
	rounds := 150
	switch {
	case longTest():
		rounds = 5000
	case testing.Short():
		rounds = 40
	}
	mem := vfs.NewMem()
	open := func() *Store {
		return mustOpen(t, mem, func(o *Options) {
			o.Inline, o.SegmentBytes = false, 8<<10
			o.OnError = func(err error) { t.Errorf("reported: %v", err) }
		})
	}
	s := open()
	const writers = 4
	models := make([]map[string]map[string]string, writers)
	var all sync.WaitGroup
	for w := range writers {
		models[w] = map[string]map[string]string{}
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 77))
			for i := range rounds {
				if err := housekeptStep(s, rng, w, i, models[w]); err != nil {
					t.Errorf("writer %d, round %d: %v", w, i, err)
					return
				}
			}
		})
	}
	all.Go(func() {
		for range rounds / 10 {
			v, err := s.OpenView()
			if err != nil {
				t.Error(err)
				return
			}
			for w := range writers {
				for _, key := range housekeptKeys(w) {
					if _, err := readHash(v.Collections(), key); err != nil && err != ErrNotFound {
						t.Errorf("a view: %v", err)
					}
				}
			}
			v.Close()
		}
	})
	all.Wait()
	for range 2 {
		for w, model := range models {
			for _, key := range housekeptKeys(w) {
				wantModel(t, s.Collections(), key, model[key])
			}
		}
		if text, err := readHash(s.Collections(), "shared"); err != nil || len(hashOf(text)) != writers {
			t.Errorf("what all have written: %s, %v", text, err)
		}
		awaitSweep(s)
		if err := leftover(s); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
		s = open()
	}
	mustClose(t, s)
}

// awaitSweep returns when the store has swept by itself.
func awaitSweep(s *Store) {
	for w := &s.sweeper; ; runtime.Gosched() {
		w.mu.Lock()
		idle := len(w.list) == 0 && w.before == 0
		w.mu.Unlock()
		if idle {
			return
		}
	}
}

func housekeptKeys(w int) []string { return []string{fmt.Sprint("a", w), fmt.Sprint("b", w)} }

// housekeptStep is a round of one writer.
func housekeptStep(s *Store, rng *rand.Rand, w, i int, model map[string]map[string]string) error {
	keys := housekeptKeys(w)
	from, to := keys[i%2], keys[(i+1)%2]
	elements := map[string]string{}
	var edits []*Edit
	for n := range 1 + rng.IntN(40) {
		edits = append(edits, hset(fmt.Sprint(n), fmt.Sprint("value ", i))...)
		elements[fmt.Sprint(n)] = fmt.Sprint("value ", i)
	}
	_, err := s.Clear([]byte(from), HashType, Process)
	if err == nil {
		err = tryChange(s, from, edits)
	}
	if err == nil {
		err = tryChange(s, "shared", hset(fmt.Sprint("of ", w), fmt.Sprint(i)))
	}
	model[from] = elements
	if err == nil && i%3 == 0 {
		err = s.Rename([]byte(from), []byte(to), HashType, Process)
		delete(model, from)
		model[to] = elements
	}
	return err
}

// TestCollectionGoesWhileItIsChanged: what becomes of a key between the look at it and the change of it.
func TestCollectionGoesWhileItIsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s *Store) error
		want      []string // of the hash; none for an ErrType
	}{
		"replaced by a value": {func(s *Store) error { return s.Set(nil, []byte("h"), []byte("v"), 0, Process) }, nil},
		"deleted":             {func(s *Store) error { _, err := s.Delete(nil, []byte("h"), Process); return err }, []string{"new", "2"}},
		"given a deadline":    {func(s *Store) error { return s.Expire(nil, nil, []byte("h"), s.now()+1e9, Process) }, []string{"old", "1", "new", "2"}},
		"deleted and value before": {func(s *Store) error {
			if err := s.Set(nil, []byte("h"), []byte("v"), 0, Process); err != nil {
				return err
			}
			_, err := s.Delete(nil, []byte("h"), Process)
			return err
		}, []string{"new", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem())
			defer mustClose(t, s)
			mustChange(t, s, "h", hset("old", "1"))
			defer func(f func()) { keyLookedAt = f }(keyLookedAt)
			keyLookedAt = func() {
				keyLookedAt = func() {}
				if err := c.meanwhile(s); err != nil {
					t.Fatal(err)
				}
			}
			err := tryChange(s, "h", hset("new", "2"))
			switch {
			case c.want == nil && errors.Is(err, ErrType):
				wantValue(t, s, "h", "v")
			case c.want == nil || err != nil:
				t.Fatalf("the change: %v", err)
			default:
				wantHash(t, s.Collections(), "h", c.want...)
			}
			wantNoLeft(t, s)
		})
	}
}

// walksOfAHash are the ways to go through a hash, each of which yields sub-keys.
var walksOfAHash = map[string]func(r Collections, key []byte) iter.Seq[Item]{
	"All":  func(r Collections, key []byte) iter.Seq[Item] { return r.All(key, HashType, Span{}, true) },
	"keys": func(r Collections, key []byte) iter.Seq[Item] { return r.All(key, HashType, Span{}, false) },
	"Sorted": func(r Collections, key []byte) iter.Seq[Item] {
		return r.Sorted(key, HashType, numberOrder, Span{}, true)
	},
	"sorted keys": func(r Collections, key []byte) iter.Seq[Item] {
		return r.Sorted(key, HashType, numberOrder, Span{Down: true}, false)
	},
}

// numberOrder is that of sub-keys that are numbers.
var numberOrder = func() keycodec.Order {
	c, err := keycodec.For[int]()
	if err != nil {
		panic(err)
	}
	return c.Order()
}()

// TestWalkEndsWhereTheCollectionDoes: what goes through a collection yields nothing of it when it is gone,
// swept or not.
func TestWalkEndsWhereTheCollectionDoes(t *testing.T) {
	key := []byte("m:h")
	for name, c := range map[string]struct {
		do   func(s *Store, cells *Cells, clock *logtest.Clock) error
		left int // are yielded behind that
	}{
		"Clear": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			_, err := s.Clear(key, HashType, Process)
			return err
		}, 0},
		"Delete":  {func(s *Store, _ *Cells, _ *logtest.Clock) error { _, err := s.Delete(nil, key, Process); return err }, 0},
		"a value": {func(s *Store, _ *Cells, _ *logtest.Clock) error { return s.Set(nil, key, []byte("v"), 0, Process) }, 0},
		"a value that the log has yet to learn of": {func(s *Store, cells *Cells, _ *logtest.Clock) error {
			cells.setAsync(t, s, "h", "v")
			return nil
		}, 0},
		"Rename": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			return s.Rename(key, []byte("m:g"), HashType, Process)
		}, 0},
		"Rename over it": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			return s.Rename([]byte("m:other"), key, HashType, Process)
		}, 0},
		"expiry": {func(_ *Store, _ *Cells, clock *logtest.Clock) error { clock.Advance(time.Hour); return nil }, 0},
		"made anew": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			_, err := s.Clear(key, HashType, Process)
			return errors.Join(err, tryChange(s, string(key), hset("7", "", "8", "")))
		}, 0},
		"a transaction": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			return s.Transact(Process, func(tx *Tx) error { _, err := tx.Clear(key, HashType); return err })
		}, 0},
		"a later deadline, and the time of the first": {func(s *Store, _ *Cells, clock *logtest.Clock) error {
			err := s.Redate(key, HashType, 0, Process)
			clock.Advance(time.Hour)
			return err
		}, 7},
		"changes of elements": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			return tryChange(s, string(key), append(hset("5", "new"), hdel("0")...))
		}, 7},
		"Clear of another": {func(s *Store, _ *Cells, _ *logtest.Clock) error {
			_, err := s.Clear([]byte("m:other"), HashType, Process)
			return err
		}, 7},
	} {
		for what, walk := range walksOfAHash {
			clock := logtest.NewClock()
			s := mustOpen(t, vfs.NewMem(), withClock(clock))
			cells := attached(t, s, "m")
			mustChange(t, s, string(key), hset("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", ""))
			mustChange(t, s, "m:other", hset("0", "", "7", "other", "8", ""))
			if err := s.Redate(key, HashType, 1e12+1e6, Process); err != nil {
				t.Fatal(err)
			}
			n, left := 0, 0
			for item := range walk(s.Collections(), key) {
				if item.Err != nil {
					t.Errorf("%s in %s: %v", name, what, item.Err)
				}
				switch n++; {
				case n == 2:
					if err := c.do(s, cells, clock); err != nil {
						t.Fatal(err)
					}
				case n > 2:
					left++
				}
			}
			if left != c.left {
				t.Errorf("%s in %s: %d elements are yielded behind it, want %d", name, what, left, c.left)
			}
			mustClose(t, s)
		}
	}
}

// TestWalkEndsWithinATransaction: a walk of a transaction yields nothing of a collection that the transaction
// has done away with.
func TestWalkEndsWithinATransaction(t *testing.T) {
	key := []byte("h")
	for name, do := range map[string]func(tx *Tx) error{
		"Clear":   func(tx *Tx) error { _, err := tx.Clear(key, HashType); return err },
		"Delete":  func(tx *Tx) error { _, err := tx.Delete(nil, nil, key); return err },
		"a value": func(tx *Tx) error { return tx.Write(nil, &Write{Key: key, Value: []byte("v")}) },
		"Rename":  func(tx *Tx) error { return tx.Rename(key, []byte("g"), HashType) },
		"made anew": func(tx *Tx) error {
			_, err := tx.Clear(key, HashType)
			return errors.Join(err, txChange(tx, "h", hset("2", "", "3", "")))
		},
		"changed": func(tx *Tx) error { return txChange(tx, "h", append(hset("2", "new"), hdel("0")...)) },
	} {
		for what, walk := range walksOfAHash {
			for _, changed := range []bool{false, true} {
				s := mustOpen(t, vfs.NewMem())
				mustChange(t, s, "h", hset("0", "", "1", "", "2", "", "3", ""))
				err := s.Transact(Process, func(tx *Tx) error {
					if changed {
						if err := txChange(tx, "h", hset("4", "")); err != nil {
							return err
						}
					}
					n := 0
					for item := range walk(tx.Collections(), key) {
						if item.Err != nil {
							return item.Err
						}
						if n++; n == 2 {
							if err := do(tx); err != nil {
								return err
							}
						}
					}
					if gone := name != "changed"; gone != (n == 2) {
						t.Errorf("%s in %s, of a changed one %v: %d elements are yielded", name, what, changed, n)
					}
					return nil
				})
				if err != nil {
					t.Errorf("%s in %s: %v", name, what, err)
				}
				mustClose(t, s)
			}
		}
	}
}

// TestPlanSeesWhatThereIs: a plan is asked when the locks are held, so it sees that the collection has gone
// since it was found, and the elements were swept.
func TestPlanSeesWhatThereIs(t *testing.T) {
	key, sub := []byte("h"), []byte("a")
	defer func(f func()) { keyLookedAt = f }(keyLookedAt)
	for name, meanwhile := range map[string]func(s *Store) error{
		"deleted":             func(s *Store) error { _, err := s.Delete(nil, key, Process); return err },
		"replaced by a value": func(s *Store) error { return s.Set(nil, key, []byte("v"), 0, Process) },
		"nothing":             func(*Store) error { return nil },
	} {
		s := mustOpen(t, vfs.NewMem())
		mustChange(t, s, "h", hset("a", "1", "b", "2"))
		keyLookedAt = func() {
			keyLookedAt = func() {}
			if err := meanwhile(s); err != nil {
				t.Fatal(err)
			}
			wantNoLeft(t, s)
		}
		calls, found := 0, false
		err := s.Change(key, HashType, Process, func(c *Plan) ([]*Edit, error) {
			calls++
			if found = c.ID != 0; !found {
				return nil, nil
			}
			_, err := c.Element(sub)
			if err == nil {
				err = seglog.ErrVersion
			}
			return nil, err
		})
		switch {
		case name == "deleted" && (err != nil || found || calls != 1),
			name == "replaced by a value" && (!errors.Is(err, ErrType) || calls != 0),
			name == "nothing" && (err != seglog.ErrVersion || calls != 1):
			t.Errorf("%s: %d calls, %v; the last found a collection: %v", name, calls, err, found)
		}
		mustClose(t, s)
	}
}

// nthClock calls f at the n-th look at the clock that is made without the lock of a key.
type nthClock struct {
	*logtest.Clock
	n    int
	free func() bool // the lock can be taken
	f    func()
}

func (c *nthClock) Now() time.Time {
	if c.n > 0 && c.free() {
		if c.n--; c.n == 0 {
			c.f()
		}
	}
	return c.Clock.Now()
}

// TestRedateLooksAndChangesInOneStep: a deadline that is given to a collection, or taken from it, never hits
// what took its place, wherever in between that came.
func TestRedateLooksAndChangesInOneStep(t *testing.T) {
	key, lock := []byte("h"), func(s *Store) *sync.Mutex { return &s.lockOf(s.Hash("h")).Mutex }
	for n := 1; n <= 8; n++ {
		for name, deadline := range map[string]uint64{"Expire": 1e12 + 1e9, "Persist": 0} {
			for what, into := range map[string]struct {
				put  func(s *Store) error
				want error
			}{
				"a value": {func(s *Store) error {
					_, err := s.Write(nil, &Write{Key: key, Value: []byte("v"), Expiry: 1e12 + 5e6})
					return err
				}, ErrType},
				"another collection": {func(s *Store) error {
					if err := s.Set(nil, key, nil, 0, Process); err != nil {
						return err
					}
					_, err := s.Delete(nil, key, Process)
					if err == nil {
						err = s.Change(key, SetType, Process, func(*Plan) ([]*Edit, error) { return hset("m", ""), nil })
					}
					return errors.Join(err, s.Expire(nil, nil, key, 1e12+5e6, Process))
				}, ErrType},
				"nothing": {func(s *Store) error { _, err := s.Delete(nil, key, Process); return err }, ErrNotFound},
			} {
				clock := &nthClock{Clock: logtest.NewClock()}
				s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Clock = clock })
				mustChange(t, s, "h", hset("a", "1"))
				if err := s.Expire(nil, nil, key, 1e12+1e6, Process); err != nil {
					t.Fatal(err)
				}
				came := false
				clock.free = func() bool {
					free := lock(s).TryLock()
					if free {
						lock(s).Unlock()
					}
					return free
				}
				clock.f = func() {
					if came = true; into.put(s) != nil {
						t.Error("it could not be put")
					}
				}
				clock.n = n
				err := s.Redate(key, HashType, deadline, Process)
				clock.n = 0
				d, derr := s.DeadlineOf(nil, nil, key)
				switch {
				case !came && (err != nil || d != deadline):
					t.Errorf("%s: the deadline is %d, %v", name, d, err)
				case came && err != nil && !errors.Is(err, into.want):
					t.Errorf("%s and %s at look %d: %v", name, what, n, err)
				case came && into.want == ErrType && (d != 1e12+5e6 || derr != nil):
					t.Errorf("%s and %s at look %d: it has the deadline %d, %v, which nobody gave it", name, what, n, d, derr)
				case came && into.want == ErrNotFound && derr != ErrNotFound:
					t.Errorf("%s and %s at look %d: there is something, %v", name, what, n, derr)
				}
				mustClose(t, s)
			}
		}
	}
}

// TestElementChangesWhileItIsUpdated: the function of an update gets what there is at last.
func TestElementChangesWhileItIsUpdated(t *testing.T) {
	for name, meanwhile := range map[string][]*Edit{"overwritten": hset("n", "10"), "deleted": hdel("n"), "another one": hset("other", "7")} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem())
			defer mustClose(t, s)
			mustChange(t, s, "h", hset("n", "1", "x", "0"))
			var found []string
			err := s.UpdateElement([]byte("h"), HashType, []byte("n"), Process, nil, func(e *Entry) ([]*Edit, error) {
				value := "none"
				if e != nil {
					value = string(e.Value)
				}
				if found = append(found, value); len(found) == 1 {
					var other sync.WaitGroup
					other.Go(func() { mustChange(t, s, "h", meanwhile) })
					other.Wait()
				}
				return hset("n", value+"+"), nil
			})
			want := map[string]string{"overwritten": "1 10", "deleted": "1 none", "another one": "1"}[name]
			if got := strings.Join(found, " "); err != nil || got != want {
				t.Errorf("it was called with %s, %v, want %s", got, err, want)
			}
			if e, err := s.Collections().Get([]byte("h"), HashType, []byte("n")); err != nil || string(e.Value) != found[len(found)-1]+"+" {
				t.Errorf("the element is %q, %v", e.Value, err)
			}
		})
	}
}

// TestCollectionIDsAreGivenOnce makes many collections at once.
func TestCollectionIDsAreGivenOnce(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	const writers, each = 8, 40
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				mustChange(t, s, fmt.Sprint(w, " ", i), hset(fmt.Sprint(w), fmt.Sprint(i)))
			}
		})
	}
	all.Wait()
	ids := map[uint64]bool{}
	for w := range writers {
		for i := range each {
			key := fmt.Sprint(w, " ", i)
			wantHash(t, s.Collections(), key, fmt.Sprint(w), fmt.Sprint(i))
			c, err := s.Collections().Find([]byte(key), HashType)
			if err != nil || ids[c.ID] {
				t.Fatalf("%q has the id %x, %v", key, c.ID, err)
			}
			ids[c.ID] = true
		}
	}
	wantNoLeft(t, s)
}

// TestOrderIsMadeOfAllThatCanBeRead: where a disk fails while the order of the elements is made anew, the walk
// says so, and the next one has them all.
func TestOrderIsMadeOfAllThatCanBeRead(t *testing.T) {
	failed := 0
	for n := 1; ; n++ {
		fault := &vfs.Fault{Kinds: vfs.Reading, N: 1 << 30, Err: syscall.EIO}
		fsys := vfs.Inject(vfs.NewMem(), fault)
		s := mustOpen(t, fsys)
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("field ", i), "value")
		}
		mustChange(t, s, "h", hset(want...))
		order := s.spaces[0].elements.order.Load()
		if err := order.fold(false); err != nil {
			t.Fatal(err)
		}
		order.lose(errors.New("planted"))
		fault.N = fsys.Matched(0) + n
		walked, err := 0, error(nil)
		for item := range s.Collections().All([]byte("h"), HashType, Span{}, false) {
			if err = item.Err; err == nil {
				walked++
			}
		}
		if err == nil && walked != 10 {
			t.Errorf("with a fault of operation %d %d elements are walked", n, walked)
		}
		if err != nil {
			failed++
		}
		fired := fsys.Fired()
		fault.N = 0
		wantHash(t, s.Collections(), "h", want...)
		mustClose(t, s)
		if !fired {
			break
		}
	}
	if failed == 0 {
		t.Error("no walk has failed")
	}
}

// TestUpdateMakesTheCollectionAnew: who deletes and makes the collection within an update of one of its
// elements does so each time; the update ends all the same, when what it has decided on is as it was.
func TestUpdateMakesTheCollectionAnew(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustChange(t, s, "h", hset("n", "1"))
	calls := 0
	err := s.UpdateElement([]byte("h"), HashType, []byte("n"), Process, nil, func(found *Entry) ([]*Edit, error) {
		if calls++; calls > 10 {
			return nil, errors.New("called again and again")
		}
		if _, err := s.Clear([]byte("h"), HashType, Process); err != nil {
			return nil, err
		}
		if err := tryChange(s, "h", hset("other", "1")); err != nil {
			return nil, err
		}
		return hset("n", "2"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantHash(t, s.Collections(), "h", "n", "2", "other", "1")
}

// TestNothingIsMade: a change that deletes again what it sets makes no collection, and leaves nothing of one.
func TestNothingIsMade(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	last := s.log.Last()
	mustChange(t, s, "h", append(hset("a", "1", "b", "2"), hdel("b", "a")...))
	wantHash(t, s.Collections(), "h")
	if n := s.log.Last() - last; n != 0 {
		t.Errorf("%d records are written", n)
	}
	if err := leftover(s); err != nil {
		t.Error(err)
	}
}

// TestFirstRecordsOfNewCollections: the first record with an id has that number or a higher one, also of many
// collections that a transaction makes.
func TestFirstRecordsOfNewCollections(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	err := s.Transact(Process, func(tx *Tx) error {
		for i := 9; i >= 0; i-- {
			if err := txChange(tx, fmt.Sprint("k", i), hset("f", "v")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first := map[uint64]uint64{}
	for a, err := range s.spaces[0].elements.addresses() {
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.readAt(a, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id, _ := collection.ID(e.Key); first[id] == 0 || e.Seq < first[id] {
			first[id] = e.Seq
		}
	}
	if len(first) != 10 {
		t.Fatalf("there are elements of %d collections", len(first))
	}
	for id, seq := range first {
		if seq < id {
			t.Errorf("the first record of collection %x has the number %x", id, seq)
		}
	}
}

// TestUpdateOfAKeyThatIsNoElement: from within the update of a raw key, which may be empty or read like that of
// an element, a collection can be changed.
func TestUpdateOfAKeyThatIsNoElement(t *testing.T) {
	for _, likeElement := range []bool{false, true} {
		s := mustOpen(t, vfs.NewMem())
		mustChange(t, s, "h", hset("f", "0"))
		c, err := s.Collections().Find([]byte("h"), HashType)
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte{}
		if likeElement {
			raw = collection.AppendElement(nil, c.ID, []byte("f"))
		}
		calls := 0
		_, err = s.Update(nil, nil, raw, false, Process, nil, func(_ Found, w *Write) (bool, error) {
			if calls++; calls == 1 { // the second time the goroutine is known
				var other sync.WaitGroup
				other.Go(func() { mustSet(t, s, string(raw), "1") })
				other.Wait()
			}
			w.Value = []byte("2")
			return true, tryChange(s, "h", hset("f", fmt.Sprint(calls)))
		})
		if err != nil || calls != 2 {
			t.Errorf("key %q: %d calls, %v", raw, calls, err)
		}
		wantHash(t, s.Collections(), "h", "f", "2")
		mustClose(t, s)
	}
}

// TestAllElementsAreTakenOutAtOnce: a change that takes all elements out is planned once, whoever adds others
// meanwhile: they are counted under the locks.
func TestAllElementsAreTakenOutAtOnce(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	mustChange(t, s, "h", hset("a", "", "b", ""))
	calls := 0
	err := s.Change([]byte("h"), HashType, Process, func(*Plan) ([]*Edit, error) {
		calls++
		return hdel("a", "b"), nil
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	wantNoLeft(t, s)

	// Once more where the order by which they are counted is lost while the locks are taken.
	mustChange(t, s, "h", hset("a", "", "b", ""))
	defer func(f func()) { keyLookedAt = f }(keyLookedAt)
	keyLookedAt = func() {
		keyLookedAt = func() {}
		s.spaces[0].elements.order.Load().lose(errors.New("planted"))
	}
	mustChange(t, s, "h", hdel("a", "b"))
	wantNoLeft(t, s)
}

// TestRenameToTheEmptyKey takes the lock of that key.
func TestRenameToTheEmptyKey(t *testing.T) {
	defer func(f func()) { PartShown = f }(PartShown)
	for _, to := range [][]byte{{}, nil} {
		s := mustOpen(t, vfs.NewMem())
		mustSet(t, s, "", "v")
		mustChange(t, s, "h", hset("a", "1"))
		mu, shown := s.lockOf(s.spaces[0].raw.hash(nil)), 0
		PartShown = func() {
			if shown++; mu.TryLock() {
				mu.Unlock()
				t.Error("nobody holds the lock")
			}
		}
		if err := s.Rename([]byte("h"), to, HashType, Process); err != nil || shown == 0 {
			t.Errorf("%d looks, %v", shown, err)
		}
		PartShown = func() {}
		wantHash(t, s.Collections(), "", "a", "1")
		mustClose(t, s)
	}
}
