//go:build !linux

package vfs

import (
	"errors"
	"os"
)

// Everywhere but on Linux the store appends by WriteAt, so these functions only refuse. File.Sync
// is the strong one: F_FULLFSYNC on Apple's systems.

const canMap = false

func syncFile(f *os.File) error { return f.Sync() }

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func freeBytes(string) (bytes int64, known bool) { return 0, false }

func exchangeNames(string, string) error { return errors.ErrUnsupported }

func prefetch(*os.File, int64, int64) {}

func adviseRandom(*os.File, Region) {}

func mapFile(*os.File, int64, int, bool) (Region, error) { return nil, errors.ErrUnsupported }

func pidNamespace() string { return "" } // there is one
