package copal

import (
	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/vfs"
)

// The seams as options, so that the tests of the package can stand outside it.

func WithFS(fsys vfs.FS) Option         { return storeOption(func(c *config) { c.fsys = fsys }) }
func WithClock(k clock.Clock) Option    { return storeOption(func(c *config) { c.clock = k }) }
func WithRandom(f func() uint64) Option { return storeOption(func(c *config) { c.random = f }) }
func WithSegmentBytes(n int64) Option   { return storeOption(func(c *config) { c.segmentBytes = n }) }
func WithoutRing() Option               { return storeOption(func(c *config) { c.ringBytes = -1 }) }
func WithInline() Option                { return storeOption(func(c *config) { c.inline = true }) }

// CheckFS is Check on any file system.
func CheckFS(dir string, fsys vfs.FS) (Report, error) { return check(dir, fsys, nil) }
