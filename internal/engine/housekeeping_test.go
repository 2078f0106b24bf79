package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// settles lets housekeeping work until it finds nothing more to do, and fails if it never ends.
func settles(t *testing.T, s *Store) (rounds int) {
	t.Helper()
	for s.due() && s.tidyOnce(noPause) {
		if rounds++; rounds > 200 {
			t.Fatalf("after %d rounds there is still something to be done: %+v", rounds, s.usage())
		}
	}
	return rounds
}

// TestHousekeepingEndsBesideSnapshot: deletions that stay because a snapshot of the index may know
// their keys are not copied again and again. Housekeeping and Compact come to an end.
func TestHousekeepingEndsBesideSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4000 })
	mustSet(t, s, "first", "x")
	snapshotNow(t, s)
	for i := range 130 {
		mustSet(t, s, fmt.Sprintf("key %d", i), "x")
	}
	for i := range 130 {
		if _, err := s.Delete(nil, fmt.Appendf(nil, "key %d", i), Process); err != nil {
			t.Fatal(err)
		}
	}
	settles(t, s)
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

// TestHousekeepingEndsBesideExpiredEntries: what expired entries leave behind, and a snapshot of
// the index may know, is not copied again and again. Compact removes it.
func TestHousekeepingEndsBesideExpiredEntries(t *testing.T) {
	clock := logtest.NewClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock), func(o *Options) { o.SegmentBytes = 4000 })
	mustSet(t, s, "first", "x")
	for i := range 300 {
		putTTL(t, s, fmt.Sprintf("key %d", i), "x", time.Second)
	}
	clock.Advance(2 * time.Second)
	if n := s.Stats().Keys; n != 1 {
		t.Fatalf("%d entries", n)
	}
	snapshotNow(t, s)
	settles(t, s)
	if s.usage().kept == 0 {
		t.Fatal("nothing was kept: this tests nothing")
	}
	for rounds := 0; ; rounds++ { // as Compact does when a snapshot is taken meanwhile
		if more, err := s.shrinkOnce(context.Background(), s.log.Last()); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
		if rounds > 100 {
			t.Fatalf("after %d rounds there is still something to be done: %+v", rounds, s.usage())
		}
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(); u.kept > 0 || u.log > 1000 {
		t.Errorf("after Compact: %+v", u)
	}
	mustClose(t, s)
}

// TestHousekeepingEndsBesideDamage: deletions that stay because an older segment is damaged are
// not copied again and again. The log still shrinks, and Compact reports the damage.
func TestHousekeepingEndsBesideDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4000 })
	mustSet(t, s, "bad", "to be damaged")
	for i := range 200 {
		mustSet(t, s, fmt.Sprintf("key %d", i), "x")
	}
	for i := range 200 {
		if _, err := s.Delete(nil, fmt.Appendf(nil, "key %d", i), Process); err != nil {
			t.Fatal(err)
		}
	}
	logtest.DamageIn(t, mem, s.log.Readable()[0].Path, "to be damaged")
	before := s.usage()
	settles(t, s)
	if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Compact says %v", err)
	}
	if u := s.usage(); u.log >= before.log {
		t.Errorf("of %d bytes %d are left", before.log, u.log)
	}
	mustClose(t, s)
}

// TestCloseEndsCompaction: when the store is being closed, a compaction ends at its next pause.
func TestCloseEndsCompaction(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	stop := make(chan struct{})
	close(stop)
	s.stop = stop
	if err := s.rest(); err != errStopped {
		t.Errorf("rest = %v", err)
	}
	s.stop = nil
	mustClose(t, s)
}

// stopped is a clock that stands still. Waiting for it fails the test.
type stopped struct{ t *testing.T }

func (c stopped) Now() time.Time { return time.UnixMilli(1_700_000_000_000) }

func (c stopped) After(time.Duration) (<-chan time.Time, func()) {
	c.t.Error("it waits for a clock that stands still")
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired, func() {}
}

// TestHousekeepingDoesNotWaitForTheClock: neither a writer that is slowed down nor a compaction
// that rests waits for the clock of the entries, which may stand still.
func TestHousekeepingDoesNotWaitForTheClock(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.Inline, o.Clock = true, stopped{t} })
	s.opts.Inline = false // now that no goroutine has begun
	s.house.delay.Store(int64(maxWriteDelay))
	s.pace()
	s.house.delay.Store(0)
	s.house.since = time.Time{}
	if err := s.rest(); err != nil {
		t.Errorf("rest = %v", err)
	}
	s.opts.Inline = true
	mustClose(t, s)
}

// TestSegmentSizeFollowsTheStore: a segment is an eighth of what counts in the store, at least 16
// MiB and at most the limit that was set.
func TestSegmentSizeFollowsTheStore(t *testing.T) {
	for _, test := range []struct{ live, limit, want int64 }{
		{0, 64 << 20, 16 << 20},
		{128 << 20, 64 << 20, 16 << 20},
		{160 << 20, 64 << 20, 20 << 20},
		{1 << 30, 64 << 20, 64 << 20},
		{1 << 30, 600, 600},
	} {
		if got := segmentFor(test.live, test.limit); got != test.want {
			t.Errorf("with %d live bytes: %d, want %d", test.live, got, test.want)
		}
	}
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 64 << 20 })
	s.size()
	for i := range 20 {
		mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 1<<20))
	}
	if list := s.log.Readable(); len(list) != 2 || list[0].State() == seglog.Grows || list[0].End.Load() < 16<<20 {
		t.Errorf("%d segments for 20 MiB", len(list))
	}
	mustClose(t, s)
}

// endlessDisk reports as much free room as can be said.
type endlessDisk struct{ vfs.FS }

func (endlessDisk) Free(string) (bytes int64, known bool) { return math.MaxInt64, true }

// TestSegmentsOnAnEndlessDisk: a disk with more room than can be counted has segments of the usual
// length.
func TestSegmentsOnAnEndlessDisk(t *testing.T) {
	s := mustOpen(t, endlessDisk{vfs.NewMem()})
	defer mustClose(t, s)
	mustSet(t, s, "key", "value")
	s.size()
	if got := s.log.Nominal(); got != leastSegment {
		t.Errorf("segments become %d bytes long, want %d", got, leastSegment)
	}
}
