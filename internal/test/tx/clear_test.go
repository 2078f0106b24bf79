package tx

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// TestDeleteRangeByValue: a range of a map goes by its keys' values, not their text, also when the
// log is read again.
func TestDeleteRangeByValue(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		mem := vfs.NewMem()
		db := kit.OpenOn(t, mem)
		var opts []copal.MapOption
		if ordered {
			opts = append(opts, copal.Ordered())
		}
		ages := kit.MapOf[int, string](t, db, "ages", opts...)
		type place struct {
			Row  int
			Name string
		}
		seats := kit.MapOf[place, bool](t, db, "seats", opts...)
		for i := -20; i <= 120; i++ {
			if err := errors.Join(ages.Set(i, "v"), seats.Set(place{i % 11, fmt.Sprint(i)}, true)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(ages.DeleteRange(-5, 100), ages.DeleteRange(7, 7), ages.DeleteRange(110, 3)); err != nil {
			t.Fatal(err)
		}
		if err := ages.DeletePrefix("11"); err != nil {
			t.Fatal(err)
		}
		if err := seats.DeleteRange(place{Row: 2}, place{Row: 9, Name: "5"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var left []int
			for k := range ages.Keys() {
				left = append(left, k)
			}
			slices.Sort(left)
			var want []int
			for i := -20; i <= 120; i++ {
				if !(i >= -5 && i < 100) && !(i >= 110 && i < 120) {
					want = append(want, i)
				}
			}
			if !slices.Equal(left, want) {
				t.Errorf("ordered %v: there are %v, want %v", ordered, left, want)
			}
			n := 0
			for i := -20; i <= 120; i++ {
				p := place{i % 11, fmt.Sprint(i)}
				gone := p.Row >= 2 && (p.Row < 9 || p.Row == 9 && p.Name < "5")
				if seats.Has(p) == gone {
					t.Errorf("ordered %v: %v is there: %v", ordered, p, !gone)
				}
				if !gone {
					n++
				}
			}
			if seats.Len() != n {
				t.Errorf("%d seats are counted, want %d", seats.Len(), n)
			}
			db = kit.OpenOn(t, mem.ProcessCrash())
			ages = kit.MapOf[int, string](t, db, "ages", opts...)
			seats = kit.MapOf[place, bool](t, db, "seats", opts...)
		}
	}
}

// TestRangesSurvivePowerCuts: a range deletion with FSync is on the disk when it returns.
func TestRangesSurvivePowerCuts(t *testing.T) {
	for name, remove := range map[string]func(m *copal.Map[string, int], raw *copal.Raw) error{
		"Clear":            func(m *copal.Map[string, int], _ *copal.Raw) error { return m.Clear() },
		"DeletePrefix":     func(m *copal.Map[string, int], _ *copal.Raw) error { return m.DeletePrefix("k") },
		"DeleteRange":      func(m *copal.Map[string, int], _ *copal.Raw) error { return m.DeleteRange("a", "z") },
		"raw Clear":        func(_ *copal.Map[string, int], raw *copal.Raw) error { return raw.Clear() },
		"raw DeletePrefix": func(_ *copal.Map[string, int], raw *copal.Raw) error { return raw.DeletePrefix([]byte("m:")) },
		"raw DeleteRange":  func(_ *copal.Map[string, int], raw *copal.Raw) error { return raw.DeleteRange([]byte("m"), nil) },
	} {
		for _, d := range []copal.Durability{copal.Write, copal.FSync} {
			mem := vfs.NewCrashMem()
			db := kit.OpenOn(t, mem)
			m := kit.MapOf[string, int](t, db, "m")
			if err := errors.Join(m.Set("k1", 1), m.Set("k2", 2), db.Sync(), remove(m.With(d), db.Raw().With(d))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			lost := 0
			for cut := range mem.PowerCuts(20, nil) {
				after := kit.OpenOn(t, cut)
				if n := kit.MapOf[string, int](t, after, "m").Len(); n != 0 {
					lost++
				}
				kit.MustClose(t, after)
			}
			if (lost == 0) != (d == copal.FSync) {
				t.Errorf("%s with %v: %d power cuts lose it", name, d, lost)
			}
		}
	}
}

// TestTwoRangesInATransaction: a transaction finds no entry of any range that it has deleted, and
// neither does a reader after it, also of entries that others set meanwhile.
func TestTwoRangesInATransaction(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	m, raw := kit.MapOf[string, int](t, db, "m"), db.Raw()
	keys := []string{"a1", "a2", "b1", "b2", "c1"}
	for i, key := range keys {
		kit.MustSet(t, m, key, i)
		for _, list := range []string{"x ", "y "} {
			if err := raw.Hash([]byte(list+key)).Set("field", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := db.Update(func(tx *copal.Tx) error {
		m, raw := m.In(tx), raw.In(tx)
		if err := errors.Join(m.DeletePrefix("a"), raw.DeletePrefix([]byte("x ")), m.DeletePrefix("b")); err != nil {
			return err
		}
		for _, key := range keys {
			_, got := m.Get(key)
			_, loaded := m.Load(key)
			if has := m.Has(key); has != (key == "c1") || got != has || (loaded == nil) != has {
				t.Errorf("in the transaction %s is there: Has %v, Get %v, Load %v", key, has, got, loaded)
			}
			if n := raw.Hash([]byte("x " + key)).Len(); n != 0 {
				t.Errorf("in the transaction the hash x %s has %d fields", key, n)
			}
			if n := raw.Hash([]byte("y " + key)).Len(); n != 1 {
				t.Errorf("in the transaction the hash y %s has %d fields", key, n)
			}
		}
		if left := slices.Collect(m.Keys()); m.Len() != 1 || !slices.Equal(left, []string{"c1"}) {
			t.Errorf("in the transaction there are %d entries: %v", m.Len(), left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *copal.Tx) (err error) { // which reads nothing, so others may write
		if err := errors.Join(m.In(tx).DeletePrefix("a"), m.In(tx).DeletePrefix("b")); err != nil {
			return err
		}
		var others sync.WaitGroup
		others.Go(func() { err = errors.Join(m.Set("a3", 1), m.Set("b3", 1), m.SetAsync("a4", 1)) })
		others.Wait()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if left := slices.Collect(m.Keys()); m.Len() != 1 || !slices.Equal(left, []string{"c1"}) {
			t.Errorf("there are %d entries: %v", m.Len(), left)
		}
		db = kit.OpenOn(t, mem.ProcessCrash())
		m = kit.MapOf[string, int](t, db, "m")
	}
}

// TestDrop: a map that was dropped is as if it had never been, and may come again with other types.
func TestDrop(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem)
	m := kit.MapOf[string, int](t, db, "m", copal.Ordered())
	other := kit.MapOf[string, int](t, db, "mother")
	if err := errors.Join(m.Set("a", 1), m.SetAsync("b", 2), other.Set("a", 3)); err != nil {
		t.Fatal(err)
	}
	if err := db.Drop("m"); err == nil {
		t.Error("an open map is dropped")
	}
	if err := errors.Join(m.Close(), db.Drop("m"), db.Drop("m"), db.Drop("never")); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"kill", "close"} {
		for name, n := range db.Maps() {
			if name != "mother" || n != 1 {
				t.Errorf("there is a map %q of %d", name, n)
			}
		}
		if db.Raw().Len() != 1 {
			t.Errorf("there are %d keys", db.Raw().Len())
		}
		if end == "close" {
			kit.MustClose(t, db)
		} else {
			mem = mem.ProcessCrash()
		}
		db = kit.OpenOn(t, mem)
	}
	again := kit.MapOf[int, []string](t, db, "m")
	if err := again.Set(1, []string{"x"}); err != nil || again.Len() != 1 {
		t.Errorf("the map anew: %d entries, %v", again.Len(), err)
	}
	kit.MustClose(t, db)
	db = kit.OpenOn(t, mem, copal.ReadOnly())
	if err := db.Drop("m"); !errors.Is(err, copal.ErrReadOnly) {
		t.Errorf("dropping a map of a store that is read-only: %v", err)
	}
}

// TestWatchOfRanges: a program that replays a watch has the entries of the map, however many write,
// clear and delete ranges at once.
func TestWatchOfRanges(t *testing.T) {
	db := kit.OpenOn(t, vfs.NewMem(), copal.WithErrorHandler(func(err error) { t.Error(err) }))
	m := kit.MapOf[int, int](t, db, "m", copal.Ordered())
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 28))
			for i := range 300 {
				k := rng.IntN(200)
				var err error
				switch rng.IntN(12) {
				case 0:
					err = m.DeleteRange(k, k+rng.IntN(60))
				case 1:
					err = m.DeletePrefix(fmt.Sprint(k))
				case 2:
					err = db.Update(func(tx *copal.Tx) error {
						return errors.Join(m.In(tx).Set(k, -i), m.In(tx).DeleteRange(k-10, k+10), m.In(tx).Set(k+1, i))
					})
				case 3:
					err = m.SetAsync(k, i)
				case 4:
					_, err = m.Delete(k)
				default:
					err = m.Set(k, i)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(db.Sync(), m.Set(1000, 1)); err != nil { // the last change
		t.Fatal(err)
	}
	told, ranges := map[int]int{}, 0
	check := func(seq uint64) {
		before, err := db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		if before.Seq() != seq {
			t.Errorf("the last change told has number %d, the snapshot %d", seq, before.Seq())
		}
		if now := maps.Collect(m.At(before).All()); !maps.Equal(told, now) {
			t.Errorf("%d entries are told, and there are %d", len(told), len(now))
		}
	}
	for c, err := range m.Watch(t.Context(), copal.WithAfter(0)) {
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Range:
			ranges++
			maps.DeleteFunc(told, func(k, _ int) bool { return c.Covers(k) })
		case c.Deleted:
			delete(told, c.Key)
		default:
			told[c.Key] = c.Value
		}
		if c.Key == 1000 {
			check(c.Seq)
			break
		}
	}
	if ranges < 100 {
		t.Errorf("%d ranges are told", ranges)
	}
	kit.MustClose(t, db)
}
