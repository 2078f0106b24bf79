//go:build linux || darwin

package admin_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// TestStoreOfAStranger: a store's directory has a link, a pipe or a directory in the place of a
// file, or under the name of a segment that the store does not have. Every call ends, with or
// without an error, and the target of the link does not change.
func TestStoreOfAStranger(t *testing.T) {
	ctx := context.Background()
	const secret = "of somebody else, and longer than a process id"
	made := filepath.Join(t.TempDir(), "made")
	db, err := copal.Open(made)
	if err == nil {
		err = errors.Join(db.Raw().Set([]byte("k"), []byte("v")), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"00000099.log"}
	entries, err := os.ReadDir(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	opens := func(opts ...copal.Option) func(dir, apart string) error {
		return func(dir, apart string) error {
			db, err := copal.Open(dir, append(opts, copal.WithErrorHandler(func(error) {}))...)
			if err != nil {
				return err
			}
			db.Raw().Set([]byte("k"), []byte("w"))
			_, err = db.Backup(ctx, apart, nil)
			return errors.Join(err, db.Close())
		}
	}
	ways := map[string]func(dir, apart string) error{
		"write": opens(), "read": opens(copal.ReadOnly()),
		"check": func(dir, _ string) error { _, err := admin.Check(ctx, dir, nil); return err },
		"restore": func(dir, apart string) error {
			_, err := admin.Restore(ctx, dir, apart, nil)
			return err
		},
		"repair": func(dir, apart string) error { _, err := admin.Repair(ctx, dir, apart, nil); return err },
		"repair in place": func(dir, _ string) error {
			_, _, err := admin.RepairInPlace(ctx, dir, nil)
			return err
		},
		"backup into it": func(dir, apart string) error {
			db, err := copal.Open(apart)
			if err != nil {
				return err
			}
			_, err = db.Backup(ctx, dir, nil)
			return errors.Join(err, db.Close())
		},
	}
	kinds := map[string]func(path, victim string) error{
		"link": func(path, victim string) error { return os.Symlink(victim, path) },
		"pipe": func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"dir":  func(path, _ string) error { return os.Mkdir(path, 0o700) },
	}
	for _, name := range names {
		for kind, put := range kinds {
			for way, try := range ways {
				home := t.TempDir()
				dir, victim := filepath.Join(home, "db"), filepath.Join(home, "victim")
				err := os.CopyFS(dir, os.DirFS(made))
				os.Remove(filepath.Join(dir, name))
				if err = errors.Join(err, os.WriteFile(victim, []byte(secret), 0o600), put(filepath.Join(dir, name), victim)); err != nil {
					t.Fatal(err)
				}
				err = try(dir, filepath.Join(home, "apart"))
				if name == "LOCK" && way == "write" && err == nil {
					t.Errorf("a store whose LOCK is a %s was opened for writing", kind)
				}
				if text, failed := os.ReadFile(victim); failed != nil || string(text) != secret {
					t.Errorf("%s, %s as a %s: the linked file has %q, %v", way, name, kind, text, failed)
				}
			}
		}
	}
}

// TestFileMode: a store, its backup, and restored and repaired stores have the permissions that
// were asked for.
func TestFileMode(t *testing.T) {
	ctx := context.Background()
	for _, mode := range []fs.FileMode{0o600, 0o640} {
		var opts []copal.Option
		dirMode := fs.FileMode(0o700)
		if mode != 0o600 {
			opts, dirMode = []copal.Option{copal.WithFileMode(mode)}, 0o750
		}
		home := filepath.Join(t.TempDir(), "home")
		if err := os.Mkdir(home, 0o700); err != nil {
			t.Fatal(err)
		}
		in := func(name string) string { return filepath.Join(home, name) }
		was := unix.Umask(0)
		db, err := copal.Open(in("db"), opts...)
		if err == nil {
			err = db.Raw().Set([]byte("k"), []byte("v"))
			_, failed := db.Backup(ctx, in("backup"), nil)
			_, restored := admin.Restore(ctx, in("backup"), in("restored"), nil, opts...)
			err = errors.Join(err, failed, restored, db.Close())
			_, failed = admin.Repair(ctx, in("db"), in("repaired"), nil, opts...)
			_, _, repaired := admin.RepairInPlace(ctx, in("restored"), nil, opts...)
			err = errors.Join(err, failed, repaired)
		}
		unix.Umask(was)
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		err = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == home {
				return err
			}
			info, err := e.Info()
			want := mode
			if e.IsDir() {
				want = dirMode
			}
			if files++; err == nil && info.Mode().Perm() != want {
				t.Errorf("%s is %v, want %v", path, info.Mode().Perm(), want)
			}
			return err
		})
		if err != nil || files < 12 {
			t.Errorf("%d files, %v", files, err)
		}
	}
	for _, mode := range []fs.FileMode{0, 0o400, 0o640 | fs.ModeSetuid} {
		if db, err := copal.Open(t.TempDir(), copal.WithFileMode(mode)); err == nil {
			t.Errorf("WithFileMode(%v) is accepted", mode)
			db.Close()
		}
	}
}

// TestBackupOfAStranger is TestStoreOfAStranger for the files of a backup, of which there is one more, and for those
// that unfinished work leaves in a directory.
func TestBackupOfAStranger(t *testing.T) {
	ctx := context.Background()
	const secret = "of somebody else, and longer than a process id"
	home := t.TempDir()
	in := func(name string) string { return filepath.Join(home, name) }
	db, err := copal.Open(in("db"))
	if err == nil {
		err = db.Raw().Set([]byte("k"), []byte("v"))
		_, failed := db.Backup(ctx, in("made"), nil)
		err = errors.Join(err, failed, db.Raw().Set([]byte("k"), []byte("w")))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names := []string{"UNFINISHED", "LOCK", "MANIFEST.tmp", "BACKUP.tmp", "UNFINISHED.tmp", "00000002.log"}
	entries, err := os.ReadDir(in("made"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	ways := map[string]func(dir, apart string) error{
		"restore":         func(dir, apart string) error { _, err := admin.Restore(ctx, dir, apart, nil); return err },
		"restore into":    func(dir, _ string) error { _, err := admin.Restore(ctx, in("made"), dir, nil); return err },
		"backup again":    func(dir, _ string) error { _, err := db.Backup(ctx, dir, nil); return err },
		"check":           func(dir, _ string) error { _, err := admin.Check(ctx, dir, nil); return err },
		"repair":          func(dir, apart string) error { _, err := admin.Repair(ctx, dir, apart, nil); return err },
		"repair into":     func(dir, _ string) error { _, err := admin.Repair(ctx, in("made"), dir, nil); return err },
		"repair in place": func(dir, _ string) error { _, _, err := admin.RepairInPlace(ctx, dir, nil); return err },
	}
	kinds := map[string]func(path, victim string) error{
		"link":     func(path, victim string) error { return os.Symlink(victim, path) },
		"dangling": func(path, victim string) error { return os.Symlink(victim+".missing", path) },
		"pipe":     func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"dir":      func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"device":   func(path, _ string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
	}
	for _, name := range names {
		for kind, put := range kinds {
			for way, try := range ways {
				home := t.TempDir()
				dir, victim := filepath.Join(home, "db"), filepath.Join(home, "victim")
				err := os.MkdirAll(dir, 0o700)
				if way != "restore into" && way != "repair into" {
					err = os.CopyFS(dir, os.DirFS(in("made")))
				}
				os.Remove(filepath.Join(dir, name))
				if err = errors.Join(err, os.WriteFile(victim, []byte(secret), 0o600)); err != nil {
					t.Fatal(err)
				}
				if err := put(filepath.Join(dir, name), victim); kind == "device" && err != nil {
					continue // only root makes devices
				} else if err != nil {
					t.Fatal(err)
				}
				err = try(dir, filepath.Join(home, "apart"))
				needed := name == "MANIFEST" || name == "00000001.log"
				if needed && (way == "restore" || way == "restore into" || way == "repair into") && err == nil {
					t.Errorf("%s, %s as a %s: there is no error", way, name, kind)
				}
				if text, failed := os.ReadFile(victim); failed != nil || string(text) != secret {
					t.Errorf("%s, %s as a %s: the linked file has %q, %v", way, name, kind, text, failed)
				}
				if _, err := os.Lstat(victim + ".missing"); err == nil {
					t.Errorf("%s, %s as a %s: the file that is linked to was made", way, name, kind)
				}
			}
		}
	}
}
