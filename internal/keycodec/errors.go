package keycodec

import "errors"

var (
	// ErrType says that a type cannot be the key of a map.
	ErrType = errors.New("not a key type")
	// ErrKey says that a key has no canonical bytes, or that bytes are not a key
	// of the type in its canonical spelling.
	ErrKey = errors.New("not a key")
)
