package store

import (
	"bytes"
	"iter"
	"time"

	"github.com/copaldb/copal/internal/index"
)

// Entry is a value as it is stored. The bytes belong to whoever asked for them.
type Entry struct {
	Value  []byte
	Schema uint64 // 0: raw bytes
	Seq    uint64
	Time   time.Time // when it was written
}

// Get returns the entry of key, from table t or, when t is nil, from where the key
// belongs. The bytes are the caller's. The error is ErrNotFound when there is none.
func (s *Store) Get(t *Table, key []byte) (Entry, error) {
	if err := s.use(); err != nil {
		return Entry{}, err
	}
	defer s.life.RUnlock()
	if t == nil {
		t = s.tableOf(key)
	}
	return s.get(t, key)
}

func (s *Store) get(t *Table, key []byte) (Entry, error) {
	h, ok, err := t.find(hashOf(key), key)
	if err != nil {
		return Entry{}, err
	}
	if !ok {
		return Entry{}, ErrNotFound
	}
	e, err := s.readAt(h.address)
	if err != nil {
		return Entry{}, err
	}
	return s.entryOf(e)
}

// readAt reads the record at a into memory of its own.
func (s *Store) readAt(a Address) (entry, error) {
	slot, offset := split(a)
	return s.log.segment(slot).read(offset, nil)
}

// entryOf is what users see of a record: the parts of a large value are put together.
func (s *Store) entryOf(e entry) (Entry, error) {
	value := e.value
	if e.Large > 0 {
		var err error
		if value, err = s.readParts(e); err != nil {
			return Entry{}, err
		}
	}
	return Entry{Value: value, Schema: e.Schema, Seq: e.Seq, Time: time.UnixMilli(int64(e.time))}, nil
}

// Has reports whether key has an entry.
func (s *Store) Has(t *Table, key []byte) (bool, error) {
	if err := s.use(); err != nil {
		return false, err
	}
	defer s.life.RUnlock()
	if t == nil {
		t = s.tableOf(key)
	}
	_, ok, err := t.find(hashOf(key), key)
	return ok, err
}

// Tables are those of all entries that users gave: the raw one and one per map.
func (s *Store) Tables() []*Table {
	s.life.RLock()
	defer s.life.RUnlock()
	if sp := s.spaces[0]; sp != nil {
		return sp.tables()
	}
	return nil
}

// Name is the escaped name of the map, "" for the raw table.
func (t *Table) Name() string { return t.name }

// Item is what an iteration comes by: an entry, or an error that concerns one entry
// or is ErrClosed.
type Item struct {
	Key []byte
	Entry
	Err error
}

// Items yields each entry of the table, in no order. One that stays throughout is
// yielded exactly once, with the value that it has then; key and value are the
// caller's. After an error iteration goes on, if the caller does, but for ErrClosed.
func (s *Store) Items(t *Table) iter.Seq[Item] {
	return s.iterate(t, func(e entry) (Entry, error) { return s.entryOf(e) })
}

// Keys is Items without the values. A key that is kept keeps no value in memory.
func (s *Store) Keys(t *Table) iter.Seq[Item] {
	return s.iterate(t, func(e entry) (Entry, error) { return Entry{Schema: e.Schema, Seq: e.Seq}, nil })
}

func (s *Store) iterate(t *Table, value func(entry) (Entry, error)) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		var buf []Address
		for n := range index.Shards {
			if err := s.use(); err != nil { // a closed store has empty tables
				yield(Item{Err: err})
				return
			}
			buf = t.index.Shard(buf[:0], n)
			s.life.RUnlock()
			for _, a := range buf {
				item, ok := s.itemAt(t, a, value)
				if ok && !yield(item) || item.Err == ErrClosed {
					return
				}
			}
		}
	}
}

// Generation changes when a table is added, into which entries of the raw one may have
// moved: who iterates over all tables, and finds it changed, must begin again.
func (s *Store) Generation() int {
	s.life.RLock()
	defer s.life.RUnlock()
	return len(s.spaces[0].maps)
}

// itemAt reads the entry that an iteration found at a. When another record has taken
// its place meanwhile it reads that one; ok is false when the entry is gone.
func (s *Store) itemAt(t *Table, a Address, value func(entry) (Entry, error)) (item Item, ok bool) {
	if err := s.use(); err != nil {
		return Item{Err: err}, true
	}
	defer s.life.RUnlock()
	e, err := s.readAt(a)
	if err != nil {
		return Item{Err: err}, true
	}
	h, found, err := t.find(hashOf(e.key), e.key)
	if err == nil && found && h.address != a {
		e, err = s.readAt(h.address)
	}
	if err != nil || !found {
		return Item{Err: err}, err != nil
	}
	item.Key = bytes.Clone(e.key)
	item.Entry, item.Err = value(e)
	return item, true
}
