//go:build unix

package study

import (
	"io/fs"
	"math"
	"syscall"
)

// allocated returns the bytes that a file takes on the disk.
func allocated(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return math.MaxInt64
}
