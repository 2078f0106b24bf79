package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// All elements of a collection have one lock (Table.hash). A writer that changes a collection has the locks of the
// key and of the elements while it is decided what is to be written. A change of one element is one record. How many
// there are, and which is first or last, the order of the elements tells (rank.go).

// Collection and CollectionType are the value of a meta, and the type in it.
type (
	Collection     = collection.Meta
	CollectionType = collection.Type
)

// The types of collections.
const (
	HashType      = collection.Hash
	ListType      = collection.List
	SetType       = collection.Set
	SortedSetType = collection.SortedSet
	StreamType    = collection.Stream
)

// MemberMark is collection.MemberMark.
const MemberMark = collection.MemberMark

// metaSchema is under what an entry counts that is a meta. No schema has this number.
const metaSchema = maxCellSchema

// collectionOf returns the collection of a record, or ErrType if its type is not the wanted one; "" allows any.
func (s *Store) collectionOf(e *seglog.Record, a seglog.Address, want CollectionType) (Collection, error) {
	if e.Kind != record.Meta {
		return Collection{}, fmt.Errorf("%w: key %q has a value, and is no %s", ErrType, e.Key, orCollection(want))
	}
	c, err := collection.ParseMeta(e.Value)
	if err != nil {
		slot, offset := seglog.SplitAddress(a)
		return c, seglog.FormatError(s.log.Segment(slot).Path, offset, err)
	}
	if want != "" && c.Type != want {
		return c, fmt.Errorf("%w: key %q is a %s, and no %s", ErrType, e.Key, c.Type, want)
	}
	return c, nil
}

func orCollection(want CollectionType) CollectionType {
	if want == "" {
		return "collection"
	}
	return want
}

// isValue returns an ErrType for the meta of a collection.
func isValue(e *seglog.Record) error {
	if e.Kind != record.Meta {
		return nil
	}
	word, _, _ := bytes.Cut(e.Value, []byte{' '})
	return &CollectionError{Key: bytes.Clone(e.Key), Type: string(word)}
}

// IsCollection reports whether an error says that what was read as a value is a collection.
func IsCollection(err error) bool {
	_, is := errors.AsType[*CollectionError](err)
	return is
}

// elements is the table of the elements, which are kept in order from now on. The caller is not inside the gate.
func (s *Store) elements() (*Table, error) {
	in, err := s.use()
	if err != nil {
		return nil, err
	}
	t := s.spaces[0].elements
	s.life.leave(in)
	if t.order.Load() == nil {
		err = s.Order(t, keycodec.BytesOrder)
	}
	return t, err
}

// ended tells the sweeper of a collection whose meta is being replaced or removed.
func (t *Table) ended(old *hit) {
	s := t.store
	if old.schema != metaSchema || old.kept || old.address == 0 {
		return
	}
	if !s.sweeper.tracking.Load() { // it is recovery
		s.sweeper.replayed.Store(true)
		return
	}
	e, err := s.readAt(old.address, nil)
	var c Collection
	if err == nil {
		c, err = s.collectionOf(&e, old.address, "")
	}
	if err != nil { // the elements stay until the store is opened anew
		s.log.ReportError("looking for what a collection leaves behind", err)
		s.sweeper.missed.Store(true)
		return
	}
	s.sweeper.add(c.ID)
}
