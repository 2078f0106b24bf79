package store

import (
	"bytes"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Reading records where they stand: in the mapped file, without copying them first.
//
// It is for records that the file has, which are nearly all. What is in the ring alone, where the next lap
// may come over it, what recovery found there, and what is very long goes the other way, and so does
// whatever does not verify, which is told there. So inPlace is never wrong, and says no whenever it is not sure.
//
// A mapped page may turn out to be unreadable when it is touched. Whoever calls inPlace, or touches what it has found, has
// deferred vfs.Caught; and is inside the gate, or has the segment pinned, for as long.
//
// A short record is verified each time. For a long one, to compute the checksum takes longer than everything else, so
// it is trusted for a minute after it was verified.

// verify is record.Salt.Verify for the mapped record b at offset.
func (s *segment) verify(e *seglog.Record, b []byte, offset int64, head int, c clock.Clock) (err error) {
	if len(b) <= trustPage {
		e.Key, e.Value, err = s.salt.Verify(b, offset, &e.Head, head)
		return err
	}
	word, bit := s.trusting().bit(offset, c.Now().UnixMilli())
	if word.Load()&bit != 0 {
		e.Key, e.Value, err = record.Split(b, &e.Head, head)
		return err
	}
	if e.Key, e.Value, err = s.salt.Verify(b, offset, &e.Head, head); err == nil {
		word.Or(bit)
	}
	return err
}

// inPlace reads and verifies the record at offset. The entry aliases the mapped file.
func (s *segment) inPlace(e *seglog.Record, offset int64, c clock.Clock) bool {
	if s == nil {
		return false
	}
	end := s.mappedEnd()
	if offset >= end {
		return false
	}
	head, err := e.Head.Parse(s.mapped[offset:min(end, offset+record.MaxHeadBytes)])
	if err != nil {
		return false
	}
	total := e.Length(head)
	if int64(total) > min(end-offset, longRead) {
		return false
	}
	b := s.mapped[offset : offset+int64(total) : offset+int64(total)]
	if err := s.verify(e, b, offset, head, c); err != nil {
		return false
	}
	e.Bytes, e.Written = total, s.start+e.Time
	return true
}

// sameKey parses the head of a record in place, unverified, and returns the length of the record if it has that key, else 0, also when the
// record cannot be read in place. The caller is inside the gate, or has the address from the index and holds the lock of its key:
// compaction takes that before it gives up the segment.
func (s *segment) sameKey(h *record.Head, offset int64, key []byte) (total int) {
	if s == nil {
		return 0
	}
	end := s.mappedEnd()
	if offset >= end {
		return 0
	}
	var err error
	defer vfs.Caught(vfs.Catch(), s.mapped, &err) // then the total is 0
	b := s.mapped[offset:min(end, offset+record.MaxHeadBytes+int64(len(key)))]
	head, err := h.Parse(b)
	if err != nil || h.KeyBytes != len(key) || head+len(key) > len(b) || string(b[head:head+len(key)]) != string(key) {
		return 0
	}
	return h.Length(head)
}

// copyInPlace is inPlace for a caller who wants the value for himself, and not the key.
func (s *segment) copyInPlace(e *seglog.Record, offset int64, c clock.Clock) (ok bool) {
	var err error
	defer vfs.Caught(vfs.Catch(), nil, &err)
	if !s.inPlace(e, offset, c) || e.Large > 0 { // its parts are held to the key
		return false
	}
	e.Key, e.Value = nil, append(make([]byte, 0, len(e.Value)), e.Value...)
	return true
}

// mappedEnd is up to where the file has what was appended.
func (s *segment) mappedEnd() int64 {
	if s.mapped == nil || s.overlay.Load() != nil {
		return 0
	}
	end := s.readable()
	if s.ring.Load() != nil {
		end = min(end, s.drained.Load())
	}
	return min(end, s.viewed)
}

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
		if !t.store.log.segment(slot).inPlace(e, offset, t.store.opts.Clock) {
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
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
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
		defer seg.unpin()
		return seg.lend(&e, fn)
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
func (s *Store) pinInPlace(e *seglog.Record, key []byte) (seg *segment, err error) {
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
	if seg = s.log.segment(slot); !seg.pin() {
		return nil, nil
	}
	return seg, nil
}

// lend calls fn with the entry in place. Where the file cannot be read any more, fn ends there, and the error says so.
func (s *segment) lend(e *seglog.Record, fn func(value []byte, schema uint64) error) (err error) {
	defer vfs.Caught(vfs.Catch(), s.mapped, &err)
	return fn(e.Value, e.Schema)
}
