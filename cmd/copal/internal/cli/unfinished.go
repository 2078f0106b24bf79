package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// An import and a copy into a new store note in the directory that it has a part, before the first
// write, and that it has all when everything is durable. So each opening in between, by a command
// or a program, reports that, too.

// NoteNew notes work on a store that has never been written to, and is open.
func (a *App) NoteNew(dir string, db *copal.DB, u seglog.Unfinished) error {
	if a.Host != nil || IsFar(db) {
		return nil
	}
	if _, err := os.Stat(Inside(dir, seglog.ManifestName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole, err := files.Path(dir)
	if err != nil {
		return err
	}
	return seglog.NoteUnfinished(vfs.OSWithMode(a.FileMode.Bits()), whole, u)
}

// EndNew takes the note back, if it is of this work.
func (a *App) EndNew(dir string, db *copal.DB, u seglog.Unfinished) error {
	if a.Host != nil || IsFar(db) {
		return nil
	}
	whole, err := files.Path(dir)
	if err != nil {
		return err
	}
	var was *seglog.UnfinishedError
	if err := seglog.ReadUnfinished(vfs.OS(), whole); !errors.As(err, &was) || was.Unfinished != u {
		return nil
	}
	return errors.Join(db.Sync(), seglog.EndUnfinished(vfs.OS(), whole))
}

// IsRestoreOf reports whether a restore of from was interrupted in dir.
func IsRestoreOf(dir, from string) bool {
	whole, err := files.Path(dir)
	if err != nil {
		return false
	}
	source, err := files.Path(from)
	if err != nil {
		return false
	}
	was, is := errors.AsType[*seglog.UnfinishedError](seglog.ReadUnfinished(vfs.OS(), whole))
	return is && was.Unfinished == seglog.Unfinished{Work: seglog.RestoreWork, Source: source}
}
