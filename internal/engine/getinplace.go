package engine

import (
	"bytes"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// readInPlace is read for a record that can be read in place; ok is false when it is not, or there is none. The
// caller has found no cell of the key.
func (t *Table) readInPlace(e *seglog.Record, hash uint64, key []byte) (at seglog.Address, ok bool, err error) {
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
			return a, e.Large == 0, nil
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
	if err = isValue(&e); err != nil {
		return dst, 0, false, err
	}
	return append(dst, e.Value...), e.Schema, true, nil
}

// AppendGet appends to dst the value of key's entry, and returns it with its schema. Otherwise it is Get. Unless
// takes is nil, it is called before a large value is joined, and its error is returned.
func (s *Store) AppendGet(dst, key []byte, takes Takes) (out []byte, schema uint64, err error) {
	in, err := s.use()
	if err != nil {
		return dst, 0, err
	}
	defer s.life.leave(in)
	t := s.spaces[0].route(record.Value, key)
	hash, r := t.hash(key), s.asLogged()
	r.takes = takes
	if r.cellOf(t, hash, key) == nil {
		if out, schema, ok, err := s.appendInPlace(dst, t, hash, key); ok || err != nil {
			return out, schema, err
		}
	}
	return r.appendCopy(dst, t, hash, key)
}

// appendCopy is AppendGet for an entry that cannot be read in place, or has a cell.
func (r *reader) appendCopy(dst []byte, t *Table, hash uint64, key []byte) ([]byte, uint64, error) {
	buf := seglog.Scratch.Get().(*[]byte)
	defer seglog.Scratch.Put(buf)
	var e seglog.Record
	var f sight
	var found Entry
	err := r.record(&e, &f, t, hash, key, *buf)
	if err == nil {
		err = r.entryTo(&found, &e, &f)
	}
	switch {
	case err != nil:
		return dst, 0, err
	case dst == nil && f.encoded == nil && (e.Large > 0 || len(e.Value) > len(*buf)): // it is in memory of its own
		return found.Value, found.Schema, nil
	}
	return append(dst, found.Value...), found.Schema, nil
}

// ViewValue calls fn with the value of key's entry and its schema, in place where that is possible. The bytes
// are fn's until it returns. It runs without a lock, and its error is returned. takes is as of AppendGet.
func (s *Store) ViewValue(key []byte, takes Takes, fn func(value []byte, schema uint64) error) error {
	var e seglog.Record
	seg, err := s.pinInPlace(&e, key)
	if err != nil {
		return err
	}
	if seg != nil {
		defer seg.Unpin()
		return seg.Lend(func() error { return fn(e.Value, e.Schema) })
	}
	buf := arenas.Get().(*[]byte)
	defer giveArena(buf)
	value, schema, err := s.AppendGet((*buf)[:0], key, takes)
	if *buf = value; err != nil {
		return err
	}
	return fn(value, schema)
}

// ViewRecord calls fn with the record of key's entry, in place where that is possible. The bytes are fn's until it
// returns, and it runs without a lock. For a large value the record has the list of the parts. The errors are those
// of Get, and of fn.
func (s *Store) ViewRecord(key []byte, fn func(e *seglog.Record) error) error {
	e := new(seglog.Record)
	seg, err := s.pinInPlace(e, key)
	if err != nil {
		return err
	}
	if seg != nil {
		defer seg.Unpin()
		return seg.Lend(func() error { return fn(e) })
	}
	err = s.Inside(func() (err error) {
		*e, err = s.Record(key)
		return err
	})
	if err != nil {
		return err
	}
	return fn(e)
}

// giveArena returns an arena to the pool, unless it has become large.
func giveArena(arena *[]byte) {
	if cap(*arena) <= 2*flushBytes {
		arenas.Put(arena)
	}
}

// pinInPlace reads an entry in place, in a segment that stays until unpin. The segment is nil when the entry
// can only be copied.
func (s *Store) pinInPlace(e *seglog.Record, key []byte) (seg *seglog.Segment, err error) {
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	defer s.life.leave(in)
	defer vfs.Caught(vfs.Catch(), nil, &err)
	t := s.spaces[0].route(record.Value, key)
	hash, r := t.hash(key), s.asLogged()
	if r.cellOf(t, hash, key) != nil {
		return nil, nil
	}
	a, ok, err := t.readInPlace(e, hash, key)
	if err != nil || !ok {
		return nil, err
	}
	if s.Expired(e.Expiry) { // unless it has got another deadline since its record was read
		return nil, nil
	}
	if err := isValue(e); err != nil {
		return nil, err
	}
	slot, _ := seglog.SplitAddress(a)
	if seg = s.log.Segment(slot); !seg.Pin() {
		return nil, nil
	}
	return seg, nil
}
