package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Make makes a file in the place of one that a crash may have left under its name, and syncs it. When a step fails
// no file is left. The name is not durable yet: it is to be renamed, and the directory synced then.
func Make(fsys FS, name string, write func(f File) error) (File, error) {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := fsys.Open(name, Create)
	if err != nil {
		return nil, err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(name))
	}
	return f, nil
}

// Replace makes a file of dir under the name temp, and puts it durably in the place of the one that
// has the name. renamed says that the new one may be in place, though there was an error.
func Replace(fsys FS, dir, temp, name string, write func(f File) error) (renamed bool, err error) {
	temp = filepath.Join(dir, temp)
	f, err := Make(fsys, temp, write)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = fsys.Rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		return false, err
	}
	return true, fsys.SyncDir(dir)
}
