package feed

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

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

type told struct {
	key, value string // absent for a deletion
	expiry     uint64 // of a deletion that which has passed
}

// gone is a value that could not be read any more.
const gone = "\x00gone"

// batch is the changes that count together, by key.
type batch map[string]told

// hears reads a feed without waiting, and checks that numbers grow and groups are whole.
type hears struct {
	feed *Feed
	last uint64
	part batch // of a group that has not been yielded completely
	late bool  // later values may have had parts that are gone
}

func newHears(t testing.TB, s *engine.Store, p seglog.Position) *hears {
	t.Helper()
	f, err := Open(s, p, nil)
	if err != nil {
		t.Fatalf("OpenFeed: %v", err)
	}
	return &hears{feed: f, last: p.Seq}
}

// some takes at most so many changes, and returns the groups that are complete with them.
func (h *hears) some(t testing.TB, most int) (list []batch, err error) {
	t.Helper()
	f := h.feed
	for n := 0; n < most; {
		var e Event
		ok, err := f.step(&e)
		switch {
		case err != nil:
			return list, err
		case ok:
			n++
			if done := h.take(t, &e); done != nil {
				list = append(list, done)
			}
		case f.group == nil && f.at.Next > f.reach:
			end, err := f.end()
			if err != nil {
				return list, err
			}
			if f.reach = end; end < f.at.Next {
				return list, nil
			}
		}
	}
	return list, nil
}

// take returns the group that is complete with a change.
func (h *hears) take(t testing.TB, e *Event) batch {
	t.Helper()
	if h.part == nil {
		if e.Seq <= h.last {
			t.Fatalf("record %d is yielded after %d", e.Seq, h.last)
		}
		h.part = batch{}
	} else if e.Seq != h.last {
		t.Fatalf("a change by record %d is yielded before all those by %d", e.Seq, h.last)
	}
	h.last = e.Seq
	now := told{string(e.Key), storetest.Absent, e.Expiry}
	if e.Op == record.Delete && e.Expiry != 0 {
		t.Fatalf("a deletion with a deadline: %v", e)
	}
	if e.Op == record.Set {
		value, err := h.feed.Value(e)
		if err == seglog.ErrHistoryLost && h.late {
			value = []byte(gone)
		} else if err != nil {
			t.Fatalf("the value of %q as record %d set it: %v", e.Key, e.Seq, err)
		}
		now.value = string(value)
	}
	if old, twice := h.part[now.key]; twice {
		t.Fatalf("%q is yielded twice by record %d: %.40q, %.40q", now.key, e.Seq, old.value, now.value)
	}
	h.part[now.key] = now
	if e.More {
		return nil
	}
	done := h.part
	h.part = nil
	return done
}

// feedModel is a store that is written to, and the list of acknowledged changes.
type feedModel struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.Mem
	s       *engine.Store
	content map[string]string
	ends    map[string]uint64 // keys that expire soon, each at another time
	given   map[uint64]bool   // deadlines
	clock   *logtest.Clock
	done    []batch
}

func newFeedModel(t *testing.T, seed, stream uint64) *feedModel {
	m := &feedModel{t: t, rng: rand.New(rand.NewPCG(seed, stream)), mem: vfs.NewMem(), content: map[string]string{}, ends: map[string]uint64{}, given: map[uint64]bool{}, clock: logtest.NewClock()}
	m.open()
	return m
}

func (m *feedModel) now() uint64 { return uint64(m.clock.Now().UnixMilli()) }

// pass lets some time pass, with the expiries in it.
func (m *feedModel) pass(d uint64) {
	for end := m.now() + d; ; {
		next, at := "", end+1
		for key, deadline := range m.ends {
			if deadline < at {
				next, at = key, deadline
			}
		}
		if next == "" {
			m.clock.Advance(time.Duration(end-m.now()) * time.Millisecond)
			return
		}
		m.clock.Advance(time.Duration(at-m.now()) * time.Millisecond)
		m.s.Stats() // removes the expired entries
		m.done = append(m.done, batch{next: {next, storetest.Absent, at}})
		delete(m.ends, next)
		delete(m.content, next)
	}
}

// mortal is a deadline that comes soon, and at no other's time.
func (m *feedModel) mortal() uint64 {
	deadline := m.now() + 1 + m.rng.Uint64N(200)
	for m.given[deadline] {
		deadline++
	}
	m.given[deadline] = true
	return deadline
}

func (m *feedModel) open() {
	if m.rng.IntN(2) == 0 {
		logtest.RemoveIndex(m.mem, "db") // if it is there
	}
	m.s = storetest.Open(m.t, storetest.Unlocked{FS: m.mem}, func(o *engine.Options) {
		o.SegmentBytes, o.MaxMemory, o.GroupBytes = 3000, 1<<20, int64(300+m.rng.IntN(4000))
		o.Clock, o.ExpiryEvents = m.clock, true
	})
}

func (m *feedModel) write(n int, changes batch) {
	var list []*engine.Change
	for key, c := range changes {
		w := engine.Write{Key: []byte(key), Delete: c.value == storetest.Absent, Expiry: c.expiry}
		if !w.Delete {
			w.Value = []byte(c.value)
		}
		list = append(list, &engine.Change{Write: w})
		if w.Delete {
			delete(m.content, key)
		} else {
			m.content[key] = c.value
		}
		if delete(m.ends, key); c.expiry != 0 && c.expiry < m.now()+1000 {
			m.ends[key] = c.expiry
		}
	}
	var err error
	if len(list) == 1 {
		_, err = m.s.Write(nil, &list[0].Write)
	} else {
		err = m.s.WriteAll(list, engine.Process)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.done = append(m.done, changes)
}

// change returns one change of an entry; a deleted one exists.
func (m *feedModel) change(n int) told {
	c := told{key: []string{"m:", "n:", ""}[m.rng.IntN(3)] + fmt.Sprint(m.rng.IntN(40)), value: fmt.Sprint("value ", n, strings.Repeat("x", m.rng.IntN(100)))}
	_, there := m.content[c.key]
	switch m.rng.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		if there {
			c.value = storetest.Absent
		}
	case 8:
		if m.rng.IntN(6) > 0 {
			break
		}
		c.value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+m.rng.IntN(seglog.PartBytes))/8)
	case 10, 11, 12, 13:
		c.expiry = m.mortal()
	case 9:
		c.expiry = m.now() + 1<<40
	}
	return c
}

func (m *feedModel) step(n int) {
	t, s := m.t, m.s
	switch m.rng.IntN(40) {
	case 0, 1, 2, 3:
		changes := batch{}
		for range 2 + m.rng.IntN(40) {
			c := m.change(n)
			if len(c.value) > seglog.PartBytes && m.rng.IntN(20) > 0 {
				continue
			}
			changes[c.key] = c
		}
		if len(changes) > 0 {
			m.write(n, changes)
		}
	case 4, 5, 6, 7, 8:
		storetest.CompactSome(t, s, m.rng)
	case 9:
		for key, value := range m.content {
			now := told{key, value, m.now() + 1<<41 + uint64(n)}
			if err := s.Expire(nil, nil, []byte(key), now.expiry, engine.Process); err != nil {
				t.Fatal(err)
			}
			delete(m.ends, key)
			m.done = append(m.done, batch{key: now})
			break
		}
	case 11, 12, 13:
		m.pass(m.rng.Uint64N(80))
	case 10:
		if m.rng.IntN(10) == 0 {
			if err := storetest.Compact(s); err != nil {
				t.Fatal(err)
			}
		}
	default:
		c := m.change(n)
		m.write(n, batch{c.key: c})
	}
}

// wantTold compares the events with the changes.
func wantTold(t testing.TB, who string, got, want []batch) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		for key, now := range got[i] {
			if was, ok := want[i][key]; ok && now.value == gone && len(was.value) > seglog.PartBytes {
				got[i][key] = was
			}
		}
		if !maps.Equal(got[i], want[i]) {
			t.Fatalf("%s: change %d is yielded as\n\t%.200q, was\n\t%.200q", who, i, fmt.Sprint(got[i]), fmt.Sprint(want[i]))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d changes are yielded, of %d", who, len(got), len(want))
	}
}

// TestFeed: every acknowledged change is yielded once, in order and with its value, groups as a
// whole, whatever compaction does meanwhile: to a quick reader, a slow one, and one that comes
// back.
func TestFeed(t *testing.T) { logtest.BothWays(t, feed) }

func feed(t *testing.T) {
	seeds, steps := uint64(2), 700
	if testing.Short() {
		steps = 250
	}
	if storetest.Long() {
		seeds, steps = 30, 3000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		m := newFeedModel(t, seed, 61)
		quick, slow := newHears(t, m.s, seglog.Position{}), newHears(t, m.s, seglog.Position{})
		slow.late = true // it may have passed the parts of a long value when that is replaced, and compaction takes them
		var quickly, slowly, again []batch
		back, lost, held := uint64(0), 0, int64(0)
		for n := range steps {
			m.step(n)
			held = max(held, m.s.Stats().HeldBytes)
			some, err := quick.some(t, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			quickly = append(quickly, some...)
			if n%3 > 0 {
				continue
			}
			if some, err = slow.some(t, 1); err != nil {
				t.Fatalf("seed %d, step %d: %v; next %d, held %d, log %d", seed, n, err, slow.feed.at.Next, m.s.Stats().HeldBytes, m.s.Stats().LogBytes)
			}
			slowly = append(slowly, some...)
			f, err := Open(m.s, seglog.Position{Seq: back}, nil)
			if err == seglog.ErrHistoryLost {
				back, again = m.s.Log().Last(), slices.Clone(m.done)
				lost++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			comes := &hears{feed: f, last: back, late: true}
			some, err = comes.some(t, 1+m.rng.IntN(10))
			again = append(again, some...)
			if f.Close(); err == seglog.ErrHistoryLost {
				back, again = m.s.Log().Last(), slices.Clone(m.done)
				lost++
			} else if err != nil {
				t.Fatal(err)
			} else if comes.part == nil {
				back = comes.last
			} else { // in the middle of a group: it comes again as a whole
				back = comes.last - 1
			}
		}
		wantTold(t, fmt.Sprintf("seed %d, who keeps up", seed), quickly, m.done)
		some, err := slow.some(t, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		wantTold(t, fmt.Sprintf("seed %d, who does not", seed), append(slowly, some...), m.done)
		if held == 0 || lost == 0 {
			t.Errorf("seed %d: nothing was held, or lost %d times: this has tested nothing", seed, lost)
		}
		quick.feed.Close()
		slow.feed.Close()
		if held := m.s.Stats().HeldBytes; held != 0 {
			t.Errorf("seed %d: %d bytes are held without a holder", seed, held)
		}
		if back < m.s.Log().Floor() {
			back, again = m.s.Log().Last(), slices.Clone(m.done)
		}
		comes := newHears(t, m.s, seglog.Position{Seq: back})
		comes.late = true
		if some, err = comes.some(t, 1<<30); err != nil && err != seglog.ErrHistoryLost {
			t.Fatal(err)
		} else if err == nil {
			wantTold(t, fmt.Sprintf("seed %d, who comes back", seed), append(again, some...), m.done)
		}
		storetest.Close(t, m.s)
		if _, err := comes.some(t, 1); err != seglog.ErrClosed {
			t.Errorf("a feed of a closed store: %v", err)
		}
		comes.feed.Close()
	}
}

// TestFeedOfFollower: a feed of a store that another process writes yields the changes of that
// process, or an error if it could not follow.
func TestFeedOfFollower(t *testing.T) { logtest.BothWays(t, feedOfFollower) }

func feedOfFollower(t *testing.T) {
	seeds, steps := uint64(2), 500
	if storetest.Long() {
		seeds, steps = 30, 3000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		m := newFeedModel(t, seed, 62)
		if seed%2 == 1 { // else the reader is there before the first write
			m.write(0, batch{"first": {key: "first", value: "1"}})
		}
		reader := storetest.Open(t, m.mem, func(o *engine.Options) { o.ReadOnly = true; o.MaxMemory = 1 << 20; o.Clock = m.clock })
		h := newHears(t, reader, seglog.Position{})
		var all []batch
		lost := 0
		hear := func(most int) {
			some, err := h.some(t, most)
			all = append(all, some...)
			if err == seglog.ErrHistoryLost {
				h.feed.Close()
				p, err := reader.Now()
				if err != nil {
					t.Fatal(err)
				}
				h, all = newHears(t, reader, p), slices.Clone(m.done)
				h.late = true
				lost++
			} else if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for n := range steps {
			switch m.rng.IntN(60) {
			case 0:
				storetest.Close(t, m.s)
				m.open()
			case 1:
				m.open() // it dies
			default:
				m.step(n)
			}
			if every := []int{1, 40}[seed%2]; n%every > 0 {
				continue
			}
			if err := reader.Refresh(); err != nil {
				t.Fatal(err)
			}
			hear(1 + m.rng.IntN(20*int(seed%2)+20))
		}
		if err := reader.Refresh(); err != nil {
			t.Fatal(err)
		}
		hear(1 << 30)
		wantTold(t, fmt.Sprintf("seed %d", seed), all, m.done)
		if seed%2 == 0 && lost > 0 {
			t.Errorf("seed %d: a feed of a follower that looks all the time was lost %d times", seed, lost)
		}
		t.Logf("seed %d: lost %d times", seed, lost)
		h.feed.Close()
		storetest.Close(t, reader)
		storetest.Close(t, m.s)
	}
}

// TestFeedOfFollowerFromAheadOfIt: a feed begins after a change that another process has seen, and
// the follower has not; also if that is the first of the store. A number that the log has not
// reached is no place to begin.
func TestFeedOfFollowerFromAheadOfIt(t *testing.T) {
	mem := vfs.NewMem()
	writer := storetest.Open(t, mem)
	defer storetest.Close(t, writer)
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
	defer storetest.Close(t, reader)
	for n := uint64(1); n < 4; n++ {
		storetest.Set(t, writer, fmt.Sprint("key ", n), "value")
		if f, err := Open(reader, seglog.Position{Seq: n + 1}, nil); err != seglog.ErrHistoryLost {
			t.Errorf("a feed from after %d, where the log ends with %d: %v, %v", n+1, n, f, err)
		}
		storetest.Set(t, writer, fmt.Sprint("key ", n), "value")
		storetest.Set(t, writer, "another", "value")
		if _, err := writer.Delete(nil, []byte("another"), engine.Process); err != nil {
			t.Fatal(err)
		}
		now := writer.Log().Last()
		h := newHears(t, reader, seglog.Position{Seq: now - 1})
		list, err := h.some(t, 10)
		if err != nil {
			t.Fatal(err)
		}
		wantTold(t, "the feed", list, []batch{{"another": {key: "another", value: storetest.Absent}}})
		h.feed.Close()
		n = now
	}
}

// TestFeedOfFollowerTellsWhatShows: when a look has ended with an error, at whatever operation, a
// feed yields no change that reads do not show yet.
func TestFeedOfFollowerTellsWhatShows(t *testing.T) {
	for n, failed := 1, 0; ; n++ {
		mem := vfs.NewMem()
		writer := storetest.Open(t, mem)
		key := func(i int) string { return fmt.Sprint("k", i) }
		for i := range 20 {
			storetest.Set(t, writer, key(i), "old")
		}
		broken := false
		failing := &vfs.Fault{Kinds: vfs.OpRead, N: n, Match: func(string) bool { return broken }, Err: syscall.EIO}
		reader := storetest.Open(t, vfs.Inject(mem, failing), func(o *engine.Options) { o.ReadOnly = true })
		now, err := reader.Now()
		if err != nil {
			t.Fatal(err)
		}
		h := newHears(t, reader, now)
		for i := range 20 {
			storetest.Set(t, writer, key(i), "new")
		}
		broken = true
		err = reader.Refresh()
		broken = false
		all := 0
		for range 2 {
			list, heard := h.some(t, 1<<30)
			if heard != nil {
				t.Fatal(heard)
			}
			for _, changes := range list {
				for key := range changes {
					storetest.Want(t, reader, key, "new")
				}
			}
			if all += len(list); err == nil {
				break
			}
			failed++
			if again := reader.Refresh(); again != nil {
				t.Fatal(again)
			}
		}
		if all != 20 {
			t.Errorf("fault %d: %d changes are yielded", n, all)
		}
		h.feed.Close()
		storetest.Close(t, reader)
		storetest.Close(t, writer)
		if t.Failed() {
			t.Fatalf("fault %d: %v", n, err)
		}
		if err == nil {
			if failed == 0 {
				t.Error("nothing failed: this has tested nothing")
			}
			return
		}
	}
}

// TestFeedAmongWriters: goroutines write alone and in groups, some of them written ahead, while one
// compacts; waiting feeds yield every change once, the changes of a key in their order, groups
// whole, and never before a read shows them.
func TestFeedAmongWriters(t *testing.T) { logtest.BothWays(t, feedAmongWriters) }

func feedAmongWriters(t *testing.T) {
	const writers, feeds = 3, 2
	rounds := 120
	if storetest.Long() {
		rounds = 3000
	}
	mem := vfs.NewMem()
	s, err := store.Open("db", engine.Options{FS: mem, SegmentBytes: 8 << 10, RingBytes: logtest.TestRing, NoCompaction: true, GroupBytes: 600, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	key := func(w, i int) string { return fmt.Sprintf("%d/%d", w, i) }
	var done atomic.Bool
	var writing, rest sync.WaitGroup
	for range feeds {
		f, err := Open(s, seglog.Position{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rest.Go(func() {
			defer f.Close()
			newest := map[string]int{}
			group, last := 0, uint64(0)
			for got := 0; got < writers*rounds*8; {
				e, err := f.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if string(e.Key) == "large" {
					continue
				}
				got++
				value, err := f.Value(&e)
				if err != nil {
					t.Error(err)
				}
				n := len(value)
				if e.Op == record.Delete {
					n = newest[string(e.Key)] + 1
				}
				if want := newest[string(e.Key)] + 1; n != want {
					t.Errorf("key %s: change %d is yielded after %d", e.Key, n, want-1)
				}
				newest[string(e.Key)] = n
				if e.Seq < last || (group > 0) != (e.Seq == last) {
					t.Errorf("a change by %d is yielded after %d, %d of a group", e.Seq, last, group)
				}
				last = e.Seq
				if group++; !e.More {
					if group != 1 && group != 7 {
						t.Errorf("%d changes count together", group)
					}
					group = 0
				}
				now, err := s.Get(nil, e.Key)
				if err == nil && now.Seq < e.Seq && now.Seq < e.own || err != nil && err != engine.ErrNotFound {
					t.Errorf("key %s is yielded as record %d set it, and a read shows %d, %v", e.Key, e.Seq, now.Seq, err)
				}
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			for round := range rounds {
				var list []*engine.Change
				for i := range 7 {
					c := &engine.Change{Write: engine.Write{Key: []byte(key(w, i)), Value: []byte(strings.Repeat("x", 2*round+1))}}
					if i > 0 {
						c.Value = []byte(strings.Repeat("x", round+1))
					}
					list = append(list, c)
				}
				if err := s.WriteAll(list, engine.Process); err != nil {
					t.Error(err)
				}
				storetest.Set(t, s, key(w, 0), strings.Repeat("x", 2*round+2))
				if w == 0 && round%20 == 0 {
					storetest.Set(t, s, "large", strings.Repeat("y", 2*seglog.PartBytes))
				}
			}
		})
	}
	rest.Go(func() {
		rng := rand.New(rand.NewPCG(9, 24))
		for !done.Load() && !t.Failed() {
			storetest.CompactSome(t, s, rng)
			runtime.Gosched()
		}
	})
	writing.Wait()
	done.Store(true)
	rest.Wait()
	storetest.Close(t, s)
}

// awaitWaiting returns when a feed waits for the record after seq.
func awaitWaiting(f *Feed, seq uint64) {
	for waits := false; !waits; runtime.Gosched() {
		f.log.Mu.Lock()
		waits = slices.Contains(f.log.Waiters.List, chan<- struct{}(f.wake)) && f.at.Next == seq
		f.log.Mu.Unlock()
	}
}

// TestFeedEnds: with the context, and with the store.
func TestFeedEnds(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	storetest.Set(t, s, "a", "1")
	p, err := s.Now()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(s, p, Prefix("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error)
	next := func(ctx context.Context) { _, err := f.Next(ctx); ended <- err }
	go next(ctx)
	cancel(why)
	if err := <-ended; err != why {
		t.Errorf("the context has ended: %v", err)
	}
	go next(context.Background())
	storetest.Set(t, s, "b", "1") // which is not asked for
	awaitWaiting(f, 3)
	storetest.Close(t, s)
	if err := <-ended; err != seglog.ErrClosed {
		t.Errorf("the store is closed: %v", err)
	}
	if _, err := s.Now(); err != seglog.ErrClosed {
		t.Errorf("Now of a closed store: %v", err)
	}
	if _, err := Open(s, p, nil); err != seglog.ErrClosed {
		t.Errorf("a feed of a closed store: %v", err)
	}
}

// TestFeedIsLost: records that compaction has removed, or that the log does not have, are no
// history; and a feed that is not read does not keep files for ever.
func TestFeedIsLost(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes, o.HistoryBytes = 3000, 20_000 })
	defer s.Close()
	f, err := Open(s, seglog.Position{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	held := int64(0)
	for n := range 2000 {
		storetest.Set(t, s, fmt.Sprint(n%10), fmt.Sprint("value ", n))
		storetest.CompactSome(t, s, rng)
		held = max(held, s.Stats().HeldBytes)
	}
	if held < 10_000 || held > 20_000 {
		t.Errorf("up to %d bytes are held for a feed, of 20000", held)
	}
	h := &hears{feed: f}
	if _, err := h.some(t, 1<<30); err != seglog.ErrHistoryLost {
		t.Errorf("a feed that has not been read: %v", err)
	}
	for _, after := range []uint64{0, s.Log().Floor() - 1, s.Log().Last() + 1} {
		if _, err := Open(s, seglog.Position{Seq: after}, nil); err != seglog.ErrHistoryLost {
			t.Errorf("a feed from %d on, with the floor at %d and the end at %d: %v", after, s.Log().Floor(), s.Log().Last(), err)
		}
	}
	for after := s.Log().Floor(); after <= s.Log().Last(); after++ {
		h := newHears(t, s, seglog.Position{Seq: after})
		list, err := h.some(t, 1<<30)
		if err != nil || len(list) != int(s.Log().Last()-after) {
			t.Errorf("a feed from %d on yields %d changes of %d: %v", after, len(list), s.Log().Last()-after, err)
		}
		h.feed.Close()
	}
}

// TestFeedThatEndsLetsGo: segments that a feed has not read are released with it, at once.
func TestFeedThatEndsLetsGo(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 3000 })
	defer storetest.Close(t, s)
	f, err := Open(s, seglog.Position{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		storetest.Set(t, s, fmt.Sprint(n%10), fmt.Sprint("value ", n))
	}
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	if held := s.Stats().HeldBytes; held == 0 {
		t.Error("nothing is held for a feed that has not been read")
	}
	f.Close()
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held without a holder", held)
	}
}

// TestFeedOfLargeGroup: a group between whose members others have written comes at its commit, each
// key once with its last value, wherever the feed begins.
func TestFeedOfLargeGroup(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 200 })
	defer s.Close()
	storetest.Set(t, s, "before", "1")
	member := func(key, value string) *seglog.Pending {
		return &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte(key), Value: []byte(value)}
	}
	given, g := seglog.Group{Log: s.Log()}, seglog.Group{Log: s.Log()}
	for _, err := range []error{
		given.Ahead(member("given", "up")),
		g.Ahead(member("a", "1"), member("b", "1")),
		g.Ahead(member("c", "1")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.Set(t, s, "between", "1")
	early := s.Log().Last()
	if _, err := g.Commit(member("a", "2"), member("d", "1")); err != nil {
		t.Fatal(err)
	}
	g.End()
	given.End()
	storetest.Set(t, s, "after", "1")
	one := func(key, value string) batch { return batch{key: {key: key, value: value}} }
	group := batch{"a": {key: "a", value: "2"}, "b": {key: "b", value: "1"}, "c": {key: "c", value: "1"}, "d": {key: "d", value: "1"}}
	all := []batch{one("before", "1"), one("between", "1"), group, one("after", "1")}
	for after, want := range map[uint64][]batch{0: all, early - 1: all[1:], early: all[2:], s.Log().Last() - 2: all[2:], s.Log().Last() - 1: all[3:]} {
		h := newHears(t, s, seglog.Position{Seq: after})
		got, err := h.some(t, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		wantTold(t, fmt.Sprint("after ", after), got, want)
		h.feed.Close()
	}
	f, err := Open(s, seglog.Position{}, Prefix("c"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if e, err := f.Next(t.Context()); err != nil || string(e.Key) != "c" || e.More {
		t.Errorf("of the group, the key with c: %q, more to come: %v, %v", e.Key, e.More, err)
	}
}

// TestFeedStopsWithinAGroup: a feed that is slow, and is anywhere in a group when that commits and
// compaction takes all segments up to there, yields all of it.
func TestFeedStopsWithinAGroup(t *testing.T) {
	for stop := 0; ; stop++ {
		s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 200 })
		h := newHears(t, s, seglog.Position{})
		member := func(key string) *seglog.Pending {
			return &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte(key), Value: []byte("1")}
		}
		storetest.Set(t, s, "before", "1")
		g := seglog.Group{Log: s.Log()}
		group, between := batch{}, []batch{{"before": {key: "before", value: "1"}}}
		for i := range 12 {
			key, other := fmt.Sprint("member ", i), fmt.Sprint("other ", i)
			if err := g.Ahead(member(key)); err != nil {
				t.Fatal(err)
			}
			storetest.Set(t, s, other, "1")
			group[key] = told{key: key, value: "1"}
			between = append(between, batch{other: {key: other, value: "1"}})
		}
		got := []batch{}
		h.feed.reach = s.Log().Last()
		steps := 0
		for ; steps < stop && h.feed.at.Next <= h.feed.reach; steps++ {
			var e Event
			ok, err := h.feed.step(&e)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, h.take(t, &e))
			}
		}
		if _, err := g.Commit(member("last")); err != nil {
			t.Fatal(err)
		}
		g.End()
		group["last"] = told{key: "last", value: "1"}
		for i := range 12 {
			storetest.Set(t, s, fmt.Sprint("other ", i), strings.Repeat("now long ", 20)) // the old ones are garbage among the members
		}
		if err := storetest.Compact(s); err != nil {
			t.Fatal(err)
		}
		want := append(between, group)
		h.feed.reach = s.Log().Last()
		more, err := h.some(t, len(want)-len(got)+len(group)-1)
		if err != nil {
			t.Fatalf("stopped after %d steps: %v", stop, err)
		}
		wantTold(t, fmt.Sprint("stopped after ", stop), append(got, more...), want)
		h.feed.Close()
		storetest.Close(t, s)
		if steps < stop {
			return
		}
	}
}

// TestFeedGoesToSleep: a feed that has found no more changes, and goes to sleep, notices the writes
// in between.
func TestFeedGoesToSleep(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer storetest.Close(t, s)
	storetest.Set(t, s, "a", "1")
	f, err := Open(s, seglog.Position{Seq: s.Log().Last()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, write := range []func(){
		func() { storetest.Set(t, s, "b", "1") },
		func() { storetest.Set(t, s, "b", "2"); storetest.Set(t, s, "b", "3") },
		func() { storetest.Change(t, s, "h", storetest.HSet("a", "1", "b", "2")) },
	} {
		end, err := f.end()
		if err != nil {
			t.Fatal(err)
		}
		write()
		if asleep, err := f.sleep(end); asleep || err != nil {
			t.Errorf("it sleeps: %v, %v, though there is record %d after %d", asleep, err, s.Log().Last(), end)
		}
		if asleep, err := f.sleep(s.Log().Last()); !asleep || err != nil {
			t.Errorf("it is awake without a change: %v, %v", asleep, err)
		}
		write()
		select {
		case <-f.wake:
		default:
			t.Error("it is not woken")
		}
	}
}

// TestFeedOfNothing: a feed of a follower of a store that was never written to yields the first
// write.
func TestFeedOfNothing(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem)
	defer s.Close()
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
	defer reader.Close()
	p, err := reader.Now()
	if err != nil {
		t.Fatal(err)
	}
	h := newHears(t, reader, p)
	defer h.feed.Close()
	for n := range 3 {
		storetest.Set(t, s, "key", fmt.Sprint(n))
		if err := reader.Refresh(); err != nil {
			t.Fatal(err)
		}
		got, err := h.some(t, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		wantTold(t, "a follower", got, []batch{{"key": {key: "key", value: fmt.Sprint(n)}}})
	}
}

// TestRefusedWriteIsNotTold: a feed yields the writes before and after one for which there was no
// room, and not that one.
func TestRefusedWriteIsNotTold(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpWrite, Match: logtest.IsLog, N: 4, Err: vfs.ErrNoSpace, Short: true}
	s := storetest.Open(t, vfs.Inject(vfs.NewMem(), &full), func(o *engine.Options) { o.RingBytes = -1 })
	storetest.Set(t, s, "a", "1")
	storetest.Set(t, s, "b", "2")
	if err := s.Set(nil, []byte("c"), make([]byte, 1000), 0, engine.Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("Set: %v", err)
	}
	storetest.Set(t, s, "d", "4")
	h := newHears(t, s, seglog.Position{})
	told, err := h.some(t, 10)
	if err != nil || len(told) != 3 {
		t.Errorf("of three writes %v is yielded, %v", told, err)
	}
	h.feed.Close()
	storetest.Close(t, s)
}
