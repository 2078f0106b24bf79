package collection

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/span"
)

// Type is the first word of a meta.
type Type string

// The types of collections.
const (
	Hash      Type = "hash"
	List      Type = "list"
	Set       Type = "set"
	SortedSet Type = "zset"
	Stream    Type = "stream"
)

// MemberMark begins the sub-key of the one of the two elements of a member of a sorted set that has its score.
const MemberMark = 'm'

// Meta is the parsed value of a meta.
type Meta struct {
	Type Type
	ID   uint64
}

// Text returns the value as bytes. They name the key that a change has moved the meta from:
//
//	hash 2f
//	hash 2f from cart
func (m *Meta) Text(from []byte) []byte {
	text := strconv.AppendUint(append([]byte(m.Type), ' '), m.ID, 16)
	if from != nil {
		text = append(append(text, beforeFrom...), from...)
	}
	return text
}

const beforeFrom = " from "

// RenamedFrom returns the key that a meta with this value was moved from, nil for one that was made under its key, or
// has got another deadline there since.
func RenamedFrom(text []byte) []byte {
	_, from, found := bytes.Cut(text, []byte(beforeFrom))
	if !found {
		return nil
	}
	return append([]byte{}, from...)
}

// ParseMeta parses a result of Text, except for the key that the meta was moved from.
func ParseMeta(text []byte) (m Meta, err error) {
	text, _, _ = bytes.Cut(text, []byte(beforeFrom))
	name, id, _ := strings.Cut(unsafe.String(unsafe.SliceData(text), len(text)), " ")
	m.Type = typeOf(name)
	if m.ID, err = record.ParseHex(id); err == nil && m.ID == 0 {
		err = fmt.Errorf("%w: a meta with the id 0", record.ErrSyntax)
	}
	return m, err
}

// typeOf returns the type with a name, in memory of its own.
func typeOf(name string) Type {
	for _, t := range []Type{Hash, List, Set, SortedSet, Stream} {
		if string(t) == name {
			return t
		}
	}
	return Type(strings.Clone(name))
}

// Between the id and the rest of the key of an element, and of the owner.
const (
	beforeSub   = ':'
	beforeOwner = ';' // which sorts next, so that an owner follows on the elements
)

// AppendElement appends the key of an element.
func AppendElement(dst []byte, id uint64, sub []byte) []byte {
	return append(append(strconv.AppendUint(dst, id, 16), beforeSub), sub...)
}

// OwnerKey returns the key of the owner.
func OwnerKey(id uint64) []byte { return append(strconv.AppendUint(nil, id, 16), beforeOwner) }

// ParseElement splits the key of an element. The owner is none.
func ParseElement(key []byte) (id uint64, sub []byte, ok bool) {
	hex, sub, found := bytes.Cut(key, []byte{beforeSub})
	id, err := record.ParseHex(string(hex))
	return id, sub, found && err == nil
}

// ID returns the id in the key of an element, or of an owner.
func ID(key []byte) (id uint64, ok bool) {
	n := bytes.IndexAny(key, ":;")
	if n < 0 {
		return 0, false
	}
	id, err := record.ParseHex(string(key[:n]))
	return id, err == nil
}

// Elements returns the span of the elements of a collection whose sub-keys are in the given one.
func Elements(id uint64, of span.Span) span.Span {
	within := span.Span{Low: AppendElement(nil, id, nil), High: OwnerKey(id), HighOpen: true, Down: of.Down}
	if of.Low != nil {
		within.Low, within.LowOpen = AppendElement(nil, id, of.Low), of.LowOpen
	}
	if of.High != nil {
		within.High, within.HighOpen = AppendElement(nil, id, of.High), of.HighOpen
	}
	return within
}
