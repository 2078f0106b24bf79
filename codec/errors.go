package codec

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrType: a type cannot be kept. Compile returns it; so does Decoder, for a schema that does
	// not fit.
	ErrType = errors.New("type cannot be kept")
	// ErrValue: a value cannot be kept though its type can, because it would be read back as
	// another. Append returns it, and nothing is written.
	ErrValue = errors.New("value cannot be kept")
	// ErrData: stored bytes are no value of the type. Decode returns it.
	ErrData = errors.New("data does not decode")
)

// unfit is the error of a Decoder whose type is kept, and does not fit the stored schema: an ErrType, without
// the text of one.
type unfit struct{ err error }

// refuseAs returns the ErrType for the part at path of a type. why may begin with the path, too.
func refuseAs(codec, path, why string) error {
	if !strings.HasPrefix(why, path) {
		why = path + ": " + why
	}
	return fmt.Errorf("%w as %s: %s", ErrType, codec, why)
}

func (e *unfit) Error() string   { return e.err.Error() }
func (e *unfit) Unwrap() []error { return []error{ErrType, e.err} }
