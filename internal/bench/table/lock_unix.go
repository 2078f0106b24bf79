//go:build unix

package table

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is a file in the directory for temporary files. It is never deleted: two runs would
// lock two files of one name.
const lockName = "copal-bench.lock"

// lockEvery is how often the lock is asked for while another run has it.
const lockEvery = 100 * time.Millisecond

// lock waits until no other run goes on, on this machine, or until ctx is done. The kernel gives
// the lock back when the process ends.
func lock(ctx context.Context, note func(text string)) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), lockName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for waiting := false; ; waiting = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f.Close, nil
		case err == unix.EINTR:
			continue
		case err != unix.EWOULDBLOCK:
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		case !waiting:
			note("waiting for another run, which holds " + f.Name())
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}
