package importers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tidwall/buntdb"
)

// readBunt reads a buntdb file. The library cuts off the end that a crash has left, so it gets a
// copy. Deadlines that an old version has written count from the time of the file, which the copy
// has, too.
func readBunt(s *Source, emit func(*Item) error) (err error) {
	defer recovered(&err)
	dir, err := os.MkdirTemp("", "copal-import-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "copy")
	size, err := copyTo(path, s)
	if err != nil {
		return err
	}
	db, err := buntdb.Open(path)
	if err != nil {
		if errors.Is(err, buntdb.ErrInvalid) {
			err = errors.New("the file is damaged: there is something between two commands that is none")
		}
		return err
	}
	defer db.Close()
	if info, err := os.Stat(path); err != nil {
		return err
	} else if whole := info.Size(); whole < size {
		if err := s.bad(0, whole, true, "the last command is cut short"); err != nil {
			return err
		}
	}
	var failed error
	err = db.View(func(tx *buntdb.Tx) error {
		return tx.Ascend("", func(key, value string) bool {
			item := &Item{}
			item.Key, item.Value = []byte(key), []byte(value)
			ttl, err := tx.TTL(key)
			switch {
			case err == buntdb.ErrNotFound: // it has expired
				return true
			case err != nil:
				failed = err
				return false
			case ttl >= 0:
				item.Expires = deadline(time.Now(), ttl)
			}
			failed = emit(item)
			return failed == nil
		})
	})
	return errors.Join(failed, err)
}

// deadline returns the time, ttl from now: in whole seconds, as files have it, if that is near.
func deadline(now time.Time, ttl time.Duration) time.Time {
	t := now.Round(0).Add(ttl)
	if s := t.Round(time.Second); t.Sub(s).Abs() < 5*time.Millisecond {
		return s
	}
	return t.Round(time.Millisecond)
}

// copyTo copies the source to a file of the same age.
func copyTo(path string, s *Source) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(f, s.In)
	if err = errors.Join(err, f.Close()); err != nil || s.Path == "" {
		return size, err
	}
	info, err := os.Stat(s.Path)
	if err != nil {
		return size, err
	}
	return size, os.Chtimes(path, info.ModTime(), info.ModTime())
}
