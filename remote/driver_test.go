package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/redisserver"
)

// TestUpdatesAreAllCounted: no update is lost, whether of an entry, of a field, of a score, or of a
// list. COPAL_LONG=1 has five times as many.
func TestUpdatesAreAllCounted(t *testing.T) {
	goroutines, times := 8, 20
	switch {
	case os.Getenv("COPAL_LONG") == "1":
		times = 100
	case testing.Short():
		goroutines = 3
	}
	each(t, func(t *testing.T, at target) {
		updatesAreAllCounted(t, at, at.start(t), goroutines, times, func() {})
	})
}

// updatesAreAllCounted calls f while there are updates.
func updatesAreAllCounted(t *testing.T, at target, address string, goroutines, times int, f func()) {
	var wait sync.WaitGroup
	for i := range goroutines {
		db := store(t, at.driverOf(t, address))
		m, err := copal.OpenMap[string, int](db, "numbers")
		if err != nil {
			t.Fatal(err)
		}
		h, _ := copal.OpenHash[string, int](db, "hash")
		z, _ := copal.OpenSortedSet[string](db, "zset")
		l, _ := copal.OpenList[int](db, "list")
		wait.Go(func() {
			for n := range times {
				if _, _, err := m.Update("n", func(e *copal.Entry[int]) error { e.Value++; return nil }); err != nil {
					t.Error(err)
				}
				if n%5 > 0 {
					continue
				}
				if _, _, err := h.Update("f", func(e *copal.Entry[int]) error { e.Value++; return nil }); err != nil {
					t.Error(err)
				}
				if _, _, err := z.Update("m", func(e *copal.Entry[float64]) error { e.Value++; return nil }); err != nil {
					t.Error(err)
				}
				if err := l.Insert(0, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	f()
	wait.Wait()
	db := store(t, at.driverOf(t, address))
	m, _ := copal.OpenMap[string, int](db, "numbers")
	h, _ := copal.OpenHash[string, int](db, "hash")
	z, _ := copal.OpenSortedSet[string](db, "zset")
	l, _ := copal.OpenList[int](db, "list")
	n, _ := m.Get("n")
	field, _ := h.Get("f")
	score, _ := z.Get("m")
	if fewer := goroutines * times / 5; n != goroutines*times || field != fewer || score != float64(fewer) || l.Len() != fewer {
		t.Errorf("%d, %d, %v and %d are counted", n, field, score, l.Len())
	}
}

// TestPops: each element of a list is popped once.
func TestPops(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		l, err := copal.OpenList[int](at.open(t), "list")
		if err != nil {
			t.Fatal(err)
		}
		n := 60
		if testing.Short() {
			n = 20
		}
		for i := range n {
			if err := l.PushBack(i); err != nil {
				t.Fatal(err)
			}
		}
		var wait sync.WaitGroup
		var mu sync.Mutex
		popped := map[int]int{}
		for range 4 {
			wait.Go(func() {
				for {
					v, ok, err := l.PopFront()
					if !ok {
						if err != nil {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					popped[v]++
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		for i := range n {
			if popped[i] != 1 {
				t.Errorf("%d was popped %d times", i, popped[i])
			}
		}
	})
}

// TestPages: a walk over more than a page yields each entry and each element once, of a map and of no other.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d := at.driver(t)
		db := store(t, d)
		m, err := copal.OpenMap[int, int](db, "m*")
		if err != nil {
			t.Fatal(err)
		}
		h, _ := copal.OpenHash[int, int](db, "hash")
		fields := map[int]int{}
		const n = 1700
		var batch []*driver.Write
		for i := range n {
			fields[i] = i
			batch = append(batch, &driver.Write{Key: fmt.Appendf(copal.MapPrefix("m*"), "%d", i), Value: fmt.Append(nil, i)},
				&driver.Write{Key: fmt.Appendf(copal.MapPrefix("mx"), "%d", i), Value: []byte("0")})
		}
		if err := errors.Join(d.WriteAll(t.Context(), batch), h.SetAll(fields)); err != nil {
			t.Fatal(err)
		}
		seen, keys, inHash := map[int]int{}, 0, map[int]int{}
		for k, v := range m.All() {
			if seen[k]++; v != k {
				t.Errorf("%d has %d", k, v)
			}
		}
		for range m.Keys() {
			keys++
		}
		for f := range h.All() {
			inHash[f]++
		}
		if len(seen) != n || keys != n || m.Len() != n || len(inHash) != n || h.Len() != n {
			t.Errorf("there are %d, %d, %d; %d fields, %d", len(seen), keys, m.Len(), len(inHash), h.Len())
		}
		for i := range n {
			if seen[i] != 1 || inHash[i] != 1 {
				t.Fatalf("%d comes %d times and %d times", i, seen[i], inHash[i])
			}
		}
		if err := m.Clear(); err != nil || m.Len() != 0 || db.Raw().Len() != n+1 {
			t.Errorf("Clear leaves %d of it, and %d of all: %v", m.Len(), db.Raw().Len(), err)
		}
	})
}

// TestFSync: a write that asks for it is on the disk, or the error says that it cannot be, and nothing is written.
func TestFSync(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d := at.driver(t)
		m, err := copal.OpenMap[string, int](store(t, d), "numbers")
		if err != nil {
			t.Fatal(err)
		}
		l, _ := copal.OpenList[int](m.DB(), "list")
		can := base(d).has.noFSync == nil
		if can != strings.Contains(at.name, "copal") {
			t.Logf("FSync is possible: %v", can)
		}
		_, _, updated := m.UpdateFSync("b", func(e *copal.Entry[int]) error { e.Value = 1; return nil })
		for name, err := range map[string]error{
			"Set": m.SetFSync("a", 1), "Update": updated, "Insert": l.With(copal.FSync).Insert(0, 1), "Sync": m.Sync(),
			"WriteAll": d.WriteAll(t.Context(), []*driver.Write{{Key: []byte("k"), Durability: engine.Power}}),
			"Edit":     edit(t, d, []byte("set")), "DeleteRange": m.With(copal.FSync).DeleteRange("x", "z"),
		} {
			if can && err != nil || !can && !errors.Is(err, copal.ErrDurability) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := m.DB().Raw().Len(); can && n != 5 || !can && n != 0 {
			t.Errorf("%d keys are written", n)
		}
	})
}

func edit(t *testing.T, d driver.Driver, key []byte) error {
	edits := []driver.Element{{Sub: []byte("a")}, {Sub: []byte("b"), Delete: true}, {Sub: []byte("c")}}
	_, err := d.(driver.Collections).Edit(t.Context(), driver.Of{Key: key, Type: engine.SetType}, edits, engine.Power)
	return err
}

// TestDeadlineWhileTheClockTicks: a deadline is the one that was set, to the millisecond, whenever
// it is asked for.
func TestDeadlineWhileTheClockTicks(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d, key, ctx := at.driver(t), []byte("key"), t.Context()
		if _, err := d.Write(ctx, &driver.Write{Key: key, Value: []byte("a"), Deadline: 4e12}); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			e, err := d.Get(ctx, key, true)
			at, told := d.Deadline(ctx, key)
			if err != nil || told != nil || e.Deadline != 4e12 || at != 4e12 {
				t.Fatal(e.Deadline, err, at, told)
			}
		}
	})
}

// TestConflicts: a write that depends on an entry is made only if that is as it was read.
func TestConflicts(t *testing.T) {
	each(t, func(t *testing.T, at target) {
		d := at.driver(t)
		key, ctx := []byte("key"), t.Context()
		if _, err := d.Write(ctx, &driver.Write{Key: key, Value: []byte("a"), Deadline: 4e12}); err != nil {
			t.Fatal(err)
		}
		was, err := d.Get(ctx, key, true)
		if err != nil || was.Deadline != 4e12 {
			t.Fatal(was, err)
		}
		if err := d.Redate(ctx, key, 5e12, engine.Process); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write(ctx, &driver.Write{Key: key, Value: []byte("b"), Deadline: 4e12, If: &was}); err != nil {
			t.Error(err)
		}
		if at, err := d.Deadline(ctx, key); at != 5e12 || err != nil {
			t.Errorf("the deadline that was to stay is %d, %v", at, err)
		}
		for name, w := range map[string]*driver.Write{
			"a write":    {Key: key, Value: []byte("c"), If: &was},
			"a deletion": {Key: key, Delete: true, If: &was},
			"a new one":  {Key: key, Value: []byte("c"), If: &driver.Entry{}},
			"of none":    {Key: []byte("other"), Value: []byte("c"), If: &was},
		} {
			if _, err := d.Write(ctx, w); !errors.Is(err, driver.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if was, err = d.Get(ctx, key, true); err != nil || string(was.Value) != "b" {
			t.Errorf("there is %v, %v", was, err)
		}
		if existed, err := d.Write(ctx, &driver.Write{Key: key, Delete: true, If: &was}); !existed || err != nil {
			t.Error(existed, err)
		}
		all := d.(driver.Collections)
		set := driver.Of{Key: key, Type: engine.SetType}
		if _, err := all.Edit(ctx, set, []driver.Element{{Sub: []byte("m")}}, engine.Process); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"Get":  one(d.Get(ctx, key, true)),
			"swap": one(d.Write(ctx, &driver.Write{Key: key, Value: []byte("c"), If: &was})),
			"Push": one(all.Push(ctx, driver.Of{Key: key, Type: engine.ListType}, []driver.Element{{}}, true, true, engine.Process)),
		} {
			var other *engine.CollectionError
			if !errors.As(err, &other) || other.Type != "set" || string(other.Key) != "key" {
				t.Errorf("%s of a set: %v", name, err)
			}
		}
	})
}

func one[T any](_ T, err error) error { return err }

// TestNotThere: a call that needs a feature which the server lacks is an error that says so.
func TestNotThere(t *testing.T) {
	db := target{start: serveCopal, change: func(f *features) { f.copal = false }}.open(t)
	_, snapshot := db.Snapshot()
	_, ordered := copal.OpenMap[string, int](db, "m", copal.Ordered())
	for name, err := range map[string]error{"Snapshot": snapshot, "Ordered": ordered, "Update": db.Update(func(*copal.Tx) error { return nil })} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWalksOverARestart: a walk misses nothing when the server dies on its way, and another process goes on.
func TestWalksOverARestart(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed, so none is started again")
	}
	dir, settings := t.TempDir(), []string{"--appendonly", "yes", "--appendfsync", "always"}
	server, err := redisserver.Run(program, dir, settings...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { server.Kill() }()
	_, port, err := net.SplitHostPort(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	d := target{}.driverOf(t, server.Address)
	const count = 5000
	var list []*driver.Write
	var edits []driver.Element
	for i := range count {
		list = append(list, &driver.Write{Key: fmt.Appendf(nil, "m:%d", i), Value: []byte("v")})
		edits = append(edits, driver.Element{Sub: fmt.Append(nil, i), Value: []byte("v")})
	}
	hash := driver.Of{Key: []byte("h"), Type: engine.HashType}
	if err := d.WriteAll(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if _, err := d.(driver.Collections).Edit(t.Context(), hash, edits, engine.Process); err != nil {
		t.Fatal(err)
	}
	restart := func(n int) {
		if n != 1500 {
			return
		}
		server.Kill()
		if server, err = redisserver.Run(program, dir, append([]string{"--port", port}, settings...)...); err != nil {
			t.Fatal(err)
		}
	}
	keys := map[string]int{}
	for e, err := range d.Entries(t.Context(), []byte("m:"), false) {
		if err != nil {
			t.Fatal(err)
		}
		keys[string(e.Key)]++
		restart(len(keys))
	}
	fields := map[string]int{}
	for e, err := range d.(driver.Whole).Elements(t.Context(), hash) {
		if err != nil {
			t.Fatal(err)
		}
		fields[string(e.Sub)]++
		restart(len(fields))
	}
	for i := range count {
		if n := keys[fmt.Sprint("m:", i)]; n != 1 {
			t.Fatalf("key m:%d came %d times, of %d keys", i, n, len(keys))
		}
		if n := fields[fmt.Sprint(i)]; n != 1 {
			t.Fatalf("field %d came %d times, of %d fields", i, n, len(fields))
		}
	}
}
