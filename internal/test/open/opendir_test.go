package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
)

// TestOpenSaysWhatIsThere: the error for a name that cannot be a store's names its kind, and
// nothing is made there.
func TestOpenSaysWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file")
	photos := filepath.Dir(write("photos/one.jpg"))
	hidden := filepath.Dir(write("hidden/.gitkeep"))
	for _, c := range []struct{ name, dir, want string }{
		{"no name", "", "needs the name of a directory"},
		{"a file", file, "is not a directory"},
		{"below a file", filepath.Join(file, "app.db"), "not a directory"},
		{"other files", photos, "one.jpg"},
	} {
		for _, opts := range [][]copal.Option{nil, {copal.ReadOnly()}} {
			db, err := copal.Open(c.dir, opts...)
			if err == nil {
				db.Close()
			}
			if c.name == "other files" && opts != nil {
				c.want = "there is no store"
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "copal:") != 1 {
				t.Errorf("Open of %s, %d options: %v", c.name, len(opts), err)
			}
		}
	}
	if names, err := os.ReadDir(photos); len(names) != 1 || err != nil {
		t.Errorf("there are %v now, %v", names, err)
	}
	db, err := copal.Open(hidden)
	if err != nil {
		t.Fatalf("a directory with a hidden file: %v", err)
	}
	kit.MustClose(t, db)
	write("hidden/README.txt")
	if db, err = copal.Open(hidden); err != nil { // it is a store now
		t.Fatal(err)
	}
	kit.MustClose(t, db)
}
