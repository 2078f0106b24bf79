package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/copaldb/copal"
)

// View opens the store in dir for reading, lends it to f and closes it. Beside a process that
// writes, it follows. Dir may be a server.
func (a *App) View(dir string, f func(db *copal.DB) error) error {
	switch {
	case a.Host != nil:
		return a.Host.View(f)
	case IsServer(dir):
		return a.Reach(dir, f)
	}
	if err := RequireStore(dir); err != nil {
		return err
	}
	return a.With(dir, f, copal.ReadOnly())
}

// Update opens the store in dir for writing, lends it to f and closes it, which makes all writes
// durable. If a copal serve has the store's lock, Update writes through that server where the
// command can. Otherwise the error is copal.ErrLocked, and names the process. Signals end a.Ctx
// meanwhile, so that the store is always closed.
func (a *App) Update(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	if a.Host == nil && !IsServer(dir) {
		if err := RequireStore(dir); err != nil {
			return err
		}
	}
	return a.UpdateOrCreate(dir, f, opts...)
}

// UpdateOrCreate does the same as Update, and makes a store where there is none.
func (a *App) UpdateOrCreate(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	if a.Host != nil {
		return a.Host.Update(f, opts...)
	}
	defer a.CatchSignals()()
	if IsServer(dir) {
		return a.Reach(dir, f)
	}
	if err := RequireRoom(dir); err != nil {
		return err
	}
	return a.With(dir, f, opts...)
}

// With opens the store in dir, or the server that has its lock, lends it to f and closes it.
func (a *App) With(dir string, f func(db *copal.DB) error, opts ...copal.Option) error {
	db, err := a.OpenStore(dir, opts...)
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

// OpenStore opens the store in dir. Errors that none of its methods can return go to a.Report.
func (a *App) OpenStore(dir string, opts ...copal.Option) (*copal.DB, error) {
	bar := a.NewProgress("reading the log")
	defer bar.Clear()
	return a.Open(dir, append(opts, copal.WithErrorHandler(a.Report), copal.WithProgress(bar.Show))...)
}

// Open calls copal.Open with the options of the command line for all stores.
func (a *App) Open(dir string, opts ...copal.Option) (*copal.DB, error) {
	if a.Copied {
		opts = append(opts, copal.AcceptCopy())
	}
	return copal.Open(dir, append(opts, a.WithMode())...)
}

// RequireStore distinguishes a mistyped path from an empty store: a directory without any file of a
// store would be read as a store without entries.
func RequireStore(dir string) error {
	if dir == "" {
		return ErrNoDir
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

// ErrNoDir is an empty argument, as of a variable of the shell that is not set.
var ErrNoDir = UsageError("the name of a directory is empty")

func isStoreFile(name string) bool {
	return name == "LOCK" || name == "MANIFEST" || filepath.Ext(name) == ".log"
}

// RequireRoom refuses to make a store among files of other kinds, which is always a mistake.
func RequireRoom(dir string) error {
	if dir == "" {
		return ErrNoDir
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if missing := RequireStore(dir); err != nil || missing == nil {
		return missing
	}
	if len(entries) == 1 && entries[0].Name() == "lost+found" { // of a file system of its own
		return nil
	}
	return fmt.Errorf("there is no store in the directory %s, and it is not empty, so none is made there", dir)
}

// ViewOther does the same as View for a second store, beside the store of the shell.
func (a *App) ViewOther(dir string, f func(db *copal.DB) error) error {
	if IsServer(dir) {
		return a.Reach(dir, f)
	}
	if err := RequireStore(dir); err != nil {
		return err
	}
	return a.With(dir, f, copal.ReadOnly())
}
