package main

import (
	"context"
	"errors"
	"strings"

	"github.com/copaldb/copal"
)

// Exit codes. They are part of the command's interface and do not change.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitLocked   = 5
	exitCorrupt  = 6
)

const exitCodesHelp = `Exit codes:
  0  done
  1  an error that is none of the others
  2  the command line is wrong
  3  there is no entry for the key, in a store that is sound
  5  another process has the store open for writing
  6  the store is corrupt`

// usageError is what a command itself finds wrong with the command line.
type usageError struct{ reason string }

func (e usageError) Error() string { return e.reason }

func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// silent is an error of which the exit code alone tells.
type silent struct{ error }

func (e silent) Unwrap() error { return e.error }

// exitCode is the code that tells err to a script.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case isUsage(err):
		return exitUsage
	case errors.Is(err, copal.ErrNotFound):
		return exitNotFound
	case errors.Is(err, copal.ErrLocked):
		return exitLocked
	case errors.Is(err, copal.ErrCorrupt):
		return exitCorrupt
	}
	return exitError
}

// message is the text of err as it stands behind the command's own "copal: ".
func message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(strings.TrimPrefix(line, "copal: "), ": copal: ", ": ")
	}
	return plain(strings.Join(lines, "; "))
}
