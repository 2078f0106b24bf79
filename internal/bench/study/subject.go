package study

import (
	"errors"
	"reflect"
)

// A subject is the kind of records that a study is about. A record is handed on as a pointer to a
// struct of Type.
type subject interface {
	Name() string
	Len() int // how many there are; numbers beyond it repeat them
	Type() reflect.Type
	Fields() []field
	New() any // a pointer to a zero record

	// Make makes the record of a number in record. It is always the same one. Numbers begin with 0.
	Make(number uint64, record any)

	// Is says whether a record that was read, and not updated, belongs to a number. It looks at
	// little of it.
	Is(record any, number uint64) bool

	// AppendField appends the value of field i, and SetField sets it from those bytes.
	AppendField(dst []byte, record any, i int) ([]byte, error)
	SetField(record any, i int, value []byte) error

	// Summed is the field whose values FieldSum adds up: Number of a record, NumberOf of the bytes
	// of the field alone.
	Summed() int
	Number(record any) float64
	NumberOf(value []byte) (float64, error)

	// Updated is the field that Update changes. Touch sets it to a value that it did not have,
	// another one in each round, independent of the other fields.
	Updated() int
	Touch(record any, number uint64, round int)
}

// A field is one of the outermost struct.
type field struct {
	name string
	size int // bytes that AppendField appends; -1 where that varies
}

var errShort = errors.New("a stored value has another length than its field")

// key appends the key of a number: 8 bytes, big-endian, which sort like numbers.
func key(dst []byte, number uint64) []byte {
	return append(dst, byte(number>>56), byte(number>>48), byte(number>>40), byte(number>>32),
		byte(number>>24), byte(number>>16), byte(number>>8), byte(number))
}
