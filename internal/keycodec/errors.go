package keycodec

import "errors"

var (
	// ErrType: a type cannot be the key of a map.
	ErrType = errors.New("not a key type")
	// ErrKey: a key has no canonical bytes, or bytes are not a key of the type in its canonical
	// spelling.
	ErrKey = errors.New("not a key")
)
