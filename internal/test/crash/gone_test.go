package crash

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// TestDirectoryGone: a directory that was removed, or replaced by another, is an error of each call
// that asks for durability. It is reported once, is final, and nothing is written into the
// directory that has the name now.
func TestDirectoryGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be removed")
	}
	put := func(db *copal.DB, durability ...copal.Durability) error {
		raw := db.Raw()
		for _, d := range durability {
			raw = raw.With(d)
		}
		return raw.Set([]byte("after"), []byte("1"))
	}
	for how, leave := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) { kit.Must(t, os.RemoveAll(dir)) },
		"emptied": func(t *testing.T, dir string) { kit.Must(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o777))) },
		"moved":   func(t *testing.T, dir string) { kit.Must(t, os.Rename(dir, dir+".old")) },
		"replaced": func(t *testing.T, dir string) {
			kit.Must(t, os.Rename(dir, dir+".old"))
			kit.Must(t, os.CopyFS(dir, os.DirFS(dir+".old")))
		},
		"parent moved": func(t *testing.T, dir string) { kit.Must(t, os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".old")) },
	} {
		for what, tell := range map[string]func(db *copal.DB) error{
			"Sync after a write": func(db *copal.DB) error { return errors.Join(put(db), db.Sync()) },
			"Sync without":       func(db *copal.DB) error { return db.Sync() },
			"SetFSync":           func(db *copal.DB) error { return put(db, copal.FSync) },
			"the sync interval": func(db *copal.DB) error {
				if err := put(db); err != nil {
					return err
				}
				time.Sleep(time.Second)
				synctest.Wait()
				return put(db)
			},
			"Close": func(db *copal.DB) error { return errors.Join(put(db), db.Close()) },
		} {
			t.Run(how+"/"+what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "parent", "app.db")
				synctest.Test(t, func(t *testing.T) {
					var told kit.ErrorLog
					db, err := copal.Open(dir, told.Option(), copal.WithSyncInterval(time.Second/2))
					kit.Must(t, err)
					defer db.Close()
					kit.MustPut(t, db, "before", "1")
					kit.Must(t, db.Sync())
					leave(t, dir)
					was := filesIn(t, dir)
					err = tell(db)
					if !errors.Is(err, copal.ErrReadOnly) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "moved the directory") {
						t.Errorf("%v", err)
					}
					if err := errors.Join(db.Close(), db.Close()); what != "Close" && !errors.Is(err, copal.ErrReadOnly) {
						t.Errorf("Close: %v", err)
					}
					if errs := told.Take(); len(errs) != 1 {
						t.Errorf("the handler was told %d times: %v", len(errs), errs)
					}
					if now := filesIn(t, dir); was != now {
						t.Errorf("in the directory is now\n%s, and was\n%s", now, was)
					}
				})
			})
		}
	}
}

// TestDirectoryBack: nothing is wrong when the directory is in its place again before the next
// sync; and the writes before a sync that missed it are in the directory that was moved.
func TestDirectoryBack(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory with open files cannot be renamed")
	}
	dir := filepath.Join(t.TempDir(), "app.db")
	var told kit.ErrorLog
	db, err := copal.Open(dir, told.Option(), copal.WithSyncInterval(time.Hour))
	kit.Must(t, err)
	kit.MustPut(t, db, "a", "1")
	kit.Must(t, os.Rename(dir, dir+".away"))
	kit.MustPut(t, db, "b", "1")
	kit.Must(t, os.Rename(dir+".away", dir))
	kit.Must(t, db.Sync())
	kit.Must(t, os.Rename(dir, dir+".away"))
	kit.MustPut(t, db, "c", "1")
	if err := db.Sync(); !errors.Is(err, copal.ErrReadOnly) {
		t.Errorf("Sync: %v", err)
	}
	kit.Must(t, os.Rename(dir+".away", dir))
	if err := db.Raw().Set([]byte("d"), nil); !errors.Is(err, copal.ErrReadOnly) {
		t.Errorf("a write after that: %v", err)
	}
	if err := db.Close(); !errors.Is(err, copal.ErrReadOnly) {
		t.Errorf("Close: %v", err)
	}
	db, err = copal.Open(dir)
	kit.Must(t, err)
	defer kit.MustClose(t, db)
	if n := db.Stats().Keys; n != 3 {
		t.Errorf("there are %d keys, of a, b, c", n)
	}
}

// filesIn lists the files of a directory with their contents, "" of one that is missing.
func filesIn(t *testing.T, dir string) string {
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		kit.Must(t, err)
		b.WriteString(e.Name() + " " + string(text) + "\n")
	}
	return b.String()
}
