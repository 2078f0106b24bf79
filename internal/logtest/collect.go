package logtest

import (
	"os"
	"runtime"
	"runtime/debug"
)

// A test that enumerates crashes allocates much and keeps little. With the default settings a third
// of its time is spent on garbage collection and on the profile of allocations.
func init() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(1 << 30)
	runtime.MemProfileRate = 0
}
