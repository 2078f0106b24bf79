package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

func noPause() error { return nil }

// compactSome compacts a run that is chosen at random, if there is one.
func compactSome(t testing.TB, s *Store, rng *rand.Rand) {
	t.Helper()
	if err := compactRun(s, rng.IntN(1000)); err != nil {
		t.Fatalf("compacting: %v", err)
	}
}

// compactRun compacts a run that n chooses, if there is one. What has made its records count no more may not be durable yet.
func compactRun(s *Store, n int) error {
	if s.log.Wrote() && n%3 > 0 {
		if err := s.log.SyncEnded(); err != nil {
			return err
		}
	}
	list := s.log.Compactable()
	if len(list) == 0 {
		return nil
	}
	i := n % len(list)
	j := i + 1 + n/7%min(len(list)-i, 4)
	if err := s.compact(list[i:j], noPause); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// model is a store and a map that it must be like.
type compactModel struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *Store
	cells   *Cells
	content map[string]string
}

// open opens the store, every other time from the log alone.
func (m *compactModel) open() {
	if m.rng.IntN(2) == 0 {
		m.mem.Remove("db/" + seglog.SnapshotName) // if it is there
	}
	m.s = mustOpen(m.t, m.mem, func(o *Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
	m.cells = attached(m.t, m.s, "m")
}

func (m *compactModel) key() string {
	return []string{"m:", "n:", ""}[m.rng.IntN(3)] + fmt.Sprint(m.rng.IntN(40))
}

func (m *compactModel) step(n int) {
	t, s, rng := m.t, m.s, m.rng
	key := m.key()
	value := fmt.Sprint("value ", n, strings.Repeat("x", rng.IntN(100)))
	switch rng.IntN(20) {
	case 0, 1, 2, 3:
		if _, err := s.Delete(nil, []byte(key), Process); err != nil {
			t.Fatal(err)
		}
		delete(m.content, key)
		return
	case 4, 5, 6:
		key = fmt.Sprint(rng.IntN(40))
		m.cells.setAsync(t, s, key, value)
		m.content["m:"+key] = value
		return
	case 7:
		if rng.IntN(5) == 0 {
			value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+rng.IntN(2*seglog.PartBytes))/8)
		}
	case 8:
		if rng.IntN(3) == 0 {
			mustClose(t, s)
			m.open()
		}
		return
	case 9:
		if rng.IntN(20) == 0 {
			if _, err := s.Map("n"); err != nil {
				t.Fatal(err)
			}
		}
		return
	case 10, 11:
		compactSome(t, s, rng)
		return
	case 12:
		s.tidyOnce()
		return
	case 13:
		if rng.IntN(20) == 0 {
			if err := s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		return
	case 14:
		s.wantSame(t, m.content)
		return
	}
	mustSet(t, s, key, value)
	m.content[key] = value
}

// wantSame compares what the log holds with content.
func (s *Store) wantSame(t testing.TB, content map[string]string) {
	t.Helper()
	seen := 0
	for _, table := range s.Tables() {
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			if want, ok := content[string(item.Key)]; !ok || want != string(item.Value) {
				t.Fatalf("key %q has %.60q, want %.60q, %v", item.Key, item.Value, want, ok)
			}
			seen++
		}
	}
	if seen != len(content) || s.Stats().Keys != int64(len(content)) {
		t.Fatalf("%d entries, %d counted, want %d", seen, s.Stats().Keys, len(content))
	}
	for key, want := range content {
		wantValue(t, s, key, want)
	}
}

// A store that is compacted at random is, at any time, what a map would be.
func TestCompactionModel(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 2
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := &compactModel{t: t, rng: rand.New(rand.NewPCG(seed, 21)), mem: vfs.NewMem(), content: map[string]string{}}
			m.open()
			for n := range 3000 {
				m.step(n)
			}
			m.s.wantSame(t, m.content)
			mustClose(t, m.s)
			m.open()
			m.s.wantSame(t, m.content)
			if m.s.Stats().Records == 0 {
				t.Error("nothing is in the log")
			}
			if err := m.s.Compact(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			m.s.wantSame(t, m.content)
			if st := m.s.Stats(); st.LogBytes-st.LiveBytes > 500 || st.Records > st.Keys+200 {
				t.Errorf("after Compact: %+v", st)
			}
			mustClose(t, m.s)
			if r, err := Check(context.Background(), "db", m.mem, nil); err != nil || len(r.Problems) > 0 || r.Keys != int64(len(m.content)) {
				t.Errorf("Check: %+v, %v", r, err)
			}
			names, err := m.mem.List("db")
			if err != nil {
				t.Fatal(err)
			}
			m.open()
			defer mustClose(t, m.s)
			if logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") }); len(logs) != len(m.s.log.Readable()) {
				t.Errorf("the files %v are there, and the log has %d segments", logs, len(m.s.log.Readable()))
			}
		})
	}
}

// What was deleted stays away, though the deletion and what it deletes are compacted apart, and the
// index is made from the log; and the deletion itself goes when nothing is left that it deletes.
func TestDeletionsDoNotComeBack(t *testing.T) {
	mem := vfs.NewMem()
	open := func() *Store {
		mem.Remove("db/" + seglog.SnapshotName)
		return mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
	}
	s := open()
	fill := func(name string) {
		for i := range 20 {
			mustSet(t, s, fmt.Sprint(name, i), strings.Repeat("x", 50))
		}
	}
	mustSet(t, s, "gone", "was here")
	fill("a")
	if _, err := s.Delete(nil, []byte("gone"), Process); err != nil {
		t.Fatal(err)
	}
	fill("b")
	fill("c")
	deletions := func() (n int) {
		if err := s.sync(); err != nil { // which brings everything to the files
			t.Fatal(err)
		}
		for _, seg := range s.log.Readable() {
			r := &seglog.Scanner{File: seg.File, Salt: seg.Salt, Offset: seg.Head, End: seg.End.Load()}
			for r.Offset < r.End {
				_, e, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if e.Op == record.Delete {
					n++
				}
			}
		}
		return n
	}
	reopened := func() {
		t.Helper()
		mustClose(t, s)
		s = open()
		wantValue(t, s, "gone", absent)
		if n := s.Stats().Keys; n != 60 {
			t.Errorf("%d keys", n)
		}
		mustSet(t, s, "a0", "again") // it can be compacted from here on
	}
	each := func(from, to int) {
		t.Helper()
		if err := s.log.SyncEnded(); err != nil {
			t.Fatal(err)
		}
		for i, n := from, len(s.log.Compactable()); i < min(n, to); i++ {
			if err := s.compact(s.log.Compactable()[i:i+1], noPause); err != nil {
				t.Fatal(err)
			}
		}
	}
	each(1, 100) // all but the oldest, which has the entry
	if n := deletions(); n != 1 {
		t.Errorf("%d deletions, while what is deleted is in the log", n)
	}
	reopened()
	each(1, 100)
	reopened()
	each(0, 100) // one after the other from the oldest on
	if n := deletions(); n != 0 {
		t.Errorf("%d deletions, of nothing", n)
	}
	reopened()
	mustClose(t, s)
}

// compactionScript is a script in which every fourth step is about compaction, at the least.
func compactionScript(rng *rand.Rand, n int) []step {
	script := randomScript(rng, n)
	for i := range script {
		switch rng.IntN(8) {
		case 0, 1:
			script[i] = step{kind: "compact", value: strings.Repeat("n", rng.IntN(1000))}
		case 2:
			if rng.IntN(4) == 0 {
				script[i] = step{kind: []string{"shrink", "snapshot"}[rng.IntN(2)]}
			}
		}
	}
	return script
}

// TestCrashInCompaction crashes at every operation of compactions, among writes.
func TestCrashInCompaction(t *testing.T) { logtest.BothWays(t, crashInCompaction) }

func crashInCompaction(t *testing.T) {
	want := 1_800
	if longTest() {
		want = 1_000_000
	}
	if testing.Short() {
		want = 1_000
	}
	states, compacted := 0, int64(0)
	for seed := uint64(1); states < want || compacted < 8; seed++ {
		c := compactionCrasher(t, seed)
		c.run(vfs.NewCrashMem(), newOracle(nil), compactionScript(c.rng, 24), 0)
		states += c.states
		compacted += c.compacted
		if c.failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.failure)
		}
	}
	t.Logf("%d crash states, %d segments compacted, 0 violations", states, compacted)
}

func compactionCrasher(t *testing.T, seed uint64) *crasher {
	return &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 22)), limit: 4, again: 5000, ring: []int64{256, 1 << 10, 4 << 10}[seed%3], options: func(o *Options) { o.SegmentBytes = 400 }}
}

// TestCompactionOfLargeValues: where each segment ends within a large value, space comes back nevertheless, and the values, deadlines and
// what memory has stay what they are.
func TestCompactionOfLargeValues(t *testing.T) {
	mem := vfs.NewMem()
	open := func() *Store { return mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 5 << 20 }) }
	s := open()
	cells := attached(t, s, "m")
	content := map[string]string{}
	set := func(n, edition int) {
		key := fmt.Sprint("m:", n)
		value := strings.Repeat(fmt.Sprintf("value %d of %d ", edition, n), 4*seglog.PartBytes/14+n*2000)
		if _, err := s.Write(cells.owner, &Write{Key: []byte(key), Value: []byte(value), Durability: Process, Cells: cells, Expiry: uint64(n%2) * (1 << 50)}); err != nil {
			t.Fatal(err)
		}
		content[key] = value
	}
	for edition := range 4 {
		for n := range 12 {
			if edition == 0 || n%3 != 0 {
				set(n, edition)
			}
		}
	}
	for s.tidyOnce() {
	}
	u := s.usage()
	if u.log > 2*u.live+s.log.SegmentBytes+s.log.SegmentBytes/2 {
		t.Errorf("the log has %d bytes, of which %d are live", u.log, u.live)
	}
	check := func(what string) {
		t.Helper()
		for n := range 12 {
			key := fmt.Sprint("m:", n)
			e, err := s.Get(nil, []byte(key))
			if err != nil || string(e.Value) != content[key] || e.expiry != uint64(n%2)*(1<<50) {
				t.Fatalf("%s: Get(%s) = %.20q (%d bytes, deadline %d), %v, want %.20q (%d bytes)", what, key, e.Value, len(e.Value), e.expiry, err, content[key], len(content[key]))
			}
		}
		if n := s.Stats().Keys; n != 12 {
			t.Fatalf("%s: %d keys", what, n)
		}
	}
	check("compacted")
	mustClose(t, s)
	s = open()
	check("reopened")
	mustClose(t, s)
	mem.Remove("db/" + seglog.SnapshotName)
	s = open()
	check("reopened from the log")
	mustClose(t, s)
}

// TestCompactionBeforeALargeValue: a value that goes on in the tail does not keep the segment in which it begins.
func TestCompactionBeforeALargeValue(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2 << 20 })
	value := strings.Repeat("four mebibytes. ", 4<<20/16)
	mustSet(t, s, "small", "1")
	mustSet(t, s, "large", value)
	mustSet(t, s, "small", "2")
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	run := s.log.Compactable()
	if len(run) == 0 {
		t.Fatal("the value is in one segment")
	}
	err := s.compact(run[:1], noPause)
	if err != nil {
		t.Fatalf("compact: %v", err)
	}
	for range 2 {
		wantValue(t, s, "large", value)
		wantValue(t, s, "small", "2")
		mustClose(t, s)
		mem.Remove("db/" + seglog.SnapshotName)
		s = mustOpen(t, mem)
	}
	mustClose(t, s)
}
