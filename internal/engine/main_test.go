package engine

import (
	"os"
	"runtime/debug"
	"testing"
)

// Most tests open small stores by the thousand. Of their time a quarter went to collecting garbage every few
// milliseconds.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
