package crash

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/vfs"
)

// Trap: memory that keeps a value which the log refused; errors only logged.
func TestTrapFailedWrite(t *testing.T) {
	for name, write := range map[string]vfs.Fault{
		"written":       {Kinds: vfs.OpWrite, Match: kit.IsLog},
		"written short": {Kinds: vfs.OpWrite, Match: kit.IsLog, Short: true},
		"mapped":        {Kinds: vfs.OpStore},
	} {
		t.Run(name, func(t *testing.T) {
			if write.Kinds == vfs.OpStore && os.Getenv("COPAL_NO_MMAP") == "1" {
				t.Skip("mapping is off")
			}
			short := write.Short
			var handled kit.ErrorLog
			fault, on := kit.Armed(write)
			mem := vfs.NewMem()
			opts := []copal.Option{handled.Option()}
			if name != "mapped" {
				opts = append(opts, kit.WithoutRing())
			}
			db := kit.OpenOn(t, vfs.Inject(mem, fault), opts...)
			m := kit.MapOf[string, int](t, db, "m")
			kit.MustSet(t, m, "k", 1)
			kit.MustSet(t, m, "other", 2)
			handled.Take()
			on.Store(true)
			cause := vfs.ErrInjected
			if err := m.Set("k", 10); err == nil {
				t.Fatal("a failed write returns nil")
			} else if !short {
				kit.WantErr(t, "Set", err, cause)
			}
			check := func(db *copal.DB) {
				t.Helper()
				m := kit.MapOf[string, int](t, db, "m")
				kit.WantLoad(t, m, "k", 1)
				kit.WantAbsent(t, m, "new")
				if got := maps.Collect(m.All()); !maps.Equal(got, map[string]int{"k": 1, "other": 2}) || m.Len() != 2 {
					t.Errorf("All yields %v, Len is %d", got, m.Len())
				}
				kit.WantRaw(t, db, "m:k", "1")
			}
			check(db)
			// The outcome of such a failure is not known, so that no later write is taken.
			for what, err := range refusals(db, m) {
				kit.WantErr(t, what, err, copal.ErrReadOnly)
				if !short {
					kit.WantErr(t, what+", for its cause", err, cause)
				}
			}
			check(db)
			db.Close()
			after := kit.OpenOn(t, mem)
			check(after)
			kit.MustSet(t, kit.MapOf[string, int](t, after, "m"), "k", 3)
		})
	}
}

// refusals tries every kind of write, with keys that are there and that are not.
func refusals(db *copal.DB, m *copal.Map[string, int]) map[string]error {
	_, del := m.Delete("k")
	_, delNone := m.Delete("none")
	_, delSync := m.DeleteFSync("none")
	_, rawDel := db.Raw().Delete([]byte("m:k"))
	_, single := db.Raw().Delete([]byte("m:k"))
	_, _, update := m.Update("k", func(u *copal.Entry[int]) error { u.Value = 11; return nil })
	_, _, updateNone := m.UpdateFSync("new", func(u *copal.Entry[int]) error { u.Value = 1; return nil })
	return map[string]error{
		"Set": m.Set("k", 11), "Set of a new key": m.Set("new", 1), "SetFSync": m.SetFSync("k", 11), "Delete": del,
		"Delete of nothing": delNone, "DeleteFSync of nothing": delSync, "Put": db.Raw().Set([]byte("m:k"), []byte("11")),
		"raw Delete": rawDel, "copal.Set": copal.Set(db, "m:k", 11), "copal.Delete": single,
		"copal.Set of a new type": copal.Set(db, "m:k", []bool{true}),
		"Update":                  update, "UpdateFSync of a new key": updateNone, "Sync": db.Sync(), "Map.Sync": m.Sync(),
	}
}

// A full disk refuses writes with ErrNoSpace, changes nothing, and takes them again
// when there is room. Whichever operation meets it first.
func TestFullDisk(t *testing.T) {
	t.Run("written", func(t *testing.T) {
		fullDisk(t, vfs.OpWrite|vfs.OpCreate, 80, kit.WithoutRing())
	})
	// Reserved room can be written.
	t.Run("mapped", func(t *testing.T) { fullDisk(t, vfs.OpCreate|vfs.OpAllocate|vfs.OpPopulate, 20) })
}

func fullDisk(t *testing.T, kinds vfs.Kind, least int, opts ...copal.Option) {
	for n := 1; ; n++ {
		fault := &vfs.Fault{Kinds: kinds, N: n/2 + 1, Err: vfs.ErrNoSpace, Short: n%2 == 0}
		mem := vfs.NewMem()
		fsys := vfs.Inject(mem, fault)
		var handled kit.ErrorLog
		db := kit.OpenOn(t, fsys, append(opts, handled.Option(), kit.WithInline(), kit.WithSegmentBytes(300))...)
		m := kit.MapOf[string, string](t, db, "m")
		want, refused := map[string]string{}, 0
		for i := range 30 {
			key, value := fmt.Sprint("k", i%7), strings.Repeat("v", 30-i)
			switch err := m.Set(key, value); {
			case err == nil:
				want[key] = value
			case !errors.Is(err, copal.ErrNoSpace) || errors.Is(err, copal.ErrReadOnly):
				t.Fatalf("fault %d: Set: %v, want ErrNoSpace", n, err)
			default:
				refused++
			}
			if got := maps.Collect(m.All()); !maps.Equal(got, want) {
				t.Fatalf("fault %d, operation %d: All yields %v, want %v", n, i, got, want)
			}
		}
		if refused > 1 {
			t.Errorf("fault %d: one full moment refused %d writes", n, refused)
		}
		kit.MustClose(t, db)
		if report, err := kit.CheckFS(kit.StoreDir, mem); err != nil || report.TornBytes > 0 {
			t.Errorf("fault %d: Check = %v, %v", n, report, err)
		}
		if got := maps.Collect(kit.MapOf[string, string](t, kit.OpenOn(t, mem), "m").All()); !maps.Equal(got, want) {
			t.Fatalf("fault %d: reopened, All yields %v, want %v", n, got, want)
		}
		if !fsys.Fired() {
			if n < least {
				t.Errorf("only %d operations met the full disk", n)
			}
			return
		}
	}
}

// The disk stays full: everything is refused but reading and closing, and then goes on.
func TestFullDiskForAWhile(t *testing.T) {
	fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpWrite | vfs.OpCreate | vfs.OpAllocate, Err: vfs.ErrNoSpace, Forever: true})
	mem := vfs.NewMem()
	var handled kit.ErrorLog // gets the error of the mark that could not be written
	db := kit.OpenOn(t, vfs.Inject(mem, fault), handled.Option(), kit.WithoutRing())
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	full.Store(true)
	for what, err := range refusals(db, m) {
		if what == "Sync" || what == "Map.Sync" || strings.HasSuffix(what, "of nothing") {
			if err != nil {
				t.Errorf("%s needs no space: %v", what, err)
			}
			continue
		}
		kit.WantErr(t, what, err, copal.ErrNoSpace)
		if errors.Is(err, copal.ErrReadOnly) {
			t.Errorf("%s: a full disk is no reason to refuse for good: %v", what, err)
		}
	}
	kit.WantErr(t, "Set of a large value", copal.Set(db, "large", strings.Repeat("x", 3<<20)), copal.ErrNoSpace)
	kit.WantLoad(t, m, "k", 1)
	full.Store(false)
	kit.MustSet(t, m, "k", 2)
	if err := m.SetFSync("new", 3); err != nil {
		t.Error(err)
	}
	kit.MustClose(t, db)
	if got := maps.Collect(kit.MapOf[string, int](t, kit.OpenOn(t, mem), "m").All()); !maps.Equal(got, map[string]int{"k": 2, "new": 3}) {
		t.Errorf("All yields %v", got)
	}
}

// A full disk refuses writes, except deletions: a little is reserved for deletions. With room,
// everything goes on.
func TestDeleteOnAFullDisk(t *testing.T) {
	for name, opts := range map[string][]copal.Option{"written": {kit.WithoutRing()}, "mapped": nil} {
		t.Run(name, func(t *testing.T) {
			fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpCreate | vfs.OpAllocate, Err: vfs.ErrNoSpace, Forever: true})
			mem := vfs.NewMem()
			var handled kit.ErrorLog
			db := kit.OpenOn(t, vfs.Inject(mem, fault), append(opts, handled.Option())...)
			m := kit.MapOf[int, string](t, db, "m")
			want := map[int]string{}
			value := strings.Repeat("v", 10_000)
			kit.MustSet(t, m, 0, value)
			want[0] = value
			full.Store(true) // beyond the reserved room
			for i := 1; ; i++ {
				if err := m.Set(i, value); err != nil {
					kit.WantErr(t, "Set", err, copal.ErrNoSpace)
					break
				}
				if want[i] = value; i > 10_000 {
					t.Fatal("the disk is never full")
				}
			}
			if got := maps.Collect(m.All()); !maps.Equal(got, want) {
				t.Errorf("on the full disk there are %d entries, want %d", len(got), len(want))
			}
			for i := range 50 {
				if existed, err := m.Delete(i); !existed || err != nil {
					t.Fatalf("Delete(%d) = %v, %v", i, existed, err)
				}
				delete(want, i)
			}
			if err := db.Sync(); err != nil {
				t.Error(err)
			}
			full.Store(false)
			kit.MustSet(t, m, -1, "room")
			want[-1] = "room"
			crashed := mem.ProcessCrash()
			kit.MustClose(t, db)
			for _, life := range []*vfs.Mem{crashed, mem} {
				if got := maps.Collect(kit.MapOf[int, string](t, kit.OpenOn(t, life), "m").All()); !maps.Equal(got, want) {
					t.Errorf("reopened, there are %d entries, want %d", len(got), len(want))
				}
			}
		})
	}
}

// Records that a killed process left in the ring are read on a full disk, too, and written when
// there is room.
func TestOpenARingOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	m := kit.MapOf[string, int](t, kit.OpenOn(t, mem), "m")
	kit.MustSet(t, m, "k", 1)
	kit.MustSet(t, m, "l", 2)
	crashed := mem.ProcessCrash()
	fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpWrite | vfs.OpCreate | vfs.OpAllocate, Err: vfs.ErrNoSpace, Forever: true})
	full.Store(true)
	db := kit.OpenOn(t, vfs.Inject(crashed, fault))
	m = kit.MapOf[string, int](t, db, "m")
	kit.WantLoad(t, m, "k", 1)
	kit.WantLoad(t, m, "l", 2)
	kit.WantErr(t, "Set", m.Set("k", 3), copal.ErrNoSpace)
	kit.WantLoad(t, m, "k", 1)
	full.Store(false)
	kit.MustSet(t, m, "k", 3)
	kit.MustClose(t, db)
	m = kit.MapOf[string, int](t, kit.OpenOn(t, crashed), "m")
	kit.WantLoad(t, m, "k", 3)
	kit.WantLoad(t, m, "l", 2)
}

// Trap: recovery needs free disk space for a copy of the last file.
func TestTrapOpenOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	db := kit.OpenOn(t, mem, kit.WithoutRing())
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	kit.MustSet(t, m, "torn", 2)
	crashed := mem.ProcessCrash()
	log := kit.LastLog(t, crashed)
	text := kit.ReadFile(t, crashed, log)
	kit.WriteFile(t, crashed, log, text[:len(text)-1])
	fault, full := kit.Armed(vfs.Fault{Kinds: vfs.OpWrite | vfs.OpCreate | vfs.OpAllocate, Err: vfs.ErrNoSpace, Forever: true})
	full.Store(true)
	db = kit.OpenOn(t, vfs.Inject(crashed, fault))
	m = kit.MapOf[string, int](t, db, "m")
	kit.WantLoad(t, m, "k", 1)
	kit.WantErr(t, "Set", m.Set("k", 3), copal.ErrNoSpace)
	kit.WantLoad(t, m, "k", 1)
	full.Store(false)
	kit.MustSet(t, m, "k", 3)
	kit.MustClose(t, db)
	kit.WantLoad(t, kit.MapOf[string, int](t, kit.OpenOn(t, crashed), "m"), "k", 3)
}

// Trap: a durable write that returns nil though the fsync failed; fsync tried again
// after it failed, and believed.
func TestTrapFailedSync(t *testing.T) {
	for what, write := range map[string]func(m *copal.Map[string, int]) error{
		"SetFSync":    func(m *copal.Map[string, int]) error { return m.SetFSync("k", 2) },
		"DeleteFSync": func(m *copal.Map[string, int]) error { _, err := m.DeleteFSync("k"); return err },
		"Map.Sync":    func(m *copal.Map[string, int]) error { return m.Sync() },
		"Sync":        func(m *copal.Map[string, int]) error { return m.DB().Sync() },
		"Map.Close":   func(m *copal.Map[string, int]) error { return m.Close() },
		"DB.Close":    func(m *copal.Map[string, int]) error { return m.DB().Close() },
	} {
		t.Run(what, func(t *testing.T) {
			var handled kit.ErrorLog
			fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpSync, Match: kit.IsLog}) // once: a second sync would say yes
			mem := vfs.NewCrashMem()
			fsys := vfs.Inject(mem, fault)
			db := kit.OpenOn(t, fsys, handled.Option(), copal.WithSyncInterval(time.Hour))
			m := kit.MapOf[string, int](t, db, "m")
			if err := m.SetFSync("safe", 1); err != nil {
				t.Fatal(err)
			}
			kit.MustSet(t, m, "k", 1)
			on.Store(true)
			kit.WantErr(t, what, write(m), vfs.ErrInjected)
			on.Store(false)
			if what != "DB.Close" {
				m = kit.MapOf[string, int](t, db, "m")
				for what, err := range refusals(db, m) {
					kit.WantErr(t, what, err, copal.ErrReadOnly)
					kit.WantErr(t, what+", for its cause", err, vfs.ErrInjected)
				}
				kit.WantLoad(t, m, "safe", 1)
				kit.WantErr(t, "Close", db.Close(), vfs.ErrInjected)
			}
			for cut := range mem.PowerCuts(20, nil) {
				m := kit.MapOf[string, int](t, kit.OpenOn(t, cut), "m")
				kit.WantLoad(t, m, "safe", 1)
				kit.MustSet(t, m, "k", 7)
			}
		})
	}
}

// Trap: errors only logged; a Close that returns nil though something could not be
// written. A failed sync in the background reaches the handler once, and Close.
func TestTrapFailedBackgroundSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled kit.ErrorLog
		fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpSync, Match: kit.IsLog})
		db := kit.OpenOn(t, vfs.Inject(vfs.NewMem(), fault), handled.Option())
		m := kit.MapOf[string, int](t, db, "m")
		kit.MustSet(t, m, "k", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		handled.WantTaken(t, 0, nil)
		kit.MustSet(t, m, "k", 2)
		on.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		handled.WantTaken(t, 1, vfs.ErrInjected)
		on.Store(false)
		kit.WantErr(t, "Set", m.Set("k", 3), copal.ErrReadOnly)
		kit.WantErr(t, "Set, for its cause", m.Set("k", 3), vfs.ErrInjected)
		time.Sleep(time.Hour)
		synctest.Wait()
		kit.WantLoad(t, m, "k", 2)
		kit.WantErr(t, "Close", db.Close(), vfs.ErrInjected)
		handled.WantTaken(t, 0, nil)
	})
}

// An entry that expires after a failed sync is gone, and the store neither reports it nor tries to
// write its end: nothing more reaches the disk.
func TestExpiryAfterAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled kit.ErrorLog
		fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpSync, Match: kit.IsLog})
		fsys := vfs.Inject(vfs.NewMem(), fault)
		db := kit.OpenOn(t, fsys, handled.Option(), copal.WithSyncInterval(time.Hour))
		m := kit.MapOf[string, int](t, db, "m", copal.ExpiryEvents())
		raw := db.Raw()
		if err := errors.Join(raw.TellExpiry(), m.Set("stays", 1), m.SetTTL("k", 1, time.Minute), raw.SetTTL([]byte("k"), nil, 2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		on.Store(true)
		kit.WantErr(t, "Sync", db.Sync(), vfs.ErrInjected)
		on.Store(false)
		synctest.Wait()
		handled.Take()
		ops := len(fsys.Ops())
		time.Sleep(time.Hour)
		synctest.Wait()
		handled.WantTaken(t, 0, nil)
		if more := fsys.Ops()[ops:]; len(more) > 0 {
			t.Errorf("there are %d more operations: %v", len(more), more[0])
		}
		if m.Has("k") || raw.Has([]byte("k")) || m.Len() != 1 || raw.Len() != 1 {
			t.Errorf("%d entries, %d of the map", raw.Len(), m.Len())
		}
		kit.WantErr(t, "Close", db.Close(), vfs.ErrInjected)
	})
}

// syncsOf counts the syncs of the log.
func syncsOf(fsys *vfs.Faulty) int {
	n := 0
	for _, op := range fsys.Ops() {
		if op.Kind == vfs.OpSync && kit.IsLog(op.Name) {
			n++
		}
	}
	return n
}

// A Set reaches the disk one sync interval after it, and not before.
func TestSyncInterval(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Millisecond, time.Second, 20 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			fsys := vfs.Inject(vfs.NewMem())
			db := kit.OpenOn(t, fsys, copal.WithSyncInterval(d))
			if db.Stats().SyncInterval != d {
				t.Errorf("SyncInterval = %v, want %v", db.Stats().SyncInterval, d)
			}
			m := kit.MapOf[int, int](t, db, "m")
			for range 3 {
				kit.MustSet(t, m, 0, 0)
				synctest.Wait()
				before := syncsOf(fsys)
				for i := range 9 { // more writes do not put it off
					time.Sleep(d / 10)
					kit.MustSet(t, m, i, i)
				}
				synctest.Wait()
				if n := syncsOf(fsys) - before; n != 0 {
					t.Errorf("%v: %d syncs before the interval was over", d, n)
				}
				time.Sleep(d / 10)
				synctest.Wait()
				if n := syncsOf(fsys) - before; n != 1 {
					t.Errorf("%v: %d syncs after the interval, want 1", d, n)
				}
				time.Sleep(d / 2) // nothing waits
			}
			before := syncsOf(fsys)
			kit.MustSet(t, m, 1, 1)
			synctest.Wait()
			time.Sleep(d - time.Nanosecond)
			synctest.Wait()
			if n := syncsOf(fsys) - before; n != 0 {
				t.Errorf("%v: %d syncs before the interval was over", d, n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := syncsOf(fsys) - before; n != 1 {
				t.Errorf("%v: %d syncs after the interval, want 1", d, n)
			}
		})
	}
}

// The default is a second.
func TestSyncIntervalDefault(t *testing.T) {
	db := kit.Memory(t)
	if d := db.Stats().SyncInterval; d != time.Second {
		t.Errorf("SyncInterval = %v", d)
	}
}

// Without writes the disk is left alone.
func TestNoDiskActivityWithoutWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Inject(vfs.NewMem()).Trace(vfs.Reading)
		db := kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Millisecond))
		rest := func(when string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			before := fsys.Seen()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if after := fsys.Ops(); len(after) != before {
				t.Errorf("%s: %v", when, after[before:])
			}
		}
		rest("after Open")
		m := kit.MapOf[int, int](t, db, "m")
		kit.MustSet(t, m, 1, 1)
		rest("after a Set")
		if err := m.SetFSync(1, 2); err != nil {
			t.Fatal(err)
		}
		rest("after a SetFSync")
		if existed, err := m.Delete(7); existed || err != nil {
			t.Errorf("Delete = %v, %v", existed, err)
		}
		rest("after a Delete of nothing")
		before := fsys.Seen()
		for range m.All() {
		}
		kit.WantLoad(t, m, 1, 2)
		db.Stats()
		for _, op := range fsys.Ops()[before:] {
			if op.Kind&vfs.Mutating != 0 {
				t.Errorf("reading does: %v", op)
			}
		}
	})
}

// Trap: the fsync holds the lock that every reader and writer needs. And: concurrent
// callers of SetFSync share one.
func TestTrapSyncHoldsNobody(t *testing.T) {
	release := make(chan struct{})
	fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpSync, Match: kit.IsLog, Hold: release})
	fsys := vfs.Inject(vfs.NewMem(), fault)
	db := kit.OpenOn(t, fsys, copal.WithSyncInterval(time.Hour))
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	before := syncsOf(fsys)
	var held sync.WaitGroup
	on.Store(true)
	setFSync := func(key string) {
		held.Go(func() {
			if err := m.SetFSync(key, 2); err != nil {
				t.Error(err)
			}
		})
	}
	setFSync("k")
	for fsys.Matched(0) == 0 {
		runtime.Gosched()
	}
	// The disk is busy now, and all of this goes on.
	kit.WantLoad(t, m, "k", 2)
	kit.MustSet(t, m, "k", 3)
	kit.MustSet(t, m, "new", 4)
	if existed, err := m.Delete("new"); !existed || err != nil {
		t.Errorf("Delete = %v, %v", existed, err)
	}
	for k, v := range m.All() {
		if k != "k" || v != 3 {
			t.Errorf("All yields %v: %v", k, v)
		}
	}
	kit.MustPut(t, db, "raw", "1")
	kit.MustSet(t, kit.MapOf[string, string](t, db, "another"), "k", "v")
	if n := db.Stats().Keys; n != 3 {
		t.Errorf("%d keys", n)
	}
	records := db.Stats().Records
	const callers = 50
	for i := range callers {
		setFSync(fmt.Sprint("key ", i))
	}
	for db.Stats().Records < records+callers {
		runtime.Gosched()
	}
	close(release)
	held.Wait()
	if n := syncsOf(fsys) - before; n != 2 {
		t.Errorf("%d callers beside one sync took %d syncs, want 2", callers, n)
	}
}

// Check finds no damage in a store after a full disk or a failure.
func TestCheckAfterFailures(t *testing.T) {
	for n := 1; n < 12; n++ {
		mem := vfs.NewMem()
		var handled kit.ErrorLog
		db, err := kit.TryOpen(t, vfs.Inject(mem, &vfs.Fault{N: n}), handled.Option(), kit.WithInline())
		if err != nil {
			kit.WantErr(t, "Open", err, vfs.ErrInjected)
			continue
		}
		m := kit.MapOf[int, int](t, db, "m")
		for i := range 5 {
			m.Set(i, i)
		}
		db.Close()
		if report, err := kit.CheckFS(kit.StoreDir, mem); err != nil {
			t.Errorf("fault %d: Check = %v, %v", n, report, err)
		}
	}
}
