package hybridlog

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/internal/vfs"
)

// Close of a log that has failed waits for a sync that is under way: the files that this settles are there, and
// nothing is done in the directory when Close has returned.
func TestCloseAwaitsSyncAfterAFailure(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		synctest.Test(t, func(t *testing.T) {
			var syncing, failing atomic.Bool
			hold := make(chan struct{})
			slow := &vfs.Fault{Kinds: vfs.OpSync, N: 1, Hold: hold, Match: func(name string) bool {
				return syncing.Load() && strings.HasSuffix(name, "00000002.sum")
			}}
			broken := &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Forever: true, Err: syscall.EIO, Match: func(string) bool { return failing.Load() }}
			l := mustOpen(t, vfs.Inject(vfs.NewMem(), slow, broken), change)
			for i := range 30 {
				mustAppend(t, l, text(i, 1000))
			}
			if len(l.unsynced) != 1 || l.tail.id.Order() != 2 {
				t.Fatalf("%d segments have ended and are not durable, the tail is %s", len(l.unsynced), l.tail.id)
			}
			syncing.Store(true)
			synced, closed := make(chan error, 1), make(chan struct{})
			go func() { synced <- l.Sync() }()
			synctest.Wait() // it syncs the last of the files
			failing.Store(true)
			if _, err := l.Append(text(30, 1000)); !errors.Is(err, ErrReadOnly) {
				t.Fatalf("Append: %v", err)
			}
			go func() {
				l.Close()
				close(closed)
			}()
			synctest.Wait()
			select {
			case <-closed:
				t.Error("Close has returned, and a sync is under way")
			default:
			}
			close(hold)
			if err := <-synced; err != nil {
				t.Errorf("Sync: %v", err)
			}
			<-closed
		})
	})
}
