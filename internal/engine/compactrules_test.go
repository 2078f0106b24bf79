package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The rules of compaction, one by one, each where breaking it must show.

// segmented is a store with some segments, synced, of which the first has the keys k0 to k9.
func segmented(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s := mustOpen(t, fsys, func(o *Options) { o.SegmentBytes = 1000 })
	if _, err := s.Map("m"); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := s.Set(nil, fmt.Append(nil, "m:k", i), []byte(strings.Repeat("o", 50)), 0, Power); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	return s
}

// compactList compacts the first n segments.
func compactList(t *testing.T, s *Store, n int, pause func() error) {
	t.Helper()
	if err := s.compact(s.log.Compactable()[:n], pause); err != nil {
		t.Fatal(err)
	}
}

// A write between the copy of a record and the move of its entry counts, whatever its kind.
func TestWritesBetweenCopyAndMove(t *testing.T) {
	mem := vfs.NewMem()
	s := segmented(t, mem)
	c := attached(t, s, "m")
	cell := func(key string, d Durability) {
		w := Write{Key: []byte("m:" + key), Cells: c, Value: []byte("new"), Durability: d, Cell: &cache.Cell{}, Cost: 100}
		if _, err := s.Write(c.owner, &w); err != nil {
			t.Fatal(err)
		}
	}
	slices := 0
	compactList(t, s, 2, func() error {
		if slices++; slices != 2 { // the first segment has been copied
			return nil
		}
		mustSet(t, s, "m:k0", "new")
		cell("k1", Process) // the index keeps the old address
		cell("k2", Async)
		cell("k3", Async)
		if err := s.Flush(nil); err != nil {
			t.Fatal(err)
		}
		cell("k3", Async) // and is dirty again
		if _, err := s.Delete(nil, []byte("m:k4"), Process); err != nil {
			t.Fatal(err)
		}
		return nil
	})
	check := func() {
		t.Helper()
		for i := range 40 {
			want := strings.Repeat("o", 50)
			switch {
			case i < 4:
				want = "new"
			case i == 4:
				want = absent
			}
			wantValue(t, s, fmt.Sprint("m:k", i), want)
		}
		if n := s.Stats().Keys; n != 39 {
			t.Errorf("%d keys", n)
		}
	}
	check()
	if err := s.Detach(c); err != nil { // the index gets the addresses that only the cells know
		t.Fatal(err)
	}
	check()
	mustClose(t, s)
	logtest.RemoveIndex(mem, "db")
	s = mustOpen(t, mem)
	check()
	mustClose(t, s)
}

// TestWritesAtEveryStepOfCompaction: a change of an entry at any step of the compaction of its
// segments, also while a large value is copied, lasts: at once, when its record is compacted in its
// turn, and when the index is made from the log.
func TestWritesAtEveryStepOfCompaction(t *testing.T) {
	large := func(c string) string { return strings.Repeat(c+" large ", 60) }
	stream := func(s *Store, key, value string) { // in parts of 100 bytes
		under := s.log.BeginParts()
		part := seglog.Pending{Head: record.Head{Op: record.Part, Kind: record.Value}, Key: []byte(key)}
		list := []byte(record.Hex(100))
		for p := range slices.Chunk([]byte(value), 100) {
			part.Value = p
			if err := s.AppendPart(&part); err != nil {
				t.Fatal(err)
			}
			part.Index++
			list = part.AppendPlace(list)
		}
		_, err := s.Write(nil, &Write{Key: []byte(key), Value: list, Listed: uint64(len(value))})
		if s.EndParts(under, err); err != nil {
			t.Fatal(err)
		}
	}
	acts := map[string]func(s *Store, c *Cells, content map[string]string){
		"set":       func(s *Store, _ *Cells, now map[string]string) { mustSet(t, s, "m:k0", "new"); now["m:k0"] = "new" },
		"set async": func(s *Store, c *Cells, now map[string]string) { c.setAsync(t, s, "k1", "new"); now["m:k1"] = "new" },
		"delete": func(s *Store, _ *Cells, now map[string]string) {
			for i := range 12 {
				key := fmt.Sprint("m:k", i)
				if _, err := s.Delete(nil, []byte(key), Process); err != nil {
					t.Fatal(err)
				}
				delete(now, key)
			}
		},
		"replace large": func(s *Store, _ *Cells, now map[string]string) {
			stream(s, "large", large("new"))
			now["large"] = large("new")
		},
		"large to small": func(s *Store, _ *Cells, now map[string]string) {
			mustSet(t, s, "large", "small")
			now["large"] = "small"
		},
		"delete large": func(s *Store, _ *Cells, now map[string]string) {
			if _, err := s.Delete(nil, []byte("large"), Process); err != nil {
				t.Fatal(err)
			}
			delete(now, "large")
		},
	}
	for name, act := range acts {
		for step, reached := 0, true; reached; step++ {
			mem := vfs.NewMem()
			options := func(o *Options) { o.SegmentBytes = 1000 }
			s := mustOpen(t, mem, options)
			c := attached(t, s, "m")
			content := map[string]string{"large": large("old")}
			fill := func(key string, n int) {
				for i := range n {
					content[fmt.Sprint(key, i)] = strings.Repeat("o", 50)
					mustSet(t, s, fmt.Sprint(key, i), content[fmt.Sprint(key, i)])
				}
			}
			fill("m:k", 20)
			begun := s.log.Last() + 1
			stream(s, "large", content["large"])
			fill("behind", 12)
			steps, copied := 0, 0
			reached = false
			stop := func() {
				if steps++; steps == step+1 {
					reached = true
					act(s, c, content)
				}
			}
			partCopied = func() { copied++; stop() }
			if err := s.log.SyncEnded(); err != nil {
				t.Fatal(err)
			}
			run := slices.IndexFunc(s.log.Compactable(), func(seg *seglog.Segment) bool { return seg.First > begun }) // the list of the parts is there
			if run < 1 {
				t.Fatal("the value stands in one segment")
			}
			compactList(t, s, run, func() error { stop(); return nil })
			partCopied = func() {}
			if !reached && copied < 5 {
				t.Fatalf("%d parts were copied", copied)
			}
			check := func(s *Store, when string) {
				t.Helper()
				for key, want := range content {
					if e, err := s.Get(nil, []byte(key)); err != nil || string(e.Value) != want {
						t.Fatalf("%s at step %d, %s: %q is %.20q, %v, want %.20q", name, step, when, key, e.Value, err, want)
					}
				}
				if n := s.Stats().Keys; n != int64(len(content)) {
					t.Fatalf("%s at step %d, %s: %d keys, want %d", name, step, when, n, len(content))
				}
			}
			fromTheLog := func(when string) {
				t.Helper()
				dead := mem.ProcessCrash()
				logtest.RemoveIndex(dead, "db")
				again := mustOpen(t, dead, options)
				check(again, when)
				mustClose(t, again)
			}
			if err := s.Flush(nil); err != nil {
				t.Fatal(err)
			}
			check(s, "at once")
			fromTheLog("opened at once")
			fill("later", 30)
			if err := s.log.SyncEnded(); err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(s.log.Compactable()); i++ { // all but the one that replaced the run
				if err := s.compact(s.log.Compactable()[i:i+1], noPause); err != nil {
					t.Fatal(err)
				}
			}
			check(s, "compacted")
			fromTheLog("opened when it is compacted")
			if err := s.Detach(c); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
		}
	}
}

// A reader inside the gate can read the record at an address that it found there, whatever compaction does.
func TestReaderInsideKeepsSegments(t *testing.T) {
	s := segmented(t, vfs.NewMem())
	in, err := s.use()
	if err != nil {
		t.Fatal(err)
	}
	table := s.spaces[0].maps["m"]
	h, err := table.find(table.hash([]byte("m:k0")), []byte("m:k0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { compactList(t, s, 1, noPause); close(done) }()
	for s.log.Compacted.Load() == 0 {
		runtime.Gosched()
	}
	for range 10_000 {
		runtime.Gosched()
		select {
		case <-done:
			t.Fatal("the segments have gone under a reader")
		default:
		}
	}
	if e, err := s.readAt(h.address, nil); err != nil || string(e.Key) != "m:k0" {
		t.Errorf("read %q, %v", e.Key, err)
	}
	s.life.leave(in)
	<-done
	wantValue(t, s, "m:k0", strings.Repeat("o", 50))
	mustClose(t, s)
}

// On a full disk Compact makes room for asynchronous writes that found none.
func TestCompactAllWithWhatIsUnwritten(t *testing.T) {
	disk := logtest.NewSmallDisk(vfs.NewMem(), 200)
	s := mustOpen(t, disk, func(o *Options) { o.SegmentBytes = 50_000 })
	c := attached(t, s, "m")
	mustSet(t, s, "m:declared", "first")
	n := 0
	for ; n < 5000; n++ {
		if err := s.Set(nil, fmt.Append(nil, "key ", n), make([]byte, 500), 0, Process); err != nil {
			break
		}
	}
	disk.SetFree(0)
	for i := range 20 {
		c.setAsync(t, s, fmt.Sprint("late ", i), strings.Repeat("late", 100))
	}
	if err := s.Flush(c); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("flushing on a full disk: %v", err)
	}
	if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("Compact, without anything to give back: %v", err)
	}
	for i := range n / 2 {
		if _, err := s.Delete(nil, fmt.Append(nil, "key ", i), Process); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if left := c.table.Dirty(); left > 0 {
		t.Errorf("%d values are unwritten yet", left)
	}
	mustClose(t, s)
	s = mustOpen(t, disk)
	defer mustClose(t, s)
	for i := range 20 {
		wantValue(t, s, fmt.Sprint("m:late ", i), strings.Repeat("late", 100))
	}
}
