package logtest

import (
	"os"
	"runtime/debug"

	"github.com/copaldb/copal/internal/sysmem"
)

// Most tests open small stores by the thousand. Of their time a quarter went to collecting garbage
// every few milliseconds, and a fifth to asking the system at each opening how much memory there
// is.

// heapBefore is the memory that a process may take before it collects as often as necessary: tests
// run on small machines, too.
const heapBefore = 2 << 30

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(heapBefore)
	}
}

// Memory is the default bound of a store's memory.
var Memory = sysmem.Total() / 4
