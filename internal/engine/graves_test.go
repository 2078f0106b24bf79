package engine

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// addressesKnown are all addresses that the index or a cell has. The store is at rest.
func addressesKnown(t *testing.T, s *Store) map[seglog.Address]bool {
	t.Helper()
	known := map[seglog.Address]bool{}
	for _, table := range s.Tables() {
		for a, err := range table.addresses() {
			if err != nil {
				t.Fatal(err)
			}
			known[a] = true
		}
		if c := table.cells.Load(); c != nil {
			for n := range cache.Shards {
				c.table.Each(n, func(cell *cache.Cell) { known[cell.Address], known[cell.Stale] = true, true })
			}
		}
	}
	return known
}

// graved counts the records that are remembered as dead, and those that could be. None of the former is known
// to anybody.
func graved(t *testing.T, s *Store) (remembered, dead int) {
	t.Helper()
	known := addressesKnown(t, s)
	if err := s.sync(); err != nil { // which brings everything to the files
		t.Fatal(err)
	}
	for _, seg := range s.log.Readable() {
		r := &seglog.Scanner{File: seg.File, Salt: seg.Salt, Offset: seg.Head, End: seg.End.Load()}
		for {
			at, e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			is := known[seglog.AddressOf(seg.Slot, at)]
			if e.Op == record.Set && e.Group|e.Expiry == 0 && e.Bytes <= longestGrave && !is {
				dead++
			}
			if s.notes.of(seg).forgotten(at, &e.Head) {
				remembered++
				if is {
					t.Errorf("the record of %q at %s.%x is remembered as dead, and somebody has its address", e.Key, seg.ID, at)
				}
			}
		}
	}
	return remembered, dead
}

// After any operations, no index and no cell has a record that is remembered as dead, so compaction may leave
// it out without a look-up; and most dead records are remembered.
func TestRememberedDeadAreKnownToNobody(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 9))
		s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes, o.MaxMemory = 8<<10, 1<<20 })
		c := attached(t, s, "m")
		want := map[string]string{}
		for i := range 4000 {
			key := fmt.Sprint("m:", rng.IntN(60))
			value := fmt.Sprint(i, strings.Repeat("x", rng.IntN(300)))
			w := Write{Key: []byte(key), Cells: c, Value: []byte(value), Cell: &cache.Cell{}, Cost: 100}
			switch n := rng.IntN(12); n {
			case 0:
				w.Durability = Async
			case 1:
				w.Delete, w.Value, w.Cell = true, nil, nil
			case 2, 3: // by who knows nothing of cells
				w.Cells, w.Cell = nil, nil
			case 4:
				w.Expiry = uint64(s.opts.Clock.Now().UnixMilli()) + 1e9
			case 5:
				err := s.Transact(Process, func(tx *Tx) error { return tx.Write(nil, &Write{Key: []byte(key), Value: []byte(value)}) })
				if err != nil {
					t.Fatal(err)
				}
				want[key] = value
				continue
			case 6:
				if i%7 == 0 {
					if s.log.SyncEnded() == nil {
						s.tidyOnce()
					}
					graved(t, s)
				}
				continue
			}
			if _, err := s.Write(c.owner, &w); err != nil {
				t.Fatal(err)
			}
			if want[key] = value; w.Delete {
				delete(want, key)
			}
		}
		if err := s.Flush(nil); err != nil {
			t.Fatal(err)
		}
		remembered, dead := graved(t, s)
		if remembered*2 < dead || remembered == 0 {
			t.Errorf("%d of %d dead records are remembered", remembered, dead)
		}
		for s.tidyOnce() {
		}
		for i := range 60 {
			key := fmt.Sprint("m:", i)
			e, err := s.Get(nil, []byte(key))
			if value, ok := want[key]; ok != (err == nil) || string(e.Value) != value {
				t.Fatalf("seed %d: %s = %.20q, %v, want %.20q", seed, key, e.Value, err, value)
			}
		}
		mustClose(t, s)
	}
}
