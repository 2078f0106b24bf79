package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestPath: two paths that the system takes for one directory have one name, and that name is a
// path to it. A path that does not exist keeps its name.
func TestPath(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("the system has another meaning of ..")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(root+"/app/releases/1/data", 0o777), os.MkdirAll(root+"/app/releases/store", 0o777),
		os.Symlink("releases/1", root+"/app/current"), os.Symlink("../store", root+"/app/releases/1/data/dangling"),
		os.Symlink(root+"/app/current/../store", root+"/far"), os.WriteFile(root+"/file", nil, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	store := root + "/app/releases/store"
	t.Chdir(root + "/app/current") // as a shell does it: PWD has the link
	for _, pwd := range []string{root + "/app/current", root + "/app/releases/1", "", "/nowhere"} {
		t.Setenv("PWD", pwd)
		for _, c := range []struct{ name, want string }{
			{"../store", store},
			{"./../store/", store},
			{"data/../../store", store},
			{"../../current/../store", store},
			{root + "/app/current/../store", store},
			{root + "//far/.", store},
			{"../../../far", store},
			{"", root + "/app/releases/1"},
			{".", root + "/app/releases/1"},
			{"..", root + "/app/releases"},
			{"new", root + "/app/releases/1/new"},
			{"../new/a", root + "/app/releases/new/a"},
			{"../../current/new", root + "/app/releases/1/new"},
			{"/..", "/"},
			{"../../../file/below", root + "/file/below"},
		} {
			got, err := Path(c.name)
			if err != nil || got != c.want {
				t.Errorf("PWD=%s: the path of %s is %s, %v; want %s", pwd, c.name, got, err, c.want)
				continue
			}
			a, err := os.Stat(filepath.FromSlash(c.name + "/."))
			if c.name == "" || err != nil {
				continue
			}
			if b, err := os.Stat(got); err != nil || !os.SameFile(a, b) {
				t.Errorf("PWD=%s: the system finds something else as %s than as %s: %v", pwd, c.name, got, err)
			}
		}
	}
	for _, name := range []string{"missing/../../store", "../../../file/../app", "data/dangling/.."} {
		_, want := os.Stat(name)
		if got, err := Path(name); want == nil || err == nil || errors.Is(want, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the path of %s is %q, %v; the system says %v", name, got, err, want)
		}
	}
}
