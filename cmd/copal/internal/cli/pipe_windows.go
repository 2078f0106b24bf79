package cli

import (
	"errors"
	"syscall"
)

const errorNoData syscall.Errno = 232 // "The pipe is being closed."

// isClosedPipe reports whether err says that nobody reads the output any more.
func isClosedPipe(err error) bool {
	return errors.Is(err, syscall.ERROR_BROKEN_PIPE) || errors.Is(err, errorNoData)
}
