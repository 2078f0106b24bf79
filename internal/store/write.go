package store

import (
	"fmt"

	"github.com/copaldb/copal/internal/record"
)

// MaxKeyBytes is the length of the longest key, the map's name included.
const MaxKeyBytes = record.MaxKeyBytes

// tableOf is the table of a key that was not given with one.
func (s *Store) tableOf(key []byte) *Table { return s.spaces[0].route(record.Value, key) }

// Set stores value under key, in table t or, when t is nil, where the key belongs.
// The schema is a number from SchemaNumber, or 0 for raw bytes. On return a read of
// any kind finds the value; an error says that nothing has changed, unless it is a
// *FailedError, after which that is not known.
func (s *Store) Set(t *Table, key, value []byte, schema uint64, d Durability) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := checkValue(value); err != nil {
		return err
	}
	p := &pending{Head: record.Head{Op: record.Set, Kind: record.Value, Schema: schema}, key: key, value: value}
	_, err := s.write(t, p, d)
	return err
}

// Delete removes key, from table t or, when t is nil, where it belongs. It reports
// whether it was there. When it was not, nothing is written.
func (s *Store) Delete(t *Table, key []byte, d Durability) (existed bool, err error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	p := &pending{Head: record.Head{Op: record.Delete, Kind: record.Value}, key: key}
	return s.write(t, p, d)
}

func checkValue(value []byte) error {
	if int64(len(value)) > MaxValueBytes {
		return fmt.Errorf("%w: a value of %d bytes, the most is %d", ErrTooLarge, len(value), int64(MaxValueBytes))
	}
	return nil
}

func checkKey(key []byte) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: a key of %d bytes, the most is %d", ErrTooLarge, len(key), MaxKeyBytes)
	}
	return nil
}

// write does what is neither part of an update nor may disturb one of its own goroutine.
func (s *Store) write(t *Table, p *pending, d Durability) (existed bool, err error) {
	if err := s.updates.allow(p.key); err != nil {
		return false, err
	}
	if err := s.appendParts(p); err != nil {
		return false, err
	}
	seq, existed, err := s.commit(t, p, nil)
	if err != nil || d == Process {
		return existed, err
	}
	return existed, s.log.syncTo(seq)
}

// commit appends the record and enters it in the index, if the entry of its key is still
// the version given, a sequence number or 0 for none; nil stands for any. It returns
// the number up to which the log must be synced to make the outcome durable.
func (s *Store) commit(t *Table, p *pending, version *uint64) (seq uint64, existed bool, err error) {
	if err := s.useForWrite(); err != nil {
		return 0, false, err
	}
	defer s.life.RUnlock()
	if t == nil {
		t = s.tableOf(p.key)
	}
	hash := hashOf(p.key)
	mu := &s.keys[hash%uint64(len(s.keys))]
	mu.Lock()
	defer mu.Unlock()
	old, existed, err := t.find(hash, p.key)
	switch {
	case err != nil:
		return 0, false, err
	case version != nil && old.head.Seq != *version:
		return 0, false, errConflict
	case p.Op == record.Delete && !existed:
		return s.log.last(), false, s.log.failure()
	}
	if err := s.appendFor(t, p); err != nil {
		return 0, false, err
	}
	if p.Op == record.Delete {
		t.remove(hash, old)
	} else {
		t.place(hash, old, existed, hit{address: p.address, bytes: s.weight(&p.Head), schema: p.Schema})
	}
	return p.Seq, existed, nil
}

// appendFor appends a record to the log, and before it, once in the life of a map,
// the record that declares the map.
func (s *Store) appendFor(t *Table, p *pending) error {
	p.KeyBytes, p.ValueBytes = len(p.key), len(p.value)
	if t.name == "" || t.declared.Load() {
		return s.log.append(p)
	}
	declaration := &pending{
		Head: record.Head{Op: record.Set, Kind: record.System},
		key:  []byte(mapPrefix + t.name), value: []byte("{}"),
	}
	if err := s.log.append(declaration, p); err != nil {
		return err
	}
	t.declared.Store(true)
	return nil
}
