package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/vfs"
)

// Segments that have ended are made durable and sealed by the log itself, whatever the policy: so
// no file stays open for them, and later damage is not taken for the effect of a crash.
func TestEndedSegmentsAreSealed(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			conf := func(o *options) { change(o); o.segmentBytes, o.inline = 3000, false }
			l := mustOpen(t, mem, conf)
			var want [][]byte
			for i := range 120 {
				want = append(want, text(i, 500))
				mustAppend(t, l, want[i])
			}
			synctest.Wait()
			if n := l.behind.Load(); n != 0 {
				t.Errorf("%d segments have ended and are not durable", n)
			}
			open := 0
			for _, s := range l.manifest.segments {
				if !s.sealed {
					open++
				}
			}
			if open > 2 {
				t.Errorf("%d segments of %d are not sealed: the tail is one, and the next may be", open, len(l.manifest.segments))
			}
			checkOpen(t, l)

			dead := mem.ProcessCrash()
			dead.SetCacheID("after-an-orderly-reboot")
			flip(t, dead, "log/00000001.log", 700*8)
			again := mustOpen(t, dead, change)
			if again.Size() != l.Size() {
				t.Errorf("a bit of the first segment is flipped, and %d bytes of %d are there", again.Size(), l.Size())
			}
			if err := problem(again, want, 0); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a bit of the first segment is flipped: %v", err)
			}
			mustClose(t, again)
			mustClose(t, l)
		})
	})
}

// checkOpen finds out whether no more segments are open than are being written, and the last few before.
func checkOpen(t *testing.T, l *Log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	open := len(l.retired)
	for _, s := range l.set.Load().segments {
		if s.content.Load() != nil {
			open++
		}
	}
	if open > mostWarm+1 {
		t.Errorf("%d segments of %d are open", open, len(l.set.Load().segments))
	}
}

// A segment without a read for a while is closed.
func TestUnreadSegmentsAreClosed(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			small := func(o *options) { o.segmentBytes = 3000 }
			l := mustOpen(t, mem, small)
			var want [][]byte
			for i := range 100 {
				want = append(want, text(i, 500))
				mustAppend(t, l, want[i])
			}
			mustClose(t, l)
			l = mustOpen(t, mem, small, func(o *options) { o.inline, o.readOnly = false, readOnly })
			if !readOnly {
				want = append(want, text(100, 5))
				mustAppend(t, l, want[100])
			}
			for range 2 {
				if err := problem(l, want, 0); err != nil {
					t.Error(err)
				}
				time.Sleep(3 * trustFor)
				synctest.Wait()
				checkOpen(t, l)
			}
			mustClose(t, l)
		})
	}
}

// However fast entries come, an append waits when too many segments have ended that are not durable.
func TestAppendWaitsForWhatEnded(t *testing.T) {
	l := mustOpen(t, vfs.NewMem(), func(o *options) { o.segmentBytes = 3000 }) // only the appends seal
	for i := range 200 {
		mustAppend(t, l, text(i, 500))
		if n := len(l.unsynced); n > mostBehind || int64(n) != l.behind.Load() {
			t.Fatalf("append %d: %d segments have ended and are not durable, counted %d", i, n, l.behind.Load())
		}
	}
	mustClose(t, l)
}

// So descriptors do not run out.
func TestDescriptorsAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts in /proc")
	}
	dir := filepath.Join(t.TempDir(), "log")
	l, err := Open(dir, SegmentBytes(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if mustAppend(t, l, []byte("first")); l.tail.content.Load().mapped == nil {
		t.Skip("nothing is mapped here: segments that are read keep a file open")
	}
	most := 0
	for i := range 60 * 16 {
		mustAppend(t, l, make([]byte, 4<<10))
		if i%16 == 0 {
			most = max(most, descriptors(t, dir))
		}
	}
	// Two files of each that is not durable, of the tail and of the next; ring, mark and lock, and
	// files that are open for a moment.
	if limit := 2*(mostBehind+3) + 8; most > limit {
		t.Errorf("%d descriptors are open with %d segments, at most %d were to be", most, l.Stats().Segments, limit)
	}
}

// The bytes of View stay until it returns, also when their segment is closed meanwhile for lack of
// reads.
func TestViewStaysWhenItsSegmentIsCold(t *testing.T) {
	l, err := Open(filepath.Join(t.TempDir(), "log"), SegmentBytes(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, self(60_000))
	first := l.set.Load().segments[0]
	retired := func(c *content) bool { // and not yet about to be closed
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(l.retired, c)
	}
	err = l.View(0, 60_000, func(p []byte) error {
		var c *content
		for now := first.content.Load(); now != nil; now = first.content.Load() {
			c = now
			mustAppend(t, l, self(30_000))
		}
		for retired(c) {
			runtime.Gosched()
		}
		for range 2000 { // it would be gone by now
			runtime.Gosched()
		}
		if !bytes.Equal(p, self(60_000)) {
			return errors.New("the bytes have changed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// descriptors counts the open files of a directory.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range names {
		target, err := os.Readlink(fmt.Sprint("/proc/self/fd/", name.Name()))
		if err == nil && strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}
