package compaction_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestNumbersAreNeverRewritten: whatever compaction copies has the number, the group, the key and
// the time with which it was written, numbers rise all over the log, and a commit stays as long as
// a member of its group. A group that was one append stays in one segment.
func TestNumbersAreNeverRewritten(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 25))
			mem := vfs.NewMem()
			options := func(o *engine.Options) {
				o.SegmentBytes, o.GroupBytes, o.NoCompaction = int64(1000+rng.IntN(3000)), 400, true
			}
			s := storetest.Open(t, mem, options)
			written, compacted := map[uint64]string{}, int64(0)
			for range 12 {
				for range 20 {
					writeSome(t, s, rng)
				}
				noteRecords(t, s, written, false)
				storetest.CompactSome(t, s, rng)
				noteRecords(t, s, written, true)
				if rng.IntN(3) == 0 {
					want := storetest.Content(t, s)
					compacted += s.Log().Compacted.Load()
					storetest.Close(t, s)
					if rng.IntN(2) == 0 {
						logtest.RemoveIndex(mem, "db")
					}
					s = storetest.Open(t, mem, options)
					if got := storetest.Content(t, s); got != want {
						t.Fatalf("it holds\n%s, want\n%s", got, want)
					}
				}
			}
			if compacted+s.Log().Compacted.Load() == 0 {
				t.Error("nothing was compacted")
			}
			storetest.Close(t, s)
			storetest.WantSound(t, mem, "db")
		})
	}
}

// writeSome writes one entry, or several together, of which some are too much for one append.
func writeSome(t *testing.T, s *engine.Store, rng *rand.Rand) {
	changes := map[string]*engine.Change{}
	for range 1 + rng.IntN(4) {
		w := engine.Write{Key: fmt.Append(nil, "key ", rng.IntN(60)), Value: []byte(strings.Repeat("v", rng.IntN(150)))}
		if rng.IntN(4) == 0 {
			w.Delete, w.Value = true, nil
		}
		changes[string(w.Key)] = &engine.Change{Write: w}
	}
	if err := s.WriteAll(slices.Collect(maps.Values(changes)), engine.Process); err != nil {
		t.Fatal(err)
	}
}

// noteRecords goes through the log: a record with a known number must be the same.
func noteRecords(t *testing.T, s *engine.Store, written map[uint64]string, compacted bool) {
	t.Helper()
	type group struct {
		members  int
		segments map[record.SegmentID]bool
	}
	copied := map[uint64]bool{} // groups whose commit is a copy
	groups, commits, last := map[uint64]*group{}, map[uint64]seglog.Record{}, uint64(0)
	for _, seg := range s.Log().Segments() {
		err := seg.Each(func(_ int64, e *seglog.Record) error {
			if e.Seq <= last {
				t.Fatalf("record %d comes after %d", e.Seq, last)
			}
			last = e.Seq
			text := fmt.Sprintf("%c%c in %d at %d: %q %q", e.Op, e.Kind, e.Group, e.Written, e.Key, e.Value)
			if was, known := written[e.Seq]; known && was != text || !known && compacted {
				t.Fatalf("record %d was %s, and is %s", e.Seq, was, text)
			}
			written[e.Seq] = text
			switch {
			case e.Op == record.Commit:
				copied[e.Group] = seg.ID.Generation() > 0
				commits[e.Group] = seglog.Record{Head: e.Head, Value: slices.Clone(e.Value)}
				if groups[e.Group] != nil {
					groups[e.Group].segments[seg.ID] = true
				}
			case e.Group != 0:
				if groups[e.Group] == nil {
					groups[e.Group] = &group{segments: map[record.SegmentID]bool{}}
				}
				groups[e.Group].members++
				groups[e.Group].segments[seg.ID] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for number, commit := range commits {
		if copied[number] && groups[number] == nil && oneAppend(written, number, commit.Seq) {
			t.Fatalf("of group %d the commit alone was copied", number)
		}
	}
	for number, g := range groups {
		commit, there := commits[number]
		named, _ := record.ParseHex(string(commit.Value))
		switch {
		case !there:
			t.Fatalf("group %d has %d members and no commit", number, g.members)
		case len(g.segments) > 1 && commit.Seq-number == named && oneAppend(written, number, commit.Seq):
			t.Fatalf("group %d of one append is in %d segments", number, len(g.segments))
		}
	}
}

// oneAppend reports whether the members of a group were one append.
func oneAppend(written map[uint64]string, number, commit uint64) bool {
	bytes := 0
	for seq := number; seq < commit; seq++ {
		bytes += len(written[seq])
	}
	return bytes < 250
}

// TestOthersAmongTheMembers: a group that was written ahead, with another record among its members, is known when the
// log has been read, and its segment is compacted as any.
func TestOthersAmongTheMembers(t *testing.T) {
	mem := vfs.NewMem()
	noIndex := func(o *engine.Options) { o.NoSnapshot = true }
	s := storetest.Open(t, mem, noIndex)
	member := func(key string) *seglog.Pending {
		return &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: []byte(key), Value: []byte("member")}
	}
	g := seglog.Group{Log: s.Log()}
	if err := g.Ahead(member("a")); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, s, "other", "1")
	if _, err := g.Commit(member("b")); err != nil {
		t.Fatal(err)
	}
	g.End()
	s.Log().Shown.Add(1)
	storetest.Close(t, s)
	s = storetest.Open(t, mem, noIndex)
	storetest.Set(t, s, "another", "2")
	storetest.SealTail(t, s)
	if err := compaction.Of(s).CompactRun(s.Log().Compactable()); err != nil {
		t.Fatal(err)
	}
	storetest.Close(t, s)
	s = storetest.Open(t, mem, noIndex)
	defer storetest.Close(t, s)
	storetest.Want(t, s, "a", "member")
	storetest.Want(t, s, "b", "member")
	storetest.Want(t, s, "other", "1")
}
