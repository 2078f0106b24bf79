package record

import (
	"errors"
	"slices"
)

// Op is the operation of a record.
type Op byte

const (
	Set    Op = 'S' // the key has this value
	Delete Op = 'D' // the key has no value
	Part   Op = 'P' // a piece of a large value; counts only once a Set names it
	Commit Op = 'C' // makes the members of its group count
	Range  Op = 'R' // every older record whose key is in the range is deleted
	Expire Op = 'E' // the key has no value any more, for its deadline has passed
)

// Kind is the kind of thing that a record's key names.
type Kind byte

const (
	Value   Kind = 'v' // an entry of a map, or a raw key
	Meta    Kind = 'm' // the head of a collection
	Element Kind = 'e' // an element of a collection, keyed by collection id and sub-key
	Schema  Kind = 't' // the description of a type
	System  Kind = 's' // the store's own
)

// Limits of the format. A length beyond them is damage.
const (
	MaxKeyBytes    = 64 << 10 // keys
	MaxInlineBytes = 16 << 20 // the value bytes of one record; larger values are kept in parts
	MaxHeadBytes   = 512      // everything up to the space before the key
	maxTextAttr    = 128
)

// MaxBytes is the length of the longest record.
const MaxBytes = MaxHeadBytes + MaxKeyBytes + 1 + MaxInlineBytes + 1

// Errors of Parse and Verify.
var (
	// ErrShort: the bytes given may be the beginning of a record, and end too early to decide.
	ErrShort = errors.New("the record is incomplete")
	// ErrSyntax: the bytes are not a record.
	ErrSyntax = errors.New("not a record")
	// ErrChecksum: it has the form of a record, and its checksum does not match.
	ErrChecksum = errors.New("the checksum does not match")
	// ErrNewer: a whole record, with something that only a newer version understands.
	ErrNewer = errors.New("the record needs a newer version")
)

// Head is all of a record but its key and value. The zero value of an attribute
// means that it is absent.
type Head struct {
	Op     Op
	Kind   Kind
	Space  uint64 // number of the key space
	Schema uint64
	Seq    uint64
	Time   uint64 // milliseconds since the start of the segment

	Group  uint64 // G: the record counts when the Commit of this group is in the log
	Index  uint64 // I: number of a Part within its value, from 0
	Large  uint64 // L: length of a value kept in parts; the record's own value is the list of them
	Owner  uint64 // V: on a Part, the sequence number of the first part of the same value
	Expiry uint64 // X: Unix milliseconds from which on the entry is gone
	Type   string // t: content type, printable ASCII without spaces

	Other string // further attributes that readers may skip, unparsed, each preceded by a space

	KeyBytes   int
	ValueBytes int
}

// Append appends to dst the record for offset in a segment of this salt. It sets the lengths from
// key and value; both must be within the limits, and the head well-formed: it panics otherwise,
// because callers check their arguments. The capacity of dst beyond its length may be overwritten.
func (s Salt) Append(dst []byte, offset int64, h *Head, key, value []byte) []byte {
	if len(key) > MaxKeyBytes || len(value) > MaxInlineBytes || len(h.Type) > maxTextAttr {
		panic("record: a length beyond the format's limits")
	}
	start := len(dst)
	dst = slices.Grow(dst, maxNumbers+len(h.Type)+len(h.Other)+len(key)+len(value))
	dst = append(dst, "00000000 "...)
	dst = append(dst, byte(h.Op), byte(h.Kind))
	dst = appendField(dst, h.Space)
	dst = appendField(dst, h.Schema)
	dst = appendField(dst, h.Seq)
	dst = appendField(dst, h.Time)
	if h.hasAttributes() {
		dst = h.appendAttributes(dst)
	}
	dst = appendField(dst, uint64(len(key)))
	dst = appendField(dst, uint64(len(value)))
	dst = append(dst, ' ')
	dst = append(dst, key...)
	dst = append(dst, ' ')
	dst = append(dst, value...)
	dst = append(dst, '\n')
	s.seal(dst[start:], offset)
	return dst
}

// maxNumbers bounds the length of a record without its texts: the checksum, operation and kind, six
// numbers, five attributes, the tag of a type, the separators around the key, and the room that the
// last number takes while it is written.
const maxNumbers = 8 + 3 + 6*(1+maxHex) + 5*(2+maxHex) + 2 + 3 + maxHex

// IsEntry reports whether a record sets an entry: a value, the head of a collection, or an element.
func (h *Head) IsEntry() bool { return h.Op == Set && h.Kind != Schema && h.Kind != System }

// IsDeletion reports whether a record says of one key that it has no entry any more.
func (h *Head) IsDeletion() bool { return h.Op == Delete || h.Op == Expire }

// hasAttributes reports whether there are any; most records have none.
func (h *Head) hasAttributes() bool {
	return h.Op == Part || h.Group|h.Large|h.Expiry != 0 || h.Type != "" || h.Other != ""
}

// appendAttributes writes the attributes in the order of their tags.
func (h *Head) appendAttributes(dst []byte) []byte {
	dst = appendAttribute(dst, 'G', h.Group)
	if h.Op == Part {
		dst = appendHex(append(dst, ' ', 'I'), h.Index)
	}
	dst = appendAttribute(dst, 'L', h.Large)
	if h.Op == Part {
		dst = appendHex(append(dst, ' ', 'V'), h.Owner)
	}
	dst = appendAttribute(dst, 'X', h.Expiry)
	before := h.otherBefore('t')
	dst = append(dst, h.Other[:before]...)
	if h.Type != "" {
		dst = append(append(dst, ' ', 't'), h.Type...)
	}
	return append(dst, h.Other[before:]...)
}

// otherBefore is the length of those attributes in Other whose tags sort before tag.
func (h *Head) otherBefore(tag byte) int {
	for i := 0; i+1 < len(h.Other); i++ {
		if h.Other[i] == ' ' && h.Other[i+1] > tag {
			return i
		}
	}
	return len(h.Other)
}

func appendAttribute(dst []byte, tag byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendHex(append(dst, ' ', tag), v)
}

func appendField(dst []byte, v uint64) []byte { return appendHex(append(dst, ' '), v) }
