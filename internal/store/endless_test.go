package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// settles lets housekeeping work until it finds nothing more, and fails when it never comes to an end.
func settles(t *testing.T, s *Store) (rounds int) {
	t.Helper()
	for s.due() && s.tidyOnce(noPause) {
		if rounds++; rounds > 200 {
			t.Fatalf("after %d rounds there is still something to be done: %+v", rounds, s.usage())
		}
	}
	return rounds
}

// TestHousekeepingEndsBesideSnapshot: deletions that must stay for the sake of a snapshot are not copied again and again.
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

// TestHousekeepingEndsBesideTheExpired: neither are those that entries have left which expired, and which a snapshot may know.
func TestHousekeepingEndsBesideTheExpired(t *testing.T) {
	clock := newTestClock()
	s := mustOpen(t, vfs.NewMem(), withClock(clock), func(o *Options) { o.SegmentBytes = 4000 })
	mustSet(t, s, "first", "x")
	for i := range 300 {
		putTTL(t, s, fmt.Sprintf("key %d", i), "x", time.Second)
	}
	clock.advance(2 * time.Second)
	if n := s.Stats().Keys; n != 1 {
		t.Fatalf("%d entries", n)
	}
	snapshotNow(t, s)
	settles(t, s)
	if s.usage().kept == 0 {
		t.Fatal("nothing was kept: this tests nothing")
	}
	for rounds := 0; ; rounds++ { // as Compact does when a snapshot is taken meanwhile
		if more, err := s.shrinkOnce(context.Background(), s.log.last()); err != nil {
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

// damageIn changes a byte in a value that a sealed segment holds.
func damageIn(t *testing.T, mem *vfs.Mem, seg *segment, value string) {
	t.Helper()
	text := read(t, mem, seg.id.FileName())
	at := strings.Index(string(text), value)
	if at < 0 {
		t.Fatalf("%s does not hold %q", seg.path, value)
	}
	f, err := mem.Open(seg.path, vfs.ReadWrite)
	if err == nil {
		_, err = f.WriteAt([]byte{text[at] ^ 1}, int64(at))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHousekeepingEndsBesideDamage: deletions that must stay because an older segment is damaged are not copied again and again.
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
	damageIn(t, mem, s.log.set.Load().ordered[0], "to be damaged")
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

// TestCompactAllGoesOnBehindDamage: a damaged segment stays, and the others give back their space.
func TestCompactAllGoesOnBehindDamage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000 })
	mustSet(t, s, "bad", "to be damaged")
	for i := range 400 {
		mustSet(t, s, fmt.Sprint(i%10), strings.Repeat("x", 20))
	}
	damageIn(t, mem, s.log.set.Load().ordered[0], "to be damaged")
	for range 2 {
		if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("Compact says %v", err)
		}
		if u := s.usage(); u.log > 3*2000 {
			t.Errorf("%d bytes are left, in %d segments", u.log, len(s.log.set.Load().ordered))
		}
	}
	mustClose(t, s)
}

// TestCompactAllAfterFullDisk: that compaction had no room once is no reason to leave the space for ever.
func TestCompactAllAfterFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000 })
	for i := range 100 {
		mustSet(t, s, fmt.Sprintf("stays %d", i), "x")
		for range 4 {
			mustSet(t, s, fmt.Sprint("key ", i%10), strings.Repeat("x", 20))
		}
	}
	for s.tidyOnce(func() error { return seglog.ErrNoSpace }) {
	}
	for range 50 {
		s.tidyOnce(func() error { return seglog.ErrNoSpace })
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if u := s.usage(); u.garbage() > 500 {
		t.Errorf("%d bytes of %d are of no use after Compact", u.garbage(), u.log)
	}
	mustClose(t, s)
}

// TestLargeValuesAreCompacted: values in parts that stand across the ends of segments do not keep the log from being compacted.
func TestLargeValuesAreCompacted(t *testing.T) {
	if testing.Short() {
		t.Skip("many megabytes")
	}
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4 << 20 })
	value := strings.Repeat("x", 5<<19) // three parts
	for i := range 40 {
		mustSet(t, s, fmt.Sprint(i), value)
	}
	for i := range 40 {
		if i%4 != 0 {
			if _, err := s.Delete(nil, fmt.Append(nil, i), Process); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	for s.due() && s.tidyOnce(noPause) && n < 200 {
		n++
	}
	u := s.usage()
	t.Logf("%d rounds, log %d MiB, live %d MiB", n, u.log>>20, u.live>>20)
	if u.log > 2*u.live+2*s.log.limit {
		t.Errorf("%d MiB, of which %d count", u.log>>20, u.live>>20)
	}
	mustClose(t, s)
}

// TestSnapshotAheadIsSound: an entry that is ahead of what the snapshot covers is no damage.
func TestSnapshotAheadIsSound(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	content := map[string]string{}
	set := func(n int) {
		for i := range 100 {
			content[fmt.Sprint(i)] = fmt.Sprint("value ", n)
			mustSet(t, s, fmt.Sprint(i), content[fmt.Sprint(i)])
		}
	}
	set(1)
	w := &snapshotWriter{store: s}
	rounds := 0
	err := w.take(func(f func() error) error {
		if rounds++; rounds == 2 { // after what is covered was noted
			set(2)
		}
		return s.shared(f)
	}, s.settleAll)
	if err != nil {
		t.Fatal(err)
	}
	image := mem.ProcessCrash()
	mustClose(t, s)
	if told := (indexed{content: content}).holds(t, image, "ahead"); len(told) > 0 {
		t.Errorf("told of %v", told)
	}
}

// hooked calls a function before a file is opened.
type hooked struct {
	vfs.FS
	before func(name string)
}

func (h hooked) Open(name string, mode vfs.Mode) (vfs.File, error) {
	h.before(filepath.Base(name))
	return h.FS.Open(name, mode)
}

// TestReaderMeetsNewerSnapshot: a snapshot that is newer than the manifest that a reader has read does not bring back what was deleted.
func TestReaderMeetsNewerSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
	for i := range 30 {
		mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 20))
	}
	snapshotNow(t, s)
	pins := s.log.pinAll() // so that the old files are still there
	once := false
	reader := mustOpen(t, hooked{mem, func(name string) {
		if name != seglog.SnapshotName || once {
			return
		}
		once = true
		if _, err := s.Delete(nil, []byte("0"), Process); err != nil {
			t.Fatal(err)
		}
		if err := compactRun(s, 0); err != nil {
			t.Fatal(err)
		}
		snapshotNow(t, s)
	}}, func(o *Options) { o.ReadOnly = true })
	wantValue(t, reader, "0", absent)
	mustClose(t, reader)
	pins.unpin()
	mustClose(t, s)
}

// TestUnknownSnapshot: what a process deletes and compacts that does not know of the snapshot on the disk does not come back with
// it, also when a power cut brings back the names of the old files.
func TestUnknownSnapshot(t *testing.T) {
	for _, how := range []string{"not opened", "not removed"} {
		mem := vfs.NewMem()
		s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 1000 })
		for i := range 300 {
			mustSet(t, s, fmt.Sprint(i), strings.Repeat("x", 20))
		}
		mustClose(t, s)
		old := map[string][]byte{}
		for _, name := range files(t, mem) {
			old[name] = read(t, mem, name)
		}
		stuck := &vfs.Fault{Kinds: vfs.OpRemove, Match: func(name string) bool { return filepath.Base(name) == seglog.SnapshotName }, N: 1}
		if how == "not opened" {
			stuck.N = 0
		}
		s = mustOpen(t, vfs.Inject(mem, stuck), func(o *Options) { o.SegmentBytes, o.NoSnapshot = 1000, how == "not opened" })
		for i := range 100 {
			if _, err := s.Delete(nil, fmt.Append(nil, i), Process); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Compact(context.Background(), nil); (err != nil) != (how == "not removed") {
			t.Fatal(err)
		}
		for n := range 200 {
			if err := compactRun(s, n); err != nil {
				t.Fatal(err)
			}
		}
		image := mem.ProcessCrash()
		for name, text := range old {
			if _, err := image.Open(filepath.Join("db", name), vfs.ReadOnly); err != nil && name != seglog.SnapshotName {
				write(t, image, name, text)
			}
		}
		after := mustOpen(t, image)
		for i := range 100 {
			wantValue(t, after, fmt.Sprint(i), absent)
		}
		mustClose(t, after)
		mustClose(t, s)
	}
}

// TestCloseEndsCompaction: when the store is being closed a compaction ends at its next pause, also while writers are slowed down.
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

// stopped is a clock that stands still. Nobody may wait for it while others wait for him.
type stopped struct{ t *testing.T }

func (c stopped) Now() time.Time { return time.UnixMilli(1_700_000_000_000) }

func (c stopped) After(time.Duration) (<-chan time.Time, func()) {
	c.t.Error("it waits for a clock that stands still")
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired, func() {}
}

// TestHousekeepingDoesNotWaitForTheClock: neither does a write wait for the clock of the entries
// when the log has outrun compaction, nor does compaction, for which a Compact may be waiting.
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

// TestSegmentsBefitTheStore: a store has segments of an eighth of what counts in it.
func TestSegmentsBefitTheStore(t *testing.T) {
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
	if list := s.log.set.Load().ordered; len(list) != 2 || !list[0].ended || list[0].end.Load() < 16<<20 {
		t.Errorf("%d segments for 20 MiB", len(list))
	}
	mustClose(t, s)
}
