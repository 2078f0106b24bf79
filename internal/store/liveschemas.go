package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// liveSchemas counts the entries of a table by the number of their schema, so that whoever
// opens a map learns which forms its values have without reading them.
//
// A table has few schemas, and nearly every write has that of the entry it replaces: then
// nothing changes. Otherwise a counter is found in a list that is only ever
// replaced by a longer one, without a lock; the lock is for a number that is new to the table.
type liveSchemas struct {
	counts atomic.Pointer[[]*schemaCount]
	mu     sync.Mutex // held to make the list longer; a leaf
}

// schemaCount is the number of entries of one schema.
type schemaCount struct {
	schema  uint64
	entries atomic.Int64
}

// Schemas are the numbers of the schemas under which the table has entries, in ascending
// order, 0 for raw bytes. Of writes under way it may miss the newest.
func (t *Table) Schemas() []uint64 {
	var list []uint64
	for _, c := range t.schemas.list() {
		if c.entries.Load() > 0 {
			list = append(list, c.schema)
		}
	}
	slices.Sort(list)
	return list
}

// replace counts an entry of one schema that takes the place of one of another.
func (l *liveSchemas) replace(old, now uint64) {
	if old != now {
		l.add(now, 1)
		l.add(old, -1)
	}
}

// add counts n more entries of a schema.
func (l *liveSchemas) add(schema uint64, n int64) { l.count(schema).entries.Add(n) }

func (l *liveSchemas) list() []*schemaCount {
	if p := l.counts.Load(); p != nil {
		return *p
	}
	return nil
}

// count returns the counter of a schema.
func (l *liveSchemas) count(schema uint64) *schemaCount {
	if c := countOf(l.list(), schema); c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list()
	if c := countOf(list, schema); c != nil {
		return c
	}
	c := &schemaCount{schema: schema}
	longer := append(slices.Clip(list), c)
	l.counts.Store(&longer)
	return c
}

func countOf(list []*schemaCount, schema uint64) *schemaCount {
	for _, c := range list {
		if c.schema == schema {
			return c
		}
	}
	return nil
}
