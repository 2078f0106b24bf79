//go:build unix

package serving

import (
	"math"

	"golang.org/x/sys/unix"
)

// descriptorLimit returns the number of descriptors that this process may have open.
func descriptorLimit() (limit int, known bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, false
	}
	return int(min(uint64(l.Cur), math.MaxInt32)), true
}
