package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// putTTL is a raw entry that lives for d by the store's clock.
func putTTL(t *testing.T, s *Store, key, value string, d time.Duration) {
	t.Helper()
	deadline, err := s.Deadline(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(nil, &Write{Key: []byte(key), Value: []byte(value), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
}

func withClock(c *logtest.Clock) func(*Options) { return func(o *Options) { o.Clock = c } }

// A shard of the queue gives out its items in the order of their deadlines, whatever was cleared
// away, written to a snapshot and read from there in between.
func TestDeadlineShard(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		sh := &deadlineShard{}
		first := map[uint64]uint64{} // hash → its first deadline
		for range rng.IntN(400) {
			switch n := rng.IntN(100); {
			case n < 60:
				it := dueItem{deadline: 1 + rng.Uint64N(300), hash: rng.Uint64N(60)}
				sh.push(it)
				if d, ok := first[it.hash]; !ok || it.deadline < d {
					first[it.hash] = it.deadline
				}
			case n < 62:
				gone := rng.Uint64N(60)
				sh.clear(func(hash uint64) bool { return hash != gone })
				delete(first, gone)
				seen := map[uint64]bool{}
				for _, it := range sh.heap {
					if seen[it.hash] || it.hash == gone {
						t.Fatalf("%v is left after hash %d has gone", sh.heap, gone)
					}
					seen[it.hash] = true
				}
			case n < 65:
				b, next, err := sh.encode(nil)
				if err != nil {
					t.Fatal(err)
				}
				sh = &deadlineShard{deferred: next, load: func() ([]byte, error) { return b, nil }}
				if rng.IntN(2) == 0 {
					sh.push(dueItem{deadline: 500, hash: 99})
					first[99] = 500
				}
				if err := sh.bringIn(); err != nil {
					t.Fatal(err)
				}
			default:
				now := rng.Uint64N(100)
				for last := uint64(0); ; {
					if next := sh.next(); next < last {
						t.Fatalf("next = %d after %d", next, last)
					}
					it, due := sh.pop(now)
					if !due {
						break
					}
					if it.deadline > now || it.deadline < last {
						t.Fatalf("%d comes after %d at %d", it.deadline, last, now)
					}
					last = it.deadline
					if first[it.hash] == it.deadline {
						delete(first, it.hash)
					}
				}
				for hash, deadline := range first {
					if deadline <= now {
						t.Fatalf("hash %d is due at %d, and did not come at %d", hash, deadline, now)
					}
				}
			}
			if len(sh.heap) > 0 && sh.next() != sh.heap[0].deadline {
				t.Fatal("next is not the first")
			}
		}
	}
}

// Entries that get and lose deadlines all day do not fill the queue.
func TestDeadlinesStayFew(t *testing.T) {
	clock := logtest.NewClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock))
	defer mustClose(t, s)
	for i := range 20_000 {
		key := fmt.Sprint("k", i%4)
		putTTL(t, s, key, "v", time.Hour-time.Duration(i)*time.Millisecond)
		if i%2 == 0 {
			mustSet(t, s, key, "v")
		}
		putTTL(t, s, fmt.Sprint("once ", i), "v", time.Hour)
		if _, err := s.Delete(nil, fmt.Append(nil, "once ", i), Process); err != nil {
			t.Fatal(err)
		}
	}
	d, items := s.spaces[0].raw.deadlines.Load(), 0
	for n := range d.shards {
		items += len(d.shards[n].heap)
	}
	if items > cache.Shards*40 {
		t.Errorf("%d items in the queue for %d entries", items, s.Stats().Keys)
	}
	if taken := s.Stats().IndexBytes; taken < d.bytes.Load() || d.bytes.Load() < int64(items)*dueBytes {
		t.Errorf("%d items count as %d bytes of %d", items, d.bytes.Load(), taken)
	}
}

// An older value of an expired entry does not come back. With a clock that was set back the newest one does,
// whatever the end of the process was.
func TestNothingOlderComesBack(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, mem *vfs.Mem, s *Store) *vfs.Mem{
		"died":   func(t *testing.T, mem *vfs.Mem, s *Store) *vfs.Mem { return mem.ProcessCrash() },
		"closed": func(t *testing.T, mem *vfs.Mem, s *Store) *vfs.Mem { mustClose(t, s); return mem },
	} {
		t.Run(name, func(t *testing.T) {
			clock, mem := logtest.NewClock(), vfs.NewMem()
			s := mustOpen(t, mem, withClock(clock))
			mustSet(t, s, "k", "old")
			putTTL(t, s, "k", "new", time.Minute)
			clock.Advance(time.Minute)
			if _, err := s.Get(nil, []byte("k")); err != ErrNotFound {
				t.Errorf("Get: %v", err)
			}
			mem = end(t, mem, s)
			s = mustOpen(t, mem, withClock(clock))
			if e, err := s.Get(nil, []byte("k")); err != ErrNotFound {
				t.Errorf("Get = %q, %v", e.Value, err)
			}
			mem = end(t, mem, s)
			clock.Advance(-time.Second)
			s = mustOpen(t, mem, withClock(clock))
			if e, err := s.Get(nil, []byte("k")); err == nil && string(e.Value) != "new" || err != nil && err != ErrNotFound {
				t.Errorf("with the clock set back, Get = %q, %v", e.Value, err)
			}
			mustClose(t, s)
		})
	}
}

// An entry that expires before it is written is left out of the log; over an older record it is a deletion.
func TestExpiredBeforeItIsWritten(t *testing.T) {
	clock, mem := logtest.NewClock(), vfs.NewMem()
	s := mustOpen(t, mem, withClock(clock))
	c := attached(t, s, "m")
	mustSet(t, s, "m:over", "old")
	deadline, _ := s.Deadline(time.Second)
	for _, key := range []string{"m:over", "m:new"} {
		w := Write{Key: []byte(key), Cells: c, Value: []byte("v"), Durability: Async, Cell: &cache.Cell{}, Cost: 100, Expiry: deadline}
		if _, err := s.Write(c.owner, &w); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Second)
	records := s.Stats().Records
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Records - records; n != 1 {
		t.Errorf("%d records were written, want the deletion", n)
	}
	for range 2 {
		if n := s.Stats().Keys; n != 0 {
			t.Errorf("%d keys", n)
		}
		mem = mem.ProcessCrash()
		clock.Advance(-time.Second)
		s = mustOpen(t, mem, withClock(clock))
	}
	mustClose(t, s)
}

// A damaged byte that makes a deadline of the past does not pass for the end of an entry. As with any damaged
// record, it can be replaced and deleted.
func TestDamagedDeadline(t *testing.T) {
	for what, look := range map[string]func(s *Store) error{
		"Get":    func(s *Store) error { _, err := s.Get(nil, []byte("key")); return err },
		"Has":    func(s *Store) error { _, err := s.Has(nil, []byte("key")); return err },
		"Expire": func(s *Store) error { return s.Expire(nil, nil, []byte("key"), 0, Process) },
		"TTL":    func(s *Store) error { _, err := s.DeadlineOf(nil, nil, []byte("key")); return err },
	} {
		clock, mem := logtest.NewClock(), vfs.NewMem()
		s := mustOpen(t, mem, withClock(clock), func(o *Options) { o.RingBytes = -1 })
		putTTL(t, s, "key", "value", time.Hour)
		path := filepath.Join("db", s.log.Tail.ID.FileName())
		f, err := mem.Open(path, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, s.log.Tail.End.Load())
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, []byte(" X"))
		if _, err := f.WriteAt([]byte("1"), int64(at+2)); err != nil || b[at+2] == '1' {
			t.Fatal(err, string(b))
		}
		f.Close()
		clock.Advance(time.Hour - time.Millisecond)
		if err := look(s); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s: %v, want damage", what, err)
		}
		if existed, err := s.Delete(nil, []byte("key"), Process); !existed || err != nil || s.Stats().Keys != 0 {
			t.Errorf("%s, then Delete = %v, %v, and %d keys", what, existed, err, s.Stats().Keys)
		}
		mustClose(t, s)
		s = mustOpen(t, mem, withClock(clock))
		mustSet(t, s, "key", "new")
		if wantValue(t, s, "key", "new"); s.Stats().Keys != 1 {
			t.Errorf("%s: %d keys", what, s.Stats().Keys)
		}
		mustClose(t, s)
	}
}

// A later deadline is found when the first one comes, and is kept to.
func TestLaterDeadline(t *testing.T) {
	clock := logtest.NewClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock))
	defer mustClose(t, s)
	c := attached(t, s, "m")
	for i, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
		deadline, _ := s.Deadline(d)
		w := Write{Key: []byte("m:k"), Cells: c, Value: []byte("v"), Cell: &cache.Cell{}, Cost: 100, Expiry: deadline}
		if _, err := s.Write(c.owner, &w); err != nil {
			t.Fatal(err)
		}
		putTTL(t, s, "raw", "v", d)
		if items := len(c.owner.deadlines.Load().shards[s.Hash("k")%cache.Shards].heap); items != 1 {
			t.Errorf("%d items after deadline %d", items, i+1)
		}
	}
	for i := range 4 {
		if n := s.Stats().Keys; n != 2 {
			t.Errorf("%d keys after %d s, want 2", n, i)
		}
		clock.Advance(time.Second)
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys after the last deadline", n)
	}
}

// A goroutine, which runs as long as it is needed, removes expired entries that no operation looks at.
func TestReclaimedInTheBackground(t *testing.T) {
	clock := logtest.NewClock()
	s, err := Open("db", WithRooms(Options{FS: vfs.NewMem(), Clock: clock, SyncInterval: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	running := func() bool {
		s.expirer.mu.Lock()
		defer s.expirer.mu.Unlock()
		return s.expirer.running
	}
	mustSet(t, s, "stays", "v")
	if running() {
		t.Error("there is a goroutine, and no deadline")
	}
	raw := s.spaces[0].raw
	putTTL(t, s, "later", "v", 30*time.Second)
	for i := range 1000 {
		putTTL(t, s, fmt.Sprint(i), "v", time.Duration(1+i%10)*time.Second)
	}
	for k := range 10 {
		clock.Advance(time.Second)
		logtest.Until(func() bool { return raw.count() == 902-100*k })
	}
	clock.Advance(time.Minute)
	logtest.Until(func() bool { return raw.count() == 1 && !running() })
	putTTL(t, s, "again", "v", time.Second)
	logtest.Until(running)
	mustClose(t, s)
	if running() {
		s.goroutines.Wait()
	}
}

// heldUpClock advances once by a requested wait, before the wait begins.
type heldUpClock struct {
	*logtest.Clock
	d    time.Duration
	once sync.Once
}

func (c *heldUpClock) After(d time.Duration) (<-chan time.Time, func()) {
	if d == c.d {
		c.once.Do(func() { c.Advance(d) })
	}
	return c.Clock.After(d)
}

// Due entries are removed even if the goroutine was held up between its look at the clock and its timer.
func TestReclaimedThoughTimeWasLost(t *testing.T) {
	clock := &heldUpClock{Clock: logtest.NewClock(), d: 7 * time.Second}
	s, err := Open("db", WithRooms(Options{FS: vfs.NewMem(), Clock: clock, SyncInterval: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	putTTL(t, s, "key", "v", 7*time.Second)
	logtest.Until(func() bool { return s.spaces[0].raw.count() == 0 })
}

// An asynchronous write that turns out to be none leaves the record beneath it, which then expires as it would have.
func TestLostWriteOverADeadline(t *testing.T) {
	clock := logtest.NewClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock))
	defer s.Close()
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Attach(table, Values{Encode: func(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
		return dst, 0, errors.New("no value")
	}})
	putTTL(t, s, "m:k", "v", 2*time.Second)
	deadline, _ := s.Deadline(time.Hour)
	w := Write{Key: []byte("m:k"), Cells: c, Later: true, Durability: Async, Cell: &cache.Cell{Holds: true}, Cost: 100, Expiry: deadline}
	if _, err := s.Write(table, &w); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	table.deadlines.Load().shards[table.hash([]byte("m:k"))%cache.Shards].heap = nil // as if the item had been due, and the write not lost yet
	if err := s.Sync(); err == nil {
		t.Fatal("what cannot be encoded was written")
	}
	if e, err := s.Get(nil, []byte("m:k")); err != nil || string(e.Value) != "v" || table.Len() != 1 {
		t.Errorf("Get = %q, %v; Len %d", e.Value, err, table.Len())
	}
	clock.Advance(time.Second)
	if n := table.Len(); n != 0 {
		t.Errorf("Len = %d after the deadline", n)
	}
}

// Items in a snapshot are read when the first of them is due; if they cannot be read, the entries are.
func TestDeferredDeadlines(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		clock, mem := logtest.NewClock(), vfs.NewMem()
		var reported []error
		s := mustOpen(t, mem, withClock(clock), func(o *Options) { o.OnError = func(err error) { reported = append(reported, err) } })
		const n = 1000
		for i := range n {
			putTTL(t, s, fmt.Sprint(i), "v", time.Duration(1+i)*time.Second)
		}
		raw := s.spaces[0].raw
		before, loads := raw.deadlines.Load(), 0
		raw.deadlines.Store(nil)
		for i := range before.shards {
			b, first, err := before.shards[i].encode(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > 0 {
				raw.queue().deferItems(i, first, func() ([]byte, error) {
					if loads++; damaged {
						return nil, seglog.ErrCorrupt
					}
					return b, nil
				})
			}
		}
		if raw.Len() != n || loads != 0 {
			t.Errorf("Len = %d after %d loads", raw.Len(), loads)
		}
		for i := range n {
			clock.Advance(time.Second)
			if got := raw.Len(); got != n-1-i {
				t.Fatalf("damaged %v: Len = %d after %d s, want %d", damaged, got, i+1, n-1-i)
			}
			if i == 0 && loads != 1 {
				t.Errorf("%d shards were read for the first item", loads)
			}
		}
		mustClose(t, s)
		if damaged != (len(reported) > 0) {
			t.Errorf("reported: %v", reported)
		}
	}
}

// TestExpiryIsTriedAgainAfterAReadError: an entry whose record cannot be read when its deadline
// has come is looked at again.
func TestExpiryIsTriedAgainAfterAReadError(t *testing.T) {
	failing := &vfs.Fault{Kinds: vfs.OpRead | vfs.OpLoad, Forever: true}
	f := vfs.Inject(vfs.NewMem(), failing)
	clock := logtest.NewClock()
	s := mustOpen(t, f, withClock(clock))
	putTTL(t, s, "a", "1", time.Second)
	mustSet(t, s, "b", "2")
	clock.Advance(time.Second)
	failing.N = f.Matched(0) + 1
	s.RawTable().Len()
	if !f.Fired() {
		t.Fatal("nothing was read")
	}
	failing.N = 0
	clock.Advance(time.Second)
	if n := s.RawTable().Len(); n != 1 {
		t.Errorf("%d entries are counted, want 1", n)
	}
	mustClose(t, s)
}

// TestExpireLargeDuringCompaction: a large value that gets another deadline, at any moment of a
// compaction that moves its parts, is complete afterwards.
func TestExpireLargeDuringCompaction(t *testing.T) {
	value := strings.Repeat("0123456789abcdef", (2*seglog.PartBytes+100)/16)
	for at := 0; ; at++ {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 3000 })
		mustSet(t, s, "large", value)
		for i := range 60 {
			mustSet(t, s, fmt.Sprint("small ", i), strings.Repeat("x", 100))
		}
		if err := s.log.SyncEnded(); err != nil {
			t.Fatal(err)
		}
		n, did := 0, false
		err := s.compact(s.log.Compactable(), func() error {
			if n++; n == at+1 {
				did = true
				deadline, err := s.Deadline(time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Expire(nil, nil, []byte("large"), deadline, Process); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errLeft) {
			t.Fatalf("at %d: %v", at, err)
		}
		for _, when := range []string{"then", "after opening anew"} {
			e, err := s.Get(nil, []byte("large"))
			if err != nil || string(e.Value) != value {
				t.Fatalf("Expire at step %d of a compaction, %s: %d bytes, %v", at, when, len(e.Value), err)
			}
			mustClose(t, s)
			s = mustOpen(t, mem)
		}
		mustClose(t, s)
		if !did {
			return
		}
	}
}

// TestReadOnlyStoreReportsNoExpiry: a read-only store reports no expired entry, and keeps nothing
// of one for a report.
func TestReadOnlyStoreReportsNoExpiry(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	s := mustOpen(t, mem, withClock(clock))
	attached(t, s, "m")
	for i := range 100 {
		putTTL(t, s, fmt.Sprint("m:", i), "v", time.Second)
	}
	mustClose(t, s)
	s = mustOpen(t, mem, withClock(clock), func(o *Options) { o.ReadOnly = true })
	defer mustClose(t, s)
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	s.Attach(table, Values{Expired: func([]byte, Entry) { t.Error("somebody is told") }})
	clock.Advance(time.Minute)
	if n := table.Len(); n != 0 {
		t.Errorf("Len = %d", n)
	}
	if n := len(s.expirer.take()); n != 0 {
		t.Errorf("%d entries wait for a function that is never called", n)
	}
}
