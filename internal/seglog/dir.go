package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Files of a store's directory that are no part of the log.
const (
	LockName   = "LOCK"                        // of the writer; it is empty
	BackupName = "BACKUP"                      // in a directory that is a backup: its source
	BackupTemp = BackupName + files.TempSuffix // while it is written
)

// CheckDir returns an error if dir is a file or, for a process that writes, a directory that is no
// store and not empty.
func CheckDir(fsys vfs.FS, dir string, write bool) error {
	names, err := fsys.List(dir)
	switch {
	case vfs.IsNotDirectory(err):
		return notADirectory(dir)
	case errors.Is(err, fs.ErrNotExist) && !write:
		return NoStore(dir)
	case err != nil:
		return nil // the next step returns the error
	}
	if err := NoUnfinished(fsys, dir, names); err != nil || !write || IsStore(names) {
		return err
	}
	for _, name := range names {
		if !isOurs(name) && !Worthless(name) && !strings.HasPrefix(name, ".") {
			return fmt.Errorf("copal: %s is no store, and there is %s: a store needs a directory of its own", dir, name)
		}
	}
	return nil
}

func notADirectory(dir string) error {
	return fmt.Errorf("copal: %s is not a directory, and a store is one", dir)
}

// OrderSuffix ends the name of a file of keys in order, which a snapshot of the index names.
const OrderSuffix = ".order"

// isOurs reports whether a file of this name may be of a store, or of a backup.
func isOurs(name string) bool {
	switch strings.TrimSuffix(name, files.TempSuffix) {
	case ManifestName, MarkName, RingName, BackupName, UnfinishedName:
		return true
	}
	return isUnfinished(name) || isIndex(name) || strings.Contains(name, OrderSuffix)
}

// LockDir creates a directory and makes this process its only writer, until the lock is closed. The
// writer works with the lock as its file system.
func LockDir(fsys vfs.FS, dir string) (*vfs.Held, error) {
	err := fsys.MkdirAll(dir)
	if vfs.IsNotDirectory(err) {
		return nil, notADirectory(dir)
	}
	if err != nil {
		return nil, NoSpace(err)
	}
	lock, err := vfs.Hold(fsys, filepath.Join(dir, LockName))
	if held, ok := errors.AsType[*vfs.LockedError](err); ok {
		return nil, fmt.Errorf("%w: %w", ErrLocked, held)
	}
	if err != nil {
		return nil, NoSpace(err)
	}
	return lock, nil
}

// IsStore reports whether a directory with these names was once opened as a store.
func IsStore(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, segment := record.ParseFileName(name)
		return segment || name == LockName
	})
}

func NoStore(dir string) error {
	return Known(fs.ErrNotExist, "there is no store in %s", dir)
}

// WantEmpty returns an error if dir is not empty.
func WantEmpty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	switch {
	case vfs.IsNotDirectory(err):
		return Known(fs.ErrExist, "%s is a file: the new store needs a directory that is empty or missing", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("copal: %w", err)
	}
	for _, name := range names {
		if !Worthless(name) {
			return Known(fs.ErrExist, "%s holds %s: the new store needs a directory that is empty or missing", dir, name)
		}
	}
	return nil
}

// Within reports whether dir is the directory of, or is in it.
func Within(dir, of string) bool {
	rel, err := filepath.Rel(of, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Worthless reports whether a file of this name, in a directory without a store, can be ignored:
// left by an attempt to make a store, or made by the file system.
func Worthless(name string) bool {
	return name == LockName || name == ManifestTemp || name == BackupTemp || name == UnfinishedTemp || name == "lost+found"
}

// NoSpace makes errors.Is(err, ErrNoSpace) true for the system's errors of a full disk.
func NoSpace(err error) error {
	if vfs.IsNoSpace(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("copal: %w", err)
}
