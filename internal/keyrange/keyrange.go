package keyrange

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/span"
)

// Range is the keys that begin with Prefix, and whose sort keys after it, in the order By, are in Span. Its bounds are
// nil or half-open. A range of keys ordered by their bytes has either a prefix or a span.
type Range struct {
	Prefix []byte
	By     keycodec.Order
	Span   span.Span
}

// Prefix returns the range of all keys that begin with prefix.
func Prefix(prefix []byte) Range {
	return Range{Prefix: bytes.Clone(prefix), By: keycodec.BytesOrder}
}

// Keys returns the range of the keys in a span.
func Keys(sp span.Span) Range {
	return Range{By: keycodec.BytesOrder, Span: span.Span{Low: bytes.Clone(sp.Low), High: bytes.Clone(sp.High), HighOpen: true}}
}

// Sorted returns the range of the keys that begin with prefix, and whose sort keys after it are in a span that
// includes its lower bound, but not its upper one.
func Sorted(prefix []byte, by keycodec.Order, sp span.Span) Range {
	r := Range{Prefix: bytes.Clone(prefix), By: by, Span: span.Span{Low: bytes.Clone(sp.Low), High: bytes.Clone(sp.High), HighOpen: true}}
	if !by.IsBytes() || r.All() {
		return r
	}
	r.Span.Low, r.Span.High, r.Prefix = r.Key(r.Span.Low), r.Until(), nil
	return r
}

// Key returns the whole key with a sort key.
func (r *Range) Key(sortKey []byte) []byte {
	key, _ := r.By.AppendKey(bytes.Clone(r.Prefix), sortKey)
	return key
}

// SortKey returns the bytes by which the range orders a key that is in it.
func (r *Range) SortKey(key []byte) []byte {
	return r.By.AppendSortKey(nil, text(key[len(r.Prefix):]))
}

func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// All reports whether the range has all keys that begin with the prefix.
func (r *Range) All() bool { return r.Span.Unbounded() }

// None reports whether the range has no key.
func (r *Range) None() bool { return r.Span.High != nil && bytes.Compare(r.Span.Low, r.Span.High) >= 0 }

// Until returns the whole key before which the range ends, nil for none.
func (r *Range) Until() []byte {
	switch {
	case r.All(), r.Span.High == nil && r.By.IsBytes():
		return span.Prefix(r.Prefix).High
	case r.Span.High == nil:
		return nil
	}
	return r.Key(r.Span.High)
}

// Sorts returns the range as a span of sort keys.
func (r *Range) Sorts() span.Span {
	if r.By.IsBytes() && r.All() {
		return span.Prefix(r.Prefix)
	}
	return r.Span
}

// Has reports whether a whole key is in the range.
func (r *Range) Has(key []byte) bool {
	if !bytes.HasPrefix(key, r.Prefix) {
		return false
	}
	if r.All() {
		return true
	}
	own := key[len(r.Prefix):]
	if r.By.IsBytes() {
		return r.Span.Has(own)
	}
	var room [64]byte
	return r.Span.Has(r.By.AppendSortKey(room[:0], text(own)))
}

// Meets reports whether the range may have whole keys that begin with p.
func (r *Range) Meets(p []byte) bool {
	if !bytes.HasPrefix(p, r.Prefix) && !bytes.HasPrefix(r.Prefix, p) {
		return false
	}
	if !r.By.IsBytes() || len(r.Prefix) > 0 {
		return true
	}
	all := span.Prefix(p)
	return !(r.Span.High != nil && bytes.Compare(r.Span.High, all.Low) <= 0) && !(all.High != nil && bytes.Compare(r.Span.Low, all.High) >= 0)
}

// Beginning returns the prefix of all keys of the range: a map's prefix, or the range's own; nil for none.
func (r *Range) Beginning() []byte {
	if len(r.Prefix) > 0 {
		return r.Prefix
	}
	name := r.Span.Low[:bytes.IndexByte(r.Span.Low, ':')+1]
	all := span.Prefix(name)
	if len(name) == 0 || r.Span.High == nil || bytes.Compare(r.Span.High, all.High) > 0 {
		return nil
	}
	return name
}

// Deletion returns key and value of the record that deletes r. The value is empty for a prefix:
//
//	users:            all keys that begin so
//	users:b  bytes users:d    the keys in [users:b, users:d), by their bytes
//	b  bytes                  the keys in [b, ∞)
//	ages:9   int ages:30      the keys of ages in [9, 30), as integers
func (r *Range) Deletion() (key, value []byte) {
	if r.All() {
		return r.Prefix, nil
	}
	key, value = r.Key(r.Span.Low), []byte(r.By.Name())
	if r.Span.High != nil {
		value = append(append(value, ' '), r.Key(r.Span.High)...)
	}
	return key, value
}

// IsDeletable reports whether a record can delete the range.
func (r *Range) IsDeletable() bool {
	return r.By.IsBytes() || r.All() || r.Span.Low != nil && r.Span.High != nil
}

// Deleted returns the range of a record that deletes one. The bytes are the record's.
func Deleted(key, value []byte) (Range, error) {
	if len(value) == 0 {
		return Range{Prefix: key, By: keycodec.BytesOrder}, nil
	}
	name, high, bounded := bytes.Cut(value, []byte{' '})
	by, ok := keycodec.OrderNamed(string(name))
	if !ok {
		return Range{}, fmt.Errorf("%w: a range of keys in the order %q", record.ErrVersion, name)
	}
	r := Range{By: by, Span: span.Span{Low: key, HighOpen: true}}
	if bounded {
		r.Span.High = high
	}
	if by.IsBytes() {
		return r, nil
	}
	r.Prefix = key[:bytes.IndexByte(key, ':')+1]
	if bounded && !bytes.HasPrefix(high, r.Prefix) {
		return Range{}, fmt.Errorf("%w: a range from key %q to %q", record.ErrSyntax, key, high)
	}
	r.Span.Low = by.AppendSortKey(nil, text(key[len(r.Prefix):]))
	if bounded {
		r.Span.High = by.AppendSortKey(nil, text(high[len(r.Prefix):]))
	}
	return r, nil
}

// A range requested by another process is named like the record of its deletion, with three more ranges that no
// deletion has:
//
//	ages:    int              all keys of ages, as integers
//	ages:    int ages:30      the keys of ages before 30
//	ages:9   int              the keys of ages from 9 on

// Asked returns the arguments from which Parse makes the range.
func (r *Range) Asked() (start, rest []byte) {
	key, value := r.Deletion()
	if r.By.IsBytes() {
		return key, value
	}
	start, rest = bytes.Clone(r.Prefix), []byte(r.By.Name())
	if r.Span.Low != nil {
		start = key
	}
	if r.Span.High != nil {
		rest = value
	}
	return start, rest
}

// Parse parses a range in the form of Range.Asked. The error is record.ErrSyntax or ErrVersion. It copies start and
// rest.
func Parse(start, rest []byte) (Range, error) {
	start, rest = bytes.Clone(start), bytes.Clone(rest)
	r, err := Deleted(start, rest)
	if err != nil || r.By.IsBytes() {
		return r, err
	}
	if len(r.Prefix) == 0 {
		return Range{}, fmt.Errorf("%w: a range in the order %q begins with a key of no map", record.ErrSyntax, r.By.Name())
	}
	if own := text(start[len(r.Prefix):]); !r.By.Holds(own) {
		if own != "" {
			return Range{}, fmt.Errorf("%w: %q is no key in the order %q", record.ErrSyntax, start, r.By.Name())
		}
		r.Span.Low = nil
	}
	if _, high, ok := bytes.Cut(rest, []byte{' '}); ok && !r.By.Holds(text(high[len(r.Prefix):])) {
		return Range{}, fmt.Errorf("%w: %q is no key in the order %q", record.ErrSyntax, high, r.By.Name())
	}
	return r, nil
}
