package cli

import (
	"errors"
	"syscall"
)

const errorNoData syscall.Errno = 232 // "The pipe is being closed."

// isClosedPipe reports whether err means that the reader of the output has gone.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errorNoData)
}
