package engine

import (
	"bytes"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// readInPlace is read for a record that can be read in place; ok is false when it is not, or there is none.
func (t *Table) readInPlace(e *seglog.Record, hash uint64, key []byte) (at seglog.Address, ok bool, err error) {
	t.store.await(hash)
	var stack [4]seglog.Address
	list, err := t.index.Find(stack[:0], hash)
	if err != nil {
		return 0, false, err
	}
	for _, a := range list {
		slot, offset := seglog.SplitAddress(a)
		if !t.store.log.Segment(slot).InPlace(e, offset, t.store.opts.Clock) {
			return 0, false, nil
		}
		if bytes.Equal(e.Key, key) {
			if t.store.Expired(e.Expiry) { // whatever it was
				return a, e.Large == 0, nil
			}
			return a, e.Large == 0, isValue(e)
		}
	}
	return 0, false, nil
}

// appendInPlace appends to dst the value of an entry that can be read in place.
func (s *Store) appendInPlace(dst []byte, t *Table, hash uint64, key []byte) (out []byte, schema uint64, ok bool, err error) {
	defer vfs.Caught(vfs.Catch(), nil, &err)
	var e seglog.Record
	if _, ok, err = t.readInPlace(&e, hash, key); !ok || err != nil {
		return dst, 0, false, err
	}
	if s.Expired(e.Expiry) { // unless it has got another deadline since its record was read
		return dst, 0, false, nil
	}
	return append(dst, e.Value...), e.Schema, true, nil
}

// readShort is read for a record that can be read in place and whose value fits into buf, where it puts that alone. ok is false when it does
// not, or there is none.
func (t *Table) readShort(e *seglog.Record, hash uint64, key, buf []byte) (at seglog.Address, ok bool, err error) {
	defer vfs.Caught(vfs.Catch(), nil, &err)
	if at, ok, err = t.readInPlace(e, hash, key); !ok || err != nil || len(e.Value) > len(buf) {
		return 0, false, err
	}
	e.Key, e.Value = nil, buf[:copy(buf, e.Value)]
	return at, true, nil
}

// AppendGet appends to dst the value of key's entry, and returns it with its schema. Otherwise it is Get.
func (s *Store) AppendGet(dst []byte, key []byte) (out []byte, schema uint64, err error) {
	in, err := s.use()
	if err != nil {
		return dst, 0, err
	}
	defer s.life.leave(in)
	t := s.spaces[0].route(record.Value, key)
	if t.cells.Load() == nil {
		if out, schema, ok, err := s.appendInPlace(dst, t, t.hash(key), key); ok || err != nil {
			return out, schema, err
		}
	}
	return s.appendCopy(dst, t, key)
}

// appendCopy is AppendGet for what cannot be read in place, or is known by a cell.
func (s *Store) appendCopy(dst []byte, t *Table, key []byte) ([]byte, uint64, error) {
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	var e seglog.Record
	a, err := s.logged(&e, t, key, *buf)
	if err != nil {
		found, err := s.unwritten(t, key, err)
		return append(dst, found.Value...), found.Schema, err
	}
	if e.Large == 0 {
		if dst == nil && len(e.Value) > len(*buf) { // it stands in memory of its own
			return e.Value, e.Schema, nil
		}
		return append(dst, e.Value...), e.Schema, nil
	}
	found, err := s.entryOf(&e, a)
	if dst == nil {
		return found.Value, found.Schema, err
	}
	return append(dst, found.Value...), found.Schema, err
}

// ViewValue calls fn with the value of key's entry and its schema, in place where that is possible. The bytes are fn's until it
// returns. It runs without a lock, and its error is returned.
func (s *Store) ViewValue(key []byte, fn func(value []byte, schema uint64) error) error {
	var e seglog.Record
	seg, err := s.pinInPlace(&e, key)
	if err != nil {
		return err
	}
	if seg != nil {
		defer seg.Unpin()
		return seg.Lend(&e, fn)
	}
	buf := arenas.Get().(*[]byte)
	defer giveArena(buf)
	value, schema, err := s.AppendGet((*buf)[:0], key)
	if *buf = value; err != nil {
		return err
	}
	return fn(value, schema)
}

// giveArena is for when it was used, unless it has become large.
func giveArena(arena *[]byte) {
	if cap(*arena) <= 2*flushBytes {
		arenas.Put(arena)
	}
}

// pinInPlace reads an entry in place, in a segment that stays until unpin. The segment is nil when the entry can only be copied.
func (s *Store) pinInPlace(e *seglog.Record, key []byte) (seg *seglog.Segment, err error) {
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.life.leave(in)
	defer vfs.Caught(vfs.Catch(), nil, &err)
	t := s.spaces[0].route(record.Value, key)
	if t.cells.Load() != nil {
		return nil, nil
	}
	a, ok, err := t.readInPlace(e, t.hash(key), key)
	if err != nil || !ok {
		return nil, err
	}
	if s.Expired(e.Expiry) { // unless it has got another deadline since its record was read
		return nil, nil
	}
	slot, _ := seglog.SplitAddress(a)
	if seg = s.log.Segment(slot); !seg.Pin() {
		return nil, nil
	}
	return seg, nil
}
