package copal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// threeUsers fills a store with three entries of a map, one after the other, and
// returns the length of the log after each.
func threeUsers(t testing.TB, fsys vfs.FS, opts ...copal.Option) (db *copal.DB, ends [3]int) {
	t.Helper()
	db = openOn(t, fsys, append(opts, copal.WithoutRing())...) // so that each stands in the file at once
	m := mapOf[string, user](t, db, "users")
	for i := range ends {
		mustSet(t, m, fmt.Sprint(i), user{fmt.Sprint("user ", i), i})
		ends[i] = len(readFile(t, fsys, lastLog(t, fsys)))
	}
	return db, ends
}

// wantFirst checks that exactly the first n of the three users are there.
func wantFirst(t testing.TB, db *copal.DB, n int) {
	t.Helper()
	m := mapOf[string, user](t, db, "users")
	if m.Len() != n {
		t.Errorf("Len = %d, want %d", m.Len(), n)
	}
	for i := range n {
		wantLoad(t, m, fmt.Sprint(i), user{fmt.Sprint("user ", i), i})
	}
}

// Trap: a torn tail is dropped but not cut off, so the next record is glued to it and
// the second open fails; a tail torn inside the header makes open fail for ever; a
// file with only a torn first record too.
func TestTrapTornTail(t *testing.T) {
	mem := vfs.NewMem()
	_, ends := threeUsers(t, mem, copal.WithInline())
	log := lastLog(t, mem)
	text := readFile(t, mem, log)
	header := bytes.IndexByte(text, '\n') + 1
	for cut := header; cut <= len(text); cut++ {
		for _, tail := range []string{"", "\n", "garbage", "\x00\x00\x00\x00"} {
			if tail != "" && cut%7 != 0 || cut%2 != 0 && !slices.Contains(ends[:], cut) && !long() {
				continue
			}
			whole := 0
			for whole < len(ends) && ends[whole] <= cut {
				whole++
			}
			crashed := mem.ProcessCrash()
			crashed.SetCacheID("after a power cut") // a kill leaves the beginning of a record, and nothing else
			writeFile(t, crashed, log, append(text[:cut:cut], tail...))
			for i := range 4 { // opened again and again, with writes between
				db := openOn(t, crashed, copal.WithInline())
				m := mapOf[string, user](t, db, "users")
				for j := range whole {
					wantLoad(t, m, fmt.Sprint(j), user{fmt.Sprint("user ", j), j})
				}
				if m.Len() != whole+i {
					t.Errorf("Len = %d, want %d", m.Len(), whole+i)
				}
				mustSet(t, m, fmt.Sprint("new ", i), user{"new", i})
				if i%2 == 0 {
					mustClose(t, db)
				} else {
					crashed = crashed.ProcessCrash()
				}
			}
			if report, err := copal.CheckFS(storeDir, crashed); err != nil {
				t.Errorf("Check = %v, %v", report, err)
			}
			if t.Failed() {
				t.Fatalf("cut at %d of %d, with the tail %q", cut, len(text), tail)
			}
		}
	}
}

// Trap: a flipped length looks like a torn tail and cuts off everything after it; one
// damaged record takes the later ones with it. Whatever byte is damaged, the store says
// so or shows what was written.
func TestTrapDamage(t *testing.T) {
	mem := vfs.NewMem()
	db, ends := threeUsers(t, mem, copal.WithInline())
	mustClose(t, db)
	log := lastLog(t, mem)
	text := readFile(t, mem, log)
	for at := range text {
		for _, flip := range []byte{1, 0x20} {
			damaged := mem.ProcessCrash()
			spoilt := bytes.Clone(text)
			spoilt[at] ^= flip
			writeFile(t, damaged, log, spoilt)
			db, err := tryOpen(t, damaged, copal.WithInline())
			var where *copal.CorruptError
			switch {
			case err == nil: // a store opens over damage only if nothing is wrong with what it shows
				wantFirst(t, db, 3)
				mustClose(t, db)
			case errors.Is(err, copal.ErrVersion) && at < bytes.IndexByte(text, '\n'):
			case !errors.Is(err, copal.ErrCorrupt) || !errors.As(err, &where):
				t.Errorf("byte %d: Open: %v, want a *CorruptError", at, err)
			case where.File != log || where.Offset > int64(at) || where.Reason == "":
				t.Errorf("byte %d: Open: %+v", at, *where)
			}
			if err == nil {
				t.Errorf("byte %d ^ %#x: the store opens; the log was synced and closed up to %d", at, flip, ends[2])
			}
			if _, check := copal.CheckFS(storeDir, damaged); err != nil && check == nil {
				t.Errorf("byte %d: Open fails with %v, and Check finds nothing", at, err)
			}
		}
	}
}

// Trap: a version-2 file is reported as corrupt rather than newer.
func TestTrapNewerVersion(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := threeUsers(t, mem)
	mustClose(t, db)
	for _, path := range []string{filepath.Join(storeDir, "MANIFEST"), lastLog(t, mem)} {
		newer := mem.ProcessCrash()
		text := readFile(t, newer, path)
		end := len(text)
		if isLog(path) {
			end = bytes.IndexByte(text, '\n') + 1
		}
		line := strings.Replace(string(text[:end-10]), " 1 ", " 2 ", 1)
		if !isLog(path) {
			line = strings.Replace(string(text[:end-10]), " 1\n", " 2\n", 1)
		}
		writeFile(t, newer, path, append(record.Seal([]byte(line)), text[end:]...))
		before := readFiles(t, newer)
		for _, opts := range [][]copal.Option{nil, {copal.ReadOnly()}} {
			_, err := tryOpen(t, newer, opts...)
			wantErr(t, path, err, copal.ErrVersion)
			if errors.Is(err, copal.ErrCorrupt) {
				t.Errorf("%s: it is called corrupt: %v", path, err)
			}
		}
		_, err := copal.CheckFS(storeDir, newer)
		wantErr(t, "Check of "+path, err, copal.ErrVersion)
		wantSameFiles(t, readFiles(t, newer), before)
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
	db := openOn(t, mem, copal.WithInline())
	m := mapOf[string, int](t, db, "m")
	if err := m.SetFSync("k", 1); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	if len(states) < 50 {
		t.Errorf("only %d states", len(states))
	}
	for i, state := range states {
		for n := range 2 {
			db, err := tryOpen(t, state, copal.WithInline())
			if err != nil {
				t.Fatalf("state %d of %d, open %d: %v", i, len(states), n, err)
			}
			m := mapOf[string, int](t, db, "m")
			if n > 0 {
				wantLoad(t, m, "k", 2)
			}
			mustSet(t, m, "k", 2)
			mustClose(t, db)
		}
	}
}

// Trap: no fsync of the directory after create or rename; old files removed before the
// new ones are in place. What SetFSync has acknowledged survives a power cut at any
// later moment, through every change of segments.
func TestTrapPowerCut(t *testing.T) {
	mem := vfs.NewCrashMem()
	written := map[string][]int{} // all values ever written, in order
	durable := map[string]int{}   // how many of them are durable
	check := func(when string) {
		for cut := range mem.PowerCuts(8, nil) {
			db, err := tryOpen(t, cut, copal.WithInline())
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			m := mapOf[string, int](t, db, "m")
			for k, list := range written {
				v, ok := m.Get(k)
				if !ok && durable[k] == 0 {
					continue
				}
				if at := v; !ok || at < durable[k]-1 || at >= len(list) {
					t.Fatalf("%s: Get(%q) = %d, %v; %d are durable of %d", when, k, v, ok, durable[k], len(list))
				}
			}
			mustSet(t, m, "after", 1)
			mustClose(t, db)
		}
	}
	set := func(m *copal.Map[string, int], key string, fsync bool) {
		v := len(written[key])
		written[key] = append(written[key], v)
		if !fsync {
			mustSet(t, m, key, v)
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
		db := openOn(t, mem, copal.WithInline(), copal.WithSegmentBytes(400))
		m := mapOf[string, int](t, db, "m")
		for i := range 16 {
			set(m, fmt.Sprint("k", i%5), i%3 == 0)
			check(fmt.Sprintf("round %d, write %d", round, i))
		}
		mustClose(t, db)
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
		db := openOn(t, fsys)
		m := mapOf[string, int](t, db, "m")
		if got := maps.Collect(m.All()); !maps.Equal(got, want) {
			t.Fatalf("round %d: All yields %v, want %v", round, got, want)
		}
		for i := range 3 {
			key := fmt.Sprint(round, " ", i)
			mustSet(t, m, key, i)
			mustSet(t, m, "counter", round*10+i)
			want[key], want["counter"] = i, round*10+i
		}
		if round%2 == 0 {
			mustClose(t, db)
		} else {
			fsys = fsys.ProcessCrash()
		}
	}
}

// A store whose manifest is gone does not open as an empty one.
func TestManifestLost(t *testing.T) {
	mem := vfs.NewMem()
	db, _ := threeUsers(t, mem)
	mustClose(t, db)
	if err := mem.Remove(filepath.Join(storeDir, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	_, err := tryOpen(t, mem)
	wantErr(t, "Open", err, copal.ErrCorrupt)
}

// A read that finds damage reports it and leaves the rest readable.
func TestDamageWhileOpen(t *testing.T) {
	mem := vfs.NewMem()
	var handled errorLog
	db, ends := threeUsers(t, mem, handled.option(), copal.WithMaxMemory(1)) // every read is one of the log
	m := mapOf[string, user](t, db, "users")
	log := lastLog(t, mem)
	text := readFile(t, mem, log)
	text[ends[1]-5] ^= 1 // in the value of the second user
	writeFile(t, mem, log, text)
	_, err := m.Load("1")
	var where *copal.CorruptError
	if !errors.Is(err, copal.ErrCorrupt) || !errors.As(err, &where) || where.File != log || where.Offset != int64(ends[0]) {
		t.Errorf("Load = %v, want a *CorruptError at %d of %s", err, ends[0], log)
	}
	handled.wantTaken(t, 0, nil)
	if _, ok := m.Get("1"); ok {
		t.Error("Get returns a damaged value")
	}
	handled.wantTaken(t, 1, copal.ErrCorrupt)
	got := maps.Collect(m.All())
	if len(got) != 2 || got["0"].Age != 0 || got["2"].Age != 2 {
		t.Errorf("All yields %v", got)
	}
	handled.wantTaken(t, 1, copal.ErrCorrupt)
	wantLoad(t, m, "0", user{"user 0", 0})
	wantLoad(t, m, "2", user{"user 2", 2})
}

// A read that fails for another reason is neither absence nor corruption.
func TestFailedRead(t *testing.T) {
	fault, on := armed(vfs.Fault{Kinds: vfs.OpRead | vfs.OpLoad, Match: isLog, Forever: true})
	var handled errorLog
	db := openOn(t, vfs.Inject(vfs.NewMem(), fault), handled.option(), copal.WithMaxMemory(1))
	m := mapOf[string, int](t, db, "m")
	mustSet(t, m, "k", 1)
	if err := m.Sync(); err != nil { // from here on reads are of the file
		t.Fatal(err)
	}
	on.Store(true)
	_, err := m.Load("k")
	wantErr(t, "Load", err, vfs.ErrInjected)
	if errors.Is(err, copal.ErrNotFound) || errors.Is(err, copal.ErrCorrupt) {
		t.Errorf("Load: %v", err)
	}
	if _, ok := m.Get("k"); ok {
		t.Error("Get returns a value")
	}
	handled.wantTaken(t, 1, vfs.ErrInjected)
	if err := m.Set("k", 2); err == nil { // it cannot know what it replaces
		t.Error("Set returns nil")
	}
	for range m.All() {
		t.Error("All yields an entry")
	}
	handled.wantTaken(t, 1, vfs.ErrInjected)
	on.Store(false)
	wantLoad(t, m, "k", 1)
	mustSet(t, m, "k", 3)
	wantLoad(t, m, "k", 3)
}
