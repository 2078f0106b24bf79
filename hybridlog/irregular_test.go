//go:build linux || darwin

package hybridlog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal/hybridlog"
)

// TestLogOfAStranger: a log's directory has a link, a pipe or a directory in the place of a file.
// Every open ends, with or without an error, and the target of the link does not change.
func TestLogOfAStranger(t *testing.T) {
	const secret = "of somebody else, and longer than a process id"
	for _, mode := range []fs.FileMode{0o600, 0o640} {
		made := filepath.Join(t.TempDir(), "made")
		was := unix.Umask(0)
		l, err := hybridlog.Open(made, hybridlog.FileMode(mode))
		if err == nil {
			_, err = l.Append([]byte("text"))
			err = errors.Join(err, l.Close())
		}
		unix.Umask(was)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(made)
		if err != nil || len(entries) < 3 {
			t.Fatalf("%d files, %v", len(entries), err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s is %v, want %v (%v)", e.Name(), info.Mode().Perm(), mode, err)
			}
			for kind, put := range map[string]func(path, victim string) error{
				"link": func(path, victim string) error { return os.Symlink(victim, path) },
				"pipe": func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
				"dir":  func(path, _ string) error { return os.Mkdir(path, 0o700) },
			} {
				for _, opts := range [][]hybridlog.Option{nil, {hybridlog.ReadOnly()}} {
					home := t.TempDir()
					dir, victim := filepath.Join(home, "log"), filepath.Join(home, "victim")
					err := os.CopyFS(dir, os.DirFS(made))
					os.Remove(filepath.Join(dir, e.Name()))
					if err = errors.Join(err, os.WriteFile(victim, []byte(secret), 0o600), put(filepath.Join(dir, e.Name()), victim)); err != nil {
						t.Fatal(err)
					}
					l, err := hybridlog.Open(dir, append(opts, hybridlog.OnError(func(error) {}))...)
					if err == nil {
						l.Close()
					}
					if e.Name() == "LOCK" && opts == nil && err == nil {
						t.Errorf("a log whose LOCK is a %s was opened for writing", kind)
					}
					if text, failed := os.ReadFile(victim); failed != nil || string(text) != secret {
						t.Errorf("%s as a %s: the linked file has %q, %v", e.Name(), kind, text, failed)
					}
				}
			}
		}
	}
}
