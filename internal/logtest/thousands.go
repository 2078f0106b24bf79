package logtest

import (
	"os"
	"runtime/debug"

	"github.com/copaldb/copal/internal/sysmem"
)

// Most tests open small stores by the thousand. Of their time a quarter went to collecting garbage every few
// milliseconds, and a fifth to asking the system at each opening how much memory there is.

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Memory is what a store takes that is told nothing else.
var Memory = sysmem.Total() / 4
