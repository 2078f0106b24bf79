package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/seglog"
)

// Keys in no order, page by page, and counts of keys by their beginnings. Both come from the index, so even the
// first one after a start sorts nothing.
//
// A page begins where the one before has ended, by the hashes of the keys, which do not change: a key that exists
// throughout is on one page, whatever comes and goes. When a map is declared meanwhile, its keys move to another
// table. The raw table comes first, so a moved key is yielded later or, at worst, twice.

// Place is the position of a walk in no order. The zero Place is the beginning.
type Place struct {
	table string // its name, "" for the raw table
	part  int    // of the index
	at    uint64 // the order of the first entry in the part
}

// String returns a text from which PlaceOf makes the place again.
func (p Place) String() string { return fmt.Sprintf("%d %d %s", p.part, p.at, p.table) }

// PlaceOf returns the place of a text of String, and the beginning for any other text.
func PlaceOf(text string) (p Place) {
	part, rest, _ := strings.Cut(text, " ")
	at, table, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(part, 10, 16)
	m, err2 := strconv.ParseUint(at, 10, 64)
	if err != nil || err2 != nil {
		return Place{}
	}
	return Place{table, int(n), m}
}

// SomeKeys returns up to n keys from a place on, a few more if hashes are equal, and the place after them. more
// is false at the end. The keys are the caller's.
func (s *Store) SomeKeys(from Place, n int) (keys [][]byte, next Place, more bool, err error) {
	s.awaitAll()
	for tables := s.tablesByName(); len(tables) > 0; {
		t := tables[0]
		if tables = tables[1:]; t.name < from.table {
			continue
		}
		if t.name > from.table {
			from = Place{table: t.name}
		}
		if c := t.cells.Load(); c != nil {
			if err := s.flush(c).refused; err != nil {
				return keys, from, true, err
			}
		}
		for ; from.part < index.Shards; from.part, from.at = from.part+1, 0 {
			for from.at <= index.LastPlace {
				if len(keys) >= n {
					return keys, from, true, nil
				}
				if keys, from.at, err = t.someKeys(keys, from, n-len(keys)); err != nil {
					return keys, from, true, err
				}
			}
		}
		if t.name == "" {
			tables = s.tablesByName()[1:] // a map declared meanwhile has keys that were in the raw table
		}
	}
	return keys, from, false, nil
}

// tablesByName returns the tables in the order of their names, the raw one first.
func (s *Store) tablesByName() []*Table {
	tables := s.Tables()
	slices.SortFunc(tables, func(a, b *Table) int { return strings.Compare(a.name, b.name) })
	return tables
}

// someKeys appends keys of one part of the table.
func (t *Table) someKeys(keys [][]byte, from Place, n int) (_ [][]byte, next uint64, err error) {
	in, err := t.store.use()
	if err != nil {
		return keys, from.at, err
	}
	list, next, err := t.index.From(nil, from.part, from.at, n)
	pins := t.store.log.PinAll()
	t.store.life.leave(in)
	defer pins.Unpin()
	if err != nil {
		return keys, from.at, err
	}
	it := iteration{reader: reader{store: t.store, shared: true}, table: t}
	for _, a := range list {
		item, ok := it.at(a)
		switch {
		case item.Err == seglog.ErrClosed:
			return keys, from.at, item.Err
		case ok && (item.Err == nil || IsCollection(item.Err)):
			keys = append(keys, bytes.Clone(item.Key))
		}
	}
	return keys, next, nil
}

// RandomPlace returns a random place: tables with more entries are more likely.
func (s *Store) RandomPlace() Place {
	tables := s.Tables()
	entries := 0
	for _, t := range tables {
		entries += t.index.Len()
	}
	if entries == 0 {
		return Place{}
	}
	n := rand.IntN(entries)
	for _, t := range tables {
		if n -= t.index.Len(); n < 0 {
			return Place{t.name, rand.IntN(index.Shards), rand.Uint64N(index.LastPlace + 1)}
		}
	}
	return Place{}
}

// tally counts the keys of the raw table by their beginnings, once it has counted them all. Then each key that comes or
// goes is counted.
type tally struct {
	beginnings []string
	common     string         // the prefix of all of them
	n          []atomic.Int64 // by beginnings
	marks      atomic.Uint64  // keys that came or went

	counting sync.Mutex
	counted  atomic.Bool
}

// mark counts a key that comes or goes, if the table has a tally. The caller holds the lock of the key.
func (t *tally) mark(key string, gone bool) {
	if t == nil || !strings.HasPrefix(key, t.common) {
		return
	}
	t.marks.Add(1)
	t.add(key, gone)
}

func (t *tally) add(key string, gone bool) {
	for i, beginning := range t.beginnings {
		if strings.HasPrefix(key, beginning) {
			if gone {
				t.n[i].Add(-1)
			} else {
				t.n[i].Add(1)
			}
		}
	}
}

// CountUnder returns how many keys begin with each of some beginnings, which end with the colon after the name
// of a map. A store counts one such list. ok is false if keys came or went during each count.
func (s *Store) CountUnder(beginnings []string) (counts []int, ok bool, err error) {
	raw, declared, err := s.countedTables(beginnings)
	if err == ErrNotFound {
		return make([]int, len(beginnings)), true, nil
	}
	if err != nil {
		return nil, false, err
	}
	t := raw.tally.Load()
	for t == nil || !slices.Equal(t.beginnings, beginnings) {
		fresh := &tally{beginnings: slices.Clone(beginnings), common: beginnings[0], n: make([]atomic.Int64, len(beginnings))}
		for _, b := range beginnings {
			for !strings.HasPrefix(b, fresh.common) {
				fresh.common = fresh.common[:len(fresh.common)-1]
			}
		}
		raw.tally.CompareAndSwap(t, fresh)
		t = raw.tally.Load()
	}
	if ok, err = s.countRaw(raw, t); !ok {
		return nil, false, err
	}
	counts = make([]int, len(beginnings))
	for i := range counts {
		counts[i] = int(max(t.n[i].Load(), 0))
		if m := declared[i]; m != nil {
			counts[i] += m.Len()
		}
	}
	return counts, true, nil
}

// countedTables returns the raw table, and those of the maps declared under the beginnings.
func (s *Store) countedTables(beginnings []string) (raw *Table, declared []*Table, err error) {
	declared = make([]*Table, len(beginnings))
	err = s.Inside(func() error {
		sp := s.spaces[0]
		if sp == nil { // in a reader of an empty store
			return ErrNotFound
		}
		raw = sp.raw
		for i, b := range beginnings {
			declared[i] = sp.maps[strings.TrimSuffix(b, ":")]
		}
		return nil
	})
	if err == nil {
		raw.Len() // removes expired entries
	}
	return raw, declared, err
}

// mostCounts is the number of counts of all keys before CountUnder gives up.
const mostCounts = 3

// countRaw counts all keys of the raw table, unless they are counted. It begins again when one comes or
// goes meanwhile.
func (s *Store) countRaw(raw *Table, t *tally) (ok bool, err error) {
	t.counting.Lock()
	defer t.counting.Unlock()
	for range mostCounts {
		if t.counted.Load() {
			return true, nil
		}
		marks := t.marks.Load()
		s.PassKeys() // from here on the index has all marked changes
		own := tally{beginnings: t.beginnings, n: make([]atomic.Int64, len(t.n))}
		for n := range index.Shards {
			if err := raw.eachKey(n, func(key []byte, _ hit, err error) error {
				if err == nil && bytes.HasPrefix(key, []byte(t.common)) {
					own.add(string(key), false)
				}
				return nil
			}); err != nil {
				return false, err
			}
		}
		for i := range t.n {
			own.n[i].Add(-t.n[i].Load())
		}
		if t.marks.Load() != marks {
			continue
		}
		for i := range t.n {
			t.n[i].Add(own.n[i].Load())
		}
		t.counted.Store(true)
	}
	return t.counted.Load(), nil
}
