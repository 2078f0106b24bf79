package engine

import (
	"errors"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// MaxValueBytes is the length of the longest value.
const MaxValueBytes = seglog.MaxValueBytes

// appendParts writes the value of p in parts if it is large, and makes p the record that commits
// them. reserve and appendOne do so with the locks that the caller does not hold.
func (s *Store) appendParts(p *seglog.Pending, reserve func(bytes int64) error, appendOne func(*seglog.Pending) error) error {
	if len(p.Value) <= seglog.PartBytes {
		return nil
	}
	if err := reserve(int64(len(p.Value))); err != nil {
		return err
	}
	list := []byte(record.Hex(seglog.PartBytes))
	value := p.Value
	part := seglog.Pending{Head: record.Head{Op: record.Part, Kind: p.Kind, Space: p.Space, Schema: p.Schema}, Key: p.Key}
	for index := uint64(0); len(value) > 0; index++ {
		n := min(seglog.PartBytes, len(value))
		part.Index, part.Value = index, value[:n]
		if err := appendOne(&part); err != nil {
			return err
		}
		value = value[n:]
		list = part.AppendPlace(list)
	}
	p.Large = uint64(len(p.Value))
	p.Value = list
	return nil
}

// reserve checks that there is room for a value before its first part is written, as parts are not
// taken back.
func (s *Store) reserve(bytes int64) error {
	in, err := s.useForWrite()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	return s.log.Reserve(bytes)
}

// appendPart is an operation of its own: a waiter for life need not wait for the whole value.
func (s *Store) appendPart(p *seglog.Pending) error {
	in, err := s.useForWrite()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	return s.log.Append(p)
}

// CheckKey returns ErrTooLarge for a key that no record can have.
func CheckKey(key []byte) error { return (&Write{Key: key}).check() }

// AppendPart writes a part of a value that comes piece by piece, between the records of others. It
// waits when writes are slowed down. The caller holds no lock.
func (s *Store) AppendPart(p *seglog.Pending) error {
	s.pace()
	return s.appendPart(p)
}

// EndParts ends the writing of parts. err is nil when a record lists them, or else the reason why
// none ever will: their space is given back, at once when the disk is full. The caller holds no
// lock.
func (s *Store) EndParts(under *seglog.Parts, err error) {
	s.log.EndParts(under)
	switch {
	case errors.Is(err, seglog.ErrNoSpace):
		s.compaction.GiveBack(under.From)
	case err != nil:
		s.compaction.Wake()
	}
}

// Record reads the record of a value in the log. For a large value it has the list of the parts.
// The errors are those of Get. The caller is inside the gate.
func (s *Store) Record(key []byte) (seglog.Record, error) {
	r := s.asLogged()
	return r.value(key)
}

// ElementRecord is Record for an element, or an owner, by its own key.
func (s *Store) ElementRecord(key []byte) (seglog.Record, error) {
	r, t := s.asLogged(), s.spaces[0].route(record.Element, key)
	var e seglog.Record
	var f sight
	err := r.record(&e, &f, t, t.hash(key), key, nil)
	return e, err
}

// Record is Store.Record of the view. The caller is inside (View.Inside).
func (v *View) Record(key []byte) (seglog.Record, error) {
	r := v.asItWas()
	return r.value(key)
}

// Owner returns s, as the store of a stream's reader.
func (s *Store) Owner() *Store { return s }

// Owner returns the store of the view, or of its moment.
func (v *View) Owner() *Store { return v.store }

// Inside is Store.Inside for a read of the view. f is not called when the view is closed or lost.
func (v *View) Inside(f func() error) error {
	in, err := v.use()
	if err != nil {
		return err
	}
	defer v.store.life.leave(in)
	return f()
}

// copyParts calls put, which appends, with each part of a value, and returns the list of the copies.
func (s *Store) copyParts(e *seglog.Record, put func(*seglog.Pending) error) ([]byte, error) {
	words, piece, err := s.log.PartList(e)
	if err != nil {
		return nil, err
	}
	list := []byte(record.Hex(piece))
	buf := make([]byte, piece+record.MaxHeadBytes+uint64(len(e.Key))+2)
	p := seglog.Pending{Head: record.Head{Op: record.Part, Kind: e.Kind, Space: e.Space, Schema: e.Schema}, Key: e.Key}
	for i, word := range words {
		old, err := seglog.ReadPart(s.log, word, buf)
		if err != nil {
			return nil, err
		}
		if !old.IsPart(e, i, 0) {
			return nil, s.log.BadParts(e, "%s is not its part %d", word, i)
		}
		p.Index, p.Value = uint64(i), old.Value
		p.KeyBytes, p.ValueBytes = len(p.Key), len(p.Value)
		if err := put(&p); err != nil {
			return nil, err
		}
		list = p.AppendPlace(list)
		partCopied()
	}
	return list, nil
}

// partCopied is called when a part of a large value has been written anew. It is a variable for tests.
var partCopied = func() {}
