//go:build linux || darwin

package vfs

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// irregulars put something that is no regular file at path. The first two point at victim.
var irregulars = map[string]func(path, victim string) error{
	"link":      func(path, victim string) error { return os.Symlink(victim, path) },
	"dangling":  func(path, victim string) error { return os.Symlink(victim+".missing", path) },
	"directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"pipe":      func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	"socket": func(path, _ string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			l.SetUnlinkOnClose(false)
			err = l.Close()
		}
		return err
	},
	"device": func(path, _ string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
}

// TestNothingIrregularIsOpened: whatever has the name of a file, an opener gets an error at once,
// and a linked file does not change.
func TestNothingIrregularIsOpened(t *testing.T) {
	for kind, put := range irregulars {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			name, victim := filepath.Join(dir, "f"), filepath.Join(dir, "victim")
			check(t, os.WriteFile(victim, []byte("of somebody else, and longer than a process id"), 0o600))
			err := put(name, victim)
			if kind == "device" && err != nil {
				t.Skipf("only root makes devices: %v", err)
			}
			check(t, err)
			for _, mode := range []Mode{ReadOnly, ReadWrite} {
				f, err := OS().Open(name, mode)
				wantErr(t, err, ErrIrregular)
				if f != nil {
					t.Errorf("mode %d has a file", mode)
				}
			}
			_, err = OS().Open(name, Create)
			wantErr(t, err, fs.ErrExist)
			_, err = OS().Lock(name)
			wantErr(t, err, ErrIrregular)
			if text, err := os.ReadFile(victim); err != nil || string(text) != "of somebody else, and longer than a process id" {
				t.Errorf("the linked file has %q, %v", text, err)
			}
			if _, err := os.Lstat(victim + ".missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file that a link missed was made: %v", err)
			}
			own := create(t, OS(), filepath.Join(dir, "own"), "x")
			defer own.Close()
			has, err := own.HasName(name)
			if has || err != nil {
				t.Errorf("HasName is %v, %v", has, err)
			}
			if kind == "directory" {
				return
			}
			if _, err := OS().List(name); kind != "link" && kind != "dangling" && !IsNotDirectory(err) {
				t.Errorf("List: %v", err)
			}
		})
	}
}

// TestLinkIsNoName: a link to the very file is not its name.
func TestLinkIsNoName(t *testing.T) {
	dir := t.TempDir()
	f := create(t, OS(), filepath.Join(dir, "f"), "x")
	defer f.Close()
	check(t, os.Symlink("f", filepath.Join(dir, "link")))
	for name, want := range map[string]bool{"f": true, "link": false} {
		if has, err := f.HasName(filepath.Join(dir, name)); has != want || err != nil {
			t.Errorf("HasName(%s) is %v, %v", name, has, err)
		}
	}
}

// TestPermissions: files and directories have permissions for their owner alone, or those that are
// given, whatever the umask. Existing ones keep theirs.
func TestPermissions(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		for mode, dirMode := range map[fs.FileMode]fs.FileMode{0: 0o700, 0o600: 0o700, 0o640: 0o750, 0o660: 0o770, 0o644: 0o755} {
			home := t.TempDir()
			was := unix.Umask(umask)
			fsys := OS()
			if mode != 0 {
				fsys = OSWithMode(mode)
			}
			mode |= OwnerOnly
			dir := filepath.Join(home, "a", "b")
			err := fsys.MkdirAll(dir)
			f, failed := fsys.Open(filepath.Join(dir, "f"), Create)
			lock, locks := fsys.Lock(filepath.Join(dir, "LOCK"))
			unix.Umask(was)
			check(t, errors.Join(err, failed, locks))
			check(t, errors.Join(f.Close(), lock.Close()))
			for name, want := range map[string]fs.FileMode{"a": dirMode, "a/b": dirMode, "a/b/f": mode, "a/b/LOCK": mode} {
				if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Mode().Perm() != want {
					t.Errorf("umask %03o, mode %03o: %s is %v, want %v (%v)", umask, mode, name, info.Mode().Perm(), want, err)
				}
			}
		}
	}
	own := filepath.Join(t.TempDir(), "own")
	check(t, os.WriteFile(own, []byte("x"), 0o644))
	f, err := OS().Open(own, ReadWrite)
	check(t, err)
	check(t, f.Close())
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("a file that was there is %v, %v", info.Mode(), err)
	}
}
