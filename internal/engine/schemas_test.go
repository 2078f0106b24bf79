package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// recounted compares the counts of every table with its entries.
func recounted(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range s.Tables() {
		want := map[uint64]int64{}
		for item := range s.Items(table) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			want[item.Schema]++
		}
		var numbers []uint64
		for _, c := range table.index.Schemas() {
			if c.Entries != want[c.Schema] {
				t.Errorf("table %q has %d entries of schema %d, and counts %d", table.name, want[c.Schema], c.Schema, c.Entries)
			}
		}
		for n := range want {
			numbers = append(numbers, n)
		}
		slices.Sort(numbers)
		if got := table.Schemas(); !slices.Equal(got, numbers) {
			t.Errorf("Schemas of table %q are %v, want %v", table.name, got, numbers)
		}
	}
}

// TestSchemasAreThoseOfLiveEntries counts after random writes, through several lives.
func TestSchemasAreThoseOfLiveEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	mem := vfs.NewMem()
	for life := range 6 {
		s := mustOpen(t, mem)
		recounted(t, s)
		for i := range 300 {
			key := fmt.Appendf(nil, "%s%d", []string{"", "users:", "late:"}[rng.IntN(3)], rng.IntN(20))
			schema, err := s.SchemaNumber(Schema{Codec: "json", Text: fmt.Sprintf("[%d]int", rng.IntN(4))})
			if err != nil {
				t.Fatal(err)
			}
			value := make([]byte, []int{5, 2 * seglog.PartBytes}[rng.IntN(100)/99])
			switch rng.IntN(6) {
			case 0:
				_, err = s.Delete(nil, key, Process)
			case 1:
				err = s.Set(nil, key, value, 0, Process)
			case 2:
				_, err = s.Update(nil, nil, key, false, Process, nil, func(_ Found, w *Write) (bool, error) {
					w.Delete, w.Value, w.Schema = rng.IntN(3) == 0, value, schema
					return rng.IntN(2) == 0, nil
				})
			default:
				err = s.Set(nil, key, value, schema, Process)
			}
			if err != nil {
				t.Fatal(err)
			}
			if i == 100 && life >= 1 { // entries move from the raw table
				if _, err := s.Map([]string{"users", "late"}[life%2]); err != nil {
					t.Fatal(err)
				}
			}
		}
		recounted(t, s)
		if life%2 == 0 {
			mustClose(t, s)
		} else {
			mem = mem.ProcessCrash()
		}
	}
}

// TestSchemasOfARange: no schema is left after a range deletion.
func TestSchemasOfARange(t *testing.T) {
	schema := func(n uint64) func(*record.Head) { return func(h *record.Head) { h.Schema = n } }
	s := mustOpen(t, logtest.Hand(t,
		logtest.Rec(record.Set, record.System, "map:users", "{}"),
		logtest.Rec(record.Set, record.Value, "users:1", "x", schema(1)),
		logtest.Rec(record.Set, record.Value, "users:2", "x", schema(2)),
		logtest.Rec(record.Set, record.Value, "raw", "x", schema(3)),
		logtest.Rec(record.Range, record.Value, "users:1", ""),
	))
	recounted(t, s)
	if got := s.spaces[0].maps["users"].Schemas(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("Schemas are %v, want 2 alone", got)
	}
	mustClose(t, s)
}

// TestSchemasCountedByConcurrentWriters: no entry is lost when the list becomes longer.
func TestSchemasCountedByConcurrentWriters(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				if err := s.Set(nil, fmt.Append(nil, w*i%50), nil, uint64(i%40), Process); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	recounted(t, s)
	mustClose(t, s)
}
