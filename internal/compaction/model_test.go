package compaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// model is a store and a map that it must be like.
type compactModel struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *engine.Store
	cells   *storetest.Cells
	content map[string]string
}

// open opens the store, every other time from the log alone.
func (m *compactModel) open() {
	if m.rng.IntN(2) == 0 {
		logtest.RemoveIndex(m.mem, "db") // if it is there
	}
	m.s = storetest.Open(m.t, m.mem, func(o *engine.Options) { o.SegmentBytes = 3000; o.MaxMemory = 1 << 20 })
	m.cells = storetest.AttachMap(m.t, m.s, "m")
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
		if _, err := s.Delete(nil, []byte(key), engine.Process); err != nil {
			t.Fatal(err)
		}
		delete(m.content, key)
		return
	case 4, 5, 6:
		key = fmt.Sprint(rng.IntN(40))
		m.cells.SetAsync(t, s, key, value)
		m.content["m:"+key] = value
		return
	case 7:
		if rng.IntN(5) == 0 {
			value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+rng.IntN(2*seglog.PartBytes))/8)
		}
	case 8:
		if rng.IntN(3) == 0 {
			storetest.Close(t, s)
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
		storetest.CompactSome(t, s, rng)
		return
	case 12:
		compaction.Of(s).Step()
		return
	case 13:
		if rng.IntN(20) == 0 {
			if err := storetest.Compact(s); err != nil {
				t.Fatal(err)
			}
		}
		return
	case 14:
		storetest.WantSame(t, s, m.content)
		return
	}
	storetest.Set(t, s, key, value)
	m.content[key] = value
}

// A store that is compacted at random always equals a map.
func TestCompactionModel(t *testing.T) {
	seeds := uint64(1)
	if storetest.Long() {
		seeds = 3
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := &compactModel{t: t, rng: rand.New(rand.NewPCG(seed, 21)), mem: vfs.NewMem(), content: map[string]string{}}
			m.open()
			for n := range 3000 {
				m.step(n)
			}
			storetest.WantSame(t, m.s, m.content)
			storetest.Close(t, m.s)
			m.open()
			storetest.WantSame(t, m.s, m.content)
			if m.s.Stats().Records == 0 {
				t.Error("nothing is in the log")
			}
			if err := storetest.Compact(m.s); err != nil {
				t.Fatal(err)
			}
			storetest.WantSame(t, m.s, m.content)
			if st := m.s.Stats(); st.LogBytes-st.LiveBytes > 500 || st.Records > st.Keys+200 {
				t.Errorf("after Compact: %+v", st)
			}
			storetest.Close(t, m.s)
			if r, err := engine.Check(context.Background(), "db", m.mem, nil); err != nil || len(r.Problems) > 0 || r.Keys != int64(len(m.content)) {
				t.Errorf("Check: %+v, %v", r, err)
			}
			names, err := m.mem.List("db")
			if err != nil {
				t.Fatal(err)
			}
			m.open()
			defer storetest.Close(t, m.s)
			if logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") }); len(logs) != len(m.s.Log().Readable()) {
				t.Errorf("the files %v are there, and the log has %d segments", logs, len(m.s.Log().Readable()))
			}
		})
	}
}

// Deleted entries stay away, though the deletion and the deleted records are compacted apart, and
// the index is made from the log; and the deletion is removed when it has no records to delete.
func TestDeletionsDoNotComeBack(t *testing.T) {
	mem := vfs.NewMem()
	open := func() *engine.Store {
		logtest.RemoveIndex(mem, "db")
		return storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000 })
	}
	s := open()
	fill := func(name string) {
		for i := range 20 {
			storetest.Set(t, s, fmt.Sprint(name, i), strings.Repeat("x", 50))
		}
	}
	storetest.Set(t, s, "gone", "was here")
	fill("a")
	if _, err := s.Delete(nil, []byte("gone"), engine.Process); err != nil {
		t.Fatal(err)
	}
	fill("b")
	fill("c")
	deletions := func() (n int) {
		if err := s.Sync(); err != nil { // which brings everything to the files
			t.Fatal(err)
		}
		for _, seg := range s.Log().Readable() {
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
		storetest.Close(t, s)
		s = open()
		storetest.Want(t, s, "gone", storetest.Absent)
		if n := s.Stats().Keys; n != 60 {
			t.Errorf("%d keys", n)
		}
		storetest.Set(t, s, "a0", "again") // it can be compacted from here on
	}
	each := func(from, to int) {
		t.Helper()
		if err := s.Log().SyncEnded(); err != nil {
			t.Fatal(err)
		}
		for i, n := from, len(s.Log().Compactable()); i < min(n, to); i++ {
			storetest.CompactRange(t, s, i, i+1)
		}
	}
	each(1, 100) // all but the oldest, which has the entry
	if n := deletions(); n != 1 {
		t.Errorf("%d deletions, while deleted records are in the log", n)
	}
	reopened()
	each(1, 100)
	reopened()
	each(0, 100) // one after the other from the oldest on
	if n := deletions(); n != 0 {
		t.Errorf("%d deletions, of nothing", n)
	}
	reopened()
	storetest.Close(t, s)
}

// TestCompactionOfLargeValues: where each segment ends within a large value, space comes back
// nevertheless, and the values, deadlines and values in memory do not change.
func TestCompactionOfLargeValues(t *testing.T) {
	mem := vfs.NewMem()
	open := func() *engine.Store {
		return storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 5 << 20 })
	}
	s := open()
	cells := storetest.AttachMap(t, s, "m")
	content := map[string]string{}
	set := func(n, edition int) {
		key := fmt.Sprint("m:", n)
		value := strings.Repeat(fmt.Sprintf("value %d of %d ", edition, n), 4*seglog.PartBytes/14+n*2000)
		if _, err := s.Write(cells.Table, &engine.Write{Key: []byte(key), Value: []byte(value), Durability: engine.Process, Cells: cells.Cells, Expiry: uint64(n%2) * (1 << 50)}); err != nil {
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
	for compaction.Of(s).Step() {
	}
	u := compaction.Of(s).Usage()
	if u.Log > 2*u.Live+s.Log().SegmentBytes+s.Log().SegmentBytes/2 {
		t.Errorf("the log has %d bytes, of which %d are live", u.Log, u.Live)
	}
	check := func(what string) {
		t.Helper()
		for n := range 12 {
			key := fmt.Sprint("m:", n)
			e, err := s.Get(nil, []byte(key))
			if err != nil || string(e.Value) != content[key] || e.Deadline() != uint64(n%2)*(1<<50) {
				t.Fatalf("%s: Get(%s) = %.20q (%d bytes, deadline %d), %v, want %.20q (%d bytes)", what, key, e.Value, len(e.Value), e.Deadline(), err, content[key], len(content[key]))
			}
		}
		if n := s.Stats().Keys; n != 12 {
			t.Fatalf("%s: %d keys", what, n)
		}
	}
	check("compacted")
	storetest.Close(t, s)
	s = open()
	check("reopened")
	storetest.Close(t, s)
	logtest.RemoveIndex(mem, "db")
	s = open()
	check("reopened from the log")
	storetest.Close(t, s)
}

// TestCompactionBeforeALargeValue: a value that goes on in the tail does not keep the segment in which it begins.
func TestCompactionBeforeALargeValue(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 2 << 20 })
	value := strings.Repeat("four mebibytes. ", 4<<20/16)
	storetest.Set(t, s, "small", "1")
	storetest.Set(t, s, "large", value)
	storetest.Set(t, s, "small", "2")
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	if len(s.Log().Compactable()) == 0 {
		t.Fatal("the value is in one segment")
	}
	storetest.CompactRange(t, s, 0, 1)
	for range 2 {
		storetest.Want(t, s, "large", value)
		storetest.Want(t, s, "small", "2")
		storetest.Close(t, s)
		logtest.RemoveIndex(mem, "db")
		s = storetest.Open(t, mem)
	}
	storetest.Close(t, s)
}
