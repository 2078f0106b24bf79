package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A collection is a key that holds many elements: the key has one record, the meta, and each element has one of
// its own.
//
//   - The meta stands under the user's key, in the table of its values, so a key has a value or a collection.
//     Its text has the type and the id: "hash 2f". What the index and the cells count as the schema of an entry
//     is, for a meta, metaSchema.
//   - An element has the key "<id>:<sub-key>". All elements of a key space are one table, in the order of the
//     bytes, and those of a collection are a range of it.
//   - One more element, "<id>;", has the user's key as its value: the owner. By that it is known of an element
//     whether there is a collection that it belongs to.
//   - The id is a number that the log has not come to when the collection is made, one collection after the
//     other. So it is never given twice.
//
// The meta is written when the collection is made, renamed or given another deadline, and by no change of
// elements: a change of one element is one record. How many there are, and which is first or last, the order of
// the elements tells (rank.go). A collection without elements is none: the change that takes the last one out
// deletes the meta.
//
// To delete the whole is to delete the meta: nothing leads to the elements any more, and the sweeper takes them
// out of the index, after which they are dead like any other record. To rename it is to move the meta, and its
// deadline is the meta's.
//
// All elements of a collection have one lock (Table.hash). A writer that changes a collection has the locks of the
// key and of the elements while it is decided what is to be written.

// CollectionType is the first word of a meta.
type CollectionType string

// The types of collections.
const (
	HashType      CollectionType = "hash"
	ListType      CollectionType = "list"
	SetType       CollectionType = "set"
	SortedSetType CollectionType = "zset"
	StreamType    CollectionType = "stream"
)

// MemberMark begins the sub-key of the one of the two elements of a member of a sorted set that has its score.
const MemberMark = 'm'

// metaSchema is under what an entry counts that is a meta. No schema has this number.
const metaSchema = maxCellSchema

// Collection is what a meta says.
type Collection struct {
	Type CollectionType
	ID   uint64
}

// text is the value of the meta, which names the key that a change has moved it from:
//
//	hash 2f
//	hash 2f from cart
func (c *Collection) text(from []byte) []byte {
	text := strconv.AppendUint(append([]byte(c.Type), ' '), c.ID, 16)
	if from != nil {
		text = append(append(text, beforeFrom...), from...)
	}
	return text
}

const beforeFrom = " from "

// RenamedFrom is the key that a meta with this value was moved from, nil for one that was made under its key, or has
// got another deadline there since.
func RenamedFrom(text []byte) []byte {
	_, from, found := bytes.Cut(text, []byte(beforeFrom))
	if !found {
		return nil
	}
	return append([]byte{}, from...)
}

// ParseCollection reads what text writes, but for the key that it was moved from.
func ParseCollection(text []byte) (c Collection, err error) {
	text, _, _ = bytes.Cut(text, []byte(beforeFrom))
	name, id, _ := strings.Cut(view(text), " ")
	c.Type = typeOf(name)
	if c.ID, err = record.ParseHex(id); err == nil && c.ID == 0 {
		err = fmt.Errorf("%w: a meta with the id 0", record.ErrSyntax)
	}
	return c, err
}

// typeOf is a type by its name, in memory of its own.
func typeOf(name string) CollectionType {
	for _, t := range []CollectionType{HashType, ListType, SetType, SortedSetType, StreamType} {
		if string(t) == name {
			return t
		}
	}
	return CollectionType(strings.Clone(name))
}

// collectionOf is the collection of which this is the record. One of another type than wanted is an ErrType; ""
// wants any.
func (s *Store) collectionOf(e *seglog.Record, a seglog.Address, want CollectionType) (Collection, error) {
	if e.Kind != record.Meta {
		return Collection{}, fmt.Errorf("%w: key %q has a value, and is no %s", ErrType, e.Key, orCollection(want))
	}
	c, err := ParseCollection(e.Value)
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

// Between the id and what follows in the key of an element, and of the owner.
const (
	beforeSub   = ':'
	beforeOwner = ';' // which sorts next, so that an owner follows on the elements
)

// appendElement appends the key of an element.
func appendElement(dst []byte, id uint64, sub []byte) []byte {
	return append(append(strconv.AppendUint(dst, id, 16), beforeSub), sub...)
}

// ownerKey is the key of the element that says whose they are.
func ownerKey(id uint64) []byte { return append(strconv.AppendUint(nil, id, 16), beforeOwner) }

// ParseElement takes the key of an element apart. The owner is none.
func ParseElement(key []byte) (id uint64, sub []byte, ok bool) {
	hex, sub, found := bytes.Cut(key, []byte{beforeSub})
	id, err := record.ParseHex(string(hex))
	return id, sub, found && err == nil
}

// CollectionID is the id in the key of an element, or of an owner.
func CollectionID(key []byte) (id uint64, ok bool) {
	n := bytes.IndexAny(key, ":;")
	if n < 0 {
		return 0, false
	}
	id, err := record.ParseHex(string(key[:n]))
	return id, err == nil
}

// elementSpan is the span, in the table of the elements, of those of a collection whose sub-keys are in the
// given one.
func elementSpan(id uint64, of Span) Span {
	within := Span{Low: appendElement(nil, id, nil), High: ownerKey(id), HighOpen: true, Down: of.Down}
	if of.Low != nil {
		within.Low, within.LowOpen = appendElement(nil, id, of.Low), of.LowOpen
	}
	if of.High != nil {
		within.High, within.HighOpen = appendElement(nil, id, of.High), of.HighOpen
	}
	return within
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
