package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

func mustView(t testing.TB, s *Store) *View {
	t.Helper()
	v, err := s.OpenView()
	if err != nil {
		t.Fatalf("OpenView: %v", err)
	}
	return v
}

// viewContent is all that a view has, by iteration. A key that comes twice is an error.
func viewContent(t testing.TB, v *View) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, table := range v.store.Tables() {
		for item := range v.Items(table, true) {
			if item.Err != nil {
				t.Fatalf("iterating over a view: %v", item.Err)
			}
			if old, twice := all[string(item.Key)]; twice {
				t.Fatalf("key %q comes twice: %.60q, %.60q", item.Key, old, item.Value)
			}
			all[string(item.Key)] = string(item.Value)
		}
	}
	return all
}

// wantView compares the content of a view with the expected one, by iteration and by key.
func wantView(t testing.TB, v *View, want map[string]string, keys []string) {
	t.Helper()
	if got := viewContent(t, v); !maps.Equal(got, want) {
		for key := range got {
			if w, ok := want[key]; !ok || w != got[key] {
				t.Errorf("key %q is %.60q in the view, want %.60q, %v", key, got[key], w, ok)
			}
		}
		for key := range want {
			if _, ok := got[key]; !ok {
				t.Errorf("key %q is missing in the view", key)
			}
		}
		t.Fatalf("the view at %d has %d entries, want %d", v.Seq(), len(got), len(want))
	}
	wantViewInOrder(t, v, slices.Sorted(maps.Keys(want)))
	n := 0
	for _, table := range v.store.Tables() {
		some, err := v.Len(table)
		if err != nil {
			t.Fatalf("Len in the view: %v", err)
		}
		n += some
	}
	if n != len(want) {
		t.Fatalf("Len says that the view at %d has %d entries, want %d", v.Seq(), n, len(want))
	}
	for _, key := range keys {
		value, there := want[key]
		e, err := v.Get(nil, []byte(key))
		if there && (err != nil || string(e.Value) != value) || !there && err != ErrNotFound {
			t.Fatalf("Get(%q) in the view = %.60q, %v, want %.60q, %v", key, e.Value, err, value, there)
		}
		if c, own := mapOf(v.store, key); c != nil {
			err := v.Read(&e, c, v.store.Hash(own), []byte(key), nil)
			if there && (err != nil || string(e.Value) != value) || !there && err != ErrNotFound {
				t.Fatalf("Read(%q) in the view = %.60q, %v, want %.60q, %v", key, e.Value, err, value, there)
			}
		}
		if has, err := v.Has(nil, []byte(key)); has != there || err != nil {
			t.Fatalf("Has(%q) in the view = %v, %v, want %v", key, has, err, there)
		}
	}
}

// wantViewInOrder compares the keys of a view, in order, up and down, with the expected ones.
func wantViewInOrder(t testing.TB, v *View, want []string) {
	t.Helper()
	for _, down := range []bool{false, true} {
		var scanned []string
		for item := range v.Scan(Span{Down: down}, false) {
			if item.Err != nil {
				t.Fatalf("scanning a view: %v", item.Err)
			}
			scanned = append(scanned, string(item.Key))
		}
		if down {
			slices.Reverse(scanned)
		}
		if !slices.Equal(scanned, want) {
			t.Fatalf("the view at %d has the keys\n\t%q in order, want\n\t%q", v.Seq(), scanned, want)
		}
	}
	for _, table := range v.store.Tables() {
		var keys []string
		for item := range v.InOrder(table, keycodec.BytesOrder, PrefixSpan([]byte("1")), true) {
			if item.Err != nil {
				t.Fatalf("a view in order: %v", item.Err)
			}
			keys = append(keys, string(item.Key))
		}
		for _, key := range want {
			if strings.HasPrefix(key, string(table.prefixBytes())+"1") && v.store.spaces[0].route(record.Value, []byte(key)) == table {
				if len(keys) == 0 || keys[0] != key {
					t.Fatalf("%q comes in the place of %q", keys, key)
				}
				keys = keys[1:]
			}
		}
		if len(keys) > 0 {
			t.Fatalf("%q are too many", keys)
		}
	}
}

// mapOf returns the cells of the map m if a key is of it, and its own bytes.
func mapOf(s *Store, key string) (*Cells, string) {
	own, is := strings.CutPrefix(key, "m:")
	if table := s.spaces[0].maps["m"]; is && table != nil {
		return table.cells.Load(), own
	}
	return nil, ""
}

// viewModel is a store, a map that it must be like, and views that must be as the map was.
type viewModel struct {
	t       *testing.T
	rng     *rand.Rand
	clock   *logtest.Clock
	s       *Store
	cells   *Cells
	ordered bool // the tables keep their keys in order
	content map[string]modelEntry
	views   []modelView
	keys    []string
	checked int
	changed int // views that differed from the store when they were checked
}

type modelEntry struct {
	value    string
	deadline time.Time // zero for none
}

type modelView struct {
	*View
	content map[string]string
}

func (m *viewModel) attach() {
	m.cells = attached(m.t, m.s, "m")
	m.cells.values.Copy = func(*cache.Cell) *cache.Cell { return &cache.Cell{} }
}

// now returns the content without expired entries.
func (m *viewModel) now() map[string]string {
	now := map[string]string{}
	for key, e := range m.content {
		if e.deadline.IsZero() || m.clock.Now().Before(e.deadline) {
			now[key] = e.value
		}
	}
	return now
}

func (m *viewModel) step(n int) {
	t, s, rng := m.t, m.s, m.rng
	key := m.keys[rng.IntN(len(m.keys))]
	value := fmt.Sprint("value ", n, strings.Repeat("x", rng.IntN(100)))
	e := modelEntry{value: value}
	own, mapped := strings.CutPrefix(key, "m:")
	switch rng.IntN(28) {
	case 0, 1, 2, 3:
		if _, err := s.Delete(nil, []byte(key), Process); err != nil {
			t.Fatal(err)
		}
		delete(m.content, key)
	case 4, 5, 6:
		if mapped {
			m.cells.setAsync(t, s, own, value)
			m.content[key] = e
		}
	case 7, 8:
		d := time.Duration(1+rng.IntN(50)) * time.Millisecond
		putTTL(t, s, key, value, d)
		m.content[key] = modelEntry{value, m.clock.Now().Add(d)}
	case 9:
		if old, there := m.content[key]; there && m.now()[key] != "" {
			deadline, err := s.Deadline(30 * time.Millisecond)
			if err == nil {
				err = s.Expire(nil, nil, []byte(key), deadline, Process)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.content[key] = modelEntry{old.value, m.clock.Now().Add(30 * time.Millisecond)}
		}
	case 10:
		m.clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
	case 11:
		if rng.IntN(24) == 0 {
			e.value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+rng.IntN(2*seglog.PartBytes))/8)
			mustSet(t, s, key, e.value)
			m.content[key] = e
		}
	case 12:
		if rng.IntN(40) == 0 {
			if _, err := s.Map("n"); err != nil {
				t.Fatal(err)
			}
			m.order()
		}
	case 13, 14:
		compactSome(t, s, rng)
	case 15:
		s.tidyOnce()
		m.order()
	case 16:
		if rng.IntN(20) == 0 {
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	case 17:
		if mapped { // which no view shows
			w := Write{Key: []byte(key), Cells: m.cells, Durability: Memory, Cell: &cache.Cell{Holds: true}, Cost: 100}
			if _, err := s.Write(m.cells.owner, &w); err != nil && err != ErrNotFound {
				t.Fatal(err)
			}
		}
	case 18:
		if rng.IntN(10) == 0 {
			if err := s.Detach(m.cells); err != nil {
				t.Fatal(err)
			}
			m.attach()
		}
	case 19:
		if rng.IntN(4) == 0 {
			if err := s.Flush(nil); err != nil {
				t.Fatal(err)
			}
		}
	case 20, 21:
		if len(m.views) < 6 {
			m.views = append(m.views, modelView{mustView(t, s), m.now()})
		}
	case 22:
		if len(m.views) > 0 {
			i := rng.IntN(len(m.views))
			m.views[i].Close()
			m.views = slices.Delete(m.views, i, i+1)
		}
	case 23:
		m.check()
	default:
		mustSet(t, s, key, value)
		m.content[key] = e
	}
}

// order keeps the keys of all tables in order, if the model does, and folds the changes.
func (m *viewModel) order() {
	for _, table := range m.s.Tables() {
		if !m.ordered {
			return
		}
		if err := m.s.Order(table, keycodec.BytesOrder); err != nil {
			m.t.Fatal(err)
		}
		if err := table.order.Load().fold(m.rng.IntN(2) == 0); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *viewModel) check() {
	if len(m.views) == 0 {
		return
	}
	v := m.views[m.rng.IntN(len(m.views))]
	wantView(m.t, v.View, v.content, m.keys)
	m.checked++
	if !maps.Equal(v.content, m.now()) {
		m.changed++
	}
}

// A view has the content of the store at its opening, whatever is written, deleted, expires, is declared,
// evicted or compacted since, however many views there are, and in whatever order they are closed.
func TestViewModel(t *testing.T) { logtest.BothWays(t, viewModelTest) }

func viewModelTest(t *testing.T) {
	fewMarks(t, 10)
	defer func(n int) { sweepFrom = n }(sweepFrom)
	sweepFrom = 2
	seeds := uint64(2)
	if longTest() {
		seeds = 100
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		m := &viewModel{t: t, rng: rand.New(rand.NewPCG(seed, 51)), clock: logtest.NewClock(), content: map[string]modelEntry{}}
		for i := range 120 {
			m.keys = append(m.keys, []string{"m:", "n:", ""}[i%3]+fmt.Sprint(i/3))
		}
		mem := vfs.NewMem()
		m.s = mustOpen(t, mem, withClock(m.clock), func(o *Options) { o.SegmentBytes = 3000; o.MaxMemory = 40 << 10 << (5 * (seed % 2)) })
		m.attach()
		m.ordered = seed%2 == 0
		m.order()
		for n := range 3000 {
			m.step(n)
		}
		for len(m.views) > 0 {
			m.check()
			m.views[0].Close()
			m.views = m.views[1:]
		}
		if m.changed < 20 {
			t.Errorf("seed %d: of %d views that were checked, %d differed from the store: this tests too little", seed, m.checked, m.changed)
		}
		m.s.wantNoTrace(t)
		now := m.now()
		m.s.wantSameLogged(t, now)
		mustClose(t, m.s)
		m.s = mustOpen(t, mem, withClock(m.clock))
		m.s.wantSame(t, now)
		mustClose(t, m.s)
	}
}

// wantSameLogged is wantSame without the counts, to which values for memory alone may add.
func (s *Store) wantSameLogged(t testing.TB, content map[string]string) {
	t.Helper()
	for key, want := range content {
		wantValue(t, s, key, want)
	}
}

// wantNoTrace checks that nothing is left of views when all are closed.
func (s *Store) wantNoTrace(t testing.TB) {
	t.Helper()
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if n := len(s.outOfUse()); n != 0 {
		t.Errorf("%d segments are out of use and held, though no view is open", n)
	}
	if s.views.open.Load() != 0 || len(s.views.line) != 0 {
		t.Errorf("%d views are open, though all were closed", s.views.open.Load())
	}
	if bytes := s.views.bytes.Load(); bytes >= sweepBytes {
		t.Errorf("the versions take %d bytes, though no view is open", bytes)
	}
	for _, seg := range s.log.Readable() {
		if !s.log.InLog(seg) {
			t.Errorf("segment %v is still there", seg.ID)
		}
	}
}

// A view has the writes acknowledged before it was opened, also asynchronous writes and deletions, and nothing
// later.
func TestViewHasWhatWasAcknowledged(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	c := attached(t, s, "m")
	mustSet(t, s, "m:gone", "before")
	c.setAsync(t, s, "async", "before")
	if _, err := s.Write(c.owner, &Write{Key: []byte("m:gone"), Cells: c, Delete: true, Durability: Async}); err != nil {
		t.Fatal(err)
	}
	v := mustView(t, s)
	defer v.Close()
	c.setAsync(t, s, "async", "after")
	c.setAsync(t, s, "new", "after")
	wantView(t, v, map[string]string{"m:async": "before"}, []string{"m:async", "m:new", "m:gone"})
}

// A view that was closed, or whose store is, says so, and is no less closed for being closed again.
func TestViewClosed(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	mustSet(t, s, "k", "v")
	v, other := mustView(t, s), mustView(t, s)
	v.Close()
	v.Close()
	if n := s.views.open.Load(); n != 1 {
		t.Errorf("%d views are open, want 1", n)
	}
	wantViewFails(t, v, ErrViewClosed)
	mustClose(t, s)
	wantViewFails(t, other, seglog.ErrClosed)
	other.Close()
	if _, err := s.OpenView(); err != seglog.ErrClosed {
		t.Errorf("OpenView of a closed store: %v", err)
	}
}

func wantViewFails(t *testing.T, v *View, want error) {
	t.Helper()
	if _, err := v.Get(nil, []byte("k")); !errors.Is(err, want) {
		t.Errorf("Get: %v, want %v", err, want)
	}
	if _, err := v.Has(nil, []byte("k")); !errors.Is(err, want) {
		t.Errorf("Has: %v, want %v", err, want)
	}
	n := 0
	for item := range v.Items(v.store.spaces[0].raw, true) {
		if n++; !errors.Is(item.Err, want) || n > 1 {
			t.Fatalf("item %d: %q, %v, want one with %v", n, item.Key, item.Err, want)
		}
	}
	if n == 0 {
		t.Errorf("an iteration says nothing, want %v", want)
	}
}

// The former state of a key is noted once for all views that may need it, and a view reports exactly the
// changes since its opening.
func TestChangedSince(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	c := attached(t, s, "m")
	mustSet(t, s, "m:a", "1")
	first := mustView(t, s)
	defer first.Close()
	for range 10 {
		mustSet(t, s, "m:a", "2")
	}
	second := mustView(t, s)
	defer second.Close()
	changed := func(v *View, own string) bool {
		hash := s.Hash(own)
		mu := s.lockOf(hash)
		mu.Lock()
		defer mu.Unlock()
		is := v.changedLocked(c.owner, hash, own)
		if any := v.anyChangedLocked(c.owner, int(hash%cache.Shards), func(o string) bool { return o == own }); any != is {
			t.Errorf("key %q: changedLocked says %v, anyChangedLocked %v", own, is, any)
		}
		return is
	}
	if !changed(first, "a") || changed(second, "a") || changed(first, "b") {
		t.Error("a was written after the first view and before the second one, b never")
	}
	if sh := c.owner.versionShard(int(s.Hash("a") % cache.Shards)); len(sh.list) != 1 {
		t.Errorf("%d versions, want the one that a view has seen", len(sh.list))
	}
	if _, err := s.Delete(nil, []byte("m:a"), Process); err != nil {
		t.Fatal(err)
	}
	c.setAsync(t, s, "b", "waits")
	if !changed(second, "a") || !changed(second, "b") {
		t.Error("a was deleted after the second view, and b set asynchronously")
	}
	list := first.changed(c.owner, nil)
	if len(list) != 1 || list[0].own != "a" || list[0].address == 0 {
		t.Errorf("changed since the first view: %+v, want a, which was there", list)
	}
	if list := first.changed(c.owner, func(_ uint64, own string) bool { return own == "b" }); len(list) != 0 {
		t.Errorf("changed and b: %+v, want nothing, for the log does not know of it", list)
	}
}

// Views that overlap for ever keep no more than they need, however much is written.
func TestVersionsStayFew(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.NoCompaction = true })
	defer mustClose(t, s)
	for i := range 50 {
		mustSet(t, s, fmt.Sprint(i), "0")
	}
	old := mustView(t, s)
	views, begun := []*View{mustView(t, s), mustView(t, s)}, []int{0, 0}
	most := int64(0)
	for n := range 20_000 {
		mustSet(t, s, fmt.Sprint(n%50), fmt.Sprint(n))
		if n%5 == 0 {
			if i := begun[0]; i > 50 { // it has the numbers from i-50 to i
				last := i - (i-n%50+50)%50
				if e, err := views[0].Get(nil, fmt.Append(nil, n%50)); err != nil || string(e.Value) != fmt.Sprint(last) {
					t.Fatalf("the view that was opened after %d has %q, %v of key %d, want %d", i, e.Value, err, n%50, last)
				}
			}
			views[0].Close()
			views, begun = append(views[1:], mustView(t, s)), append(begun[1:], n)
		}
		most = max(most, s.views.bytes.Load())
	}
	if e, err := old.Get(nil, []byte("7")); err != nil || string(e.Value) != "0" {
		t.Errorf("the oldest view has %q, %v", e.Value, err)
	}
	if most > 400_000 {
		t.Errorf("the versions took up to %d bytes, for 50 keys and 3 views", most)
	}
	for _, v := range append(views, old) {
		v.Close()
	}
	s.wantNoTrace(t)
}

// The memory of many versions is taken from the budget of the cells, and comes back with the last view; also
// when another view stays that needs none of it.
func TestVersionsComeBack(t *testing.T) {
	for _, stays := range []bool{false, true} {
		s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.NoCompaction = true; o.MaxMemory = 1 << 30 })
		const keys = 40_000
		for range 2 {
			for i := range keys {
				mustSet(t, s, fmt.Sprint("key ", i), "v")
			}
			if s.views.open.Load() == 0 {
				mustView(t, s)
			}
		}
		v := s.views.line[0]
		bytes := s.views.bytes.Load()
		if bytes < keys*40 || bytes > keys*150 {
			t.Errorf("%d versions take %d bytes", keys, bytes)
		}
		t.Logf("%d versions take %d bytes, %d each", keys, bytes, bytes/keys)
		if stays {
			defer mustView(t, s).Close()
		}
		v.Close()
		if left := s.views.bytes.Load(); left > sweepBytes/4 {
			t.Errorf("%d bytes are left of %d when the view is closed, another one open: %v", left, bytes, stays)
		}
		mustClose(t, s)
	}
}

// Segments that compaction has replaced stay on the disk for a view, without slowing down writes, and go with it;
// those written after the view was opened do not stay.
func TestHeldForAView(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000 })
	defer mustClose(t, s)
	fill := func(round int) {
		for i := range 60 {
			mustSet(t, s, fmt.Sprint(i), fmt.Sprintf("%d %60d", round, i))
		}
	}
	fill(0)
	v := mustView(t, s)
	want := viewContent(t, v)
	for round := range 30 {
		fill(1 + round)
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	held := s.Stats().HeldBytes
	if n := len(s.outOfUse()); n == 0 || held == 0 {
		t.Fatalf("%d segments with %d bytes are held: this tests nothing", n, held)
	}
	if held > 20_000 {
		t.Errorf("%d bytes are held, and the log had about 6000 when the view was opened", held)
	}
	if n := s.compactor().DiskBytes(); n > s.usage().log+s.log.SegmentBytes {
		t.Errorf("%d bytes: what is held for a view would slow down writes", n)
	}
	wantView(t, v, want, nil)
	v.Close()
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held when the view is closed", held)
	}
	s.wantNoTrace(t)
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
	if len(logs) > len(s.log.Readable())+1 { // the spare has no place in the log yet
		t.Errorf("the files %v are there, and the log has %d segments", logs, len(s.log.Readable()))
	}
}

// A crash with a view open leaves unneeded files, and they are removed.
func TestCrashWithAView(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000; o.NoSnapshot = true })
	for n := range 400 {
		mustSet(t, s, fmt.Sprint(n%50), fmt.Sprintf("%60d", n))
		if n == 200 {
			mustView(t, s)
		}
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if len(s.outOfUse()) == 0 {
		t.Fatal("nothing is held: this tests nothing")
	}
	s.lock.Close() // as kill -9 does
	s = mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000; o.NoSnapshot = true })
	defer mustClose(t, s)
	for i := range 50 {
		wantValue(t, s, fmt.Sprint(i), fmt.Sprintf("%60d", 350+i))
	}
	mustSet(t, s, "one", "more")
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
	if len(logs) != len(s.log.Readable()) {
		t.Errorf("the files %v are there, and the log has %d segments", logs, len(s.log.Readable()))
	}
}

// Views are opened, read and closed by many goroutines while others write, and one compacts without a rest.
// Writers move amounts between accounts of a pair, one after the other: a view has the first write of a pair
// without the second at most, and never the second without the first, nor anything that was undone (a long
// fork, a fractured read); and it has the same whenever it is asked.
func TestViewsAmongOthers(t *testing.T) { logtest.BothWays(t, viewsAmongOthers) }

func viewsAmongOthers(t *testing.T) {
	const pairs, readers = 8, 3
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	s, err := Open("db", WithRooms(Options{FS: vfs.NewMem(), SegmentBytes: 8 << 10, RingBytes: logtest.TestRing, NoCompaction: true, MaxMemory: 60 << 10, OnError: func(err error) { t.Error(err) }}))
	if err != nil {
		t.Fatal(err)
	}
	c := attached(t, s, "m")
	key := func(pair, half int) string { return fmt.Sprint("m:", pair, "/", half) }
	for pair := range pairs {
		mustSet(t, s, key(pair, 0), "0")
		mustSet(t, s, key(pair, 1), "0")
	}
	var done atomic.Bool
	var seen atomic.Int64
	var writing, rest sync.WaitGroup
	for pair := range pairs {
		writing.Go(func() {
			for n := 1; n <= rounds && !t.Failed(); n++ {
				for half := range 2 {
					mustSet(t, s, key(pair, half), fmt.Sprint(n))
				}
				extra := fmt.Sprint(pair, " extra ", n%5)
				if n%2 == 0 {
					c.setAsync(t, s, extra, fmt.Sprint(n))
				} else if _, err := s.Delete(c.owner, []byte("m:"+extra), Process); err != nil {
					t.Error(err)
				}
				for target := int64(n / 8); seen.Load() < target && !t.Failed(); {
					runtime.Gosched()
				}
			}
		})
	}
	for range readers {
		rest.Go(func() {
			for !done.Load() && !t.Failed() {
				v := mustView(t, s)
				all := viewContent(t, v)
				for pair := range pairs {
					a, b := all[key(pair, 0)], all[key(pair, 1)]
					var x, y int
					if _, err := fmt.Sscan(a+" "+b, &x, &y); err != nil || x != y && x != y+1 {
						t.Errorf("a view has %q and %q of pair %d, %v", a, b, pair, err)
					}
				}
				for k, want := range all {
					if e, err := v.Get(nil, []byte(k)); err != nil || string(e.Value) != want {
						t.Errorf("Get(%q) = %q, %v after the iteration found %q", k, e.Value, err, want)
					}
				}
				if again := viewContent(t, v); !maps.Equal(all, again) {
					t.Errorf("the second iteration has %d entries, the first had %d", len(again), len(all))
				}
				v.Close()
				seen.Add(1)
			}
		})
	}
	rest.Go(func() {
		rng := rand.New(rand.NewPCG(3, 5))
		for !done.Load() && !t.Failed() {
			if err := compactRun(s, rng.IntN(1000)); err != nil {
				t.Errorf("compacting: %v", err)
			}
		}
	})
	writing.Wait()
	done.Store(true)
	rest.Wait()
	s.unpinned()
	s.wantNoTrace(t)
	mustClose(t, s)
}

// An entry that had expired when a view was opened is no change for it, though another view was open before;
// one that expires later is.
func TestExpiredBeforeTheView(t *testing.T) {
	clock := logtest.NewClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock))
	defer mustClose(t, s)
	table := s.spaces[0].raw
	mustSet(t, s, "stays", "v")
	putTTL(t, s, "k", "v", time.Second)
	putTTL(t, s, "later", "v", 3*time.Second)
	before := mustView(t, s)
	defer before.Close()
	clock.Advance(2 * time.Second)
	if n := table.Len(); n != 2 { // which takes it out
		t.Fatalf("%d entries", n)
	}
	after := mustView(t, s)
	defer after.Close()
	clock.Advance(2 * time.Second)
	if n := table.Len(); n != 1 {
		t.Fatalf("%d entries", n)
	}
	for _, c := range []struct {
		v       *View
		key     string
		changed bool
	}{{before, "k", true}, {before, "later", true}, {before, "stays", false}, {after, "k", false}, {after, "later", true}, {after, "stays", false}} {
		hash := s.Hash(c.key)
		mu := s.lockOf(hash)
		mu.Lock()
		if got := c.v.changedLocked(table, hash, c.key); got != c.changed {
			t.Errorf("%q has changed: %v, for the view after %d others", c.key, got, c.v.number-1)
		}
		mu.Unlock()
	}
	wantView(t, before, map[string]string{"k": "v", "later": "v", "stays": "v"}, nil)
	wantView(t, after, map[string]string{"later": "v", "stays": "v"}, []string{"k"})
	mustSet(t, s, "k", "new") // with the number by which both expiries count
	wantView(t, before, map[string]string{"k": "v", "later": "v", "stays": "v"}, []string{"k"})
	wantView(t, after, map[string]string{"later": "v", "stays": "v"}, []string{"k"})
}

// A read returns the entry in the view, or that the view is closed, even if it is closed, all that was kept for
// it goes, and another one is opened at any moment of the read.
func TestViewClosedWhileItIsRead(t *testing.T) {
	s, err := Open("db", WithRooms(Options{FS: vfs.NewMem(), SegmentBytes: 2000, RingBytes: logtest.TestRing, NoCompaction: true, OnError: func(err error) { t.Error(err) }}))
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	const keys = 20
	value := func(round int) string { return fmt.Sprintf("%d %80d", round, round) }
	rounds := 25
	if longTest() {
		rounds = 5000
	}
	for round := range rounds {
		for i := range keys {
			mustSet(t, s, fmt.Sprint(i), value(round))
		}
		v := mustView(t, s)
		for i := range keys {
			mustSet(t, s, fmt.Sprint(i), value(-1))
		}
		var readers sync.WaitGroup
		var reads atomic.Int64
		for g := range 2 {
			readers.Go(func() {
				for i := g; ; i++ {
					e, err := v.Get(nil, fmt.Append(nil, i%keys))
					reads.Add(1)
					if err == ErrViewClosed {
						return
					}
					if err != nil || string(e.Value) != value(round) {
						t.Errorf("round %d: %.20q, %v", round, e.Value, err)
						return
					}
				}
			})
		}
		for reads.Load() < 10 {
			runtime.Gosched()
		}
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		v.Close()
		other := mustView(t, s) // of another epoch: versions noted for the closed one no longer count
		s.unpinned()
		mustSet(t, s, fmt.Sprint(round%keys), value(-2))
		readers.Wait()
		other.Close()
	}
}

// A follower that fails to begin anew, wherever, goes on as before, and so do its views.
func TestViewOfAFollowerThatFails(t *testing.T) {
	tested := 0
	for n := 1; ; n += 2 {
		mem := vfs.NewMem()
		writer := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
		fill := func(round string) {
			for i := range 200 {
				mustSet(t, writer, fmt.Sprint("m:", i%50), fmt.Sprint(round, i%50))
			}
		}
		fill("old ")
		broken := false
		failing := &vfs.Fault{Kinds: vfs.OpRead, N: n, Match: func(string) bool { return broken }, Err: syscall.EMFILE}
		reader := mustOpen(t, vfs.Inject(mem, failing), func(o *Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20 })
		v := mustView(t, reader)
		want := viewContent(t, v)
		for range 2 {
			fill("new ")
			if err := writer.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		broken = true
		err := reader.Refresh()
		broken = false
		if err != nil && strings.Contains(err.Error(), "read again") {
			tested++
			wantView(t, v, want, []string{"m:1", "m:x"})
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			wantViewFails(t, v, ErrViewLost)
		}
		v.Close()
		mustClose(t, reader)
		mustClose(t, writer)
		if err == nil {
			break
		}
	}
	if tested < 3 {
		t.Errorf("it failed to begin anew %d times: this tests too little", tested)
	}
}

// A read that has begun, and waits for the lock of its key while the view is closed and another is opened, does
// not take the present entry for the old one.
func TestViewClosedWhileAReadWaits(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	for round := range 20 {
		mustSet(t, s, "k", "old")
		v := mustView(t, s)
		mustSet(t, s, "k", "new")
		mu := s.lockOf(s.Hash("k"))
		mu.Lock()
		read := make(chan error)
		go func() {
			e, err := v.Get(nil, []byte("k"))
			if err == nil && string(e.Value) != "old" {
				err = fmt.Errorf("it has %q", e.Value)
			}
			read <- err
		}()
		for !s.life.inner.Busy() {
			runtime.Gosched()
		}
		for range 100 { // it is in the gate, and will soon wait for the lock
			runtime.Gosched()
		}
		v.Close()
		other := mustView(t, s)
		mu.Unlock()
		if err := <-read; err != ErrViewClosed {
			t.Fatalf("round %d: %v, want %v", round, err, ErrViewClosed)
		}
		other.Close()
	}
}

// A view needs the segments in which it may have addresses: one in use until it is replaced, and one out of use
// if that was in use when the view was opened.
func TestViewsNeedSegments(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "k", "v")
	open := func() *View {
		v, err := s.OpenView()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	inUse := func(seg *seglog.Segment) retired { return retired{seg, notYet} }
	renumbered := false
	want := func(what string, seg retired, want bool) {
		t.Helper()
		if got := s.views.needs(seg, renumbered); got != want {
			t.Errorf("%s is needed: %v, want %v", what, got, want)
		}
	}
	want("what is in use, without views,", inUse(s.log.Tail), false)
	before := open()
	seg := inUse(&seglog.Segment{First: before.Seq()})
	want("what is in use", seg, true)
	want("what is in use and was made by this process", inUse(s.log.Tail), true)
	seg.after = s.views.opened.Load()
	want("what was in use before", seg, true)
	behind := inUse(&seglog.Segment{First: before.Seq() + 1})
	want("what has only later records", behind, false)
	renumbered = true
	want("what seems to have only later records", behind, true)
	renumbered = false
	after := open()
	want("what was in use before one of two views", seg, true)
	before.Close()
	want("what was out of use before", seg, false)
	never := retired{&seglog.Segment{First: 1}, 0} // out of use before there was a view
	want("what was out of use before there was a view", never, false)
	after.Close()
	mustClose(t, s)
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	defer open().Close()
	want("what is in use and was found", inUse(s.log.Readable()[0]), true)
}

// keysInOrder are the keys that a view has of a table.
func keysInOrder(t *testing.T, v *View, table *Table) (keys []string) {
	t.Helper()
	for item := range v.InOrder(table, keycodec.BytesOrder, Span{}, false) {
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		keys = append(keys, string(item.Key))
	}
	return keys
}

// TestWalksOfAViewDoNotAddUp: a walk over a view pays nothing for changes since the view was opened. Kept
// layers of the order take memory, which is counted, and comes back.
func TestWalksOfAViewDoNotAddUp(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	raw := s.Tables()[0]
	if err := s.Order(raw, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "first", "1")
	v := mustView(t, s)
	first := func() {
		for item := range v.InOrder(raw, keycodec.BytesOrder, Span{}, false) {
			if string(item.Key) != "first" {
				t.Errorf("%q, %v comes first", item.Key, item.Err)
			}
			break
		}
	}
	changed := 0
	change := func(n int) {
		for range n {
			changed++
			mustSet(t, s, fmt.Sprint("later ", changed), "1")
		}
	}
	change(1)
	step := func() { change(1); first() }
	before := testing.AllocsPerRun(10, step)
	versions := func() (bytes int64) {
		for n := range raw.versions.Load().shards {
			bytes += raw.versions.Load().shards[n].counted
		}
		return bytes
	}
	change(3000)
	order := s.Stats().ViewBytes - versions()
	if order == 0 {
		t.Error("what was kept of the order is not counted")
	}
	if change(3000); s.Stats().ViewBytes-versions() != order {
		t.Errorf("the order that was kept takes %d bytes, and after 3000 changes more %d", order, s.Stats().ViewBytes-versions())
	}
	if after := testing.AllocsPerRun(10, step); after > before+50 {
		t.Errorf("a change and a walk take %.0f allocations, and after a change of 3000 keys %.0f", before, after)
	}
	if keys := keysInOrder(t, v, raw); !slices.Equal(keys, []string{"first"}) {
		t.Errorf("the view has %q", keys)
	}
	v.Close()
	if bytes, alone := s.Stats().ViewBytes, versions(); bytes != alone {
		t.Errorf("%d bytes are taken when the view is closed, %d by versions", bytes, alone)
	}
}

// TestWalkOfAViewWhoseKeysMove: keys that a view has, and that are gone by now, are walked in the map that is
// declared for them, and no more where they were.
func TestWalkOfAViewWhoseKeysMove(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	raw := s.Tables()[0]
	if err := s.Order(raw, keycodec.BytesOrder); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "n:1", "n:2", "z"} {
		mustSet(t, s, key, "1")
	}
	v := mustView(t, s)
	defer v.Close()
	for _, key := range []string{"n:1", "z"} {
		if _, err := s.Delete(nil, []byte(key), Process); err != nil {
			t.Fatal(err)
		}
	}
	mustSet(t, s, "n:3", "new")
	if keys := keysInOrder(t, v, raw); !slices.Equal(keys, []string{"a", "n:1", "n:2", "z"}) {
		t.Errorf("the raw table has %q", keys)
	}
	n, err := s.Map("n")
	if err != nil {
		t.Fatal(err)
	}
	if keys := keysInOrder(t, v, raw); !slices.Equal(keys, []string{"a", "z"}) {
		t.Errorf("the raw table has %q when the map is declared", keys)
	}
	if keys := keysInOrder(t, v, n); !slices.Equal(keys, []string{"n:1", "n:2"}) {
		t.Errorf("the map has %q", keys)
	}
}

// TestIterationOfAViewKeepsNewSegments: a view iterates over the index part by part. An entry of a
// later part that is written anew, into a segment that did not exist when the iteration began, can
// be read until it ends.
func TestIterationOfAViewKeepsNewSegments(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	content := map[string]string{}
	for n := range 200 {
		content[fmt.Sprint("key ", n)] = "old"
		mustSet(t, s, fmt.Sprint("key ", n), "old")
	}
	mustClose(t, s)
	hold := make(chan struct{})
	bringing := &vfs.Fault{Kinds: vfs.OpRead, Match: logtest.IsIndex}
	f := vfs.Inject(mem, bringing)
	s = mustOpen(t, f)
	t0 := s.RawTable()
	v := mustView(t, s)
	defer v.Close()
	bringing.N, bringing.Hold = f.Matched(0)+1, hold
	type result struct {
		all map[string]string
		err error
	}
	ended := make(chan result)
	go func() {
		r := result{all: map[string]string{}}
		for item := range v.Items(t0, true) {
			if item.Err != nil && r.err == nil {
				r.err = item.Err
			}
			if len(r.all) == 0 {
				if err := s.Compact(context.Background(), nil); err != nil { // the new records, once more
					r.err = err
				}
			}
			r.all[string(item.Key)] = string(item.Value)
		}
		ended <- r
	}()
	logtest.Until(f.Fired)
	last := "" // of the keys in the order of the index
	for key := range content {
		if last == "" || t0.hash([]byte(key)) > t0.hash([]byte(last)) {
			last = key
		}
	}
	mustSet(t, s, last, "newer") // into the tail, which begins now
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, last, "newest")
	close(hold)
	r := <-ended
	if r.err != nil {
		t.Fatal(r.err)
	}
	if fmt.Sprint(r.all) != fmt.Sprint(content) {
		t.Errorf("the view has %v", r.all)
	}
	mustClose(t, s)
}
