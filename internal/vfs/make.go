package vfs

import (
	"errors"
	"io/fs"
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
