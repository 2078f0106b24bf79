package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// lineOf is an event as a line.
func lineOf(e *Event) string {
	return fmt.Sprintf("%d %c %q %q %d %v", e.Seq, e.Op, e.Key, e.value, e.Expiry, e.More)
}

// alone returns the changes of a feed of its own for the same entries up to a number.
func alone(t *testing.T, s *engine.Store, of Of, from, upTo uint64) (list []string) {
	t.Helper()
	f, err := Open(s, seglog.Position{Seq: from}, of)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if f.atRest() {
			if err := f.look(); err != nil {
				t.Fatal(err)
			}
			if f.atRest() {
				return list
			}
		}
		var e Event
		told, err := f.step(&e)
		if err != nil {
			t.Fatal(err)
		}
		if told && e.Seq <= upTo {
			list = append(list, lineOf(&e))
		}
	}
}

// TestHubTellsWhatFeedsTell: watchers of keys and of prefixes, quick ones and slow ones, which come
// and go, yield among writers the changes that a feed of their own would: nothing missed, nothing
// twice, groups as a whole.
func TestHubTellsWhatFeedsTell(t *testing.T) { logtest.BothWays(t, hubTellsWhatFeedsTell) }

func hubTellsWhatFeedsTell(t *testing.T) {
	rounds, watchers := 600, 40
	if storetest.Long() {
		rounds, watchers = 20_000, 400
	}
	s, err := store.Open("db", engine.Options{FS: vfs.NewMem(), SegmentBytes: 8 << 10, RingBytes: logtest.TestRing, NoCompaction: true, GroupBytes: 600, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	hub := NewHub(make(chan struct{}, 1))
	key := func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "%d/%d", rng.IntN(4), rng.IntN(8)) }
	type heard struct {
		of    Of
		from  uint64
		lines []string
		slow  bool
	}
	all := make([]heard, watchers)
	ctx, end := context.WithCancel(t.Context())
	var listening, begun sync.WaitGroup
	for i := range all {
		begun.Add(1)
		listening.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			h := &all[i]
			h.slow = i%5 == 0
			if h.of = Of(Key(key(rng))); i%4 == 1 {
				h.of = Prefix(fmt.Sprint(rng.IntN(4), "/"))
			}
			last, stop := uint64(0), 0
			begun.Done()
			for ctx.Err() == nil { // a life after the other, each from the last number on
				w, err := hub.Watch(s, seglog.Position{Seq: last}, h.of)
				if err != nil {
					t.Error(err)
					return
				}
				stop = rng.IntN(60)
				for {
					e, err := w.Next(ctx)
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						end()
					}
					if err != nil {
						break
					}
					h.lines = append(h.lines, lineOf(&e))
					if h.slow {
						for range rng.IntN(300) {
							s.Get(nil, key(rng))
						}
					}
					if stop--; stop < 0 && !e.More {
						last = e.Seq
						break
					}
				}
				w.Close()
			}
		})
	}
	begun.Wait()
	var writing sync.WaitGroup
	for n := range 2 {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 8))
			for i := range rounds {
				var err error
				switch value := fmt.Append(nil, n, " ", i); rng.IntN(10) {
				case 0:
					_, err = s.Delete(nil, key(rng), engine.Process)
				case 1, 2:
					var list []*engine.Change
					for _, k := range []string{"0/1", "1/1", "2/2", "3/" + fmt.Sprint(rng.IntN(8)), string(key(rng)) + "x"} {
						list = append(list, &engine.Change{Write: engine.Write{Key: []byte(k), Value: []byte(strings.Repeat("g", rng.IntN(200)))}})
					}
					err = s.WriteAll(list, engine.Process)
				case 3:
					if rng.IntN(10) == 0 {
						err = s.DeleteRange(keyrange.Prefix([]byte("2/")), engine.Process)
					}
				default:
					err = s.Set(nil, key(rng), value, 0, engine.Process)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	last := s.Log().Last()
	mark := func() bool { // whether all watchers have had all changes
		hub.mu.Lock()
		defer hub.mu.Unlock()
		for _, w := range hub.others {
			if len(w.queue) > 0 {
				return false
			}
		}
		for _, list := range hub.exact {
			for _, w := range list {
				if len(w.queue) > 0 {
					return false
				}
			}
		}
		return hub.joined == watchers && hub.feed.at.Next > last && hub.feed.group == nil
	}
	logtest.Until(mark)
	end()
	listening.Wait()
	for i := range all {
		h := &all[i]
		want := alone(t, s, h.of, h.from, last)
		if got := strings.Join(h.lines, "\n"); got != strings.Join(want, "\n") {
			t.Fatalf("watcher %d of %q, slow %v, yields %d changes, and a feed %d; they differ from %d on", i, h.of, h.slow, len(h.lines), len(want), differ(h.lines, want))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if hub.joined != 0 || hub.feed != nil || len(hub.exact) != 0 {
		t.Errorf("%d watchers are left, and a feed: %v", hub.joined, hub.feed)
	}
	if held := s.Stats().HeldBytes; held != 0 {
		t.Errorf("%d bytes are held without a holder", held)
	}
}

func differ(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestHubFallsBack: a watcher that does not read while another does gets a feed of its own when its
// queue is full, and yields the changes that it has not read, also those of a group that was
// divided by this.
func TestHubFallsBack(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.GroupBytes = 300 })
	defer s.Close()
	hub := NewHub(make(chan struct{}, 1))
	watch := func(of Of) *Watcher {
		w, err := hub.Watch(s, seglog.Position{Seq: s.Log().Last()}, of)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.readOwn(t.Context()); err != nil || w.feed != nil {
			t.Fatalf("it has not joined: %v", err)
		}
		return w
	}
	slow, quick := watch(Prefix("k")), watch(Key("end"))
	defer slow.Close()
	defer quick.Close()
	var list []*engine.Change
	for i := range 3 * queued {
		list = append(list, &engine.Change{Write: engine.Write{Key: fmt.Appendf(nil, "k%02d", i), Value: make([]byte, 30)}})
	}
	storetest.Set(t, s, "k", "before")
	if err := s.WriteAll(list, engine.Process); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, s, "k", "after")
	storetest.Set(t, s, "end", "1")
	if e, err := quick.Next(t.Context()); err != nil || string(e.Key) != "end" {
		t.Fatal(e, err)
	}
	if slow.feed == nil || len(slow.queue) != queued+1 {
		t.Fatalf("the slow watcher has %d changes in its queue, and a feed: %v", len(slow.queue), slow.feed)
	}
	var got []string
	for range 3*queued + 2 {
		e, err := slow.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, lineOf(&e))
	}
	if want := alone(t, s, Prefix("k"), 0, s.Log().Last()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%q\nwant\n%q", got, want)
	}
	for slow.feed != nil { // later writes of others are read, too
		if err := slow.readOwn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Set(t, s, "k", "joined again")
	if e, err := slow.Next(t.Context()); err != nil || string(e.value) != "joined again" || e.Op != record.Set {
		t.Fatal(e, err)
	}
	if hub.joined != 2 {
		t.Errorf("%d watchers have joined", hub.joined)
	}
}

// TestHubLetsGo: a watcher that joins a second time gives up each feed of its own, and after the
// last one has ended there is no hold on the log.
func TestHubLetsGo(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 1000 })
	defer s.Close()
	hub := NewHub(make(chan struct{}, 1))
	join := func(w *Watcher) {
		t.Helper()
		for w.feed != nil {
			if err := w.readOwn(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.queue = nil
		}
	}
	watch := func(of Of) *Watcher {
		w, err := hub.Watch(s, seglog.Position{Seq: s.Log().Last()}, of)
		if err != nil {
			t.Fatal(err)
		}
		join(w)
		return w
	}
	quick, slow := watch(Key("end")), watch(Prefix("k"))
	for range 2 {
		for range 2 * queued {
			storetest.Set(t, s, "k", strings.Repeat("v", 100))
		}
		storetest.Set(t, s, "end", "1")
		if _, err := quick.Next(t.Context()); err != nil || slow.feed == nil {
			t.Fatalf("%v; the slow watcher has a feed: %v", err, slow.feed != nil)
		}
		join(slow)
	}
	slow.Close()
	quick.Close()
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	if held := s.Stats().HeldBytes; held > 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestHubJoinsInTime: a watcher does not join when the hub's feed has passed changes that it has
// not had.
func TestHubJoinsInTime(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	defer s.Close()
	hub := NewHub(make(chan struct{}, 1))
	watch := func() *Watcher {
		w, err := hub.Watch(s, seglog.Position{Seq: s.Log().Last()}, Key("k"))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	joined, late := watch(), watch()
	defer joined.Close()
	defer late.Close()
	if !joined.join() {
		t.Fatal("the first one has not joined")
	}
	storetest.Set(t, s, "k", "1")
	for _, w := range []*Watcher{joined, late} {
		if w == late && w.join() {
			t.Fatal("it has joined without changes that the hub's feed has passed")
		}
		if e, err := w.Next(t.Context()); err != nil || string(e.value) != "1" {
			t.Fatal(e, err)
		}
	}
}

// TestHubEnds: watchers end with their contexts, the next one that waits goes on reading, and all end with the store.
func TestHubEnds(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	hub := NewHub(make(chan struct{}, 1))
	watch := func(ctx context.Context) <-chan error {
		w, err := hub.Watch(s, seglog.Position{Seq: s.Log().Last()}, Key("k"))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 100)
		go func() {
			defer w.Close()
			for {
				_, err := w.Next(ctx)
				if done <- err; err != nil {
					return
				}
			}
		}()
		return done
	}
	reads, cancel := context.WithCancel(t.Context())
	first, second := watch(reads), watch(t.Context())
	logtest.Until(func() bool { hub.mu.Lock(); defer hub.mu.Unlock(); return hub.joined == 2 })
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	storetest.Set(t, s, "k", "1")
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	storetest.Close(t, s)
	if err := <-second; err != seglog.ErrClosed {
		t.Fatal(err)
	}
	logtest.Until(func() bool { hub.mu.Lock(); defer hub.mu.Unlock(); return hub.joined == 0 && hub.feed == nil })
}
