//go:build (linux || darwin) && !image

package importers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal/internal/vfs"
)

// TestBadgerOfAStranger: a directory of badger has a link, a pipe, a device or a directory in the
// place of a file. The import ends with an error, and follows no link.
func TestBadgerOfAStranger(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	smallBadger(t, whole)
	for _, name := range []string{"MANIFEST", "000001.sst", "000001.vlog", "KEYREGISTRY", "DISCARD", "000009.sst", "000009.vlog", "00009.mem"} {
		for kind, put := range map[string]func(path string) error{
			"link":      func(path string) error { return os.Symlink(filepath.Join(whole, filepath.Base(path)), path) },
			"dangling":  func(path string) error { return os.Symlink("/nowhere", path) },
			"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
			"device":    func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		} {
			dir := filepath.Join(t.TempDir(), "old")
			check(t, os.CopyFS(dir, os.DirFS(whole)))
			os.Remove(filepath.Join(dir, name))
			err := put(filepath.Join(dir, name))
			if kind == "device" && err != nil {
				continue // only root makes devices
			}
			check(t, err)
			if _, err := readAll(t, "badger", Source{Path: dir}); err == nil || !strings.Contains(err.Error(), vfs.ErrIrregular.Error()) {
				t.Errorf("%s as a %s: the error is %v", name, kind, err)
			}
		}
	}
}
