package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// TestErrorTexts: an error begins with "copal: ", once, names the directory, says a thing once,
// with a remedy, and nothing is made.
func TestErrorTexts(t *testing.T) {
	base := t.TempDir()
	dir, other, file := filepath.Join(base, "app.db"), filepath.Join(base, "other"), filepath.Join(base, "file")
	db, err := copal.Open(dir)
	if err == nil {
		err = errors.Join(db.Raw().Set([]byte("k"), nil), os.Mkdir(other, 0o777), os.WriteFile(filepath.Join(other, "photo.jpg"), nil, 0o666), os.WriteFile(file, nil, 0o666))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(base, "other"))
	ctx := context.Background()
	check := func(dir string) error { _, err := admin.Check(ctx, dir, nil); return err }
	repair := func(dir, into string) error { _, err := admin.Repair(ctx, dir, into, nil); return err }
	restore := func(from, into string) error { _, err := admin.Restore(ctx, from, into, nil); return err }
	backup := func(to string) error { _, err := db.Backup(ctx, to, nil); return err }
	inUse := repair(dir, filepath.Join(base, "new"))
	backedUp := backup(filepath.Join(base, "backup"))
	beside := []error{backup(""), backup(other), backup(file), backup(dir), backup(filepath.Join(dir, "sub", "backup"))}
	if err := errors.Join(backedUp, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		err  error
		is   error
		says string
	}{
		{"check of nothing", check(""), nil, "the name of a directory is empty"},
		{"check of no store", check(other), fs.ErrNotExist, "there is no store in " + other},
		{"repair of nothing", repair("", other), nil, "the name of a directory is empty"},
		{"repair into nothing", repair(dir, ""), nil, "the name of a directory is empty"},
		{"repair into other files", repair(dir, other), fs.ErrExist, other + " holds photo.jpg: the new store needs a directory"},
		{"repair into a file", repair(dir, file), fs.ErrExist, file + " is a file: the new store needs a directory"},
		{"repair into the store", repair(dir, dir), fs.ErrExist, "which is not changed"},
		{"repair far within the store", repair(dir, filepath.Join(dir, "a", "b")), fs.ErrExist, "which is not changed"},
		{"repair of a store in use", inUse, copal.ErrLocked, "locked by this process"},
		{"restore of nothing", restore("", filepath.Join(base, "new")), nil, "the name of a directory is empty"},
		{"restore into nothing", restore(filepath.Join(base, "backup"), ""), nil, "the name of a directory is empty"},
		{"restore into other files", restore(filepath.Join(base, "backup"), other), fs.ErrExist, other + " holds photo.jpg"},
		{"backup to nothing", beside[0], nil, "Backup needs the name of a directory"},
		{"backup to other files", beside[1], fs.ErrExist, other + " holds photo.jpg, and is no backup"},
		{"backup to a file", beside[2], nil, file + " is not a directory"},
		{"backup to the store", beside[3], fs.ErrExist, "a backup needs a directory of its own"},
		{"backup within the store", beside[4], fs.ErrExist, "a backup needs a directory of its own"},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		text := c.err.Error()
		if !strings.HasPrefix(text, "copal: ") || strings.Count(text, "copal: ") > 1 || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s", c.what, text)
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%s: it is not %v: %s", c.what, c.is, text)
		}
		for _, twice := range []string{"file already exists", "file does not exist"} {
			if strings.Contains(text, twice) {
				t.Errorf("%s: it says so twice: %s", c.what, text)
			}
		}
	}
	if names, err := filepath.Glob(filepath.Join(other, "*")); len(names) != 1 || err != nil {
		t.Errorf("something was made among other files: %q, %v", names, err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "[a-s]*")); len(names) > 0 {
		t.Errorf("something was made in the store: %q", names)
	}
}
