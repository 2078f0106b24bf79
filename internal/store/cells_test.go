package store

import (
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
	return s.Attach(table, func(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
		t.Error("nothing here is to be encoded later")
		return dst, 0, nil
	})
}

// setAsync sets a raw value, asynchronously.
func (c *Cells) setAsync(t *testing.T, s *Store, key, value string) {
	t.Helper()
	w := Write{Key: []byte(c.owner.name + ":" + key), Cells: c, Value: []byte(value), Durability: Async, Cell: &cache.Cell{}, Cost: 100}
	if _, err := s.Write(c.owner, &w); err != nil {
		t.Fatal(err)
	}
}

// What is set while the keeper flushes, in a shard that it has passed, is written after the next interval.
func TestSetAsyncDuringAFlush(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	c := attached(t, s, "m")
	flush := s.log.flush
	s.log.flush = func() bool {
		again := flush()
		c.setAsync(t, s, "late", "v")
		return again
	}
	c.setAsync(t, s, "k", "v")
	s.log.periodicSync()
	s.log.flush = flush
	if n := c.table.Dirty(); n != 1 {
		t.Fatalf("%d cells are dirty, want the late one", n)
	}
	s.log.periodicSync()
	if n := c.table.Dirty(); n != 0 {
		t.Errorf("%d cells are dirty, though the keeper has come by again", n)
	}
}
