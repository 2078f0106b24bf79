package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// threeUsers fills a store with three entries of a map, one after the other, and
// returns the length of the log after each.
func threeUsers(t testing.TB, fsys vfs.FS, opts ...copal.Option) (db *copal.DB, ends [3]int) {
	t.Helper()
	db = kit.OpenOn(t, fsys, append(opts, kit.WithoutRing())...) // so that each is in the file at once
	m := kit.MapOf[string, kit.User](t, db, "users")
	for i := range ends {
		kit.MustSet(t, m, fmt.Sprint(i), kit.User{Name: fmt.Sprint("user ", i), Age: i})
		ends[i] = len(kit.ReadFile(t, fsys, kit.LastLog(t, fsys)))
	}
	return db, ends
}

// wantFirst checks that exactly the first n of the three users are there.
func wantFirst(t testing.TB, db *copal.DB, n int) {
	t.Helper()
	m := kit.MapOf[string, kit.User](t, db, "users")
	if m.Len() != n {
		t.Errorf("Len = %d, want %d", m.Len(), n)
	}
	for i := range n {
		kit.WantLoad(t, m, fmt.Sprint(i), kit.User{Name: fmt.Sprint("user ", i), Age: i})
	}
}

// Trap: a torn tail is dropped but not cut off, so the next record is glued to it and
// the second open fails; a tail torn inside the header makes open fail for ever; a
// file with only a torn first record too.
func TestTrapTornTail(t *testing.T) {
	mem := vfs.NewMem()
	_, ends := threeUsers(t, mem, kit.WithInline())
	log := kit.LastLog(t, mem)
	text := kit.ReadFile(t, mem, log)
	header := bytes.IndexByte(text, '\n') + 1
	for cut := header; cut <= len(text); cut++ {
		for _, tail := range []string{"", "\n", "garbage", "\x00\x00\x00\x00"} {
			if tail != "" && cut%7 != 0 || cut%2 != 0 && !slices.Contains(ends[:], cut) && !kit.Long() {
				continue
			}
			whole := 0
			for whole < len(ends) && ends[whole] <= cut {
				whole++
			}
			crashed := mem.ProcessCrash()
			crashed.SetCacheID("after a power cut") // a kill leaves the beginning of a record, and nothing else
			kit.WriteFile(t, crashed, log, append(text[:cut:cut], tail...))
			for i := range 4 { // opened again and again, with writes between
				db := kit.OpenOn(t, crashed, kit.WithInline())
				m := kit.MapOf[string, kit.User](t, db, "users")
				for j := range whole {
					kit.WantLoad(t, m, fmt.Sprint(j), kit.User{Name: fmt.Sprint("user ", j), Age: j})
				}
				if m.Len() != whole+i {
					t.Errorf("Len = %d, want %d", m.Len(), whole+i)
				}
				kit.MustSet(t, m, fmt.Sprint("new ", i), kit.User{Name: "new", Age: i})
				if i%2 == 0 {
					kit.MustClose(t, db)
				} else {
					crashed = crashed.ProcessCrash()
				}
			}
			if report, err := kit.CheckFS(kit.StoreDir, crashed); err != nil {
				t.Errorf("Check = %v, %v", report, err)
			}
			if t.Failed() {
				t.Fatalf("cut at %d of %d, with the tail %q", cut, len(text), tail)
			}
		}
	}
}

// Trap: a flipped length looks like a torn tail and cuts off everything after it; one damaged
// record takes the later ones with it. With any byte damaged, the store reports the damage or shows
// the written value.
func TestTrapDamage(t *testing.T) {
	mem := vfs.NewMem()
	db, ends := threeUsers(t, mem, kit.WithInline())
	kit.MustClose(t, db)
	log := kit.LastLog(t, mem)
	text := kit.ReadFile(t, mem, log)
	for at := range text {
		for _, flip := range []byte{1, 0x20} {
			damaged := mem.ProcessCrash()
			spoilt := bytes.Clone(text)
			spoilt[at] ^= flip
			kit.WriteFile(t, damaged, log, spoilt)
			db, err := kit.TryOpen(t, damaged, kit.WithInline())
			var where *copal.CorruptError
			switch {
			case err == nil: // a store opens over damage only if all that it shows is right
				wantFirst(t, db, 3)
				kit.MustClose(t, db)
			case errors.Is(err, copal.ErrVersion) && at < bytes.IndexByte(text, '\n'):
			case !errors.Is(err, copal.ErrCorrupt) || !errors.As(err, &where):
				t.Errorf("byte %d: Open: %v, want a *CorruptError", at, err)
			case where.File != log || where.Offset > int64(at) || where.Reason == "":
				t.Errorf("byte %d: Open: %+v", at, *where)
			}
			if err == nil {
				t.Errorf("byte %d ^ %#x: the store opens; the log was synced and closed up to %d", at, flip, ends[2])
			}
			if _, check := kit.CheckFS(kit.StoreDir, damaged); err != nil && check == nil {
				t.Errorf("byte %d: Open fails with %v, and Check finds nothing", at, err)
			}
		}
	}
}

// Trap: a version-2 file is reported as corrupt rather than newer.
func TestTrapNewerVersion(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := threeUsers(t, mem)
	kit.MustClose(t, db)
	for _, path := range []string{filepath.Join(kit.StoreDir, "MANIFEST"), kit.LastLog(t, mem)} {
		newer := mem.ProcessCrash()
		text := kit.ReadFile(t, newer, path)
		end := len(text)
		if kit.IsLog(path) {
			end = bytes.IndexByte(text, '\n') + 1
		}
		line := strings.Replace(string(text[:end-10]), " 1 ", " 2 ", 1)
		if !kit.IsLog(path) {
			line = strings.Replace(string(text[:end-10]), " 1\n", " 2\n", 1)
		}
		kit.WriteFile(t, newer, path, append(record.Seal([]byte(line)), text[end:]...))
		before := kit.ReadFiles(t, newer)
		for _, opts := range [][]copal.Option{nil, {copal.ReadOnly()}} {
			_, err := kit.TryOpen(t, newer, opts...)
			kit.WantErr(t, path, err, copal.ErrVersion)
			if errors.Is(err, copal.ErrCorrupt) {
				t.Errorf("%s: it is called corrupt: %v", path, err)
			}
		}
		_, err := kit.CheckFS(kit.StoreDir, newer)
		kit.WantErr(t, "Check of "+path, err, copal.ErrVersion)
		kit.WantSameFiles(t, kit.ReadFiles(t, newer), before)
	}
}

// Trap: a crash in the first second leaves an unopenable directory.
func TestTrapCrashAtTheStart(t *testing.T) {
	mem := vfs.NewCrashMem()
	var states []*vfs.Mem
	mem.OnBoundary(func(vfs.Op, vfs.Phase) {
		states = append(states, mem.ProcessCrash())
		for cut := range mem.PowerCuts(4, nil) {
			states = append(states, cut)
		}
	})
	db := kit.OpenOn(t, mem, kit.WithInline())
	m := kit.MapOf[string, int](t, db, "m")
	if err := m.SetFSync("k", 1); err != nil {
		t.Fatal(err)
	}
	kit.MustClose(t, db)
	if len(states) < 50 {
		t.Errorf("only %d states", len(states))
	}
	for i, state := range states {
		for n := range 2 {
			db, err := kit.TryOpen(t, state, kit.WithInline())
			if err != nil {
				t.Fatalf("state %d of %d, open %d: %v", i, len(states), n, err)
			}
			m := kit.MapOf[string, int](t, db, "m")
			if n > 0 {
				kit.WantLoad(t, m, "k", 2)
			}
			kit.MustSet(t, m, "k", 2)
			kit.MustClose(t, db)
		}
	}
}

// Trap: no fsync of the directory after create or rename; old files removed before the
// new ones are in place. A value that SetFSync has acknowledged survives a power cut at any
// later moment, through every change of segments.
func TestTrapPowerCut(t *testing.T) {
	mem := vfs.NewCrashMem()
	written := map[string][]int{} // all values ever written, in order
	durable := map[string]int{}   // how many of them are durable
	check := func(when string) {
		for cut := range mem.PowerCuts(8, nil) {
			db, err := kit.TryOpen(t, cut, kit.WithInline())
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			m := kit.MapOf[string, int](t, db, "m")
			for k, list := range written {
				v, ok := m.Get(k)
				if !ok && durable[k] == 0 {
					continue
				}
				if at := v; !ok || at < durable[k]-1 || at >= len(list) {
					t.Fatalf("%s: Get(%q) = %d, %v; %d are durable of %d", when, k, v, ok, durable[k], len(list))
				}
			}
			kit.MustSet(t, m, "after", 1)
			kit.MustClose(t, db)
		}
	}
	set := func(m *copal.Map[string, int], key string, fsync bool) {
		v := len(written[key])
		written[key] = append(written[key], v)
		if !fsync {
			kit.MustSet(t, m, key, v)
			return
		}
		if err := m.SetFSync(key, v); err != nil {
			t.Fatal(err)
		}
		for k := range written { // the log is one order
			durable[k] = len(written[k])
		}
	}
	for round := range 3 {
		db := kit.OpenOn(t, mem, kit.WithInline(), kit.WithSegmentBytes(400))
		m := kit.MapOf[string, int](t, db, "m")
		for i := range 16 {
			set(m, fmt.Sprint("k", i%5), i%3 == 0)
			check(fmt.Sprintf("round %d, write %d", round, i))
		}
		kit.MustClose(t, db)
		for k := range written {
			durable[k] = len(written[k])
		}
		check(fmt.Sprintf("closed %d times", round+1))
	}
}

// Trap: an index file trusted though the log moved on: after one clean close, a
// crash loses all later writes.
func TestTrapCrashAfterACleanClose(t *testing.T) {
	fsys := vfs.NewMem()
	want := map[string]int{}
	for round := range 6 {
		db := kit.OpenOn(t, fsys)
		m := kit.MapOf[string, int](t, db, "m")
		if got := maps.Collect(m.All()); !maps.Equal(got, want) {
			t.Fatalf("round %d: All yields %v, want %v", round, got, want)
		}
		for i := range 3 {
			key := fmt.Sprint(round, " ", i)
			kit.MustSet(t, m, key, i)
			kit.MustSet(t, m, "counter", round*10+i)
			want[key], want["counter"] = i, round*10+i
		}
		if round%2 == 0 {
			kit.MustClose(t, db)
		} else {
			fsys = fsys.ProcessCrash()
		}
	}
}

// A store whose manifest is gone does not open as an empty one.
func TestManifestLost(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := threeUsers(t, mem)
	kit.MustClose(t, db)
	if err := mem.Remove(filepath.Join(kit.StoreDir, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	_, err := kit.TryOpen(t, mem)
	kit.WantErr(t, "Open", err, copal.ErrCorrupt)
}

// A read that finds damage reports it and leaves the rest readable.
func TestDamageWhileOpen(t *testing.T) {
	mem := vfs.NewMem()
	var handled kit.ErrorLog
	db, ends := threeUsers(t, mem, handled.Option(), copal.WithMaxMemory(1)) // every read is one of the log
	m := kit.MapOf[string, kit.User](t, db, "users")
	log := kit.LastLog(t, mem)
	text := kit.ReadFile(t, mem, log)
	text[ends[1]-5] ^= 1 // in the value of the second user
	kit.WriteFile(t, mem, log, text)
	_, err := m.Load("1")
	var where *copal.CorruptError
	if !errors.Is(err, copal.ErrCorrupt) || !errors.As(err, &where) || where.File != log || where.Offset != int64(ends[0]) {
		t.Errorf("Load = %v, want a *CorruptError at %d of %s", err, ends[0], log)
	}
	handled.WantTaken(t, 0, nil)
	if _, ok := m.Get("1"); ok {
		t.Error("Get returns a damaged value")
	}
	handled.WantTaken(t, 1, copal.ErrCorrupt)
	got := maps.Collect(m.All())
	if len(got) != 2 || got["0"].Age != 0 || got["2"].Age != 2 {
		t.Errorf("All yields %v", got)
	}
	handled.WantTaken(t, 1, copal.ErrCorrupt)
	kit.WantLoad(t, m, "0", kit.User{Name: "user 0", Age: 0})
	kit.WantLoad(t, m, "2", kit.User{Name: "user 2", Age: 2})
}

// A read that fails for another reason is neither absence nor corruption.
func TestFailedRead(t *testing.T) {
	fault, on := kit.Armed(vfs.Fault{Kinds: vfs.OpRead | vfs.OpLoad, Match: kit.IsLog, Forever: true})
	var handled kit.ErrorLog
	db := kit.OpenOn(t, vfs.Inject(vfs.NewMem(), fault), handled.Option(), copal.WithMaxMemory(1))
	m := kit.MapOf[string, int](t, db, "m")
	kit.MustSet(t, m, "k", 1)
	if err := m.Sync(); err != nil { // from here on reads are of the file
		t.Fatal(err)
	}
	on.Store(true)
	_, err := m.Load("k")
	kit.WantErr(t, "Load", err, vfs.ErrInjected)
	if errors.Is(err, copal.ErrNotFound) || errors.Is(err, copal.ErrCorrupt) {
		t.Errorf("Load: %v", err)
	}
	if _, ok := m.Get("k"); ok {
		t.Error("Get returns a value")
	}
	handled.WantTaken(t, 1, vfs.ErrInjected)
	if err := m.Set("k", 2); err == nil { // the replaced entry is unknown
		t.Error("Set returns nil")
	}
	for range m.All() {
		t.Error("All yields an entry")
	}
	handled.WantTaken(t, 1, vfs.ErrInjected)
	on.Store(false)
	kit.WantLoad(t, m, "k", 1)
	kit.MustSet(t, m, "k", 3)
	kit.WantLoad(t, m, "k", 3)
}
