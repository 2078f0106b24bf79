package copying

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/engine"
)

// Sum is a checksum of an entry, or of all entries of a store: their SHA-256 sums, added up. So it does not
// depend on an order.
type Sum [4]uint64

func (s *Sum) add(o Sum) {
	for i := range s {
		s[i] += o[i]
	}
}

// String returns the checksum as 64 hexadecimal digits.
func (s Sum) String() string {
	var b []byte
	for _, word := range s {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return hex.EncodeToString(b)
}

// sumOf is the checksum of an entry in a view: of all that a copy keeps.
func sumOf(v view, e *admin.Entry, typed bool) (Sum, error) {
	h := sha256.New()
	deadline := int64(0)
	if !e.Expires.IsZero() {
		deadline = e.Expires.UnixMilli()
	}
	write(h, e.Key, binary.BigEndian.AppendUint64(nil, uint64(deadline)), []byte(e.Collection))
	if e.Large == 0 {
		write(h, e.Value)
	} else if err := writeLarge(h, v, e); err != nil {
		return Sum{}, err
	}
	if typed {
		write(h, []byte(e.Codec), []byte(e.Schema), []byte(e.Content))
	}
	if e.Collection != "" {
		elements, err := sumElements(v, e, typed)
		if err != nil {
			return Sum{}, err
		}
		write(h, elements)
	}
	return sumFrom(h), nil
}

// sumElements is the checksum of the elements of a collection. Their order counts in a list alone.
func sumElements(v view, e *admin.Entry, typed bool) ([]byte, error) {
	var all Sum
	ordered := sha256.New()
	for element, err := range elementsOf(v, e, typed) {
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		write(h, element.Name, element.Value)
		if typed {
			write(h, []byte(element.Codec), []byte(element.Schema))
		}
		if e.Collection == string(engine.ListType) {
			ordered.Write(h.Sum(nil))
		} else {
			all.add(sumFrom(h))
		}
	}
	return ordered.Sum([]byte(all.String())), nil
}

// write adds parts, each with its length in front.
func write(h hash.Hash, parts ...[]byte) {
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
}

// writeLarge is write of a value that is read piece by piece.
func writeLarge(h hash.Hash, v view, e *admin.Entry) error {
	value, err := v.open(e)
	if err != nil {
		return err
	}
	defer value.Close()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(e.Large)))
	_, err = io.Copy(h, value)
	return err
}

func sumFrom(h hash.Hash) (s Sum) {
	b := h.Sum(nil)
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return s
}
