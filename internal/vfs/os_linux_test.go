package vfs

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies beyond the limit on the size of a file cannot be written, and so is not reserved.
func TestAllocateWithinLimit(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	if before.Cur < most {
		t.Skip("there is a lower limit already")
	}
	f, err := OS().Open(filepath.Join(t.TempDir(), "file"), Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	within, beyond := f.Allocate(most/2, most/2), f.Allocate(most/2, most/2+1)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if within != nil || !IsNoSpace(beyond) {
		t.Errorf("Allocate up to the limit: %v; beyond it: %v", within, beyond)
	}
}
