package hybridlog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Errors of opening.
var (
	// ErrLocked: another process, or this one, has the log open for writing. The error names the
	// holder.
	ErrLocked = errors.New("hybridlog: the log is in use")
	// ErrVersion: a newer version of this package wrote the log.
	ErrVersion = errors.New("hybridlog: written by a newer version")
	// ErrCopied: the directory is a copy of a log that was not closed, and may lack writes that were
	// acknowledged there. AcceptCopy opens it. The system must say when a file was made, as Linux does
	// with ext4, XFS, btrfs and tmpfs; elsewhere such a copy opens.
	ErrCopied = errors.New("hybridlog: the copy of a log that was not closed")
)

// Errors of every method.
var (
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("hybridlog: the log is closed")
	// ErrCorrupt: some bytes differ from those that were written. The error is a [CorruptError].
	ErrCorrupt = errors.New("hybridlog: corrupt")
)

// Errors of writing and reading.
var (
	// ErrReadOnly: the log was opened with [ReadOnly], or refuses writes after a failure, which the error names.
	ErrReadOnly = errors.New("hybridlog: the log is read-only")
	// ErrNoSpace: there is no room for a write. Nothing has changed, and the caller may try again.
	ErrNoSpace = errors.New("hybridlog: no space left")
	// ErrTooLarge: the write is longer than [MaxEntryBytes].
	ErrTooLarge = errors.New("hybridlog: too large")
	// ErrTrimmed: the bytes to read have been trimmed.
	ErrTrimmed = errors.New("hybridlog: trimmed")
	// ErrRange: a length is negative, or an address was never given.
	ErrRange = errors.New("hybridlog: out of range")
)

// CorruptError is the place of damage in a file, and the reason why its bytes cannot be valid.
type CorruptError struct {
	File   string // path of the file
	Offset int64  // of the first damaged byte in the file
	Reason string

	missing bool // there is no such file: see Log.refreshed
}

// Error returns file, offset and reason in a line.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("hybridlog: %s is corrupt at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// FailedError is the error of every write after one whose outcome is unknown.
type FailedError struct {
	Cause error
}

// Error returns the cause for which the log refuses writes.
func (e *FailedError) Error() string {
	return "hybridlog: the log refuses writes until it is opened again: " + e.Cause.Error()
}

// Unwrap makes both the cause and ErrReadOnly visible to errors.Is.
func (e *FailedError) Unwrap() []error { return []error{e.Cause, ErrReadOnly} }

func corrupt(path string, offset int64, reason string) error {
	return &CorruptError{File: path, Offset: offset, Reason: reason}
}

// bad is the error of a file that does not parse.
func bad(path string, offset int64, err error) error {
	if errors.Is(err, record.ErrVersion) {
		return fmt.Errorf("%w: %s: %w", ErrVersion, path, err)
	}
	return corrupt(path, offset, err.Error())
}

// missing is the error of opening a file that the log needs.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &CorruptError{File: path, Reason: "the file is missing", missing: true}
	}
	return fmt.Errorf("hybridlog: %w", err)
}

// copyError is the ErrCopied of the log in dir.
func copyError(dir string) error {
	return fmt.Errorf("%w, and may lack the last writes that were acknowledged there: %s; make another when the log is closed, or open this one with hybridlog.AcceptCopy", ErrCopied, dir)
}

// noSpace is ErrNoSpace for an error of a full disk, and the error itself otherwise.
func noSpace(err error) error {
	if vfs.IsNoSpace(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("hybridlog: %w", err)
}
