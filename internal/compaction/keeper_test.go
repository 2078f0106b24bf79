package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// settles lets housekeeping work until it finds nothing more to do, and fails if it never ends.
func settles(t *testing.T, s *engine.Store) (rounds int) {
	t.Helper()
	for compaction.Of(s).Due() && compaction.Of(s).Step() {
		if rounds++; rounds > 200 {
			t.Fatalf("after %d rounds there is still something to be done: %+v", rounds, compaction.Of(s).Usage())
		}
	}
	return rounds
}

func withClock(c *logtest.Clock) func(*engine.Options) {
	return func(o *engine.Options) { o.Clock = c }
}

func setTTL(t *testing.T, s *engine.Store, key, value string, d time.Duration) {
	t.Helper()
	deadline, err := s.Deadline(d)
	if err == nil {
		_, err = s.Write(nil, &engine.Write{Key: []byte(key), Value: []byte(value), Expiry: deadline})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withSnapshot closes a store, which leaves a snapshot of the index, and opens it again.
func withSnapshot(t *testing.T, s *engine.Store, mem *vfs.Mem, change ...func(*engine.Options)) *engine.Store {
	t.Helper()
	storetest.Close(t, s)
	s = storetest.Open(t, mem, change...)
	if _, ok := s.Log().SnapshotSeq(); !ok {
		t.Fatal("there is no snapshot of the index")
	}
	return s
}

func small(o *engine.Options) { o.SegmentBytes = 4000 }

// TestHousekeepingEndsBesideSnapshot: deletions that stay because a snapshot of the index may know
// their keys are not copied again and again. Housekeeping and Compact come to an end.
func TestHousekeepingEndsBesideSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, small)
	storetest.Set(t, s, "first", "x")
	s = withSnapshot(t, s, mem, small)
	for i := range 130 {
		storetest.Set(t, s, fmt.Sprintf("key %d", i), "x")
	}
	for i := range 130 {
		if _, err := s.Delete(nil, fmt.Appendf(nil, "key %d", i), engine.Process); err != nil {
			t.Fatal(err)
		}
	}
	settles(t, s)
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	storetest.Close(t, s)
}

// TestSnapshotBesideDroppedDeletions: a snapshot of the index that was taken before a deletion does not bring
// the entry back after the death of the process, though compaction has copied nothing of it.
func TestSnapshotBesideDroppedDeletions(t *testing.T) {
	for name, remove := range map[string]func(s *engine.Store) error{
		"a deletion": func(s *engine.Store) error { _, err := s.Delete(nil, []byte("gone"), engine.Process); return err },
		"a range":    func(s *engine.Store) error { return s.DeleteRange(keyrange.Prefix([]byte("gone")), engine.Process) },
		"a group": func(s *engine.Store) error {
			return s.Transact(engine.Process, func(tx *engine.Tx) error {
				return errors.Join(tx.Write(nil, &engine.Write{Key: []byte("gone"), Delete: true}), tx.Write(nil, &engine.Write{Key: []byte("other"), Delete: true}))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem, content := vfs.NewMem(), map[string]string{}
			s := storetest.Open(t, mem, small)
			storetest.Set(t, s, "gone", "was here")
			storetest.Set(t, s, "other", "was here")
			storetest.FillSegment(t, s, 0, 0, content)
			s = withSnapshot(t, s, mem, small)
			covered, _ := s.Log().SnapshotSeq()
			if err := remove(s); err != nil {
				t.Fatal(err)
			}
			if name != "a group" {
				content["other"] = "was here"
			}
			for n := 1; n < 4; n++ {
				storetest.FillSegment(t, s, n, 0, content)
			}
			if err := s.Log().SyncEnded(); err != nil {
				t.Fatal(err)
			}
			for i := range len(s.Log().Compactable()) {
				storetest.CompactRange(t, s, i, i+1)
			}
			s = storetest.Open(t, mem.ProcessCrash(), small)
			if seq, ok := s.Log().SnapshotSeq(); !ok || seq != covered {
				t.Fatalf("the snapshot covers the log up to %d, %v, and should up to %d", seq, ok, covered)
			}
			storetest.WantSame(t, s, content)
			storetest.Close(t, s)
		})
	}
}

// TestHousekeepingEndsBesideExpiredEntries: records that expired entries leave, and a snapshot of
// the index may have, are not copied again and again. Compact removes it.
func TestHousekeepingEndsBesideExpiredEntries(t *testing.T) {
	clock := logtest.NewClock()
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, small, withClock(clock), func(o *engine.Options) { o.NoCompaction = true })
	storetest.Set(t, s, "first", "x")
	for i := range 300 {
		setTTL(t, s, fmt.Sprintf("key %d", i), "x", time.Second)
	}
	clock.Advance(2 * time.Second)
	if n := s.Stats().Keys; n != 1 {
		t.Fatalf("%d entries", n)
	}
	s = withSnapshot(t, s, mem, small, withClock(clock))
	storetest.Set(t, s, "first", "y") // from now on there is a tail, and the rest can be compacted
	settles(t, s)
	if compaction.Of(s).Usage().Kept == 0 {
		t.Fatal("nothing was kept: this tests nothing")
	}
	for rounds := 0; ; rounds++ { // as Compact does when a snapshot is taken meanwhile
		if more, err := compaction.Of(s).ShrinkOnce(context.Background(), s.Log().Last()); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
		if rounds > 100 {
			t.Fatalf("after %d rounds there is still something to be done: %+v", rounds, compaction.Of(s).Usage())
		}
	}
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := compaction.Of(s).Usage(); u.Kept > 0 || u.Log > 1000 {
		t.Errorf("after Compact: %+v", u)
	}
	storetest.Close(t, s)
}

// TestHousekeepingEndsBesideDamage: deletions that stay because an older segment is damaged are
// not copied again and again. The log still shrinks, and Compact reports the damage.
func TestHousekeepingEndsBesideDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, small)
	storetest.Set(t, s, "bad", "to be damaged")
	for i := range 200 {
		storetest.Set(t, s, fmt.Sprintf("key %d", i), "x")
	}
	for i := range 200 {
		if _, err := s.Delete(nil, fmt.Appendf(nil, "key %d", i), engine.Process); err != nil {
			t.Fatal(err)
		}
	}
	logtest.DamageIn(t, mem, s.Log().Readable()[0].Path, "to be damaged")
	before := compaction.Of(s).Usage()
	settles(t, s)
	if err := compaction.Of(s).Compact(context.Background(), nil); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Compact says %v", err)
	}
	if u := compaction.Of(s).Usage(); u.Log >= before.Log {
		t.Errorf("of %d bytes %d are left", before.Log, u.Log)
	}
	storetest.Close(t, s)
}

// TestCloseEndsCompaction: when the store is being closed, a compaction ends at its next pause.
func TestCloseEndsCompaction(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem())
	storetest.Close(t, s)
	if err := compaction.Of(s).Rest(); err != seglog.ErrClosed {
		t.Errorf("rest = %v", err)
	}
}

// stopped is a clock that does not move. Waiting for it fails the test.
type stopped struct{ t *testing.T }

func (c stopped) Now() time.Time { return time.UnixMilli(1_700_000_000_000) }

func (c stopped) After(time.Duration) (<-chan time.Time, func()) {
	c.t.Error("it waits for a clock that does not move")
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired, func() {}
}

// TestHousekeepingDoesNotWaitForTheClock: neither a writer that is slowed down nor a compaction
// that rests waits for the clock of the entries, which may not move.
func TestHousekeepingDoesNotWaitForTheClock(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.Clock = stopped{t} })
	s.SlowDown(1)
	storetest.Set(t, s, "key", "value")
	s.SlowDown(0)
	if err := compaction.Of(s).RestAfter(time.Second); err != nil {
		t.Errorf("rest = %v", err)
	}
	storetest.Close(t, s)
}

// TestSegmentSizeFollowsTheStore: a segment is a sixty-fourth of the live records of the store, at
// least 16 MiB and at most the limit that was set.
func TestSegmentSizeFollowsTheStore(t *testing.T) {
	for _, test := range []struct{ live, limit, want int64 }{
		{0, 64 << 20, 16 << 20},
		{1 << 30, 64 << 20, 16 << 20},
		{5 << 28, 64 << 20, 20 << 20},
		{4 << 30, 64 << 20, 64 << 20},
		{1 << 30, 600, 600},
	} {
		if got := compaction.SegmentFor(test.live, test.limit); got != test.want {
			t.Errorf("with %d live bytes: %d, want %d", test.live, got, test.want)
		}
	}
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 64 << 20 })
	compaction.Of(s).Size()
	for i := range 20 {
		storetest.Set(t, s, fmt.Sprint(i), strings.Repeat("x", 1<<20))
	}
	if list := s.Log().Readable(); len(list) != 2 || list[0].State() == seglog.Grows || list[0].End.Load() < 16<<20 {
		t.Errorf("%d segments for 20 MiB", len(list))
	}
	storetest.Close(t, s)
}

// endlessDisk reports as much free room as can be said.
type endlessDisk struct{ vfs.FS }

func (endlessDisk) Free(string) (bytes int64, known bool) { return math.MaxInt64, true }

// TestSegmentsOnAnEndlessDisk: a disk with more room than can be counted has segments of the usual
// length.
func TestSegmentsOnAnEndlessDisk(t *testing.T) {
	s := storetest.Open(t, endlessDisk{vfs.NewMem()})
	defer storetest.Close(t, s)
	storetest.Set(t, s, "key", "value")
	compaction.Of(s).Size()
	if got := s.Log().Nominal(); got != compaction.LeastSegment {
		t.Errorf("segments become %d bytes long, want %d", got, compaction.LeastSegment)
	}
}

// TestLargeValuesAreCompacted: large values whose parts are in several segments do not prevent
// compaction.
func TestLargeValuesAreCompacted(t *testing.T) {
	if testing.Short() {
		t.Skip("many megabytes")
	}
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 4 << 20 })
	value := strings.Repeat("x", 5<<19) // three parts
	for i := range 40 {
		storetest.Set(t, s, fmt.Sprint(i), value)
	}
	for i := range 40 {
		if i%4 != 0 {
			if _, err := s.Delete(nil, fmt.Append(nil, i), engine.Process); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, k := 0, compaction.Of(s)
	for k.Due() && k.Step() && n < 200 {
		n++
	}
	u := k.Usage()
	t.Logf("%d rounds, log %d MiB, live %d MiB", n, u.Log>>20, u.Live>>20)
	if u.Log > 2*u.Live+2*s.Log().SegmentBytes {
		t.Errorf("%d MiB, of which %d count", u.Log>>20, u.Live>>20)
	}
	storetest.Close(t, s)
}
