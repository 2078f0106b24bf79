package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// Exit codes. They are part of the command's interface and do not change. 4 is not used.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitLocked   = 5
	ExitCorrupt  = 6
)

// ExitCodesHelp is the part of the help about exit codes.
const ExitCodesHelp = `Exit codes:
  0  done
  1  an error that is none of the others
  2  the command line is wrong
  3  there is no entry for the key, in a store that is sound
  5  another process has the store open for writing
  6  the store is corrupt`

// UsageError is a mistake of the command line that a command finds.
type UsageError string

func (e UsageError) Error() string { return string(e) }

func isUsage(err error) bool {
	var usage UsageError
	return errors.As(err, &usage)
}

// silent is an error that only sets the exit code.
type silent struct{ err error }

func (e silent) Error() string { return e.err.Error() }
func (e silent) Unwrap() error { return e.err }

// Quiet wraps err so that it is not printed.
func Quiet(err error) error { return silent{err} }

// exitCode returns the exit code of err, for scripts.
func exitCode(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case isUsage(err), errors.Is(err, admin.ErrBound):
		return ExitUsage
	case errors.Is(err, copal.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, copal.ErrLocked):
		return ExitLocked
	case errors.Is(err, copal.ErrCorrupt):
		return ExitCorrupt
	}
	return ExitError
}

// Message returns the text of err to print after the command's own "copal: ".
func Message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(strings.TrimPrefix(line, "copal: "), ": copal: ", ": ")
	}
	return Plain(strings.Join(lines, "; "))
}

// ErrInterrupted ends a run that the user interrupts.
var ErrInterrupted = errors.New("interrupted")

// FailedLine is the end of a script by an error that has been printed. It is the exit code of the
// line.
type FailedLine int

func (e FailedLine) Error() string {
	return fmt.Sprintf("a command of the script failed with exit code %d", int(e))
}
