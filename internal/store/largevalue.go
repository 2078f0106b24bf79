package store

import (
	"fmt"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// MaxValueBytes is the length of the longest value.
const MaxValueBytes = seglog.MaxValueBytes

// appendParts writes the value of p in parts if it is large, and makes p the record that commits them.
// reserve and appendOne do so with the locks that the caller does not hold.
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

// reserve finds out whether there is room for a value before the first part of it is
// written, for parts are not taken back.
func (s *Store) reserve(bytes int64) error {
	in, err := s.useForWrite()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	return s.log.Reserve(bytes)
}

// appendPart is an operation of its own: what waits for life need not wait for the whole value.
func (s *Store) appendPart(p *seglog.Pending) error {
	in, err := s.useForWrite()
	if err != nil {
		return err
	}
	defer s.life.leave(in)
	return s.log.Append(p)
}

// Record reads the record of a value as the log has it, from table t or, when t is nil, from where the key belongs. The value of a large one is the list of its
// parts. The errors are those of Get. The caller is inside of the gate.
func (s *Store) Record(t *Table, key []byte) (e seglog.Record, err error) {
	if t == nil {
		t = s.spaces[0].route(record.Value, key)
	}
	_, err = s.logged(&e, t, key, nil)
	return e, err
}

// ReadParts puts together the value that e commits. The caller is inside of the gate.
func (s *Store) ReadParts(e seglog.Record) ([]byte, error) {
	if e.Large > uint64(seglog.MaxValueBytes) {
		return nil, fmt.Errorf("%w: a value of %d bytes, the most is %d on this platform", seglog.ErrTooLarge, e.Large, int64(seglog.MaxValueBytes))
	}
	words, size, err := s.listOf(&e)
	if err != nil {
		return nil, err
	}
	value := make([]byte, 0, e.Large)
	buf := make([]byte, size+record.MaxHeadBytes+uint64(len(e.Key))+2)
	owner := uint64(0)
	for i, word := range words {
		p, err := s.readPart(word, buf)
		if err != nil {
			return nil, err
		}
		want := min(size, e.Large-uint64(len(value)))
		if !p.IsPart(&e, i, owner) || uint64(len(p.Value)) != want {
			return nil, s.badParts(&e, "%s is not its part %d", word, i)
		}
		owner = p.Owner
		value = append(value, p.Value...)
	}
	return value, nil
}

// readPart reads the record that an item of the list names.
func (s *Store) readPart(word string, buf []byte) (seglog.Record, error) {
	id, offset, err := seglog.ParsePlace(word)
	seg := s.log.ByID(id)
	if err != nil || seg == nil {
		return seglog.Record{}, &seglog.CorruptError{File: s.log.Dir, Reason: fmt.Sprintf("there is no place %q for a part of a value", word)}
	}
	return seg.Read(offset, buf)
}
