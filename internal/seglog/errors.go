package seglog

import (
	"errors"
	"fmt"
	"github.com/copaldb/copal/internal/vfs"
)

// The errors of the public package, which documents them.
var (
	ErrClosed      = errors.New("copal: the store is closed")
	ErrLocked      = errors.New("copal: the store is in use")
	ErrCorrupt     = errors.New("copal: corrupt")
	ErrReadOnly    = errors.New("copal: the store is read-only")
	ErrNoSpace     = errors.New("copal: no space left")
	ErrVersion     = errors.New("copal: written by a newer version")
	ErrCopied      = errors.New("copal: the copy of a store that was not closed")
	ErrTooLarge    = errors.New("copal: too large")
	ErrUnfinished  = errors.New("copal: unfinished")
	ErrHistoryLost = errors.New("copal: the history is lost from there on: compaction has removed it, or the log ends before")
	ErrRebuilt     = errors.New("it is made again from the log, and nothing is lost")
)

// known is an error whose text contains the text of its kind already.
type known struct {
	text string
	kind error
}

// Known makes an error of a kind whose text is in the error's own text, and not added to it.
func Known(kind error, format string, args ...any) error {
	return &known{fmt.Sprintf("copal: "+format, args...), kind}
}

func (e *known) Error() string        { return e.text }
func (e *known) Is(target error) bool { return target == e.kind }

// CorruptError is the place of damage in a file, and the reason why its bytes cannot be valid.
type CorruptError struct {
	File   string // path of the file
	Offset int64  // of the first damaged byte
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("copal: %s is corrupt at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// FailedError is the error of every write after one whose outcome is unknown.
type FailedError struct {
	Cause error
}

func (e *FailedError) Error() string {
	return "copal: the store refuses writes until it is reopened: " + e.Cause.Error()
}

// Unwrap makes both the cause and ErrReadOnly visible to errors.Is.
func (e *FailedError) Unwrap() []error { return []error{e.Cause, ErrReadOnly} }

// NotOpened reports whether err says that a file could not be opened, for lack of descriptors or rights.
func NotOpened(err error) bool { return vfs.NotOpened(err) }
