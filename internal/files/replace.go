package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/copaldb/copal/internal/vfs"
)

// A file that must never be seen half written is made under another name, synced, and renamed. The
// directory is synced then: a crash leaves the old file or the new one, and TempSuffix files of no account.

// TempSuffix is the suffix of the name of an unfinished file.
const TempSuffix = ".tmp"

// ErrSyncDir marks the error of a directory's sync, after which it is not known which of its
// names will be there after a power cut.
var ErrSyncDir = errors.New("sync of the directory")

// ErrRenamed marks an error after which the new file may have its name. That may not be durable.
var ErrRenamed = errors.New("renamed, with an error")

// SyncDir makes the names in a directory durable. Its error is an ErrSyncDir, unless the directory
// could not be opened: no sync was attempted then, and a later one is as good as this.
func SyncDir(fsys vfs.FS, dir string) error {
	err := fsys.SyncDir(dir)
	if err == nil || vfs.NotOpened(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSyncDir, err)
}

// SyncParent makes the name of a directory durable, which may be new: the process that made it may
// have died before. A parent that we may not read was there before us.
func SyncParent(fsys vfs.FS, dir string) error {
	if err := SyncDir(fsys, filepath.Dir(filepath.Clean(dir))); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// Remove removes a file, if it is there.
func Remove(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Make makes a file in the place of one that a crash may have left under its name, and syncs it.
// When a step fails no file is left. The name is not durable yet: the caller renames the file, and
// then syncs the directory.
func Make(fsys vfs.FS, path string, write func(f vfs.File) error) (vfs.File, error) {
	if err := Remove(fsys, path); err != nil {
		return nil, err
	}
	f, err := fsys.Open(path, vfs.Create)
	if err != nil {
		return nil, err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(path))
	}
	return f, nil
}

// Replace makes a file, and puts it durably in the place of the one that has its name. The new one
// may be in place if the error is an ErrSyncDir or an ErrRenamed; with any other the old one is.
func Replace(fsys vfs.FS, path string, write func(f vfs.File) error) error {
	temp := path + TempSuffix
	f, err := Make(fsys, temp, write)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		f, gone := fsys.Open(temp, vfs.ReadOnly)
		switch {
		case gone == nil:
			return errors.Join(err, f.Close())
		case errors.Is(err, fs.ErrPermission) && errors.Is(gone, fs.ErrPermission):
			return err // somebody has taken away the right to both, and the rename was not attempted
		}
		return fmt.Errorf("%w: %w", ErrRenamed, errors.Join(err, gone))
	}
	err = SyncDir(fsys, filepath.Dir(path))
	if vfs.NotOpened(err) {
		err = fmt.Errorf("%w: %w", ErrRenamed, err)
	}
	return err
}

// Read reads a whole file, at most limit bytes of it, and says which file it is; see vfs.File.
func Read(fsys vfs.FS, path string, limit int64) (text []byte, id string, err error) {
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, "", err
	}
	b := make([]byte, min(size, limit))
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	return b[:n], f.ID(), nil
}
