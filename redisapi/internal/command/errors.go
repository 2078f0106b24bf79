package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
)

// Error is an error of a request in the words of Redis. It begins with its code.
type Error string

func (e Error) Error() string { return string(e) }

func Errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// The errors of Redis that several commands have.
const (
	ErrSyntax    Error = "ERR syntax error"
	errNotInt    Error = "ERR value is not an integer or out of range"
	ErrNotFloat  Error = "ERR value is not a valid float"
	errNaN       Error = "ERR increment would produce NaN or Infinity"
	ErrOverflow  Error = "ERR increment or decrement would overflow"
	ErrRange     Error = "ERR value is out of range"
	ErrPositive  Error = "ERR value is out of range, must be positive"
	ErrOutside   Error = "ERR index out of range"
	ErrNoKey     Error = "ERR no such key"
	ErrWrongType Error = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrTooLong   Error = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	ErrSame      Error = "ERR source and destination objects are the same"
	ErrDB        Error = "ERR DB index is out of range"
)

// ErrorText returns the text of an error in the words of Redis.
func ErrorText(err error) string {
	var own Error
	var misfit *copaladmin.MisfitError
	switch {
	case errors.As(err, &own):
		return string(own)
	case errors.As(err, &misfit):
		return "ERR " + err.Error()
	case errors.Is(err, copal.ErrType):
		return string(ErrWrongType)
	case err == copal.ErrReadOnly:
		return "READONLY You can't write against a read only replica."
	case errors.Is(err, copal.ErrReadOnly): // after a failure, as Redis answers where its disk fails
		return "MISCONF " + err.Error()
	case errors.Is(err, copal.ErrTooLarge): // the keys of a request are checked before, so this is one of an element
		return "ERR " + strings.Replace(err.Error(), "a key of", "a field or member of", 1)
	case errors.Is(err, copal.ErrClosed):
		return "ERR the store is closed"
	case errors.Is(err, copal.ErrHistoryLost):
		return "HISTORYLOST " + err.Error()
	}
	return "ERR " + err.Error()
}

// IsMissing reports whether there is no entry.
func IsMissing(err error) bool { return errors.Is(err, copal.ErrNotFound) }

const ErrNoPermission Error = "NOPERM No permissions to access a key"

// IsType reports whether a key holds something of another type.
func IsType(err error) bool { return errors.Is(err, copal.ErrType) }
