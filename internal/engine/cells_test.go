package engine

import (
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/vfs"
)

// attached is an open map of a store, whose values the cells hold encoded alone.
func attached(t *testing.T, s *Store, name string) *Cells {
	t.Helper()
	table, err := s.Map(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Attach(table, Values{Encode: func(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
		t.Error("nothing here is to be encoded later")
		return dst, 0, nil
	}})
}

// setAsync sets a raw value, asynchronously.
func (c *Cells) setAsync(t *testing.T, s *Store, key, value string) {
	t.Helper()
	w := Write{Key: []byte(c.owner.name + ":" + key), Cells: c, Value: []byte(value), Durability: Async, Cell: &cache.Cell{}, Cost: 100}
	if _, err := s.Write(c.owner, &w); err != nil {
		t.Fatal(err)
	}
}

// A value set while the keeper flushes, in a shard that it has passed, is written after the next interval.
func TestSetAsyncDuringAFlush(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	c := attached(t, s, "m")
	flush := s.log.Flush
	s.log.Flush = func() bool {
		again := flush()
		c.setAsync(t, s, "late", "v")
		return again
	}
	c.setAsync(t, s, "k", "v")
	s.log.PeriodicSync()
	s.log.Flush = flush
	if n := c.table.Dirty(); n != 1 {
		t.Fatalf("%d cells are dirty, want the late one", n)
	}
	s.log.PeriodicSync()
	if n := c.table.Dirty(); n != 0 {
		t.Errorf("%d cells are dirty, though the keeper has come by again", n)
	}
}

// A read that finds a cell with a value only when it has the lock returns that, not the record before.
func TestReadOfACellThatHoldsTheValue(t *testing.T) {
	for _, d := range []Durability{Async, Memory} {
		s := mustOpen(t, vfs.NewMem())
		c := attached(t, s, "m")
		key := []byte("m:k")
		mustSet(t, s, string(key), "before")
		cell := &cache.Cell{Holds: true}
		if _, err := s.Write(c.owner, &Write{Key: key, Cells: c, Later: d == Async, Durability: d, Cell: cell, Cost: 100}); err != nil {
			t.Fatal(err)
		}
		var e Entry
		if err := s.Read(&e, c, true, s.Hash("k"), key, nil); err != nil || e.Cell != cell {
			t.Errorf("durability %d: Read = %+v, %v, want the cell", d, e, err)
		}
		if _, err := s.Delete(nil, key, Process); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
	}
}

// A large value does not wait, nor does one that is encoded when it is written.
func TestLargeAsyncValuesAreWrittenAtOnce(t *testing.T) {
	for _, later := range []bool{false, true} {
		s := mustOpen(t, vfs.NewMem())
		table, err := s.Map("m")
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("large ", 300_000)
		c := s.Attach(table, Values{Encode: func(dst []byte, c *cache.Cell) ([]byte, uint64, error) { return append(dst, large...), 0, nil }})
		w := Write{Key: []byte("m:k"), Cells: c, Later: later, Durability: Async, Cell: &cache.Cell{Holds: later}, Cost: len(large) + 100}
		if !later {
			w.Value = []byte(large)
		}
		if _, err := s.Write(table, &w); err != nil {
			t.Fatal(err)
		}
		if n := c.table.Dirty(); n != 0 {
			t.Errorf("encoded later %v: it waits", later)
		}
		wantValue(t, s, "m:k", large)
		mustClose(t, s)
	}
}

// TestReadGetsNoCellOfAnotherMap: a read through the cells of a map that was closed meanwhile gets
// no cell of the map opened in its place. Its values are of another type.
func TestReadGetsNoCellOfAnotherMap(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	first := attached(t, s, "m")
	mustSet(t, s, "m:k", "v")
	// Store.Read(first) has found a cell here, and has not taken the lock of the key yet
	if err := s.Detach(first); err != nil {
		t.Fatal(err)
	}
	second := attached(t, s, "m")
	cell := &cache.Cell{Holds: true}
	key := []byte("m:k")
	if _, err := s.Write(second.owner, &Write{Key: key, Cells: second, Durability: Memory, Cell: cell, Cost: 100}); err != nil {
		t.Fatal(err)
	}
	var f sight
	r := first.asShown(true)
	err := r.place(&f, first.owner, s.Hash("k"), key, 0)
	if f.cell == cell {
		t.Errorf("a read through the cells of the closed map got a cell of the new one (err %v)", err)
	}
}
