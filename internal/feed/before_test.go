package feed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// hindsight is a feed with the past of its changes.
type hindsight struct {
	t    *testing.T
	feed *Feed
	past *Past
	was  map[string]string // the values of the entries in the feed so far
}

func newHindsight(t *testing.T, s *engine.Store) *hindsight {
	t.Helper()
	p, err := s.Now()
	if err != nil {
		t.Fatal(err)
	}
	h := &hindsight{t: t, was: map[string]string{}}
	if h.feed, err = Open(s, p, nil); err != nil {
		t.Fatal(err)
	}
	if h.past, err = OpenPast(s, p.Seq, s.Options().Follower); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hindsight) end() {
	h.t.Helper()
	h.feed.Close()
	if err := h.past.Close(); err != nil {
		h.t.Error(err)
	}
}

// catchUp compares all pending changes.
func (h *hindsight) catchUp() (n int) {
	h.t.Helper()
	end, err := h.feed.end()
	if err != nil {
		h.t.Fatal(err)
	}
	for ; ; n++ {
		e, err := h.feed.NextUntil(h.t.Context(), end)
		if err != nil {
			return n
		}
		h.compare(&e)
	}
}

func (h *hindsight) compare(e *Event) {
	h.t.Helper()
	if err := h.past.Before(e); err != nil {
		h.t.Fatalf("record %d: %v", e.Seq, err)
	}
	value, _, err := h.past.Value(e)
	want, there := h.was[string(e.Key)]
	if there != (err == nil) || string(value) != want {
		h.t.Errorf("record %d: %q was %q, %v, want %q, %v", e.Seq, e.Key, value, err, want, there)
	}
	if delete(h.was, string(e.Key)); e.Op == record.Set {
		now, err := h.feed.Value(e)
		if err != nil {
			h.t.Fatal(err)
		}
		h.was[string(e.Key)] = string(now)
	}
	if err := h.past.After(e); err != nil {
		h.t.Fatalf("record %d: %v", e.Seq, err)
	}
}

// TestPast: the value before each change is found, among segments, groups and compaction, whether
// the past is read after each change or seldom.
func TestPast(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		for seed := uint64(1); seed <= 20; seed++ {
			rng := rand.New(rand.NewPCG(seed, 22))
			mem := vfs.NewMem()
			s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 900 })
			key := func() string { return fmt.Sprint("k", rng.IntN(12)) }
			for range 30 {
				storetest.Set(t, s, key(), "before")
			}
			h := newHindsight(t, s)
			for k := range storetest.Entries(t, s) {
				h.was[k] = "before"
			}
			told := 0
			for n := range 300 {
				switch rng.IntN(10) {
				case 0, 1:
					storetest.Delete(t, s, key())
				case 2:
					var group []*engine.Change
					for _, k := range rng.Perm(12)[:1+rng.IntN(5)] {
						group = append(group, &engine.Change{Write: engine.Write{Key: fmt.Append(nil, "k", k), Value: fmt.Append(nil, n)}})
					}
					if err := s.WriteAll(group, engine.Process); err != nil {
						t.Fatal(err)
					}
				case 3:
					if told += h.catchUp(); rng.IntN(2) == 0 {
						storetest.CompactSome(t, s, rng)
					}
				default:
					storetest.Set(t, s, key(), strings.Repeat("v", rng.IntN(60)))
				}
				if seed%3 == 0 {
					told += h.catchUp()
				}
			}
			if told += h.catchUp(); told < 200 {
				t.Errorf("%d changes were yielded", told)
			}
			h.end()
			storetest.Close(t, s)
		}
	})
}

// TestPastOfExpired: an expired entry does not exist before a change, and the event of its end has
// the old value. Compaction that leaves it out does not stop the past.
func TestPastOfExpired(t *testing.T) {
	clock := logtest.NewClock()
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.Clock, o.SegmentBytes = clock, 500 })
	defer storetest.Close(t, s)
	soon := uint64(clock.Now().Add(time.Second).UnixMilli())
	for _, k := range []string{"replaced", "left"} {
		if _, err := s.Write(nil, &engine.Write{Key: []byte(k), Value: []byte("mortal"), Expiry: soon}); err != nil {
			t.Fatal(err)
		}
	}
	h := newHindsight(t, s)
	defer h.end()
	h.was["replaced"], h.was["left"] = "mortal", "mortal"
	clock.Advance(2 * time.Second)
	delete(h.was, "replaced")
	storetest.Set(t, s, "replaced", "1")
	storetest.Set(t, s, "other", strings.Repeat("v", 600))
	if h.catchUp() != 2 {
		t.Error("some changes are missing")
	}
	if has, err := s.Has(nil, []byte("left")); has || err != nil { // and it is taken out
		t.Fatal(has, err)
	}
	for range 2 {
		if err := storetest.Compact(s); err != nil {
			t.Fatal(err)
		}
	}
	delete(h.was, "left")
	for _, k := range []string{"other", "left", "other"} {
		storetest.Set(t, s, k, "2")
		h.catchUp()
	}
}

// TestPastOfAWriteThatWasCutBack: without a ring, the past may have read records of a write that is
// cut back, for want of room. It returns the values that were written in their place.
func TestPastOfAWriteThatWasCutBack(t *testing.T) {
	for next := range 40 {
		mem := vfs.NewMem()
		look := func() {}
		full := &vfs.Fault{Kinds: vfs.OpWrite, Match: logtest.IsLog, Short: true, Err: syscall.ENOSPC}
		cut := &vfs.Fault{Kinds: vfs.OpTruncate, Match: func(string) bool { look(); return false }}
		faulty := vfs.Inject(mem, full, cut)
		s := storetest.Open(t, faulty, func(o *engine.Options) { o.RingBytes = -1; o.SegmentBytes = 20_000 })
		storetest.Set(t, s, "k", "0")
		h := newHindsight(t, s)
		storetest.Set(t, s, "k", "1")
		h.was["k"] = "1"
		reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
		other, err := OpenPast(reader, 1, reader.Options().Follower) // which reads while the file is cut
		if err != nil || h.past.Close() != nil {
			t.Fatal(err)
		}
		h.past = other
		e, err := h.feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		looked := false
		look = func() {
			look, looked = func() {}, true
			if err := h.past.After(&e); err != nil {
				t.Error(err)
			}
		}
		full.N = faulty.Matched(0) + 1
		var recs []*seglog.Pending
		for n := range 9 {
			recs = append(recs, &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte("k"), Value: fmt.Append(nil, "cut back ", n)})
		}
		if err := s.Log().Append(recs...); !errors.Is(err, seglog.ErrNoSpace) || !looked {
			t.Fatalf("a write for which there is no room: %v, looked %v", err, looked)
		}
		for n := range 8 {
			storetest.Set(t, s, "k", strings.Repeat("n", next)+fmt.Sprint(n))
		}
		if told := h.catchUp(); told != 8 {
			t.Errorf("%d changes were yielded", told)
		}
		h.end()
		storetest.Close(t, reader)
		storetest.Close(t, s)
	}
}

// TestPastLetsGo: at the end of the log, the past has no replaced segments open.
func TestPastLetsGo(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 500 })
	defer storetest.Close(t, s)
	h := newHindsight(t, s)
	defer h.end()
	for n := range 50 {
		storetest.Set(t, s, "k", fmt.Sprint(n))
	}
	h.catchUp()
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, s, "k", "last")
	h.catchUp()
	if then, now := len(h.past.then.Log().Readable()), len(s.Log().Readable()); then != now {
		t.Errorf("it has %d segments open, the log has %d", then, now)
	}
}

// TestPastIsLost: if compaction has removed records that the past has not read, it returns
// ErrHistoryLost.
func TestPastIsLost(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 500 })
	defer storetest.Close(t, s)
	storetest.Set(t, s, "k", "0")
	h := newHindsight(t, s)
	defer h.end()
	for n := range 50 {
		storetest.Set(t, s, "k", fmt.Sprint(n))
	}
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		e, err := h.feed.Next(t.Context()) // which keeps its segments
		if err != nil {
			t.Fatal(err)
		}
		if err = h.past.Before(&e); errors.Is(err, seglog.ErrHistoryLost) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if was, _, err := h.past.Value(&e); err != nil || n > 0 && string(was) != fmt.Sprint(n-1) {
			t.Errorf("%d was %q, %v", n, was, err)
		}
	}
	t.Error("all of it was there: this has tested nothing")
}
