package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// A store of which half is older than its window, and its content at each moment: after a crash, a
// loss of power or a failure at each operation of Compact it must show every moment of the window.

const windowLength = 60 // milliseconds, in each of which something is written

// windowedStore is the store, and how it is opened.
type windowedStore struct {
	clock   *logtest.Clock
	moments map[uint64]map[string]string // by the number of the last record
	times   map[uint64]int64
	last    uint64
}

func (w *windowedStore) options(o *engine.Options) {
	o.SegmentBytes, o.Window, o.Clock = 700, windowLength, w.clock
	o.OnError = func(error) {}
}

// fill writes to a store: sets, deletions of keys and of ranges, and groups.
func (w *windowedStore) fill(t *testing.T, s *engine.Store) {
	now := map[string]string{}
	for i := range 2 * windowLength {
		w.clock.Advance(time.Millisecond)
		key, value := fmt.Sprint("k", i*7%10), fmt.Sprint("value ", i, strings.Repeat("x", i%40))
		switch i % 8 {
		case 5:
			storetest.Delete(t, s, key)
			delete(now, key)
		case 6:
			w.group(t, s, key, value, now)
		case 7:
			if i%16 != 7 {
				storetest.Set(t, s, key, value)
				now[key] = value
				break
			}
			r := keyrange.Prefix([]byte(key))
			if err := s.DeleteRange(r, engine.Process); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(now, func(k, _ string) bool { return r.Has([]byte(k)) })
		default:
			storetest.Set(t, s, key, value)
			now[key] = value
		}
		w.last = s.Log().Last()
		w.moments[w.last], w.times[w.last] = maps.Clone(now), w.clock.Now().UnixMilli()
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func (w *windowedStore) group(t *testing.T, s *engine.Store, key, value string, now map[string]string) {
	err := s.Transact(engine.Process, func(tx *engine.Tx) error {
		for _, k := range []string{key, "group"} {
			if err := tx.Write(nil, &engine.Write{Key: []byte(k), Value: []byte(value)}); err != nil {
				return err
			}
			now[k] = value
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check opens the store after a crash, and reads each moment of the window, or every n-th.
func (w *windowedStore) check(t *testing.T, mem *vfs.Mem, what string, n int) {
	t.Helper()
	s, err := storetest.TryOpen(mem, w.options)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer s.Close()
	w.want(t, s, what, w.moments[w.last])
	i := 0
	for seq, want := range w.moments {
		if w.times[seq] < w.times[w.last]-windowLength {
			continue
		}
		if i++; i%n != 0 {
			continue
		}
		m, err := s.OpenMoment(seglog.AtSeq(seq))
		if err != nil {
			t.Fatalf("%s, as of %d: %v", what, seq, err)
		}
		w.want(t, m, fmt.Sprint(what, ", as of ", seq), want)
		if err := s.CloseMoment(m); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *windowedStore) want(t *testing.T, s *engine.Store, what string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for item := range s.Items(s.RawTable()) {
		if item.Err != nil {
			t.Fatalf("%s: %v", what, item.Err)
		}
		got[string(item.Key)] = string(item.Value)
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %v\nwant %v", what, got, want)
	}
}

func newWindowed(t *testing.T) (*windowedStore, *vfs.Mem) {
	w := &windowedStore{logtest.NewClock(), map[uint64]map[string]string{}, map[uint64]int64{}, 0}
	mem := vfs.NewCrashMem()
	s := storetest.Open(t, mem, w.options)
	w.fill(t, s)
	storetest.Close(t, s)
	return w, mem
}

// TestCrashAtEveryStepOfAWindow crashes Compact at each operation, by the death of the process and by power cuts.
func TestCrashAtEveryStepOfAWindow(t *testing.T) {
	w, mem := newWindowed(t)
	mem = mem.ProcessCrash()
	s := storetest.Open(t, mem, w.options)
	var crashes, cuts []*vfs.Mem
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		crashes = append(crashes, mem.ProcessCrash())
		for cut := range mem.PowerCuts(2, nil) {
			cuts = append(cuts, cut)
		}
	})
	storetest.Set(t, s, "begun", "1") // a store without writes is not compacted
	w.last++
	now := maps.Clone(w.moments[w.last-1])
	now["begun"] = "1"
	w.moments[w.last], w.times[w.last] = now, w.clock.Now().UnixMilli()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	crashes, cuts = nil, nil
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	storetest.Close(t, s)
	if h := s.Log().History(); h.Seq < w.last/4 || s.Log().Compacted.Load() == 0 {
		t.Errorf("the window begins with %+v", h)
	}
	for i, image := range crashes {
		w.check(t, image, fmt.Sprint("crash ", i), 5)
	}
	for i, image := range cuts {
		if i%7 > 0 && !storetest.Long() {
			continue
		}
		w.check(t, image, fmt.Sprint("power cut ", i), 9)
	}
	w.check(t, mem.ProcessCrash(), "in the end", 1)
	t.Logf("%d crashes, %d power cuts", len(crashes), len(cuts))
}

// TestFaultAtEveryStepOfAWindow lets each operation of Compact fail, once.
func TestFaultAtEveryStepOfAWindow(t *testing.T) {
	w, base := newWindowed(t)
	for n := 1; ; n++ {
		mem := base.ProcessCrash()
		fault := &vfs.Fault{Kinds: vfs.Mutating}
		fsys := vfs.Inject(mem, fault)
		s := storetest.Open(t, fsys, w.options)
		for key, value := range w.moments[w.last] { // a store without writes is not compacted
			storetest.Set(t, s, key, value)
			break
		}
		fault.N = n + fsys.Seen()
		err := compaction.Of(s).Compact(context.Background(), nil)
		if s.Close(); fsys.Seen() < fault.N {
			break
		}
		w.check(t, mem.ProcessCrash(), fmt.Sprintf("operation %d failed, and Compact: %v", n, err), 9)
	}
}

// A record that is copied for the sake of the window, and does not count any more, stays dead for an opening from an
// index that knows the deletion and not the copy.
func TestIndexBesideCopiesOfTheDead(t *testing.T) {
	w := &windowedStore{logtest.NewClock(), map[uint64]map[string]string{}, map[uint64]int64{}, 0}
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, w.options)
	storetest.Set(t, s, "dead", "in the window")
	for range 20 {
		storetest.Set(t, s, "often", strings.Repeat("x", 50))
	}
	w.clock.Advance(windowLength * time.Millisecond)
	storetest.Delete(t, s, "dead")
	storetest.Close(t, s) // with an index
	w.clock.Advance(windowLength / 2 * time.Millisecond)
	s = storetest.Open(t, mem, w.options)
	storetest.Set(t, s, "begun", "1") // a store without writes is not compacted
	if _, err := compaction.Of(s).Run(func(list []*seglog.Segment) ([]*seglog.Segment, error) { return list[:1], nil }, nil); err != nil {
		t.Fatal(err)
	}
	if s.Log().Compacted.Load() == 0 {
		t.Fatal("nothing was compacted")
	}
	image := mem.ProcessCrash()
	storetest.Close(t, s)
	s = storetest.Open(t, image, w.options)
	defer storetest.Close(t, s)
	storetest.Want(t, s, "dead", storetest.Absent)
}

// TestWindowBeginsWithAnIndex: when compaction has come to rest there is an index of the window's
// beginning, and each later moment is made from there or from a later one, in this process and
// after a kill.
func TestWindowBeginsWithAnIndex(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		w, mem := newWindowed(t)
		for round := range 3 {
			s := storetest.Open(t, mem, w.options)
			if err := compaction.Of(s).Compact(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			m, err := seglog.ReadManifest(mem, "db")
			if err != nil {
				t.Fatal(err)
			}
			if m.History.Seq == 0 || len(m.Indexes) == 0 || m.Indexes[0].Seq != m.History.Seq || m.Indexes[0].Time > m.History.Time {
				t.Fatalf("round %d: the window begins with %+v, and there are %+v", round, m.History, m.Indexes)
			}
			for range 2 {
				for seq := range w.moments {
					if seq < m.History.Seq {
						continue
					}
					past, err := s.OpenMoment(seglog.AtSeq(seq))
					if err != nil {
						t.Fatal(err)
					}
					if x := past.Log().Snapshot.Load(); x == nil || x.Seq < m.History.Seq {
						t.Errorf("round %d: moment %d begins from %+v", round, seq, x)
					}
					w.want(t, past, fmt.Sprint("as of ", seq), w.moments[seq])
					if err := s.CloseMoment(past); err != nil {
						t.Fatal(err)
					}
				}
				mem = mem.ProcessCrash()
				s = storetest.Open(t, mem, w.options)
			}
			w.fill(t, s)
			storetest.Close(t, s)
		}
	})
}

// TestIndexOfAMoment: an index of any moment is as good as one that was taken then, where a group
// is written, where other snapshots were taken, for opening the store and for later moments.
func TestIndexOfAMoment(t *testing.T) {
	w := &windowedStore{logtest.NewClock(), map[uint64]map[string]string{}, map[uint64]int64{}, 0}
	mem := vfs.NewMem()
	options := func(o *engine.Options) {
		w.options(o)
		o.Window, o.GroupBytes, o.LogPerIndex = 1<<40, 150, -1
	}
	s := storetest.Open(t, mem, options)
	w.fill(t, s)
	first := s.Log().Last() + 1
	err := s.Transact(engine.Process, func(tx *engine.Tx) error {
		for i := range 20 {
			if err := tx.Write(nil, &engine.Write{Key: fmt.Append(nil, "g", i), Value: []byte("of the group")}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	now := maps.Clone(w.moments[w.last])
	for i := range 20 {
		now[fmt.Sprint("g", i)] = "of the group"
	}
	w.last = s.Log().Last()
	w.moments[w.last], w.times[w.last] = now, w.clock.Now().UnixMilli()
	if w.last-first < 20 {
		t.Fatalf("the group has records from %d to %d", first, w.last)
	}
	for _, seq := range []uint64{first / 2, first, first + 7, first + 12, first + 19, w.last, 1} {
		past, err := s.OpenMoment(seglog.AtSeq(seq))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := past.Follower().Replace()
		if within := seq >= first && seq < w.last; whole == within || err != nil {
			t.Errorf("at %d a group is under way: %v, %v; the group has records %d to %d", seq, !whole, err, first, w.last)
		}
		if whole {
			err = s.SavePast(past)
		}
		if err := errors.Join(err, s.CloseMoment(past)); err != nil {
			t.Fatalf("the index as of %d: %v", seq, err)
		}
		if !whole {
			continue
		}
		m, err := seglog.ReadManifest(mem, "db")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(m.Indexes, func(a, b seglog.ManifestIndex) int { return int(a.Seq) - int(b.Seq) }) ||
			!slices.ContainsFunc(m.Indexes, func(x seglog.ManifestIndex) bool { return x.Seq == seq }) {
			t.Fatalf("after the index as of %d there are %+v", seq, m.Indexes)
		}
		w.check(t, mem.ProcessCrash(), fmt.Sprint("with the index as of ", seq), 3)
	}
	storetest.Close(t, s) // with another one after them
	s = storetest.Open(t, mem, options)
	past, err := s.OpenMoment(seglog.AtSeq(first - 1))
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := past.Follower().Replace(); !whole || err != nil {
		t.Fatal(whole, err)
	}
	if err := errors.Join(s.SavePast(past), s.CloseMoment(past)); err != nil {
		t.Fatal(err)
	}
	w.check(t, mem.ProcessCrash(), "with an index behind it", 1)
	storetest.Set(t, s, "k0", "last")
	storetest.Close(t, s)
	m, err := seglog.ReadManifest(mem, "db")
	if err != nil || len(m.Indexes) < 4 {
		t.Errorf("there are %+v, %v", m.Indexes, err)
	}
}

// TestWindowThatIsNotAskedFor: a program that names no history, and no follower, keeps the window of an
// earlier one, and begins it with an index just as well.
func TestWindowThatIsNotAskedFor(t *testing.T) {
	w := &windowedStore{logtest.NewClock(), map[uint64]map[string]string{}, map[uint64]int64{}, 0}
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, w.options)
	w.fill(t, s)
	storetest.Close(t, s)
	s, err := engine.Open("db", store.Writing(storetest.Options(mem, w.options, func(o *engine.Options) { o.Window = 0 })))
	if err != nil {
		t.Fatal(err)
	}
	if err := compaction.Of(s).Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m, err := seglog.ReadManifest(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	if m.History == nil || m.History.Seq == 0 || len(m.Indexes) == 0 || m.Indexes[0].Seq != m.History.Seq {
		t.Errorf("the window begins with %+v, and there are %+v", m.History, m.Indexes)
	}
	w.check(t, mem.ProcessCrash(), "compacted by another program", 1)
	storetest.Close(t, s)
}
