package storetest

import (
	"testing"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/engine"
)

// Cells are those of an open map.
type Cells struct {
	*engine.Cells
	Table *engine.Table
	name  string
}

// AttachMap opens a map of a store, which has cells from now on.
func AttachMap(t testing.TB, s *engine.Store, name string) *Cells {
	t.Helper()
	table, err := s.Map(name)
	if err != nil {
		t.Fatal(err)
	}
	values := engine.Values{Encode: func(dst []byte, c *cache.Cell) ([]byte, uint64, error) {
		t.Error("nothing here is to be encoded later")
		return dst, 0, nil
	}}
	return &Cells{s.Attach(table, values), table, name}
}

// SetAsync sets a value, asynchronously.
func (c *Cells) SetAsync(t testing.TB, s *engine.Store, key, value string) {
	t.Helper()
	w := engine.Write{Key: []byte(c.name + ":" + key), Cells: c.Cells, Value: []byte(value), Durability: engine.Async, Cell: &cache.Cell{}, Cost: 100}
	if _, err := s.Write(c.Table, &w); err != nil {
		t.Fatal(err)
	}
}
