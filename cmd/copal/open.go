package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/copaldb/copal"
)

// view opens the store in dir for reading, lends it to f and closes it. Beside a process that
// writes, it follows. Dir may be a server.
func (a *app) view(dir string, f func(db *copal.DB) error) error {
	switch {
	case a.host != nil:
		return a.host.view(f)
	case isServer(dir):
		return a.reach(dir, f)
	}
	if err := requireStore(dir); err != nil {
		return err
	}
	return a.with(dir, f, copal.ReadOnly())
}

// update opens the store in dir for writing, lends it to f and closes it, which makes all that
// was written durable. If a copal serve has the store open so, it is updated through that where the command can
// do so. Otherwise the error is copal.ErrLocked, and names the process. Signals end a.ctx meanwhile, so that the
// store is always closed.
func (a *app) update(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	if a.host == nil && !isServer(dir) {
		if err := requireStore(dir); err != nil {
			return err
		}
	}
	return a.updateOrCreate(dir, f, opts...)
}

// updateOrCreate is update that makes a store where none is.
func (a *app) updateOrCreate(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	if a.host != nil {
		return a.host.update(f, opts...)
	}
	defer a.catchSignals()()
	if isServer(dir) {
		return a.reach(dir, f)
	}
	if err := requireRoom(dir); err != nil {
		return err
	}
	return a.with(dir, f, opts...)
}

func (a *app) with(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	db, err := a.openStore(dir, opts...)
	if errors.Is(err, copal.ErrLocked) {
		if db, err = a.openServed(dir, err); err == nil {
			return errors.Join(f(db), db.Sync(), db.Close()) // as durable as where Close does it
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// openStore opens the store in dir. Errors that none of its methods can return go to a.report.
func (a *app) openStore(dir string, opts ...copal.Option) (*copal.DB, error) {
	bar := a.newProgress("reading the log")
	defer bar.clear()
	return a.open(dir, append(opts, copal.WithErrorHandler(a.report), copal.WithProgress(bar.show))...)
}

// open is copal.Open with what the command line says of all stores.
func (a *app) open(dir string, opts ...copal.Option) (*copal.DB, error) {
	if a.copied {
		opts = append(opts, copal.AcceptCopy())
	}
	return copal.Open(dir, append(opts, a.withMode())...)
}

// requireStore tells a mistyped path from a store that is empty: a directory in which
// none of a store's files is would be read as one without entries.
func requireStore(dir string) error {
	if dir == "" {
		return errNoDir
	}
	info, err := os.Stat(dir)
	var stat *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no store %s: no such directory", dir)
	case errors.As(err, &stat):
		return fmt.Errorf("there is no store %s: %w", dir, stat.Err)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("there is no store %s: it is a file; a store is a directory", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isStoreFile(e.Name()) {
			return nil
		}
	}
	return fmt.Errorf("there is no store in the directory %s", dir)
}

// errNoDir is an empty argument, as of a variable of the shell that is not set.
var errNoDir = usageError{"the name of a directory is empty"}

func isStoreFile(name string) bool {
	return name == "LOCK" || name == "MANIFEST" || filepath.Ext(name) == ".log"
}

// requireRoom refuses to make a store among files of other kinds: nobody means that.
func requireRoom(dir string) error {
	if dir == "" {
		return errNoDir
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if missing := requireStore(dir); err != nil || missing == nil {
		return missing
	}
	if len(entries) == 1 && entries[0].Name() == "lost+found" { // of a file system of its own
		return nil
	}
	return fmt.Errorf("there is no store in the directory %s, and it is not empty, so none is made there", dir)
}

// inside is the path of a file in a directory as the user names it. It leaves ".." to the system.
func inside(dir, name string) string {
	return strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator) + name
}

// parentOf is the path of the directory that a file is in.
func parentOf(file string) string {
	if dir, _ := filepath.Split(file); dir != "" {
		return dir
	}
	return "."
}
