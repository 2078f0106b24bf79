package open

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/hybridlog"
)

// TestOnePathOneStore: ".." after a symbolic link is resolved as the system does it, with any PWD,
// and an open store keeps its files when the working directory or the link changes.
func TestOnePathOneStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system has another meaning of ..")
	}
	root := t.TempDir()
	app := filepath.Join(root, "app")
	link := func(target string) error {
		return errors.Join(os.Symlink(target, app+"/new"), os.Rename(app+"/new", app+"/current"))
	}
	err := errors.Join(os.MkdirAll(app+"/releases/1", 0o777), os.MkdirAll(app+"/other/2", 0o777), link("releases/1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(app + "/current")
	put := func(pwd, name, value string) (old string) {
		t.Setenv("PWD", pwd)
		db, err := copal.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := copal.Open(app + "/releases/data.db"); !errors.Is(err, copal.ErrLocked) {
			t.Errorf("a second opening by the other path: %v", err)
		}
		if _, err := db.Backup(t.Context(), app+"/current/../data.db/backup", nil); err == nil {
			t.Error("a backup within the store is made")
		}
		old, _ = copal.Load[string](db, "who")
		if err := errors.Join(copal.Set(db, "who", value), db.Close()); err != nil {
			t.Fatal(err)
		}
		return old
	}
	put(app+"/current", "../data.db", "shell")
	if old := put("", "../data.db", "cron"); old != "shell" {
		t.Errorf("the second process finds %q", old)
	}
	if old := put(app+"/current", app+"/current/../data.db", "whole"); old != "cron" {
		t.Errorf("by the whole path it finds %q", old)
	}
	m, err := copal.OpenSingleMap[string, int]("../single.db")
	if err == nil {
		err = errors.Join(m.Set("a", 1), m.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := hybridlog.Open("../log")
	if err != nil {
		t.Fatal(err)
	}
	db, err := copal.Open(app + "/current/../open.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	if err := errors.Join(link("other/2"), copal.Set(db, "a", 1), db.Compact(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append([]byte("entry")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data.db", "single.db", "log", "open.db"} {
		if _, err := os.Stat(filepath.Join(app, "releases", name, "MANIFEST")); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range []string{app, app + "/other"} {
		if made, _ := filepath.Glob(dir + "/*"); len(made) != map[string]int{app: 3, app + "/other": 1}[dir] {
			t.Errorf("something was made elsewhere: %q", made)
		}
	}
}
