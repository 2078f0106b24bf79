package files_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

var errTest = errors.New("failed")

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writes(text string) func(vfs.File) error {
	return func(f vfs.File) error {
		_, err := f.WriteAt([]byte(text), 0)
		return err
	}
}

// create makes a file with that text, durably.
func create(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	f, err := fsys.Open(name, vfs.Create)
	check(t, err)
	check(t, errors.Join(writes(text)(f), f.Sync(), f.Close(), fsys.SyncDir("/")))
}

func textOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	text, _, err := files.Read(fsys, name, 100)
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	check(t, err)
	return string(text)
}

func TestMake(t *testing.T) {
	m := vfs.NewCrashMem()
	create(t, m, "f", "what a crash has left")
	f, err := files.Make(m, "f", writes("text"))
	check(t, err)
	check(t, errors.Join(f.Close(), m.SyncDir("/")))
	for image := range m.PowerCuts(20, nil) {
		if got := textOf(t, image, "f"); got != "text" {
			t.Errorf("after a power cut the file holds %q", got)
		}
	}
}

// Whatever step fails, the error says so, and no file is left.
func TestMakeFails(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpRemove, vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
		m := vfs.NewMem()
		create(t, m, "f", "what a crash has left")
		_, err := files.Make(vfs.Inject(m, &vfs.Fault{Kinds: kind, N: 1, Err: errTest}), "f", writes("text"))
		if !errors.Is(err, errTest) {
			t.Errorf("%v fails: %v", kind, err)
		}
		if got := textOf(t, m, "f"); kind != vfs.OpRemove && got != "none" {
			t.Errorf("%v fails, and %q is left", kind, got)
		}
	}
}

// A power cut at any moment leaves the old file or the new one, and after the end only the new one.
func TestReplace(t *testing.T) {
	m := vfs.NewCrashMem()
	create(t, m, "f", "old")
	seen := map[string]bool{}
	m.OnBoundary(func(vfs.Op, vfs.Phase) {
		for image := range m.PowerCuts(20, nil) {
			seen[textOf(t, image, "f")] = true
		}
	})
	check(t, files.Replace(m, "f", writes("new")))
	if m.OnBoundary(nil); len(seen) != 2 || !seen["old"] || !seen["new"] {
		t.Errorf("power cuts leave %v", seen)
	}
	for image := range m.PowerCuts(20, nil) {
		if got := textOf(t, image, "f"); got != "new" {
			t.Errorf("behind the end a power cut leaves %q", got)
		}
	}
}

// falseRename renames, and says that it has not.
type falseRename struct{ vfs.FS }

func (f falseRename) Rename(from, to string) error {
	return errors.Join(f.FS.Rename(from, to), errTest)
}

// The error shows whether the old file is certainly in place.
func TestReplaceFails(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir} {
		m := vfs.NewMem()
		create(t, m, "f", "old")
		err := files.Replace(vfs.Inject(m, &vfs.Fault{Kinds: kind, N: 1, Err: errTest}), "f", writes("new"))
		if !errors.Is(err, errTest) || errors.Is(err, files.ErrSyncDir) != (kind == vfs.OpSyncDir) || errors.Is(err, files.ErrRenamed) {
			t.Errorf("%v fails: %v", kind, err)
		}
		if got := textOf(t, m, "f"); (got == "new") != (kind == vfs.OpSyncDir) {
			t.Errorf("%v fails, and %q is in place", kind, got)
		}
	}
	m := vfs.NewMem()
	create(t, m, "f", "old")
	if err := files.Replace(falseRename{m}, "f", writes("new")); !errors.Is(err, errTest) || !errors.Is(err, files.ErrRenamed) {
		t.Errorf("the rename was done, and failed: %v", err)
	}
}

// An attempt that the system refuses is no failed sync, and no rename in doubt, unless the rename
// was done before.
func TestReplaceWithoutDescriptorsOrRights(t *testing.T) {
	for _, x := range []struct {
		kinds   vfs.Kind
		name    string
		err     error
		renamed bool
	}{
		{vfs.OpOpen | vfs.OpCreate, "f.tmp", syscall.EMFILE, false},
		{vfs.OpRename | vfs.OpOpen, "f.tmp", syscall.EACCES, false},
		{vfs.OpRename | vfs.OpOpen, "f.tmp", syscall.EIO, true},
		{vfs.OpOpen, "/", syscall.EMFILE, true},
	} {
		m := vfs.NewMem()
		create(t, m, "/f", "old")
		fault := &vfs.Fault{Kinds: x.kinds, N: 1, Forever: true, Err: x.err, Match: func(name string) bool { return strings.HasSuffix(name, x.name) }}
		err := files.Replace(vfs.Inject(m, fault), "/f", writes("new"))
		if !errors.Is(err, x.err) || errors.Is(err, files.ErrSyncDir) || errors.Is(err, files.ErrRenamed) != x.renamed {
			t.Errorf("%v of %s fails with %v: %v", x.kinds, x.name, x.err, err)
		}
	}
}

func TestRead(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "f", "text")
	text, id, err := files.Read(m, "f", 3)
	if f, e := m.Open("f", vfs.ReadOnly); e != nil || err != nil || string(text) != "tex" || id == "" || id != f.ID() {
		t.Errorf("%q of %q, %v", text, id, err)
	}
	if _, _, err := files.Read(vfs.Inject(m, &vfs.Fault{Kinds: vfs.OpRead, N: 1, Err: errTest}), "f", 3); !errors.Is(err, errTest) {
		t.Errorf("a read fails: %v", err)
	}
}

func TestRemove(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "f", "text")
	check(t, files.Remove(m, "f"))
	check(t, files.Remove(m, "f"))
	if err := files.Remove(vfs.Inject(m, &vfs.Fault{Kinds: vfs.OpRemove, N: 1, Err: errTest}), "f"); !errors.Is(err, errTest) {
		t.Error(err)
	}
}

func TestSyncParent(t *testing.T) {
	for _, x := range []struct{ err, want error }{{nil, nil}, {fs.ErrPermission, nil}, {errTest, files.ErrSyncDir}} {
		m := vfs.NewMem()
		check(t, m.MkdirAll("/a/b"))
		fault := &vfs.Fault{Kinds: vfs.OpSyncDir, Match: func(name string) bool { return name == "/a" }, Err: x.err}
		if x.err != nil {
			fault.N = 1
		}
		fsys := vfs.Inject(m, fault)
		if err := files.SyncParent(fsys, "/a/b/"); !errors.Is(err, x.want) || x.want == nil && err != nil || fsys.Matched(0) != 1 {
			t.Errorf("with %v: %v, synced %d times", x.err, err, fsys.Matched(0))
		}
	}
}
