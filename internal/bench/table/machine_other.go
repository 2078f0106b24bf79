//go:build !linux

package table

import (
	"errors"
	"os"
	"runtime"
)

func fileSystem(string) string { return "" }

func syncData(f *os.File) error { return f.Sync() }

func anonymousBytes() (int64, error) {
	return 0, errors.New("anonymous memory cannot be measured on " + runtime.GOOS)
}
