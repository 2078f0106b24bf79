//go:build !windows

package cli

import (
	"errors"
	"syscall"
)

// isClosedPipe reports whether err means that the reader of the output has gone. For the real
// standard output the Go runtime ends the process with SIGPIPE before that.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
