package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/copaldb/copal"
)

// openStore opens the store in dir for reading. Errors that none of its methods can
// return go to a.report.
func (a *app) openStore(dir string) (*copal.DB, error) {
	if err := requireStore(dir); err != nil {
		return nil, err
	}
	db, err := copal.Open(dir, copal.ReadOnly(), copal.WithErrorHandler(a.report))
	if errors.Is(err, copal.ErrCorrupt) {
		return nil, fmt.Errorf("%w; 'copal check %s' finds all that is damaged", err, dir)
	}
	return db, err
}

// view opens the store in dir for reading, lends it to f and closes it.
func (a *app) view(dir string, f func(db *copal.DB) error) error {
	db, err := a.openStore(dir)
	if err != nil {
		return err
	}
	err = f(db)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// requireStore tells a mistyped path from a store that is empty: a directory in which
// none of a store's files is would be read as one without entries.
func requireStore(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no store %s: no such directory", dir)
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
		if name := e.Name(); name == "LOCK" || name == "MANIFEST" || filepath.Ext(name) == ".log" {
			return nil
		}
	}
	return fmt.Errorf("there is no store in the directory %s", dir)
}
