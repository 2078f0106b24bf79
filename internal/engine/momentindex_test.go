package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestMomentBeginsFromTheNearestIndex: a moment is made from the last snapshot of the index before it, also after a
// kill, and agrees with the log. Snapshots that are closer than a segment do not stay.
func TestMomentBeginsFromTheNearestIndex(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	open := func() *Store {
		return mustOpen(t, mem, func(o *Options) {
			o.Clock, o.SegmentBytes, o.Window, o.LogPerIndex = clock, 600, 1<<40, -1
		})
	}
	type moment struct {
		seq, time uint64
		content   map[string]string
	}
	var moments []moment
	now := map[string]string{}
	write := func(s *Store, n, keys int) {
		for i := range n {
			key, value := fmt.Sprintf("key %d", i%keys), fmt.Sprintf("value %d", len(moments))
			mustSet(t, s, key, value)
			now[key] = value
			moments = append(moments, moment{s.log.Last(), s.now(), maps.Clone(now)})
			clock.Advance(time.Millisecond)
		}
	}
	s := open()
	for range 6 {
		write(s, 40, 7)
		snapshotNow(t, s)
		snapshotNow(t, s) // too close to stay
	}
	write(s, 5, 5)
	lines := s.log.Manifest.Indexes
	if len(lines) != 7 { // the first of each two, and the last
		t.Fatalf("%d snapshots are named, want 7", len(lines))
	}
	check := func(when string) {
		for i, want := range moments {
			for _, at := range []seglog.Moment{seglog.AtSeq(want.seq), seglog.AtTime(want.time)} {
				m, err := s.openMoment(at, PassDamage, s.opts.Follower)
				if err != nil {
					t.Fatal(err)
				}
				var nearest seglog.ManifestIndex
				for _, line := range lines {
					if line.Seq <= want.seq && line.Time <= want.time {
						nearest = line
					}
				}
				if from := m.snapshot; (from == nil) != (nearest.Number == 0) || from != nil && from.line != nearest {
					t.Fatalf("%s, moment %d: it begins from %v, want %v", when, i, from, nearest)
				}
				if found, _, err := contentOf(m); err != nil || found != render(want.content) {
					t.Fatalf("%s, moment %d: found %s, %v, want %s", when, i, found, err, render(want.content))
				}
				if err := s.CloseMoment(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check("in the same process")
	mem = mem.ProcessCrash()
	s = open()
	check("after a kill")
	mustSet(t, s, "key 0", "after the kill")
	check("after a write behind it")
	mustClose(t, s)
	m, err := seglog.ReadManifest(mem, "db")
	if err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	if there := slices.DeleteFunc(names, func(name string) bool { return !logtest.IsIndex(name) }); len(there) != len(m.Indexes) || len(there) < 6 {
		t.Fatalf("%d snapshots are named, and there are %v", len(m.Indexes), there)
	}
}

// TestMomentBeforeWhatASnapshotLacks: entries that had expired when a snapshot was finished are not in it. A moment
// at which they still existed is not made from it, though their records come first.
func TestMomentBeforeWhatASnapshotLacks(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	s := mustOpen(t, mem, func(o *Options) { o.Clock, o.SegmentBytes, o.Window, o.LogPerIndex = clock, 600, 1<<40, -1 })
	defer mustClose(t, s)
	putTTL(t, s, "mortal", "value", time.Second)
	for i := range 40 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	last := s.log.Last()
	clock.Advance(2 * time.Second)
	s.wantKeys(t, "before the snapshot", 40)
	snapshotNow(t, s)
	mustSet(t, s, "later", "value")
	m, err := s.openMoment(seglog.AtSeq(last), PassDamage, s.opts.Follower)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, m, "mortal", "value")
	if m.snapshot != nil {
		t.Error("it was made from a snapshot of later")
	}
	if m, err = s.openMoment(seglog.AtSeq(last+1), PassDamage, s.opts.Follower); err != nil {
		t.Fatal(err)
	}
	if m.snapshot == nil {
		t.Error("it was not made from the snapshot")
	}
	wantValue(t, m, "mortal", absent)
}
