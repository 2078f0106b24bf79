package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// Inside returns the path of a file in a directory as the user names it. It leaves ".." to the
// system.
func Inside(dir, name string) string {
	return strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator) + name
}

// ParentOf returns the path of the directory of a file.
func ParentOf(file string) string {
	if dir, _ := filepath.Split(file); dir != "" {
		return dir
	}
	return "."
}

// Exists reports whether there is a file at path. A broken link counts.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// SyncDir makes a rename durable, where a directory can be synced.
func SyncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// PartSuffix ends the name of a file that is not whole yet.
const PartSuffix = ".part"
