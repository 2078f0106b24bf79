package surface

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// writesOf returns the verbs that write, by a handle of the map of strings called m.
func writesOf(m *copal.Map[string, string], r *copal.Raw) map[string]error {
	errOf := func(_ any, err error) error { return err }
	err3 := func(_, _ any, err error) error { return err }
	nothing := func(*copal.Entry[string]) error { return nil }
	nothingRaw := func(*copal.Entry[[]byte]) error { return nil }
	k := []byte("m:k")
	later := time.Now().Add(time.Hour)
	return map[string]error{
		"Set": m.Set("k", "v"), "SetAsync": m.SetAsync("k", "v"), "SetFSync": m.SetFSync("k", "v"), "SetInMemory": m.SetInMemory("k", "v"),
		"SetTTL": m.SetTTL("k", "v", time.Hour), "SetUntil": m.SetUntil("k", "v", later),
		"Delete": errOf(m.Delete("k")), "DeleteAsync": errOf(m.DeleteAsync("k")), "DeleteFSync": errOf(m.DeleteFSync("k")),
		"Update": err3(m.Update("k", nothing)), "UpdateAsync": err3(m.UpdateAsync("k", nothing)), "UpdateFSync": err3(m.UpdateFSync("k", nothing)), "UpdateInMemory": err3(m.UpdateInMemory("k", nothing)),
		"Expire": m.Expire("k", time.Hour), "ExpireAt": m.ExpireAt("k", later), "Persist": m.Persist("k"), "GetAndDelete": err3(m.GetAndDelete("k")),
		"map Clear": m.Clear(), "DeleteRange": m.DeleteRange("a", "b"), "DeletePrefix": m.DeletePrefix("zz"),
		"raw Clear": r.Clear(), "raw DeleteRange": r.DeleteRange(k, nil), "raw DeletePrefix": r.DeletePrefix(k),
		"raw Set": r.Set(k, k), "raw SetFSync": r.SetFSync(k, k), "raw SetTTL": r.SetTTL(k, k, time.Hour), "raw SetUntil": r.SetUntil(k, k, later),
		"raw Delete": errOf(r.Delete(k)), "raw DeleteFSync": errOf(r.DeleteFSync(k)), "raw Update": err3(r.Update(k, nothingRaw)), "raw UpdateFSync": err3(r.UpdateFSync(k, nothingRaw)),
		"raw Expire": r.Expire(k, time.Hour), "raw ExpireAt": r.ExpireAt(k, later), "raw Persist": r.Persist(k), "raw GetAndDelete": err3(r.GetAndDelete(k)),
		"Batch": r.Batch().Commit(), "Create": errOf(r.Create(k)),
		"hash": r.Hash([]byte("h")).Set("f", k), "list": r.List([]byte("l")).PushBack(k), "Clear": errOf(r.Hash([]byte("h")).Clear()), "Rename": r.Hash([]byte("h")).Rename("x"),
		"hash Expire": r.Hash([]byte("h")).Expire(time.Hour), "hash ExpireAt": r.Hash([]byte("h")).ExpireAt(later),
	}
}

// readsOf returns the verbs that read, by the same.
func readsOf(m *copal.Map[string, string], r *copal.Raw) map[string]error {
	errOf := func(_ any, err error) error { return err }
	k := []byte("m:k")
	return map[string]error{
		"Load": errOf(m.Load("k")), "TTL": errOf(m.TTL("k")), "Deadline": errOf(m.Deadline("k")), "Range": m.Range(func(string, string) error { return nil }),
		"raw Load": errOf(r.Load(k)), "raw TTL": errOf(r.TTL(k)), "raw Deadline": errOf(r.Deadline(k)),
		"View": r.View(k, func([]byte) error { return nil }), "hash Load": errOf(r.Hash([]byte("h")).Load("f")), "hash TTL": errOf(r.Hash([]byte("h")).TTL()), "list Load": errOf(r.List([]byte("l")).Load(0)),
	}
}

// silentReads returns the verbs whose errors no call can return.
func silentReads(m *copal.Map[string, string], r *copal.Raw) map[string]func() {
	k := []byte("m:k")
	drain := func(list func(func(string, string) bool)) func() {
		return func() { list(func(string, string) bool { return true }) }
	}
	drainRaw := func(list func(func([]byte, []byte) bool)) func() {
		return func() { list(func(_, _ []byte) bool { return true }) }
	}
	return map[string]func(){
		"Get": func() { m.Get("k") }, "Peek": func() { m.Peek("k") }, "Has": func() { m.Has("k") }, "Len": func() { m.Len() },
		"All": drain(m.All()), "From": drain(m.From("a")), "Until": drain(m.Until("z")), "Between": drain(m.Between("a", "z")), "Prefix": drain(m.Prefix("k")),
		"Keys": func() { _ = slices.Collect(m.Keys()) }, "KeysBetween": func() { _ = slices.Collect(m.KeysBetween("a", "z")) }, "Values": func() { _ = slices.Collect(m.Values()) },
		"raw Get": func() { r.Get(k) }, "raw Has": func() { r.Has(k) }, "raw Len": func() { r.Len() }, "raw All": drainRaw(r.All()), "raw Prefix": drainRaw(r.Prefix(k)),
		"raw Keys": func() { _ = slices.Collect(r.Keys()) }, "hash Len": func() { r.Hash([]byte("h")).Len() }, "hash Get": func() { r.Hash([]byte("h")).Get("f") },
	}
}

// TestHandlesThatMeanNothing: each use of a handle that means nothing is an error, which reaches
// the caller or the error handler.
func TestHandlesThatMeanNothing(t *testing.T) {
	var handled kit.ErrorLog
	db := kit.Memory(t, handled.Option())
	m := kit.MapOf[string, string](t, db, "m")
	if err := m.Set("k", "v"); err != nil {
		t.Fatal(err)
	}
	raw := db.Raw()
	other := kit.Memory(t)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	of, err := other.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	refusedBy := func(what string, m *copal.Map[string, string], r *copal.Raw) {
		t.Helper()
		for verb, err := range writesOf(m, r) {
			if !errors.Is(err, copal.ErrHandle) {
				t.Errorf("%s: %s: %v", what, verb, err)
			}
		}
		for verb, err := range readsOf(m, r) {
			if !errors.Is(err, copal.ErrHandle) {
				t.Errorf("%s: %s: %v", what, verb, err)
			}
		}
	}
	refusedBy("a snapshot of another store", m.At(of), raw.At(of))
	refusedBy("no snapshot", m.At(nil), raw.At(nil))
	refusedBy("no transaction", m.In(nil), raw.In(nil))
	refusedBy("no such durability", m.With(7), raw.With(7))
	refusedBy("a snapshot of another store, and then one of this", m.At(of).At(s), raw.At(of).At(s))
	refusedBy("no such durability, and then one", m.With(7).With(copal.Write), raw.With(7).With(copal.Write))
	told := 0
	for _, err := range m.At(of).Watch(context.Background()) {
		if told++; told > 1 || !errors.Is(err, copal.ErrHandle) {
			t.Errorf("a watch of a snapshot of another store: %v", err)
			break
		}
	}
	if told == 0 {
		t.Error("a watch of a snapshot of another store says nothing")
	}
	for verb, err := range writesOf(m.At(s), raw.At(s)) {
		if !errors.Is(err, copal.ErrSnapshot) {
			t.Errorf("a snapshot: %s: %v", verb, err)
		}
	}
	var ended *copal.Tx
	if err := db.Update(func(tx *copal.Tx) error {
		ended = tx
		refusedBy("With in a transaction", m.In(tx).With(copal.FSync), raw.In(tx).With(copal.FSync))
		refusedBy("a transaction With", m.With(copal.FSync).In(tx), raw.With(copal.FSync).In(tx))
		refusedBy("At in a transaction", m.In(tx).At(s), raw.In(tx).At(s))
		refusedBy("a transaction At", m.At(s).In(tx), raw.At(s).In(tx))
		refusedBy("a snapshot of another store, in a transaction", m.At(of).In(tx), raw.At(of).In(tx))
		return nil
	}); err != nil {
		t.Errorf("handles that were refused end a transaction: %v", err)
	}
	if err := other.View(func(tx *copal.Tx) error {
		refusedBy("a transaction of another store", m.In(tx), raw.In(tx))
		return nil
	}); err != nil {
		t.Error(err)
	}
	for verb, err := range readsOf(m.In(ended), raw.In(ended)) {
		if !errors.Is(err, copal.ErrTxDone) {
			t.Errorf("a transaction that has ended: %s: %v", verb, err)
		}
	}
	handled.Take()
	for _, c := range []struct {
		what string
		m    *copal.Map[string, string]
		r    *copal.Raw
		want error
	}{
		{"a transaction that has ended", m.In(ended), raw.In(ended), copal.ErrTxDone},
		{"a snapshot of another store", m.At(of), raw.At(of), copal.ErrHandle},
	} {
		for verb, f := range silentReads(c.m, c.r) {
			f()
			if errs := handled.Take(); len(errs) != 1 || !errors.Is(errs[0], c.want) {
				t.Errorf("%s: %s told the handler %v", c.what, verb, errs)
			}
		}
	}
	if v, err := m.Load("k"); v != "v" || err != nil {
		t.Errorf("in the end there is %q, %v", v, err)
	}
}

// TestWithDurability: each handle of With is as durable as it says, for all verbs.
func TestWithDurability(t *testing.T) {
	verbs := map[string]func(m *copal.Map[string, string], r *copal.Raw) error{
		"Set": func(m *copal.Map[string, string], _ *copal.Raw) error { return m.Set("k", "new") },
		"SetTTL": func(m *copal.Map[string, string], _ *copal.Raw) error {
			return m.SetTTL("k", "new", time.Hour)
		},
		"SetUntil": func(m *copal.Map[string, string], _ *copal.Raw) error {
			return m.SetUntil("k", "new", time.Now().Add(time.Hour))
		},
		"Update": func(m *copal.Map[string, string], _ *copal.Raw) error {
			_, _, err := m.Update("k", func(e *copal.Entry[string]) error { e.Set("new"); return nil })
			return err
		},
		"raw Set": func(_ *copal.Map[string, string], r *copal.Raw) error { return r.Set([]byte("m:k"), []byte(`"new"`)) },
		"raw Batch": func(_ *copal.Map[string, string], r *copal.Raw) error {
			b := r.Batch()
			b.Set([]byte("m:k"), []byte(`"new"`))
			return b.Commit()
		},
		"raw Update": func(_ *copal.Map[string, string], r *copal.Raw) error {
			_, _, err := r.Update([]byte("m:k"), func(e *copal.Entry[[]byte]) error { e.Set([]byte(`"new"`)); return nil })
			return err
		},
	}
	for name, verb := range verbs {
		for _, c := range []struct {
			d                copal.Durability
			process, machine bool // the write survives the death of it
		}{{copal.Async, false, false}, {copal.Write, true, false}, {copal.FSync, true, true}} {
			mem := vfs.NewCrashMem()
			db := kit.OpenOn(t, mem, kit.WithoutRing(), copal.WithMaxMemory(16<<20)) // with less, nothing waits
			m := kit.MapOf[string, string](t, db, "m")
			if err := errors.Join(m.Set("k", "old"), db.Sync()); err != nil {
				t.Fatal(err)
			}
			if err := verb(m.With(c.d), db.Raw().With(c.d)); err != nil {
				t.Fatalf("%s with %v: %v", name, c.d, err)
			}
			isNew := func(fs vfs.FS) bool {
				after := kit.OpenOn(t, fs, kit.WithoutRing())
				defer kit.MustClose(t, after)
				v, err := kit.MapOf[string, string](t, after, "m").Load("k")
				if err != nil {
					t.Errorf("%s with %v: %v", name, c.d, err)
				}
				return v == "new"
			}
			process := c.process || name[:3] == "raw" // of which memory has nothing for itself
			if isNew(mem.ProcessCrash()) != process {
				t.Errorf("%s with %v: after the death of the process it is there: %v", name, c.d, !process)
			}
			lost := 0
			for cut := range mem.PowerCuts(50, nil) {
				if !isNew(cut) {
					lost++
				}
			}
			if (lost == 0) != c.machine {
				t.Errorf("%s with %v: %d power cuts lose it", name, c.d, lost)
			}
		}
	}
}

// TestUpdateThatFails: an error of the function is returned, and the entry stays.
func TestUpdateThatFails(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, []int](t, db, "m")
	h := kit.OpenHash[string, []int](t, db, "h")
	no := errors.New("no such user")
	for _, there := range []bool{false, true} {
		if there {
			if err := errors.Join(m.Set("k", []int{1}), h.Set("k", []int{1})); err != nil {
				t.Fatal(err)
			}
		}
		fails := func(e *copal.Entry[[]int]) error {
			if e.Exists != there {
				t.Errorf("Exists = %v", e.Exists)
			}
			if there {
				e.Value[0] = 9
			}
			return no
		}
		for _, update := range []func(string, func(*copal.Entry[[]int]) error) ([]int, bool, error){m.Update, m.UpdateAsync, m.UpdateFSync, m.UpdateInMemory, h.Update, h.UpdateFSync} {
			if v, exists, err := update("k", fails); v != nil || exists || err != no {
				t.Errorf("Update = %v, %v, %v", v, exists, err)
			}
		}
		if v, _ := m.Get("k"); m.Has("k") != there || there && v[0] != 1 {
			t.Errorf("the entry is %v", v)
		}
		if v, _ := h.Get("k"); h.Has("k") != there || there && v[0] != 1 {
			t.Errorf("the field is %v", v)
		}
	}
}

// TestGetOrSetOnce: of several goroutines one sets, and all get its value; one gets the value that
// GetAndDelete removes.
func TestGetOrSetOnce(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[int, int](t, db, "m")
	raw := db.Raw()
	const goroutines, keys = 4, 200
	var set, got, setRaw, gotRaw [goroutines]int
	var wg sync.WaitGroup
	run := func(f func(g, k int)) {
		for g := range goroutines {
			wg.Go(func() {
				for k := range keys {
					f(g, k)
				}
			})
		}
		wg.Wait()
	}
	var mu sync.Mutex
	values := map[int]int{}
	run(func(g, k int) {
		v, found, err := m.GetOrSet(k, g)
		if err != nil || !found && v != g {
			t.Errorf("GetOrSet = %d, %v, %v", v, found, err)
		}
		if !found {
			set[g]++
		}
		mu.Lock()
		defer mu.Unlock()
		if before, ok := values[k]; ok && before != v {
			t.Errorf("one gets %d and another %d", before, v)
		}
		values[k] = v
		b, found, err := raw.GetOrSet(fmt.Append(nil, "raw", k), fmt.Append(nil, g))
		if err != nil || !found && string(b) != fmt.Sprint(g) {
			t.Errorf("raw GetOrSet = %s, %v, %v", b, found, err)
		}
		if !found {
			setRaw[g]++
		}
	})
	run(func(g, k int) {
		v, existed, err := m.GetAndDelete(k)
		if err != nil || existed && v != values[k] {
			t.Errorf("GetAndDelete = %d, %v, %v", v, existed, err)
		}
		if existed {
			got[g]++
		}
		if _, existed, err := raw.GetAndDelete(fmt.Append(nil, "raw", k)); err != nil {
			t.Error(err)
		} else if existed {
			gotRaw[g]++
		}
	})
	for what, list := range map[string][goroutines]int{"GetOrSet": set, "GetAndDelete": got, "raw GetOrSet": setRaw, "raw GetAndDelete": gotRaw} {
		n := 0
		for _, of := range list {
			n += of
		}
		if n != keys {
			t.Errorf("%s: %d of %d", what, n, keys)
		}
	}
	if n := raw.Len(); n != 0 {
		t.Errorf("%d entries stay", n)
	}
}

// TestVerbsInATransaction: a map in a transaction has all verbs of a map.
func TestVerbsInATransaction(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[string, int](t, db, "m")
	if err := errors.Join(m.Set("a", 1), m.Set("b", 2), m.SetTTL("c", 3, time.Hour)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Hour).Round(time.Second)
	if err := db.Update(func(tx *copal.Tx) error {
		in, raw := m.In(tx), tx.Raw()
		v, exists, err := in.Update("a", func(e *copal.Entry[int]) error { e.Value += 10; return nil })
		if v != 11 || !exists || err != nil {
			t.Errorf("Update = %d, %v, %v", v, exists, err)
		}
		if _, _, err := in.Update("a", func(e *copal.Entry[int]) error { e.Value = 99; return context.Canceled }); err != context.Canceled {
			t.Errorf("an Update that fails: %v", err)
		}
		if v, found, err := in.GetOrSet("d", 4); v != 4 || found || err != nil {
			t.Errorf("GetOrSet = %d, %v, %v", v, found, err)
		}
		if v, existed, err := in.GetAndDelete("b"); v != 2 || !existed || err != nil {
			t.Errorf("GetAndDelete = %d, %v, %v", v, existed, err)
		}
		b, exists, err := raw.Update([]byte("m:c"), func(e *copal.Entry[[]byte]) error { e.Value = append(e.Value, '0'); return nil })
		if string(b) != "30" || !exists || err != nil {
			t.Errorf("raw Update = %s, %v, %v", b, exists, err)
		}
		if err := errors.Join(in.Expire("a", time.Hour), in.ExpireAt("d", deadline), in.Persist("c")); err != nil {
			t.Error(err)
		}
		if err := in.Expire("b", time.Hour); !errors.Is(err, copal.ErrNotFound) {
			t.Errorf("Expire of nothing: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"a": 11, "c": 30, "d": 4}
	got := map[string]int{}
	for k, v := range m.All() {
		got[k] = v
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
	a, err1 := m.TTL("a")
	c, err2 := m.TTL("c")
	d, err3 := m.Deadline("d")
	if err := errors.Join(err1, err2, err3); err != nil || a <= 0 || c != 0 || !d.Equal(deadline) {
		t.Errorf("the deadlines are %v, %v, %v: %v", a, c, d, err)
	}
}

// TestPopsAgainstModel pops members of a sorted set from both ends, among changes, also in
// transactions, and by several goroutines.
func TestPopsAgainstModel(t *testing.T) {
	db := kit.Memory(t)
	z, err := copal.OpenSortedSet[string](db, "z")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	scores := map[string]float64{}
	for range 2000 {
		member := fmt.Sprint(rng.IntN(40))
		if rng.IntN(2) == 0 {
			score := float64(rng.IntN(7))
			if err := z.Set(member, score); err != nil {
				t.Fatal(err)
			}
			scores[member] = score
			continue
		}
		highest := rng.IntN(2) == 0
		var want string
		found := false
		for m, s := range scores {
			if !found || (s > scores[want] || s == scores[want] && m > want) == highest {
				want, found = m, true
			}
		}
		pop := func(z *copal.SortedSetOf[string]) error {
			take := z.PopMin
			if highest {
				take = z.PopMax
			}
			m, s, ok, err := take()
			if ok != found || ok && (m != want || s != scores[want]) {
				t.Fatalf("a pop (highest: %v) has %q, %v, %v, want %q of %v", highest, m, s, ok, want, scores)
			}
			return err
		}
		if rng.IntN(3) == 0 {
			err = db.Update(func(tx *copal.Tx) error { return pop(z.In(tx)) })
		} else {
			err = pop(z)
		}
		if err != nil {
			t.Fatal(err)
		}
		delete(scores, want)
		if z.Len() != len(scores) {
			t.Fatalf("%d members, want %d", z.Len(), len(scores))
		}
	}
	if _, err := z.Clear(); err != nil {
		t.Fatal(err)
	}
	const members = 300
	for i := range members {
		if err := z.Set(fmt.Sprint(i), float64(i%5)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	popped := make([][]string, 4)
	for g := range popped {
		wg.Go(func() {
			for {
				m, _, ok, err := z.PopMin()
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				popped[g] = append(popped[g], m)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(popped...)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != members || len(all) != members {
		t.Errorf("%d pops of %d members, of %d", len(all), n, members)
	}
}

// shape has all that a value can share with another.
type shape struct {
	List  []int
	Map   map[string][]string
	To    *shape
	Any   any
	Array [2][]byte
	Own   ownShape
	Time  time.Time
}

// ownShape has marshallers of its own.
type ownShape struct{ parts []int }

func (o ownShape) MarshalText() ([]byte, error) { return fmt.Append(nil, len(o.parts)), nil }
func (o *ownShape) UnmarshalText(b []byte) error {
	n := 0
	_, err := fmt.Sscan(string(b), &n)
	if o.parts = nil; n > 0 {
		o.parts = make([]int, n)
	}
	return err
}

func newShape() shape {
	return shape{
		List: []int{1, 2}, Map: map[string][]string{"a": {"x", "y"}}, To: &shape{List: []int{3}}, Any: []any{"z", map[string]any{"q": 1.5}},
		Array: [2][]byte{[]byte("b"), []byte("c")}, Own: ownShape{make([]int, 2)}, Time: time.Unix(1, 0).UTC(),
	}
}

// spoil changes everything that a shape points to.
func spoil(s *shape) {
	s.List[0], s.To.List[0], s.Array[0][0], s.Own.parts[0] = -1, -1, 'X', -1
	s.Map["a"][0], s.Map["b"] = "spoilt", nil
	list := s.Any.([]any)
	list[1].(map[string]any)["q"], list[0] = "spoilt", "spoilt"
}

// parts has the fields that each codec keeps, but for types with marshallers, which gob does not
// use.
type parts struct {
	List  []int
	Map   map[string][]string
	To    *struct{ List []int }
	Raw   []byte
	Array [2][]byte
	In    struct{ Times []time.Time }
}

func newParts() parts {
	return parts{
		List: []int{1}, Map: map[string][]string{"a": {"x"}}, To: &struct{ List []int }{[]int{2}}, Raw: []byte("r"), Array: [2][]byte{[]byte("b"), []byte("c")},
		In: struct{ Times []time.Time }{[]time.Time{time.Unix(1, 0).UTC()}},
	}
}

func spoilParts(p *parts) {
	p.List[0], p.To.List[0], p.Raw[0], p.Array[1][0], p.In.Times[0] = -1, -1, 'X', 'X', time.Time{}
	p.Map["a"][0], p.Map["b"] = "spoilt", nil
}

// ownParts has marshallers in it, too.
type ownParts struct {
	Parts parts
	Own   ownShape
	Owns  []ownShape
}

// TestValuesAreTheCallersOwn: a value that any read but Peek returns can be changed, and no other
// read shows it.
func TestValuesAreTheCallersOwn(t *testing.T) {
	for _, memory := range []int64{logtest.Memory, 1} { // values are kept in memory, and are not
		opts := copal.WithMaxMemory(memory)
		ownedBy(t, opts, codec.JSON, newShape, spoil)
		ownedBy(t, opts, codec.JSON, func() []shape { return []shape{newShape()} }, func(s *[]shape) { spoil(&(*s)[0]) })
		ownedBy(t, opts, codec.JSON, func() map[string]*shape { s := newShape(); return map[string]*shape{"k": &s} }, func(s *map[string]*shape) {
			spoil((*s)["k"])
			(*s)["b"] = nil
		})
		ownedBy(t, opts, codec.JSON, func() any { return newShape().Any }, func(v *any) { (*v).([]any)[0] = "spoilt" })
		ownedBy(t, opts, codec.JSON, newParts, spoilParts)
		ownedBy(t, opts, codec.Binary, newParts, spoilParts)
		owns := func() ownParts { return ownParts{newParts(), ownShape{make([]int, 2)}, []ownShape{{make([]int, 1)}}} }
		spoilOwns := func(o *ownParts) {
			spoilParts(&o.Parts)
			o.Own.parts[0], o.Owns[0].parts[0] = -1, -1
		}
		ownedBy(t, opts, codec.JSON, owns, spoilOwns)
		ownedBy(t, opts, codec.Binary, owns, spoilOwns)
		ownedBy(t, opts, codec.Bytes, func() []byte { return []byte("page") }, func(b *[]byte) { (*b)[0] = 'X' })
		ownedBy(t, opts, kit.HexCodec{}, newParts, spoilParts)
	}
}

func ownedBy[V any](t *testing.T, opt copal.Option, c codec.Codec, make func() V, spoil func(*V)) {
	t.Helper()
	db, want := kit.Memory(t, opt), make()
	m := kit.MapOf[string, V](t, db, "m", copal.WithCodec(c))
	if err := m.Set("k", make()); err != nil {
		t.Fatal(err)
	}
	what := fmt.Sprintf("%s, %T", c.Name(), want)
	if v, ok := m.Peek("k"); !ok || !reflect.DeepEqual(v, want) { // and now memory has it
		t.Fatalf("%s: Peek = %+v", what, v)
	}
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reads := map[string]func(m *copal.Map[string, V]) V{
		"Get":      func(m *copal.Map[string, V]) V { v, _ := m.Get("k"); return v },
		"Load":     func(m *copal.Map[string, V]) V { v, _ := m.Load("k"); return v },
		"Backward": func(m *copal.Map[string, V]) V { _, v, _ := kit.FirstOf(m.Backward().All()); return v },
		"All": func(m *copal.Map[string, V]) (v V) {
			for _, v = range m.All() {
				return v
			}
			return v
		},
		"Values": func(m *copal.Map[string, V]) (v V) {
			for v = range m.Values() {
				return v
			}
			return v
		},
		"From": func(m *copal.Map[string, V]) (v V) {
			for _, v = range m.From("a") {
				return v
			}
			return v
		},
		"Between": func(m *copal.Map[string, V]) (v V) {
			for _, v = range m.Backward().Between("a", "z") {
				return v
			}
			return v
		},
		"Prefix": func(m *copal.Map[string, V]) (v V) {
			for _, v = range m.Prefix("k") {
				return v
			}
			return v
		},
		"Range": func(m *copal.Map[string, V]) (v V) {
			m.Range(func(_ string, of V) error { v = of; return nil })
			return v
		},
	}
	look := func(where string, m *copal.Map[string, V]) {
		for verb, read := range reads {
			v := read(m)
			if !reflect.DeepEqual(v, want) {
				t.Fatalf("%s: %s, %s: %+v, want %+v", what, where, verb, v, want)
			}
			spoil(&v)
			for again, read := range reads {
				if v := read(m); !reflect.DeepEqual(v, want) {
					t.Fatalf("%s: %s: what %s returned was changed, and %s sees it: %+v", what, where, verb, again, v)
				}
			}
			if v, _ := m.Peek("k"); !reflect.DeepEqual(v, want) {
				t.Fatalf("%s: %s: what %s returned was changed, and Peek sees it", what, where, verb)
			}
		}
	}
	look("now", m)
	look("a snapshot", m.At(s))
	for verb, read := range map[string]func() (V, error){
		"GetOrSet": func() (V, error) { v, _, err := m.GetOrSet("k", *new(V)); return v, err },
		"History":  func() (v V, err error) { version, err, _ := kit.FirstOf(m.History("k")); return version.Value, err },
		"Watch": func() (v V, err error) {
			change, err, _ := kit.FirstOf(m.Watch(t.Context(), copal.WithAfter(0)))
			return change.Value, err
		},
	} {
		v, err := read()
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Fatalf("%s: %s: %+v, %v", what, verb, v, err)
		}
		spoil(&v)
		look("after "+verb, m)
	}
	if err := db.View(func(tx *copal.Tx) error { look("a transaction", m.In(tx)); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, update := range []func(string, func(*copal.Entry[V]) error) (V, bool, error){m.Update, m.UpdateAsync} {
		v, _, err := update("k", func(e *copal.Entry[V]) error { spoil(&e.Value); e.Cancel(); return nil })
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Fatalf("%s: an Update that is cancelled returns %+v, %v", what, v, err)
		}
		spoil(&v)
		look("after an Update", m)
		if v, _, err = update("k", func(e *copal.Entry[V]) error { return nil }); err != nil || !reflect.DeepEqual(v, want) {
			t.Fatalf("%s: Update returns %+v, %v", what, v, err)
		}
		spoil(&v)
		look("after an Update that writes", m)
	}
}
