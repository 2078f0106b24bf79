package collections

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
)

// TestHashCountsEveryIncrement: changes of one field by many at once, with others of the same hash
// and of the whole among them.
func TestHashCountsEveryIncrement(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := kit.OpenHash[string, int](t, db, "h")
	const writers, each = 16, 50
	var all sync.WaitGroup
	var expected [writers]int // of the fields that only one writes
	for w := range writers {
		all.Go(func() {
			mine := fmt.Sprint("mine", w)
			for i := range each {
				_, _, err := h.Update("shared", func(u *copal.Entry[int]) error { u.Value++; return nil })
				if err == nil {
					err = h.SetAll(map[string]int{mine: i, mine + "b": i})
				}
				if err == nil && i%3 == 0 {
					_, err = h.Delete(mine + "b")
				}
				if err != nil {
					t.Error(err)
					return
				}
				expected[w] = i
			}
		})
	}
	all.Wait()
	want := map[string]int{"shared": writers * each}
	for w, i := range expected {
		want[fmt.Sprint("mine", w)] = i
		if i%3 != 0 {
			want[fmt.Sprint("mine", w, "b")] = i
		}
	}
	if got := maps.Collect(h.All()); !maps.Equal(got, want) || h.Len() != len(want) {
		t.Errorf("%d fields, counted %d: %v, want %v", len(got), h.Len(), got, want)
	}
}

// TestHashShowsWholeChanges: two fields that are written together are never seen apart in a
// snapshot. A hash that is recreated all the time never has a field of the previous one.
func TestHashShowsWholeChanges(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := kit.OpenHash[string, int](t, db, "h")
	var done atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		defer done.Store(true)
		for i := range 300 {
			life := map[string]int{"a": i, "b": i, fmt.Sprint("only ", i): i}
			if err := h.SetAll(life); err != nil {
				t.Error(err)
			}
			if i%5 == 4 {
				if err := h.Rename("other"); err != nil {
					t.Error(err)
				}
			} else if _, err := h.Clear(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		all.Go(func() {
			for !done.Load() {
				s, err := db.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				then := h.At(s)
				got := maps.Collect(then.All())
				if n := then.Len(); n != len(got) || n != 0 && (n != 3 || got["a"] != got["b"] || !then.Has(fmt.Sprint("only ", got["a"]))) {
					t.Errorf("a snapshot has %v, and counts %d", got, n)
				}
				s.Close()
			}
		})
	}
	all.Wait()
	other := kit.OpenHash[string, int](t, db, "other")
	if got := maps.Collect(other.All()); !maps.Equal(got, map[string]int{"a": 299, "b": 299, "only 299": 299}) {
		t.Errorf("what was renamed last: %v", got)
	}
}

// TestHashUpdate has the outcomes of an update of a field.
func TestHashUpdate(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := kit.OpenHash[int, []string](t, db, "h")
	for _, c := range []struct {
		f    func(u *copal.Entry[[]string]) error
		want string
	}{
		{func(u *copal.Entry[[]string]) error { u.Cancel(); return nil }, "[] false <nil>"},
		{func(u *copal.Entry[[]string]) error { u.Delete(); return nil }, "[] false <nil>"},
		{func(u *copal.Entry[[]string]) error { u.Value = append(u.Value, "a"); return nil }, "[a] true <nil>"},
		{func(u *copal.Entry[[]string]) error { u.Value[0] = "changed"; u.Cancel(); return nil }, "[a] true <nil>"},
		{func(u *copal.Entry[[]string]) error { u.Value = append(u.Value, "b"); return nil }, "[a b] true <nil>"},
		{func(u *copal.Entry[[]string]) error { u.Delete(); return nil }, "[] false <nil>"},
	} {
		v, exists, err := h.Update(7, c.f)
		if got := fmt.Sprint(v, exists, err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if err := h.Set(1, []string{"x"}); err != nil {
		t.Fatal(err)
	}
	_, _, err = h.Update(1, func(u *copal.Entry[[]string]) error {
		u.Value = append(u.Value, "y")
		if err := h.Set(2, nil); err != nil { // another field
			t.Error(err)
		}
		h.Set(1, nil)

		return nil
	})
	if !errors.Is(err, copal.ErrNested) {
		t.Errorf("an update that writes its own field: %v", err)
	}
	func() {
		defer func() { recover() }()
		h.Update(3, func(*copal.Entry[[]string]) error { panic("of the caller") })
	}()
	if err := h.Set(3, nil); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if err := db.Update(func(*copal.Tx) error { return h.Set(4, nil) }); !errors.Is(err, copal.ErrNested) {
		t.Errorf("within a transaction: %v", err)
	}
}

// TestSortedSetUpdate has the outcomes of an update of a score, in and out of a transaction.
func TestSortedSetUpdate(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := copal.OpenSortedSet[string](db, "s")
	if err != nil {
		t.Fatal(err)
	}
	type entry = copal.Entry[float64]
	update := map[string]func(m string, f func(*entry) error) (float64, bool, error){
		"Update":      s.Update,
		"UpdateFSync": s.UpdateFSync,
		"With":        s.With(copal.FSync).Update,
		"In": func(m string, f func(*entry) error) (score float64, exists bool, err error) {
			outer := db.Update(func(tx *copal.Tx) error {
				score, exists, err = s.In(tx).Update(m, f)
				return nil
			})
			return score, exists, errors.Join(err, outer)
		},
	}
	for name, update := range update {
		for _, c := range []struct {
			f    func(e *entry) error
			want string
			all  map[string]float64
		}{
			{func(e *entry) error { e.Cancel(); return nil }, "0 false <nil>", nil},
			{func(e *entry) error { e.Delete(); return nil }, "0 false <nil>", nil},
			{func(e *entry) error { e.Value += 2; return nil }, "2 true <nil>", map[string]float64{"m": 2}},
			{func(e *entry) error { e.Value += 2; return nil }, "4 true <nil>", map[string]float64{"m": 4}},
			{func(e *entry) error { e.Value = 9; e.Cancel(); return nil }, "4 true <nil>", map[string]float64{"m": 4}},
			{func(e *entry) error { e.Value = 9; return errors.New("no") }, "0 false no", map[string]float64{"m": 4}},
			{func(e *entry) error { e.Set(4); return nil }, "4 true <nil>", map[string]float64{"m": 4}},
			{func(e *entry) error { e.Delete(); return nil }, "0 false <nil>", nil},
		} {
			score, exists, err := update("m", c.f)
			if got := fmt.Sprint(score, exists, err); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
			if got := maps.Collect(s.All()); !maps.Equal(got, c.all) || s.Len() != len(c.all) {
				t.Errorf("%s: they are %v, counted %d, want %v", name, got, s.Len(), c.all)
			}
		}
		nan := func(e *entry) error { e.Value = math.NaN(); return nil }
		if _, _, err := update("m", nan); err == nil || errors.Is(err, copal.ErrType) || s.Len() != 0 {
			t.Errorf("%s: NaN: %v, of %d members", name, err, s.Len())
		}
	}
	calls := 0
	_, _, err = s.Update("m", func(e *entry) error {
		calls++
		if err := s.Set("other", 1); err != nil {
			t.Error(err)
		}
		s.Set("m", float64(calls))
		e.Value = 100
		return nil
	})
	if !errors.Is(err, copal.ErrNested) || calls > 3 {
		t.Errorf("an update that writes its own member: %v, after %d calls", err, calls)
	}
}

// TestHashInOrder: fields come in the order of their type, not of their text.
func TestHashInOrder(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := kit.OpenHash[int, string](t, db, "h")
	for _, n := range []int{100, 9, -3, 0, 20} {
		if err := h.Set(n, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	keys := func(list func(func(int, string) bool)) (got []int) {
		for n, s := range list {
			if s != fmt.Sprint(n) {
				t.Errorf("%d has the value %q", n, s)
			}
			got = append(got, n)
		}
		return got
	}
	check("All", keys(h.All()), -3, 0, 9, 20, 100)
	check("Keys", slices.Collect(h.Keys()), -3, 0, 9, 20, 100)
	check("Ascend", keys(h.From(9)), 9, 20, 100)
	check("Until", keys(h.Until(9)), -3, 0)
	check("Backward, Until", keys(h.Backward().Until(9)), 0, -3)
	check("Backward, From", keys(h.Backward().From(9)), 100, 20, 9)
	check("Backward, Between", keys(h.Backward().Between(0, 20)), 9, 0)
	check("Backward, Keys", slices.Collect(h.Backward().Keys()), 100, 20, 9, 0, -3)
	check("Between", keys(h.Between(0, 20)), 0, 9)
	for n := range h.All() { // which may be changed meanwhile
		if _, err := h.Delete(n); err != nil {
			t.Fatal(err)
		}
		break
	}
	check("First", keys(h.All())[:1], 0)
}

// TestHashTypes: fields written as one type, or raw, are read as another where they fit, and are
// ErrType where not.
func TestHashTypes(t *testing.T) {
	var told []error
	db, err := copal.OpenMemory(copal.WithCodec(codec.Binary), copal.WithErrorHandler(func(err error) { told = append(told, err) }))
	if err != nil {
		t.Fatal(err)
	}
	numbers := kit.OpenHash[string, int](t, db, "h")
	words := kit.OpenHash[string, string](t, db, "h")
	if err := numbers.Set("n", 300); err != nil {
		t.Fatal(err)
	}
	if err := words.Set("w", "text"); err != nil {
		t.Fatal(err)
	}
	if err := db.Raw().Hash([]byte("h")).Set("raw", []byte("17")); err != nil {
		t.Fatal(err)
	}
	if n, err := numbers.Load("raw"); n != 17 || err != nil {
		t.Errorf("raw text as a number: %d, %v", n, err)
	}
	if _, err := numbers.Load("w"); !errors.Is(err, copal.ErrType) || !strings.Contains(err.Error(), `hash "h": the value under key "w"`) {
		t.Errorf("a text as a number: %v", err)
	}
	if b, err := db.Raw().Hash([]byte("h")).Load("n"); string(b) != "300" || err != nil {
		t.Errorf("a number as bytes: %q, %v", b, err)
	}
	if got := maps.Collect(numbers.All()); !maps.Equal(got, map[string]int{"n": 300, "raw": 17}) {
		t.Errorf("the numbers are %v", got)
	}
	if _, err := copal.OpenHash[string, chan int](db, "h"); !errors.Is(err, copal.ErrType) {
		t.Errorf("a hash of channels: %v", err)
	}
	m, err := copal.OpenMap[string, int](db, "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set("v", 1); err != nil {
		t.Fatal(err)
	}
	inside := kit.OpenHash[string, int](t, db, "m:h")
	if err := inside.Set("f", 2); err != nil {
		t.Fatal(err)
	}
	if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"v": 1}) || m.Len() != 2 {
		t.Errorf("the map yields %v of %d", got, m.Len())
	}
	if err := kit.OpenHash[string, int](t, db, "m:v").Set("f", 1); !errors.Is(err, copal.ErrType) {
		t.Errorf("a field of a value: %v", err)
	}
	told = nil
	if _, ok := m.Get("h"); ok || len(told) != 1 || !errors.Is(told[0], copal.ErrType) {
		t.Errorf("a hash as a value of the map: %v, %v", ok, told)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := numbers.Set("n", 1); !errors.Is(err, copal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	told = nil
	if n := numbers.Len(); n != 0 || len(told) != 1 || !errors.Is(told[0], copal.ErrClosed) {
		t.Errorf("after Close: %d, %v", n, told)
	}
}

// TestHashAtASnapshot reads the hash of the snapshot, and is refused writes.
func TestHashAtASnapshot(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := kit.OpenHash[string, int](t, db, "h")
	if err := h.Set("a", 1); err != nil {
		t.Fatal(err)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := h.SetAll(map[string]int{"a": 2, "b": 3}); err != nil {
		t.Fatal(err)
	}
	then := h.At(s)
	if v, err := then.Load("a"); v != 1 || err != nil || then.Has("b") || then.Len() != 1 {
		t.Errorf("the snapshot has %d, %v", v, err)
	}
	_, _, update := then.Update("a", func(u *copal.Entry[int]) error { return nil })
	_, clear := then.Clear()
	_, remove := then.Delete("a")
	for _, err := range []error{then.Set("a", 1), then.SetAll(map[string]int{"a": 1}), then.Rename("x"), then.Expire(1e9), then.Persist(), update, clear, remove} {
		if !errors.Is(err, copal.ErrSnapshot) {
			t.Errorf("a write to a snapshot: %v", err)
		}
	}
	other, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := kit.OpenHash[string, int](t, other, "h").At(s).Load("a"); !errors.Is(err, copal.ErrHandle) {
		t.Errorf("a snapshot of another store: %v", err)
	}
}

// A hash and a list of bytes keep any bytes unchanged with each codec of the store, and show the
// values of other handles as raw reads do.
func TestCollectionsOfBytes(t *testing.T) {
	type note struct{ Text string }
	db := kit.Memory(t, copal.WithCodec(codec.Binary))
	raw, notes := db.Raw().Hash([]byte("h")), kit.OpenHash[string, note](t, db, "h")
	list := db.Raw().List([]byte("l"))
	typed, err := copal.OpenList[note](db, "l")
	mine := []byte("\x00\xff")
	if err := errors.Join(err, notes.Set("note", note{"text"}), raw.Set("\x00:", mine), raw.Set("", nil),
		raw.SetAll(map[string][]byte{"json": []byte(`{"Text":"raw"}`)}), list.PushBack(mine, nil), typed.PushBack(note{"text"})); err != nil {
		t.Fatal(err)
	}
	mine[0] = 'x' // which is the caller's
	want := map[string][]byte{"note": []byte(`{"Text":"text"}`), "\x00:": []byte("\x00\xff"), "": {}, "json": []byte(`{"Text":"raw"}`)}
	if got := maps.Collect(raw.All()); !reflect.DeepEqual(got, want) {
		t.Errorf("the hash has %q, want %q", got, want)
	}
	for field, want := range want {
		if got, err := raw.Load(field); err != nil || got == nil || !bytes.Equal(got, want) {
			t.Errorf("field %q is %q, %v, want %q", field, got, err, want)
		}
	}
	if n, err := notes.Load("json"); n.Text != "raw" || err != nil {
		t.Errorf("bytes as a note: %v, %v", n, err)
	}
	if got, want := slices.Collect(list.All()), [][]byte{[]byte("\x00\xff"), {}, []byte(`{"Text":"text"}`)}; !reflect.DeepEqual(got, want) {
		t.Errorf("the list has %q, want %q", got, want)
	}
	v, exists, err := raw.Update("note", func(u *copal.Entry[[]byte]) error { u.Value = append(u.Value, ' '); return nil })
	if string(v) != `{"Text":"text"} ` || !exists || err != nil {
		t.Errorf("the update gives %q, %v, %v", v, exists, err)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for e, err := range admin.Elements(s, []byte("h")) { // and now none has a codec
		if err != nil || e.Codec != "" || e.Schema != "" {
			t.Errorf("field %q has codec %q, %v", e.Name, e.Codec, err)
		}
	}
}
