package engine

import (
	"errors"
	"fmt"
)

// Errors of keys and values, which the public package documents.
var (
	ErrNotFound = errors.New("copal: not found")
	ErrType     = errors.New("copal: the type does not fit")
)

// CollectionError is the error of reading the value of a key that holds a collection.
type CollectionError struct {
	Key  []byte
	Type string // "hash", for instance
}

func (e *CollectionError) Error() string {
	return fmt.Sprintf("%v: key %q is a %s", ErrType, e.Key, e.Type)
}

// Is makes errors.Is(err, ErrType) true.
func (e *CollectionError) Is(target error) bool { return target == ErrType }
