package kit

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// ReadFiles returns the contents of the files of the store, by name.
func ReadFiles(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	names, err := fsys.List(StoreDir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = string(ReadFile(t, fsys, filepath.Join(StoreDir, name)))
	}
	return files
}

func ReadFile(t testing.TB, fsys vfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// WriteFile replaces a file, in place.
func WriteFile(t testing.TB, fsys vfs.FS, path string, text []byte) {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(text))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, 0); err != nil && len(text) > 0 {
		t.Fatal(err)
	}
}

func WantSameFiles(t testing.TB, got, want map[string]string) {
	t.Helper()
	names := map[string]bool{}
	for name := range got {
		names[name] = true
	}
	for name := range want {
		names[name] = true
	}
	for name := range names {
		g, inGot := got[name]
		w, inWant := want[name]
		if inGot != inWant || g != w {
			t.Errorf("file %s: now %d bytes, there %v; before %d bytes, there %v; equal up to byte %d",
				name, len(g), inGot, len(w), inWant, CommonPrefix(g, w))
		}
	}
}

func CommonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// LastLog returns the path of the newest segment.
func LastLog(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	names, err := fsys.List(StoreDir)
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(names) == 0 {
		t.Fatal("there is no log")
	}
	return filepath.Join(StoreDir, slices.Max(names))
}

func IsLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Armed returns a fault that waits until it is switched on: the next operation that it matches, and
// all that follow if it is for ever, fail.
func Armed(fault vfs.Fault) (*vfs.Fault, *atomic.Bool) {
	on, match := new(atomic.Bool), fault.Match
	fault.N = 1
	fault.Match = func(name string) bool { return on.Load() && (match == nil || match(name)) }
	return &fault, on
}
