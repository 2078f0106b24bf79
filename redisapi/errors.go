package redisapi

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
)

// replyError is an error of a request in the words of Redis. It begins with its code.
type replyError string

func (e replyError) Error() string { return string(e) }

func errorf(format string, args ...any) error { return replyError(fmt.Sprintf(format, args...)) }

// The errors of Redis that several commands have.
const (
	errSyntax    replyError = "ERR syntax error"
	errNotInt    replyError = "ERR value is not an integer or out of range"
	errNotFloat  replyError = "ERR value is not a valid float"
	errNaN       replyError = "ERR increment would produce NaN or Infinity"
	errOverflow  replyError = "ERR increment or decrement would overflow"
	errRange     replyError = "ERR value is out of range"
	errPositive  replyError = "ERR value is out of range, must be positive"
	errOutside   replyError = "ERR index out of range"
	errNoKey     replyError = "ERR no such key"
	errWrongType replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errTooLong   replyError = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errSame      replyError = "ERR source and destination objects are the same"
	errDB        replyError = "ERR DB index is out of range"
)

// errorText is what Redis calls an error.
func errorText(err error) string {
	var own replyError
	var misfit *copaladmin.MisfitError
	switch {
	case errors.As(err, &own):
		return string(own)
	case errors.As(err, &misfit):
		return "ERR " + err.Error()
	case errors.Is(err, copal.ErrType):
		return string(errWrongType)
	case err == copal.ErrReadOnly:
		return "READONLY You can't write against a read only replica."
	case errors.Is(err, copal.ErrReadOnly): // after a failure, as Redis answers where its disk fails
		return "MISCONF " + err.Error()
	case errors.Is(err, copal.ErrClosed):
		return "ERR the store is closed"
	case errors.Is(err, copal.ErrHistoryLost):
		return "HISTORYLOST " + err.Error()
	}
	return "ERR " + err.Error()
}

// missing reports whether there is no entry.
func missing(err error) bool { return errors.Is(err, copal.ErrNotFound) }

const errNoPermission replyError = "NOPERM No permissions to access a key"

// isType reports whether a key holds something of another type.
func isType(err error) bool { return errors.Is(err, copal.ErrType) }
