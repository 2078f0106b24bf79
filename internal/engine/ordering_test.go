package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/repair"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

var intOrder, _ = keycodec.OrderNamed("int")

// fewMarks makes folds happen with few keys.
func fewMarks(t *testing.T, n int) {
	old := FoldMarks
	FoldMarks = n
	t.Cleanup(func() { FoldMarks = old })
}

// numbers opens the ordered table of a map of integers.
func numbers(t testing.TB, s *Store) *Table {
	t.Helper()
	table, err := s.Map("n")
	if err == nil {
		err = s.Order(table, intOrder)
	}
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func number(i int) []byte { return fmt.Appendf(nil, "n:%d", i) }

func put(t testing.TB, s *Store, i int) {
	t.Helper()
	if err := s.Set(nil, number(i), fmt.Append(nil, i), 0, Process); err != nil {
		t.Fatal(err)
	}
}

func drop(t testing.TB, s *Store, i int) {
	t.Helper()
	if _, err := s.Delete(nil, number(i), Process); err != nil {
		t.Fatal(err)
	}
}

// inOrder returns the content of a table's order, as text.
func inOrder(t testing.TB, table *Table) (list []string) {
	t.Helper()
	o := table.order.Load()
	if o == nil {
		t.Fatal("there is no order")
	}
	c := o.orderedKeys(Span{})
	defer c.close()
	for c.Next() {
		own, err := o.by.AppendKey(nil, c.Key())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(own))
	}
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	return list
}

// sorted are the keys that the index has, in the order of integers.
func sorted(t testing.TB, s *Store, table *Table) (list []string) {
	t.Helper()
	keys := map[string]string{}
	for item := range s.Keys(table) {
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		own := table.ownOf(item.Key)
		keys[string(table.order.Load().by.AppendSortKey(nil, own))] = strings.Clone(own)
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		list = append(list, keys[k])
	}
	return list
}

func wantOrder(t testing.TB, s *Store, what string) {
	t.Helper()
	table, err := s.Map("n")
	if err != nil {
		t.Fatal(err)
	}
	got, want := inOrder(t, table), sorted(t, s, table)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: the order is\n\t%s, want\n\t%s", what, got, want)
	}
}

func runsOf(t testing.TB, fsys vfs.FS) (names []string) {
	t.Helper()
	all, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if _, ok := parseOrderName(name); ok {
			names = append(names, name)
		}
	}
	return names
}

// stored makes a store with an order in two runs, and closes it.
func stored(t testing.TB, change ...func(*Options)) *vfs.Mem {
	mem := vfs.NewMem()
	for round := range 2 {
		s := mustOpen(t, mem, change...)
		numbers(t, s)
		for i := range 200 - 180*round {
			put(t, s, i*3-100+round)
			if i%5 == 2 {
				drop(t, s, i*3-103+15*round) // other keys in the second round
			}
		}
		mustClose(t, s)
	}
	if names := runsOf(t, mem); len(names) != 2 {
		t.Fatalf("there are the runs %v", names)
	}
	return mem
}

// A store that was closed opens with its order, and goes through it without a look at the index or the log.
func TestOrderIsOpenedNotMade(t *testing.T) {
	mem := stored(t)
	for _, readOnly := range []bool{false, true} {
		s := mustOpen(t, mem, func(o *Options) { o.ReadOnly = readOnly })
		table := s.spaces[0].maps["n"]
		o := table.order.Load()
		if o == nil || !o.built || o.base == nil || o.small == nil || o.tree.Len() != 0 {
			t.Fatalf("the order is %+v", o)
		}
		if n := len(inOrder(t, table)); n == 0 {
			t.Error("no keys")
		}
		parts := 0
		for _, x := range s.snapshot.x.Tables {
			for _, p := range x.Parts {
				if x.Name != "n" {
					continue
				}
				if parts++; !table.index.Deferred(p.Shard) {
					t.Fatalf("shard %d of the index was read", p.Shard)
				}
			}
		}
		if parts == 0 {
			t.Error("the snapshot has no entries")
		}
		wantOrder(t, s, "after opening")
		mustClose(t, s)
	}
	s := mustOpen(t, mem)
	defer mustClose(t, s)
	if err := s.Order(s.spaces[0].maps["n"], intOrder); err != nil {
		t.Fatal(err)
	}
	if names := runsOf(t, mem); len(names) != 2 {
		t.Errorf("opening changed the runs: %v", names)
	}
}

// Whatever is wrong with the runs, the order is made anew, and the error handler is called.
func TestDamagedRuns(t *testing.T) {
	mem := stored(t)
	check := func(what string, image *vfs.Mem, silent bool) {
		t.Helper()
		var told []error
		s := mustOpen(t, image, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
		wantOrder(t, s, what)
		put(t, s, 1_000_001)
		drop(t, s, -100)
		wantOrder(t, s, what+", and changed")
		mustClose(t, s)
		if (len(told) == 0) != silent {
			t.Errorf("%s: told %v", what, told)
		}
		s = mustOpen(t, image)
		if !s.spaces[0].maps["n"].order.Load().built {
			t.Errorf("%s: it was not written again", what)
		}
		wantOrder(t, s, what+", opened again")
		mustClose(t, s)
	}
	names := runsOf(t, mem)
	for n, name := range names {
		image := mem.ProcessCrash()
		if err := image.Remove(filepath.Join("db", name)); err != nil {
			t.Fatal(err)
		}
		check("without "+name, image, false)
		b := logtest.Read(t, mem, name)
		for i := 0; i < len(b); i += 1 + len(b)/12 {
			image := mem.ProcessCrash()
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			logtest.Write(t, image, name, damaged)
			check(fmt.Sprintf("%s with a bit flipped in byte %d", name, i), image, false)
		}
		image = mem.ProcessCrash()
		logtest.Write(t, image, name, logtest.Read(t, mem, names[1-n]))
		check("with the other run", image, false)
	}
	image := mem.ProcessCrash()
	logtest.RemoveIndex(image, "db")
	check("without the snapshot", image, true)
}

// A snapshot by a version that knows no order has no line of it. Whoever asks for the order makes it.
func TestSnapshotWithoutOrder(t *testing.T) {
	mem := stored(t)
	b := logtest.Read(t, mem, logtest.Index(mem))
	_, at, n, err := checkpoint.ParseTitle(b[:checkpoint.Head])
	if err != nil {
		t.Fatal(err)
	}
	x, err := checkpoint.Parse(b[at : at+n])
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Tables {
		x.Tables[i].Order = nil
	}
	text := x.Encode()
	forgeIndex(t, mem, append(append(checkpoint.Title(x.Store, at, int64(len(text))), b[checkpoint.Head:at]...), text...))
	s := mustOpen(t, mem)
	defer mustClose(t, s)
	if s.snapshot == nil || s.spaces[0].maps["n"].order.Load() != nil {
		t.Fatal("the snapshot is not what it should be")
	}
	numbers(t, s)
	wantOrder(t, s, "made anew")
}

// An unknown order is ignored, and so is text that is no option at all.
func TestUnknownOptions(t *testing.T) {
	for _, text := range []string{"keys collated ordered yes", "keys", "later keys int", `{"keys":"int"}`, "keys int", "keys int ordered later", "ordered yes", ""} {
		mem := vfs.NewMem()
		s := mustOpen(t, mem)
		p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.System}, Key: []byte("map:n"), Value: []byte(text)}
		if err := s.log.Append(p); err != nil {
			t.Fatal(err)
		}
		put(t, s, 1)
		mustClose(t, s)
		s = mustOpen(t, mem, func(o *Options) { o.NoSnapshot = true })
		if s.spaces[0].maps["n"].order.Load() != nil {
			t.Errorf("%s is an order", text)
		}
		numbers(t, s)
		put(t, s, 10)
		put(t, s, 9)
		wantOrder(t, s, text)
		mustClose(t, s)
	}
}

// Runs that a crash has left are removed when there is a snapshot, and no others.
func TestLeftoverRuns(t *testing.T) {
	mem := stored(t)
	logtest.Write(t, mem, orderName(0xdead), []byte("half a run"))
	logtest.Write(t, mem, "notes.order", []byte("somebody's"))
	s := mustOpen(t, mem)
	if names := runsOf(t, mem); len(names) != 3 {
		t.Errorf("opening has changed something: %v", names)
	}
	put(t, s, 1_000_000)
	mustClose(t, s)
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	o := s.spaces[0].maps["n"].order.Load()
	if names := runsOf(t, mem); len(names) > 2 || !slices.Contains(names, orderName(o.base.id)) {
		t.Errorf("there are the runs %v", names)
	}
	logtest.Read(t, mem, "notes.order")
	wantOrder(t, s, "after all")
}

// An entry that had expired when the runs were made, and has not by a clock that was set back, is in order
// nevertheless.
func TestOrderWhenTheClockIsSetBack(t *testing.T) {
	clock, mem := logtest.NewClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(clock))
	table := numbers(t, s)
	put(t, s, 5)
	deadline, err := s.Deadline(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(nil, &Write{Key: number(7), Value: []byte("x"), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
	// The entries are copied, and then it expires.
	w := &snapshotWriter{store: s}
	w.x = &checkpoint.Index{Coverage: s.log.Coverage()}
	if err := w.create(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []tableOf{{0, checkpoint.Raw, s.spaces[0].raw}, {0, checkpoint.Elements, s.spaces[0].elements}} {
		if err := w.table(to, s.Inside); err != nil {
			t.Fatal(err)
		}
	}
	shards := 0
	err = w.table(tableOf{0, checkpoint.Map, table}, func(f func() error) error {
		if shards++; shards == index.Shards {
			defer func() { clock.Advance(time.Hour); table.reap() }()
		}
		return s.Inside(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.text(), w.file.Close(), w.publish()); err != nil {
		t.Fatal(err)
	}
	if got := inOrder(t, table); !slices.Equal(got, []string{"5"}) {
		t.Fatalf("it has not expired: %v", got)
	}
	image := mem.ProcessCrash()
	clock.Advance(-time.Hour)
	s = mustOpen(t, image, withClock(clock))
	defer mustClose(t, s)
	if s.snapshot == nil {
		t.Fatal("the snapshot was not used")
	}
	wantOrder(t, s, "with a clock that was set back")
	if n := len(inOrder(t, s.spaces[0].maps["n"])); n != 2 {
		t.Errorf("there are %d keys", n)
	}
}

// While an order is made of the index, folded, and written with snapshots, others write.
func TestOrderIsMadeBesideWriters(t *testing.T) {
	fewMarks(t, 50)
	for seed := range uint64(3) {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.Inline, o.SegmentBytes = false, 20_000 })
		table, err := s.Map("n")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			put(t, s, i*7%1000)
		}
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				for range 600 {
					if i := rng.IntN(2000); rng.IntN(2) == 0 {
						put(t, s, i)
					} else {
						drop(t, s, i)
					}
				}
			})
		}
		wg.Go(func() {
			for range 4 {
				if err := s.Order(table, intOrder); err != nil {
					t.Error(err)
				}
				snapshotNow(t, s)
				table.order.Load().lose(errors.New("planted"))
				inOrder(t, table)
			}
		})
		wg.Wait()
		wantOrder(t, s, "after all")
		image := mem.ProcessCrash()
		mustClose(t, s)
		for _, m := range []*vfs.Mem{mem, image} {
			s := mustOpen(t, m)
			wantOrder(t, s, "opened again")
			mustClose(t, s)
		}
	}
}

// A walk that comes by damage goes on with an order that is made anew.
func TestWalkGoesOnBehindDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	numbers(t, s)
	for i := range 5000 {
		put(t, s, i)
	}
	mustClose(t, s)
	names := runsOf(t, mem)
	b := logtest.Read(t, mem, names[0])
	b[len(b)/2] ^= 4
	logtest.Write(t, mem, names[0], b)
	var told []error
	s = mustOpen(t, mem, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
	got := inOrder(t, s.spaces[0].maps["n"])
	mustClose(t, s)
	for i, own := range got {
		if own != fmt.Sprint(i) {
			t.Fatalf("%s comes in the place of %d", own, i)
		}
	}
	if len(got) != 5000 || len(told) == 0 || !errors.Is(told[0], record.ErrChecksum) {
		t.Errorf("%d keys, told %v", len(got), told)
	}
}

// When runs cannot be written, writes go on, the order is right, and so it is when there is room again.
func TestOrderWithoutRoom(t *testing.T) {
	fewMarks(t, 20)
	mem := vfs.NewMem()
	full := false
	s := mustOpen(t, noRuns{mem, &full}, func(o *Options) { o.OnError = func(error) {} })
	numbers(t, s)
	for i := range 100 {
		put(t, s, i*31%100)
	}
	full = true
	o := s.spaces[0].maps["n"].order.Load()
	if err := o.fold(true); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("fold: %v", err)
	}
	put(t, s, 1000)
	drop(t, s, 3)
	wantOrder(t, s, "without room")
	if err := o.fold(false); err != nil || o.tree.Len() != 0 {
		t.Errorf("folding in memory: %v", err)
	}
	put(t, s, 1001)
	drop(t, s, 1000)
	wantOrder(t, s, "folded in memory")
	full = false
	mustClose(t, s)
	s = mustOpen(t, mem)
	defer mustClose(t, s)
	if !s.spaces[0].maps["n"].order.Load().built {
		t.Error("it was not written")
	}
	wantOrder(t, s, "opened again")
}

// noRuns is a file system that has no room for runs when full is set.
type noRuns struct {
	vfs.FS
	full *bool
}

func (f noRuns) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if mode == vfs.Create && *f.full && strings.HasSuffix(name, seglog.OrderSuffix) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ErrNoSpace}
	}
	return f.FS.Open(name, mode)
}

// runsBefore is a file system that calls a function before each operation on a run that is being made, which
// may fail it.
type runsBefore struct {
	vfs.FS
	call func() error
}

func (f *runsBefore) Open(name string, mode vfs.Mode) (vfs.File, error) {
	if mode != vfs.Create || !strings.HasSuffix(name, seglog.OrderSuffix) {
		return f.FS.Open(name, mode)
	}
	if err := f.call(); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name, mode)
	return &runBefore{file, f}, err
}

type runBefore struct {
	vfs.File
	fsys *runsBefore
}

func (f *runBefore) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fsys.call(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *runBefore) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fsys.call(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *runBefore) Sync() error {
	if err := f.fsys.call(); err != nil {
		return err
	}
	return f.File.Sync()
}

// Keys that come and go while the marks are folded, of which some are of keys that are just being folded, are
// in order afterwards, whether the fold works or fails, at each of its operations.
func TestKeysComeAndGoDuringAFold(t *testing.T) {
	for _, fails := range []bool{true, false} {
		steps := 0
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			fsys := &runsBefore{mem, func() error { return nil }}
			s := mustOpen(t, fsys, func(o *Options) { o.OnError = func(error) {} })
			table := numbers(t, s)
			o := table.order.Load()
			for i := range 20 {
				put(t, s, i)
			}
			if err := o.fold(true); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				put(t, s, 100+i)
				if i%2 == 0 {
					drop(t, s, i)
				}
			}
			step := 0
			fsys.call = func() error {
				if step++; step != n {
					return nil
				}
				put(t, s, 1000) // new
				drop(t, s, 1)   // in the base
				drop(t, s, 101) // being folded
				put(t, s, 2)    // which is being folded as one that is gone
				drop(t, s, 103)
				put(t, s, 103)
				if fails {
					return vfs.ErrNoSpace
				}
				return nil
			}
			err := o.fold(true)
			if steps = step; step < n {
				mustClose(t, s)
				break
			}
			if (err != nil) != fails {
				t.Errorf("operation %d, to fail: %v: %v", n, fails, err)
			}
			what := fmt.Sprintf("operation %d, to fail: %v", n, fails)
			wantOrder(t, s, what)
			fsys.call = func() error { return nil }
			if err := o.fold(true); err != nil {
				t.Error(err)
			}
			wantOrder(t, s, what+", folded")
			mustClose(t, s)
			s = mustOpen(t, mem)
			wantOrder(t, s, what+", opened again")
			mustClose(t, s)
		}
		if steps < 4 {
			t.Errorf("a fold has only %d operations", steps)
		}
	}
}

// Backups and repaired stores have no runs. Both have the order.
func TestOrderOfBackups(t *testing.T) {
	mem := stored(t)
	s := mustOpen(t, mem)
	mustBackup(t, s, "copy")
	want := inOrder(t, s.spaces[0].maps["n"])
	mustClose(t, s)
	if _, err := repair.Repair(context.Background(), "db", "mended", repair.Options{FS: mem}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"copy", "mended"} {
		s, err := Open(dir, testOptions(mem))
		if err != nil {
			t.Fatal(err)
		}
		if got := inOrder(t, s.spaces[0].maps["n"]); !slices.Equal(got, want) {
			t.Errorf("%s: the order is %v, want %v", dir, got, want)
		}
		mustClose(t, s)
	}
}

// The keys of a view, of which none is looked at where nothing expires, are those that were there.
func TestKeysOfAViewInOrder(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	table := numbers(t, s)
	for _, i := range []int{10, 9, 2, 30} {
		put(t, s, i)
	}
	v := mustView(t, s)
	defer v.Close()
	put(t, s, 11)
	drop(t, s, 9)
	put(t, s, 10)
	drop(t, s, 30)
	put(t, s, 30)
	for _, values := range []bool{false, true} {
		var got []string
		for item := range v.InOrder(table, intOrder, Span{}, values) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			got = append(got, string(item.Key))
		}
		if want := []string{"n:2", "n:9", "n:10", "n:30"}; !slices.Equal(got, want) {
			t.Errorf("values %v: the view has %q, want %q", values, got, want)
		}
	}
}

// orderedScript is a random script over ordered tables, with snapshots and compaction.
func orderedScript(rng *rand.Rand, n int) []step {
	script := append([]step{{kind: "order"}}, randomScript(rng, n)...)
	for i := range script {
		switch rng.IntN(12) {
		case 0:
			script[i] = step{kind: "snapshot"}
		case 1:
			script[i] = step{kind: "order"}
		case 2:
			script[i] = step{kind: "compact", value: strings.Repeat("x", rng.IntN(9))}
		}
	}
	return script
}

// After every crash the order has the keys of the table.
func TestCrashModelOfOrder(t *testing.T) {
	fewMarks(t, 3)
	want := 2_000
	if longTest() {
		want = 1_000_000
	}
	states, ordered := 0, 0
	var mu sync.Mutex // guards the reported errors
	for seed := uint64(1); states < want; seed++ {
		c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 17)), Limit: 8, Sparse: 15, Again: 2000})
		c.ring = 1 << 10
		lost := ""
		c.options = func(o *Options) {
			o.OnError = func(err error) {
				if strings.Contains(err.Error(), "order of keys") { // a snapshot names runs that are whole
					mu.Lock()
					lost = err.Error()
					mu.Unlock()
				}
			}
		}
		c.Run(vfs.NewCrashMem(), newOracle(nil), orderedScript(c.Rng, 30))
		mu.Lock()
		if c.Failure == "" {
			c.Failure = lost
		}
		mu.Unlock()
		states, ordered = states+c.States, ordered+c.ordered
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	if ordered < states/4 {
		t.Errorf("only %d of %d survivors had an order in files", ordered, states)
	}
	t.Logf("%d crash states, %d with runs, 0 violations", states, ordered)
}

// A follower that begins anew, while the order is being made, discards the sorted keys: some may be gone,
// without a mark.
func TestFollowerBeginsAnewWhileOrderIsMade(t *testing.T) {
	const n = 100
	mem := vfs.NewMem()
	w := mustOpen(t, mem)
	defer mustClose(t, w)
	numbers(t, w)
	for i := range n {
		put(t, w, i)
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true; o.OnError = func(error) {} })
	defer mustClose(t, r)
	table := numbers(t, r)
	for i := range n {
		if i != 77 {
			drop(t, w, i)
		}
	}
	if err := errors.Join(w.Compact(context.Background(), nil), w.Sync()); err != nil {
		t.Fatal(err)
	}
	o := table.order.Load()
	o.lose(errors.New("planted")) // as a walk does that comes by damage
	anew := 0
	keysSorted = func() {
		if anew++; anew == 1 {
			if err := r.ReadAnew(false, func(*seglog.Recovery) {}); err != nil {
				t.Error(err)
			}
		}
	}
	defer func() { keysSorted = func() {} }()
	if err := o.build(); err != nil || anew == 0 {
		t.Fatalf("%v, after %d times", err, anew)
	}
	if got := inOrder(t, table); !slices.Equal(got, []string{"77"}) {
		t.Errorf("the order has %d keys, want 77 alone", len(got))
	}
}
