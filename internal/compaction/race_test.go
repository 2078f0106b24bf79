package compaction_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/store"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// Writers, updates, readers and iterations go on while one goroutine compacts without a rest. Each
// key that is written to has one writer, so the oldest value that a reader may find is known; all
// goroutines add to counters; and some keys do not change.
func TestCompactionAmongOthers(t *testing.T) { logtest.BothWays(t, compactionAmongOthers) }

func compactionAmongOthers(t *testing.T) {
	const (
		writers, each = 3, 40
		counters      = 3
		stay          = 200
	)
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	mem := vfs.NewMem()
	s, err := store.Open("db", engine.Options{FS: mem, SegmentBytes: 8 << 10, RingBytes: logtest.TestRing, NoCompaction: true, MaxMemory: 60 << 10, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	c := storetest.AttachMap(t, s, "m")
	own := func(w, i int) string { return fmt.Sprintf("%d/%d", w, i) }
	var least [writers][each]atomic.Uint64
	for i := range stay {
		storetest.Set(t, s, fmt.Sprint("m:stay", i), "here")
	}
	var done atomic.Bool
	var compacted atomic.Uint64
	var writing, rest sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 24))
			for round := uint64(1); round <= uint64(rounds) && !t.Failed(); round++ {
				for i := range each {
					value := string(binary.BigEndian.AppendUint64(nil, round)) + strings.Repeat("x", rng.IntN(60))
					switch key := own(w, i); rng.IntN(3) {
					case 0:
						c.SetAsync(t, s, key, value)
					case 1:
						if _, err := s.Delete(c.Table, []byte("m:"+key), engine.Process); err != nil {
							t.Error(err)
						}
						fallthrough
					default:
						storetest.Set(t, s, "m:"+key, value)
					}
					least[w][i].Store(round)
				}
				for compacted.Load() < round/2 && !t.Failed() { // that goes on, too
					runtime.Gosched()
				}
				add := func(found engine.Found, w *engine.Write) (bool, error) {
					n := uint64(0)
					if found.Exists {
						n = binary.BigEndian.Uint64(found.Value)
					}
					w.Value = binary.BigEndian.AppendUint64(nil, n+1)
					return true, nil
				}
				if _, err := s.Update(c.Table, nil, fmt.Append(nil, "m:counter", rng.IntN(counters)), false, engine.Process, nil, add); err != nil {
					t.Error(err)
				}
			}
		})
	}
	rest.Go(func() { // reads
		rng := rand.New(rand.NewPCG(8, 24))
		for !done.Load() && !t.Failed() {
			w, i := rng.IntN(writers), rng.IntN(each)
			want := least[w][i].Load()
			var e engine.Entry
			key := []byte("m:" + own(w, i))
			err := s.Read(&e, c.Cells, true, s.Hash(own(w, i)), key, nil)
			switch {
			case errors.Is(err, engine.ErrNotFound): // between its deletion and the next write
			case err != nil:
				t.Error(err)
			case binary.BigEndian.Uint64(e.Value) < want:
				t.Errorf("key %s has %d, after %d was written", key, binary.BigEndian.Uint64(e.Value), want)
			}
		}
	})
	rest.Go(func() { // iterates
		for !done.Load() && !t.Failed() {
			seen := map[string]int{}
			for item := range s.Entries(c.Cells, true) {
				if item.Err != nil {
					t.Error(item.Err)
				}
				seen[string(item.Key)]++
			}
			for i := range stay {
				if n := seen[fmt.Sprint("m:stay", i)]; n != 1 {
					t.Errorf("an iteration came by an entry that stays %d times", n)
				}
			}
		}
	})
	rest.Go(func() {
		rng := rand.New(rand.NewPCG(9, 24))
		for !done.Load() && !t.Failed() {
			if rng.IntN(4) == 0 {
				compaction.Of(s).Step()
			} else {
				storetest.CompactSome(t, s, rng)
			}
			compacted.Add(1)
		}
	})
	writing.Wait()
	done.Store(true)
	rest.Wait()
	check := func() {
		t.Helper()
		total := uint64(0)
		for n := range counters {
			if e, err := s.Get(nil, fmt.Append(nil, "m:counter", n)); err == nil {
				total += binary.BigEndian.Uint64(e.Value)
			}
		}
		if total != uint64(rounds*writers) {
			t.Errorf("%d of %d additions", total, rounds*writers)
		}
		for w := range writers {
			for i := range each {
				if e, err := s.Get(nil, []byte("m:"+own(w, i))); err != nil || binary.BigEndian.Uint64(e.Value) != uint64(rounds) {
					t.Errorf("key %s: %v, %v", own(w, i), e.Value, err)
				}
			}
		}
	}
	check()
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	check()
	storetest.Close(t, s)
	s = storetest.Open(t, mem)
	check()
	if n := s.Stats().Keys; n != writers*each+counters+stay {
		t.Errorf("%d keys", n)
	}
	storetest.Close(t, s)
}

// An iteration that stops in the middle keeps the segments that it has yet to read, and they go when it ends.
func TestIterationPinsWhatItReads(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 1000 })
	for i := range 200 {
		storetest.Set(t, s, fmt.Sprint(i), "old")
	}
	raw := s.Tables()[0]
	seen := map[string]bool{}
	kept := false
	for item := range s.Items(raw) {
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		if len(seen) == 0 {
			if err := storetest.Compact(s); err != nil {
				t.Fatal(err)
			}
			storetest.SealTail(t, s)
			for range 3 {
				if err := storetest.CompactRun(s, 0); err != nil {
					t.Fatal(err)
				}
			}
			kept = s.Retired()
		}
		if seen[string(item.Key)] || string(item.Value) != "old" {
			t.Fatalf("key %q again, or with %q", item.Key, item.Value)
		}
		seen[string(item.Key)] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d of 200 entries", len(seen))
	}
	if !kept {
		t.Error("nothing was kept for the iteration")
	}
	storetest.DropRetired(s)
	if s.Retired() {
		t.Errorf("%d bytes are kept without a holder", s.Stats().HeldBytes)
	}
	storetest.Close(t, s)
}

// A record that does not verify is a reason to leave a run alone, with an error, and not to lose
// later records.
func TestCompactionLeavesDamageAlone(t *testing.T) {
	mem := vfs.NewMem()
	var told []error
	var mu sync.Mutex
	s := storetest.Open(t, mem, func(o *engine.Options) {
		o.SegmentBytes = 1000
		o.OnError = func(err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err) }
	})
	for i := range 100 {
		storetest.Set(t, s, fmt.Sprint("key ", i%30), fmt.Sprint("value ", i))
	}
	if err := s.Log().SyncEnded(); err != nil {
		t.Fatal(err)
	}
	first := s.Log().Readable()[0]
	f, err := mem.Open(first.Path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("?"), first.End.Load()/2); err != nil {
		t.Fatal(err)
	}
	f.Close()
	err = compaction.Of(s).CompactRun([]*seglog.Segment{first})
	if !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("compacting it: %v", err)
	}
	if s.Log().Segment(first.Slot) != first || len(s.Log().Manifest.Segments) < 4 {
		t.Error("the segment is gone")
	}
	logtest.Until(func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > 0 })
	if len(told) != 1 || !errors.Is(told[0], seglog.ErrCorrupt) {
		t.Errorf("reported %v", told)
	}
	for range 20 {
		compaction.Of(s).Step() // and it does not go round and round
	}
	storetest.Want(t, s, "key 9", "value 99")
	s.Close()
}

// On a full disk Delete and then Compact give space back.
func TestCompactAllOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	disk := logtest.NewSmallDisk(mem, 200)
	s := storetest.Open(t, disk, func(o *engine.Options) { o.SegmentBytes = 50_000 })
	n := 0
	for ; n < 5000; n++ {
		if err := s.Set(nil, fmt.Append(nil, "key ", n), make([]byte, 500), 0, engine.Process); errors.Is(err, seglog.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	disk.SetFree(0)
	deleted := 0
	for ; deleted < n/2; deleted++ {
		if _, err := s.Delete(nil, fmt.Append(nil, "key ", deleted), engine.Process); err != nil {
			break
		}
	}
	before := s.Stats().LogBytes
	if err := storetest.Compact(s); err != nil {
		t.Fatalf("Compact after %d deletions: %v", deleted, err)
	}
	if after := s.Stats().LogBytes; deleted < 200 || before-after < int64(deleted)*500 {
		t.Errorf("after %d deletions %d bytes have become %d", deleted, before, after)
	}
	for i := range n {
		want := string(make([]byte, 500))
		if i < deleted {
			want = storetest.Absent
		}
		storetest.Want(t, s, fmt.Sprint("key ", i), want)
	}
	storetest.Set(t, s, "there is room", strings.Repeat("again", 1000))
	storetest.Close(t, s)
}
