package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Path returns the one name that every path to the same file or directory has: from the root on,
// without symbolic links, "." and "..". Elements that do not exist yet do not change.
//
// ".." means the parent of the directory that the elements before it lead to, as it does for the system and
// os.Stat. Functions of package filepath drop "link/.." from a path, which is another directory if link is a
// symbolic link. They are safe on the result, and only there. Windows drops it itself.
//
// A log calls Path once, when it is opened. So it stays where it is when the program changes its
// working directory, or when a symbolic link on the way gets another target.
func Path(name string) (string, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		return filepath.Abs(name)
	}
	if !filepath.IsAbs(name) {
		dir, err := os.Getwd() // it may have symbolic links, as the shell says it
		if err != nil {
			return "", err
		}
		name = dir + "/" + name
	}
	path := "/"
	for _, element := range strings.Split(name, "/") {
		if element != ".." {
			path = filepath.Join(path, element)
			continue
		}
		if _, err := os.Stat(path + "/.."); err != nil {
			return "", err
		}
		whole, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		path = filepath.Dir(whole)
	}
	return withoutLinks(path), nil
}

// withoutLinks resolves the links of a path without "..", as far as it exists and may be looked at.
func withoutLinks(path string) string {
	for known := path; ; known = filepath.Dir(known) {
		whole, err := filepath.EvalSymlinks(known)
		switch {
		case err == nil:
			return filepath.Join(whole, path[len(known):])
		case !errors.Is(err, fs.ErrNotExist) || known == "/":
			return path // the next operation says so
		}
	}
}
