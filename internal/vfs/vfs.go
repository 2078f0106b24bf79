package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Mode is the way in which Open treats the file.
type Mode int

const (
	ReadOnly  Mode = iota // the file must exist
	ReadWrite             // the file must exist
	Create                // the file must not exist; it is opened for reading and writing
)

// FS is a file system. Names are paths in the platform's own form. Errors wrap
// the io/fs sentinels (fs.ErrNotExist, fs.ErrExist, …) and the platform's errno.
type FS interface {
	Open(name string, mode Mode) (File, error)
	Rename(oldName, newName string) error // replaces newName, atomically
	Remove(name string) error
	// Link gives the file oldName a second name, newName, which must not exist. Where that
	// is refused (another file system, or one without links) the error says so, and the caller copies.
	Link(oldName, newName string) error
	List(dir string) ([]string, error) // base names of dir's entries, sorted
	// MkdirAll creates dir and its missing parents and makes their names durable.
	MkdirAll(dir string) error
	// SyncDir makes the names in dir durable. It opens dir for that; NotOpened reports whether that failed.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a name, creating the file when it is missing, and never
	// waits: the error is a *LockedError when another holder, in this process or another, has it.
	// The lock dies with its holder.
	Lock(name string) (Lock, error)
	// CacheID names the present life of the cache over dir: of this boot of the machine and this
	// mount of the file system. While it stays the same, every write is still there, synced or not.
	// "" if the platform cannot identify it.
	CacheID(dir string) string
	// Free returns the bytes that the disk under dir has left for this process. known is false if
	// the platform does not report it.
	Free(dir string) (bytes int64, known bool)
}

// Lock is held until Close. The directory of its file stays open with it, so SyncDir of that needs
// no descriptor, and no right to the path.
type Lock interface {
	io.Closer
	SyncDir() error
}

// File is an open file. All methods are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// ID names this very file among all that the file system ever had: a copy of it, or a later
	// file with the same number, has another. "" if the platform has no such name. See Copied.
	ID() string
	// HasName reports whether name is a name of this file now. It is false when there is no such file, when
	// another file has the name, and when a directory on the way has gone or was replaced.
	HasName(name string) (bool, error)
	Truncate(size int64) error
	Sync() error
	// Allocate reserves disk space for n bytes at off without changing the size
	// or the contents. It fails with errors.ErrUnsupported where that is not to be had.
	Allocate(off, n int64) error
	// Map maps n bytes at off, which must be a multiple of the page size and lie
	// within the file, for reading and, unless the file was opened ReadOnly, for
	// writing. It fails with errors.ErrUnsupported where mapping is not to be had,
	// and everywhere under COPAL_NO_MMAP=1. The region outlives the file's Close.
	Map(off int64, n int) (Region, error)
	// View maps the file's first n bytes for reading, also those that it does not have
	// yet: they can be loaded as soon as they were written. It is refused as Map is.
	View(n int64) (View, error)
}

// bornMark is in the ID of a file before the time when it was made. If that is not known, the ID
// has none.
const bornMark = "-"

// Copied reports whether the file with the ID found is certainly another than the one with the ID
// made. The times decide when the two were made: some file systems renumber their files with each
// mount. Where a time is not known, it is not certain.
func Copied(made, found string) bool {
	_, then, known := strings.Cut(made, bornMark)
	_, now, tells := strings.Cut(found, bornMark)
	return known && tells && then != now
}

// View is the present and later content of a file, mapped. Load of bytes that the file does not
// have, or that cannot be read, is an error; beyond the view it panics.
type View interface {
	Load(off int64, p []byte) error
	// Bytes returns the mapped bytes, or nil if Load is the only way. They may be touched only
	// before Close, and between Catch and Caught, because bytes that the file does not have, or
	// that cannot be read, are a fault.
	Bytes() []byte
	// Trim unmaps the part after the first n bytes, which must not be touched any more.
	Trim(n int64)
	Close() error
}

// Region is a mapped part of a file. Bytes must not be used after Close, nor Close be called while
// another method runs. Store is the only way to change it, so that a test can see the dirty bytes;
// like Load it panics beyond the region's end.
//
// When the file was cut within the region, or a page cannot be read or has no room
// on the disk, Load and Store return an error; touching Bytes then is a signal.
//
// Sync covers the region's pages, whoever wrote them, and the file's size.
type Region interface {
	Bytes() []byte
	Load(off int, p []byte) error // copies from off on into p
	Store(off int, p []byte) error
	// Populate sees to it that n bytes at off can be stored to: that there is room is
	// found out here, and no later Store waits for a page.
	Populate(off, n int) error
	Sync() error
	Close() error
}

// LockedError names the holder of a lock.
type LockedError struct {
	Name  string
	PID   int    // 0 when the holder did not leave its number
	Space string // the pid namespace in which that is its number, "" if the holder did not leave it
}

func (e *LockedError) Error() string {
	own := pidNamespace()
	switch {
	case e.PID == 0:
		return fmt.Sprintf("%s is locked by another process", e.Name)
	case e.Space != "" && e.Space != own:
		return fmt.Sprintf("%s is locked by process %d of another pid namespace, as in a container", e.Name, e.PID)
	case e.PID == os.Getpid() && e.Space == own:
		return fmt.Sprintf("%s is locked by this process, %d, which has it open already", e.Name, e.PID)
	case e.PID != os.Getpid() && !processExists(e.PID):
		return fmt.Sprintf("%s is locked by process %d, which is of another machine or of another pid namespace", e.Name, e.PID)
	}
	return fmt.Sprintf("%s is locked by process %d", e.Name, e.PID)
}

// IsNotDirectory reports whether err says that a directory was asked for, and there is a file.
func IsNotDirectory(err error) bool {
	return err != nil && (errors.Is(err, errNotDir) || isNotDirectory(err))
}

// NotOpened reports whether err is of an Open, or of a SyncDir that could not open the directory.
// Nothing has been read, written or synced then.
func NotOpened(err error) bool {
	p, ok := errors.AsType[*fs.PathError](err)
	return ok && p.Op == OpOpen.String()
}

// IsNoSpace reports whether err says that there is no room: a full disk, a
// spent quota, or a limit on the size of a file.
func IsNoSpace(err error) bool { return err != nil && (errors.Is(err, ErrNoSpace) || isNoSpace(err)) }

// ErrNoSpace is the error of the in-memory and fault-injecting file systems for a full disk.
var ErrNoSpace = errors.New("no space left on device")
