package vfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Small scripts whose every crash state can be written down. A state reads as
// "name=content" per file; zeros are dots.

func show(t testing.TB, m *Mem) string {
	t.Helper()
	names, err := m.List("/")
	check(t, err)
	var out []string
	for _, name := range names {
		f, err := m.Open(name, ReadOnly)
		check(t, err)
		size, err := f.Size()
		check(t, err)
		text := make([]byte, size)
		if _, err := f.ReadAt(text, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		out = append(out, name+"="+strings.ReplaceAll(string(text), "\x00", "."))
	}
	return strings.Join(out, " ")
}

func cuts(t testing.TB, m *Mem) []string {
	t.Helper()
	var got []string
	for image := range m.PowerCuts(1000, nil) {
		got = append(got, show(t, image))
	}
	slices.Sort(got)
	return got
}

func wantCuts(t *testing.T, m *Mem, want ...string) {
	t.Helper()
	got := cuts(t, m)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("states\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// script starts from a durable file f.
func script(t *testing.T, text string) (*Mem, File) {
	t.Helper()
	m := NewCrashMem()
	f := create(t, m, "f", text)
	check(t, f.Sync())
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f="+text)
	return m, f
}

func TestUnsyncedWritesAreKeptOrLost(t *testing.T) {
	m, f := script(t, "....")
	put(t, f, 0, "A")
	wantCuts(t, m, "f=....", "f=A...")
	put(t, f, 2, "B")
	wantCuts(t, m, "f=....", "f=A...", "f=..B.", "f=A.B.")
	check(t, f.Sync())
	wantCuts(t, m, "f=A.B.")
	put(t, f, 0, "A")
	wantCuts(t, m, "f=A.B.")
}

func TestTheCallerMayReuseItsBuffer(t *testing.T) {
	m, f := script(t, ".")
	p := []byte("A")
	_, err := f.WriteAt(p, 0)
	check(t, err)
	p[0] = 'x'
	wantCuts(t, m, "f=.", "f=A")
}

// The states are those of the moment of the call, whatever happens meanwhile.
func TestPowerCutsAreOfOneInstant(t *testing.T) {
	m, f := script(t, "....")
	put(t, f, 0, "A")
	images := m.PowerCuts(0, nil)
	put(t, f, 1, "B")
	check(t, f.Sync())
	check(t, m.Rename("f", "g"))
	check(t, m.SyncDir("/"))
	var got []string
	for image := range images {
		got = append(got, show(t, image))
	}
	if !slices.Equal(got, []string{"f=....", "f=A..."}) {
		t.Fatalf("states %q", got)
	}
}

func TestLaterWritesWin(t *testing.T) {
	m, f := script(t, ".")
	put(t, f, 0, "A")
	put(t, f, 0, "B")
	wantCuts(t, m, "f=.", "f=A", "f=B")
}

func TestOnlyTheLastWriteIsTorn(t *testing.T) {
	m, f := script(t, "....")
	put(t, f, 0, "AB")
	put(t, f, 2, "C")
	wantCuts(t, m, "f=....", "f=AB..", "f=..C.", "f=ABC.")
}

func TestLastSectorIsTorn(t *testing.T) {
	m, f := script(t, "....")
	put(t, f, 0, "ABCD")
	got := cuts(t, m)
	if len(got) != 4 || got[0] != "f=...." || got[3] != "f=ABCD" {
		t.Fatalf("states %q", got)
	}
	seen := map[string]bool{}
	for seed := range uint64(100) {
		for image := range m.PowerCuts(4, rand.New(rand.NewPCG(seed, 0))) {
			seen[show(t, image)] = true
		}
	}
	for _, torn := range []string{"f=A...", "f=AB..", "f=ABC.", "f=.BCD", "f=..CD", "f=...D"} {
		if !seen[torn] {
			t.Errorf("no seed tears %q", torn)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d states over all seeds", len(seen))
	}
}

func TestSectorsAreKeptOrLostOneByOne(t *testing.T) {
	m, f := script(t, strings.Repeat(".", 3*sectorSize))
	put(t, f, sectorSize-1, "A"+strings.Repeat("B", sectorSize)+"C")
	states := map[string]bool{}
	for _, s := range cuts(t, m) {
		b := s[len("f="):]
		states[b[sectorSize-1:sectorSize+1]+b[2*sectorSize-1:2*sectorSize+1]] = true
	}
	if len(states) != 8 || !states["A..C"] || !states[".BB."] {
		t.Fatalf("states %v", states)
	}
}

func TestGrowthIsKeptWithoutTheBytes(t *testing.T) {
	m, f := script(t, "x")
	put(t, f, 1, "A")
	wantCuts(t, m, "f=x", "f=x.", "f=xA")
}

func TestHoleFollowedByLaterData(t *testing.T) {
	m, f := script(t, "")
	put(t, f, 0, "A")
	put(t, f, 1, "B")
	wantCuts(t, m, "f=", "f=.", "f=A", "f=..", "f=A.", "f=.B", "f=AB")
}

func TestTruncateIsKeptOrLost(t *testing.T) {
	m, f := script(t, "abcd")
	check(t, f.Truncate(1))
	wantCuts(t, m, "f=abcd", "f=a")
	put(t, f, 3, "X")
	wantCuts(t, m, "f=abcd", "f=a", "f=abcX", "f=a...", "f=a..X")
	check(t, f.Sync())
	wantCuts(t, m, "f=a..X")
	check(t, f.Truncate(6))
	wantCuts(t, m, "f=a..X", "f=a..X..")
	check(t, f.Sync())
	check(t, f.Truncate(1))
	put(t, f, 4, "Y")
	wantCuts(t, m, "f=a..X..", "f=a..XY.", "f=a", "f=a....", "f=a...Y")
}

func TestCreationNeedsSyncDir(t *testing.T) {
	m := NewCrashMem()
	f := create(t, m, "f", "A")
	wantCuts(t, m, "", "f=", "f=.", "f=A")
	check(t, f.Sync())
	wantCuts(t, m, "", "f=A")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f=A")
}

func TestSyncDirDoesNotSyncTheFile(t *testing.T) {
	m := NewCrashMem()
	f := create(t, m, "f", "A")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f=", "f=.", "f=A")
	check(t, f.Sync())
	wantCuts(t, m, "f=A")
}

func TestRemovalNeedsSyncDir(t *testing.T) {
	m, f := script(t, "A")
	check(t, m.Remove("f"))
	wantCuts(t, m, "", "f=A")
	put(t, f, 0, "B")
	wantCuts(t, m, "", "f=A", "f=B")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "")
	put(t, f, 0, "C")
	wantCuts(t, m, "")
	if n := len(m.rec.plan(rand.New(rand.NewPCG(0, 0))).choices); n != 0 {
		t.Errorf("%d choices about a file that cannot come back", n)
	}
}

func TestRemovalAndCreationAreIndependent(t *testing.T) {
	m, _ := script(t, "A")
	check(t, m.Remove("f"))
	create(t, m, "g", "")
	wantCuts(t, m, "f=A", "", "f=A g=", "g=")
}

func TestFilesThatCannotComeBackAreForgotten(t *testing.T) {
	m := NewCrashMem()
	for range 3 {
		f := create(t, m, "tmp", "A")
		check(t, f.Sync())
		put(t, f, 0, "B")
		check(t, m.Remove("tmp"))
	}
	check(t, m.SyncDir("/"))
	if len(m.rec.pending) > 0 || len(m.rec.disk) > 0 {
		t.Errorf("remembers %d changes and %d files", len(m.rec.pending), len(m.rec.disk))
	}
}

func TestGrowthIsOneChoice(t *testing.T) {
	m, f := script(t, "")
	for range 5 {
		put(t, f, 0, "A")
	}
	if n := len(m.rec.plan(rand.New(rand.NewPCG(0, 0))).choices); n != 6 {
		t.Errorf("%d choices, want one for each write and one for the size", n)
	}
}

func TestRemovalOfWhatARenameBrought(t *testing.T) {
	m, _ := script(t, "1")
	check(t, create(t, m, "g", "2").Sync())
	check(t, m.SyncDir("/"))
	check(t, m.Rename("f", "g"))
	check(t, m.Remove("g"))
	wantCuts(t, m, "f=1 g=2", "g=1", "")
}

// Two files change places: the same names, other contents. When the contents are
// equal too, the states are one.
func TestStatesAreToldApart(t *testing.T) {
	swap := func(m *Mem) {
		check(t, m.Rename("f", "x"))
		check(t, m.Rename("g", "f"))
		check(t, m.Rename("x", "g"))
	}
	m, f := script(t, "1")
	g := create(t, m, "g", "2")
	check(t, g.Sync())
	check(t, m.SyncDir("/"))
	swap(m)
	wantCuts(t, m, "f=1 g=2", "g=2 x=1", "f=2 x=1", "f=2 g=1")
	put(t, f, 0, "3")
	put(t, g, 0, "3")
	check(t, f.Sync())
	check(t, g.Sync())
	wantCuts(t, m, "f=3 g=3", "g=3 x=3", "f=3 x=3")
}

func TestRenameBeforeSync(t *testing.T) {
	m, _ := script(t, "old")
	create(t, m, "tmp", "N")
	check(t, m.Rename("tmp", "f"))
	wantCuts(t, m, "f=old", "f=", "f=.", "f=N",
		"f=old tmp=", "f=old tmp=.", "f=old tmp=N")
}

func TestRenameAfterSync(t *testing.T) {
	m, _ := script(t, "old")
	tmp := create(t, m, "tmp", "N")
	check(t, tmp.Sync())
	check(t, m.Rename("tmp", "f"))
	wantCuts(t, m, "f=old", "f=old tmp=N", "f=N")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f=N")
}

func TestRenamesInARow(t *testing.T) {
	m, _ := script(t, "1")
	check(t, m.Rename("f", "g"))
	check(t, m.Rename("g", "h"))
	wantCuts(t, m, "f=1", "g=1", "h=1")

	// Whoever has the new f has the rename that made room for it.
	create(t, m, "f", "")
	wantCuts(t, m, "f=1", "g=1", "h=1", "f= g=1", "f= h=1")
	check(t, m.SyncDir("/"))
	wantCuts(t, m, "f= h=1")
}

func TestRenameToAnotherDirectory(t *testing.T) {
	m := NewCrashMem()
	check(t, m.MkdirAll("/a"))
	check(t, m.MkdirAll("/b"))
	where := func() (found []string) {
		for image := range m.PowerCuts(0, nil) {
			a, err := image.List("/a")
			check(t, err)
			b, err := image.List("/b")
			check(t, err)
			found = append(found, fmt.Sprint(a, b))
		}
		slices.Sort(found)
		return found
	}
	create(t, m, "/a/f", "")
	check(t, m.Rename("/a/f", "/b/f"))
	want := []string{"[] []", "[] [f]", "[f] []"}
	if got := where(); !slices.Equal(got, want) {
		t.Fatalf("states %v, want %v", got, want)
	}
	check(t, m.SyncDir("/b"))
	if got := where(); !slices.Equal(got, []string{"[] [f]"}) {
		t.Fatalf("after SyncDir: %v", got)
	}
}

func TestMkdirAllIsDurable(t *testing.T) {
	m := NewCrashMem()
	check(t, m.MkdirAll("/a/b"))
	for image := range m.PowerCuts(0, nil) {
		names, err := image.List("/a")
		check(t, err)
		if !slices.Equal(names, []string{"b"}) {
			t.Fatalf("lists %q", names)
		}
	}
	create(t, m, "/a/b/f", "")
	check(t, m.SyncDir("/a/b"))
	check(t, m.Remove("/a/b/f"))
	check(t, m.Remove("/a/b"))
	for image := range m.PowerCuts(0, nil) {
		if _, err := image.List("/a/b"); err == nil {
			t.Fatal("a removed directory is back")
		}
	}
}

func TestRegionSyncCoversItsPages(t *testing.T) {
	m, f := script(t, "")
	check(t, f.Truncate(2*pageSize))
	check(t, f.Sync())
	r, err := f.Map(pageSize, pageSize)
	check(t, err)
	ends := func() (found []string) {
		for _, s := range cuts(t, m) {
			b := s[len("f="):]
			found = append(found, b[:1]+b[pageSize-1:pageSize+1]+b[2*pageSize-1:])
		}
		return found
	}
	want := func(states ...string) {
		t.Helper()
		if got := ends(); !slices.Equal(got, states) {
			t.Fatalf("states %q, want %q", got, states)
		}
	}
	put(t, f, 0, "A")
	r.Store(0, []byte("B"))
	want("....", "..B.", "A...", "A.B.")
	check(t, r.Sync())
	want("..B.", "A.B.")
	put(t, f, pageSize-1, "xy")
	want("..B.", "..y.", ".xB.", ".xy.", "A.B.", "A.y.", "AxB.", "Axy.")
	low, err := f.Map(0, 1)
	check(t, err)
	check(t, low.Sync())
	want("AxB.", "Axy.")
	put(t, f, 0, "....")
	put(t, f, pageSize-1, "..")
	check(t, f.Sync())
	put(t, f, 0, "A")
	put(t, f, pageSize-1, "xy")
	check(t, r.Sync())
	want("..y.", ".xy.", "A.y.", "Axy.")
	r.Store(pageSize-1, []byte("Z"))
	check(t, f.Sync())
	want("AxyZ")
}

func TestRegionSyncKeepsTheSize(t *testing.T) {
	m, f := script(t, strings.Repeat("-", 2*pageSize))
	r, err := f.Map(0, 1)
	check(t, err)
	put(t, f, pageSize+10, strings.Repeat("A", 10))
	check(t, f.Truncate(pageSize+12))
	check(t, r.Sync())
	for _, s := range cuts(t, m) {
		if len(s) != len("f=")+pageSize+12 {
			t.Fatalf("size %d: a write that was cut off came back", len(s)-2)
		}
	}
}

func TestProcessCrashKeepsTheCache(t *testing.T) {
	m, f := script(t, "....")
	_, err := m.Lock("LOCK")
	check(t, err)
	put(t, f, 0, "AB")
	g := create(t, m, "g", "G")
	check(t, g.Sync())
	check(t, m.Rename("g", "h"))

	after := m.ProcessCrash()
	if got := show(t, after); got != "LOCK= f=AB.. h=G" {
		t.Fatalf("found %q", got)
	}
	if after.CacheID("") != m.CacheID("") {
		t.Error("the machine did not stop")
	}
	_, err = after.Lock("LOCK")
	check(t, err)
	if got, want := cuts(t, after), cuts(t, m); !slices.Equal(got, want) {
		t.Errorf("forgot the bytes that are not durable: %q, want %q", got, want)
	}

	again, err := after.Open("f", ReadWrite)
	check(t, err)
	check(t, again.Sync())
	check(t, after.SyncDir("/"))
	put(t, again, 0, "XY")
	wantCuts(t, m, "LOCK= f=....", "LOCK= f=A...", "LOCK= f=.B..", "LOCK= f=AB..",
		"LOCK= f=.... g=G", "LOCK= f=A... g=G", "LOCK= f=.B.. g=G", "LOCK= f=AB.. g=G",
		"LOCK= f=.... h=G", "LOCK= f=A... h=G", "LOCK= f=.B.. h=G", "LOCK= f=AB.. h=G")
	put(t, f, 2, "CD")
	if got := show(t, after); got != "LOCK= f=XY.. h=G" {
		t.Errorf("the copy is not independent: %q", got)
	}
	if got := show(t, m); got != "LOCK= f=ABCD h=G" {
		t.Errorf("the original is not independent: %q", got)
	}
}

func TestPowerCutImagesAreIndependent(t *testing.T) {
	m, f := script(t, "....")
	_, err := m.Lock("LOCK")
	check(t, err)
	put(t, f, 0, "A")
	boots := map[string]bool{m.CacheID(""): true}
	for image := range m.PowerCuts(0, nil) {
		if boots[image.CacheID("")] {
			t.Error("an old cache id")
		}
		boots[image.CacheID("")] = true
		_, err := image.Lock("LOCK")
		check(t, err)
		before := show(t, image)
		image.Record()
		g, err := image.Open("f", ReadWrite)
		check(t, err)
		put(t, g, 3, "Z")
		if got := cuts(t, image); len(got) != 2 || !slices.Contains(got, before) {
			t.Errorf("second power cut: %q", got)
		}
		check(t, g.Truncate(0))
	}
	wantCuts(t, m, "LOCK= f=....", "LOCK= f=A...")
	if got := show(t, m); got != "LOCK= f=A..." {
		t.Errorf("the machine itself shows %q", got)
	}
}

func TestMappedFilesCrashToo(t *testing.T) {
	m, f := script(t, "....")
	r, err := f.Map(0, 4)
	check(t, err)
	r.Store(1, []byte("S"))
	after := m.ProcessCrash()
	r.Store(2, []byte("T"))
	if got := show(t, after); got != "f=.S.." {
		t.Errorf("after the crash %q", got)
	}
	wantCuts(t, m, "f=....", "f=.S..", "f=..T.", "f=.ST.")
	check(t, r.Sync())
	wantCuts(t, m, "f=.ST.")
}

// Above ten choices the states are samples, reproducible, distinct, and no more
// than asked for; nothing, everything and every prefix are among them.
func TestSampledPowerCuts(t *testing.T) {
	m, f := script(t, strings.Repeat(".", 30))
	want := map[string]bool{"f=" + strings.Repeat(".", 30): true}
	for i := range 30 {
		put(t, f, int64(i), "A")
		want["f="+strings.Repeat("A", i+1)+strings.Repeat(".", 29-i)] = true
		alone := []byte(strings.Repeat(".", 30))
		alone[i] = 'A'
		want["f="+string(alone)] = true
		without := []byte(strings.Repeat("A", 30))
		without[i] = '.'
		if i < 29 {
			want["f="+string(without)] = true
		}
	}
	want["f="+strings.Repeat(".", 1)+strings.Repeat("A", 29)] = true
	run := func(limit int, seed uint64) (list []string) {
		for image := range m.PowerCuts(limit, rand.New(rand.NewPCG(seed, 0))) {
			list = append(list, show(t, image))
		}
		return list
	}
	got := run(200, 1)
	if len(got) != 200 {
		t.Fatalf("%d states, want 200", len(got))
	}
	distinct := map[string]bool{}
	for _, s := range got {
		distinct[s] = true
	}
	if len(distinct) != 200 {
		t.Errorf("%d distinct states", len(distinct))
	}
	for s := range want {
		if !distinct[s] {
			t.Errorf("missing %s", s)
		}
	}
	if !slices.Equal(got, run(200, 1)) {
		t.Error("the same seed gives other states")
	}
	if slices.Equal(got, run(200, 2)) {
		t.Error("another seed gives the same states")
	}
	if n := len(run(5, 1)); n != 5 {
		t.Errorf("%d states, want 5", n)
	}
}

func TestLargeWritesAreSampledByPageToo(t *testing.T) {
	m, f := script(t, strings.Repeat(".", 4*pageSize))
	put(t, f, 0, strings.Repeat("A", 4*pageSize))
	pages := map[string]bool{}
	for _, s := range cuts(t, m) {
		b, key := s[len("f="):], ""
		for p := range 4 {
			switch strings.Count(b[p*pageSize:(p+1)*pageSize], "A") {
			case 0:
				key += "."
			case pageSize:
				key += "A"
			default:
				key += "?"
			}
		}
		pages[key] = true
	}
	for mask := range 16 {
		key := ""
		for p := range 4 {
			key += string(".A"[mask>>p&1])
		}
		if !pages[key] {
			t.Errorf("no state with pages %s", key)
		}
	}
	if !pages["AAA?"] || !pages["?..."] {
		t.Error("no torn pages")
	}
}

func TestLargeWritesAreKeptOrLostWhole(t *testing.T) {
	const size = 16 * pageSize
	m, f := script(t, strings.Repeat(".", 3*size))
	for i, text := range []string{"A", "B", "C"} {
		put(t, f, int64(i)*size, strings.Repeat(text, size))
	}
	var got []string
	for image := range m.PowerCuts(100, nil) {
		got = append(got, show(t, image))
	}
	for mask := range 8 {
		want := "f="
		for i, text := range []string{"A", "B", "C"} {
			if mask>>i&1 == 0 {
				text = "."
			}
			want += strings.Repeat(text, size)
		}
		if !slices.Contains(got, want) {
			t.Errorf("combination %03b of the writes is missing", mask)
		}
	}
}

func TestBoundaries(t *testing.T) {
	m, f := script(t, "....")
	var log []string
	m.OnBoundary(func(op Op, p Phase) {
		log = append(log, fmt.Sprintf("%d %v: %s", p, op, show(t, m.ProcessCrash())))
	})
	put(t, f, 0, "AB")
	r, err := f.Map(0, 4)
	check(t, err)
	r.Store(2, []byte("CD"))
	check(t, f.Sync())
	check(t, m.Rename("f", "g"))
	check(t, f.Truncate(1))
	check(t, r.Sync())
	check(t, m.SyncDir("/"))
	want := []string{
		"0 write f [0,2): f=....", "1 write f [0,2): f=A...", "2 write f [0,2): f=AB..",
		"0 store f [2,4): f=AB..", "1 store f [2,4): f=ABC.", "2 store f [2,4): f=ABCD",
		"0 sync f: f=ABCD", "2 sync f: f=ABCD",
		"0 rename f to g: f=ABCD", "2 rename f to g: g=ABCD",
		"0 truncate f at 1: g=ABCD", "2 truncate f at 1: g=A",
		"0 msync f [0,4): g=A", "2 msync f [0,4): g=A",
		"0 syncdir /: g=A", "2 syncdir /: g=A",
	}
	if !slices.Equal(log, want) {
		t.Fatalf("boundaries\n%s", strings.Join(log, "\n"))
	}
}

// A write that is watched is still one write to the power cut, unless a sync runs
// in the middle of it.
func TestPowerCutInsideAWrite(t *testing.T) {
	m, f := script(t, "..")
	var inside []string
	syncThen := false
	m.OnBoundary(func(op Op, p Phase) {
		if p == Inside {
			inside = cuts(t, m)
			if syncThen {
				syncThen = false
				check(t, f.Sync())
			}
		}
	})
	put(t, f, 0, "AB")
	if !slices.Equal(inside, []string{"f=..", "f=A."}) {
		t.Errorf("inside: %q", inside)
	}
	wantCuts(t, m, "f=..", "f=A.", "f=.B", "f=AB")
	check(t, f.Sync())
	syncThen = true
	put(t, f, 0, "CD")
	wantCuts(t, m, "f=CB", "f=CD")
}

// A process that dies within a store leaves any part of it; one that dies within a write, its beginning.
func TestTornStores(t *testing.T) {
	m, f := script(t, "........")
	r, err := f.Map(0, 8)
	check(t, err)
	var torn, lost, kept []string
	m.OnBoundary(func(op Op, p Phase) {
		states := 0
		for image := range m.TornStores(nil) {
			states++
			torn = append(torn, show(t, image))
			if op.Kind != OpStore || p != Inside {
				t.Errorf("a torn store at %v, phase %v", op, p)
			}
			durable := cuts(t, image) // the disk has nothing but the changes it was given
			kept, lost = append(kept, durable[0]), append(lost, durable[len(durable)-1])
			g, err := image.Open("f", ReadWrite)
			check(t, err)
			put(t, g, 0, "new")
			check(t, g.Sync())
			wantCuts(t, image, show(t, image))
		}
		if op.Kind == OpStore && p == Inside && states == 0 {
			t.Error("a store is not torn")
		}
	})
	put(t, f, 0, "abcdefgh")
	check(t, f.Sync())
	check(t, r.Store(1, []byte("ABCDEF")))
	want := []string{"f=abcdDEFh", "f=aABCefgh", "f=abcdDEFh", "f=aABCDEFh"}
	hole := func(s string) bool { return len(s) == len("f=abcdefgh") && strings.ContainsAny(s, "ABCDEF") }
	if len(torn) != 5 || !slices.Equal(torn[:4], want) || !hole(torn[4]) {
		t.Errorf("torn %q, want %q and a hole", torn, want)
	}
	if slices.ContainsFunc(lost, func(s string) bool { return s != "f=abcdefgh" }) || !slices.Equal(kept, torn) {
		t.Errorf("a power cut after that loses %q or keeps %q", lost, kept)
	}
	if got := show(t, m); got != "f=aABCDEFh" {
		t.Errorf("the store itself has made %q", got)
	}
}

// A store that a sync has met halfway is not taken back.
func TestTornStoreThatWasSynced(t *testing.T) {
	m, f := script(t, "....")
	r, err := f.Map(0, 4)
	check(t, err)
	m.OnBoundary(func(op Op, p Phase) {
		if p != Inside {
			return
		}
		check(t, f.Sync())
		for image := range m.TornStores(nil) {
			t.Errorf("torn to %q", show(t, image))
		}
	})
	check(t, r.Store(0, []byte("ABCD")))
}

func TestFailedSyncLosesTheWrites(t *testing.T) {
	m, f := script(t, "....")
	put(t, f, 0, "A")
	r, err := f.Map(0, 4)
	check(t, err)
	f.(*memFile).LoseUnsynced()
	if got := show(t, m); got != "f=A..." {
		t.Fatalf("the cache shows %q", got)
	}
	wantCuts(t, m, "f=....")
	put(t, f, 1, "B")
	wantCuts(t, m, "f=....", "f=.B..")
	check(t, f.Sync())
	wantCuts(t, m, "f=.B..")
	put(t, f, 2, "C")
	if got := show(t, m.ProcessCrash()); got != "f=ABC." {
		t.Fatalf("after kill -9: %q", got)
	}
	wantCuts(t, m, "f=.B..", "f=.BC.")
	check(t, f.Sync())
	if got := show(t, m); got != "f=ABC." || string(r.Bytes()) != "ABC." {
		t.Fatalf("after another sync the cache shows %q, mapped %q", got, r.Bytes())
	}
	wantCuts(t, m, "f=.BC.")
}

// A page that is lost for good does not come back with later writes to it, but with a copy of the
// file.
func TestLosePagesForGood(t *testing.T) {
	m, f := script(t, "....")
	m.LosePagesForGood()
	put(t, f, 0, "A")
	f.(*memFile).LoseUnsynced()
	put(t, f, 1, "B")
	wantCuts(t, m, "f=....")
	check(t, f.Sync())
	wantCuts(t, m, "f=....")
	if got := show(t, m.ProcessCrash()); got != "f=AB.." {
		t.Fatalf("the cache shows %q", got)
	}
	after := m.ProcessCrash()
	check(t, after.Remove("f"))
	copied, err := after.Open("f", Create)
	check(t, err)
	put(t, copied, 0, "AB..")
	check(t, copied.Sync())
	check(t, after.SyncDir("/"))
	wantCuts(t, after, "f=AB..")
}

func TestFailedRegionSyncLosesItsStores(t *testing.T) {
	m, f := script(t, strings.Repeat(".", 2*pageSize))
	r, err := f.Map(pageSize, pageSize)
	check(t, err)
	put(t, f, 0, "A")
	r.Store(0, []byte("B"))
	r.(*memRegion).LoseUnsynced()
	check(t, r.Close())
	check(t, f.Sync())
	wantCuts(t, m, "f=A"+strings.Repeat(".", 2*pageSize-1))
}

func TestLostGrowth(t *testing.T) {
	m, f := script(t, "x")
	put(t, f, 1, "yz")
	f.(*memFile).LoseUnsynced()
	if got := show(t, m); got != "f=xyz" {
		t.Fatalf("the cache shows %q", got)
	}
	check(t, f.Sync())
	wantCuts(t, m, "f=x")
}

// Random scripts against the plainest statement of the model: all-kept is the program's view, and
// after syncing everything nothing else is possible.
func TestModelInvariants(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := NewCrashMem()
		name := func() string { return names[rng.IntN(len(names))] }
		for range 3 + rng.IntN(12) {
			f, err := m.Open(name(), ReadWrite)
			if err != nil {
				f = create(t, m, name()+"new", "")
				m.Remove(f.(*memFile).name)
				if f, err = m.Open(name(), Create); err != nil {
					continue
				}
			}
			switch rng.IntN(6) {
			case 0:
				check(t, f.Truncate(rng.Int64N(6)))
			case 1:
				check(t, f.Sync())
			case 2:
				m.Rename(name(), name())
			case 3:
				check(t, m.SyncDir("/"))
			case 4:
				m.Remove(name())
			default:
				put(t, f, rng.Int64N(6), string("ABCDEFG"[rng.IntN(7)]))
			}
		}
		now := show(t, m)
		if got := cuts(t, m); !slices.Contains(got, now) {
			t.Fatalf("seed %d: %q is not among %q", seed, now, got)
		}
		list, _ := m.List("/")
		for _, name := range list {
			f, err := m.Open(name, ReadOnly)
			check(t, err)
			check(t, f.Sync())
		}
		check(t, m.SyncDir("/"))
		if got := cuts(t, m); len(got) != 1 || got[0] != now {
			t.Fatalf("seed %d: all synced, yet %q; the program sees %q", seed, got, now)
		}
	}
}

func TestCrashWhileOthersWrite(t *testing.T) {
	m := NewCrashMem()
	var wg sync.WaitGroup
	for i := range 3 {
		f := create(t, m, fmt.Sprint(i), "")
		wg.Go(func() {
			for j := range 40 {
				put(t, f, int64(j), "x")
				f.Sync()
				m.SyncDir("/")
			}
		})
	}
	for range 20 {
		for image := range m.PowerCuts(20, nil) {
			show(t, image)
		}
		show(t, m.ProcessCrash())
	}
	wg.Wait()
	wantCuts(t, m, show(t, m))
}

func BenchmarkPowerCuts(b *testing.B) {
	for _, c := range []struct {
		name           string
		durable, write int
		writes         int
	}{{"exhaustive", 4 << 10, 100, 4}, {"sampled", 64 << 10, 300, 40}, {"large", 8 << 20, 20000, 10}} {
		b.Run(c.name, func(b *testing.B) {
			m := NewCrashMem()
			var files []File
			for i := range 4 {
				f := create(b, m, fmt.Sprint(i), string(make([]byte, c.durable)))
				check(b, f.Sync())
				files = append(files, f)
			}
			check(b, m.SyncDir("/"))
			for i := range c.writes {
				put(b, files[i%2], int64(c.durable+i/2*c.write), strings.Repeat("x", c.write))
			}
			states := 0
			for b.Loop() {
				for image := range m.PowerCuts(1000, nil) {
					states++
					f, err := image.Open(filepath.Join("/", "0"), ReadOnly)
					check(b, err)
					f.Close()
				}
			}
			b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
			b.ReportMetric(float64(states)/float64(b.N), "states/op")
		})
	}
}

// A link is durable with its directory, and has the content of the file; until then each name may
// be there or not.
func TestPowerCutOfLinks(t *testing.T) {
	m := NewCrashMem()
	check(t, m.MkdirAll("/a"))
	check(t, m.MkdirAll("/b"))
	f := create(t, m, "/a/file", "text")
	check(t, f.Sync())
	check(t, m.SyncDir("/a"))
	check(t, m.Link("/a/file", "/b/file"))
	seen := map[string]bool{}
	for image := range m.PowerCuts(100, nil) {
		names, err := image.List("/b")
		check(t, err)
		seen[strings.Join(names, " ")] = true
	}
	if !seen[""] || !seen["file"] || len(seen) != 2 {
		t.Errorf("before the sync of its directory: %v", seen)
	}
	check(t, m.SyncDir("/b"))
	check(t, m.Remove("/a/file"))
	for image := range m.PowerCuts(100, nil) {
		g, err := image.Open("/b/file", ReadWrite)
		check(t, err)
		wantText(t, g, "text")
		put(t, g, 0, "T")
		if other, err := image.Open("/a/file", ReadOnly); err == nil {
			wantText(t, other, "Text")
		}
	}
}
