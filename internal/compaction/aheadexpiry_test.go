package compaction_test

import (
	"testing"
	"time"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestDeletionBehindWhatReplacesIt: a deletion stays while there may be an older record of its
// entry, even if the entry has a record, written ahead, that is before both. When that has expired,
// neither exists.
func TestDeletionBehindWhatReplacesIt(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	options := func(o *engine.Options) { o.NoSnapshot, o.Clock, o.NoCompaction = true, clock, true }
	s := storetest.Open(t, mem, options)
	deadline := uint64(clock.Now().Add(time.Hour).UnixMilli())
	g := seglog.Group{Log: s.Log()}
	err := g.Ahead(&seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value, Expiry: deadline}, Key: []byte("a"), Value: []byte("member")})
	if err != nil {
		t.Fatal(err)
	}
	storetest.SealTail(t, s)
	storetest.Set(t, s, "a", "overtaken")
	storetest.Set(t, s, "b", "1")
	storetest.SealTail(t, s)
	storetest.Delete(t, s, "a")
	storetest.Set(t, s, "c", "1")
	storetest.SealTail(t, s)
	if _, err := g.Commit(); err != nil {
		t.Fatal(err)
	}
	g.End()
	s.Log().Shown.Add(1)
	storetest.SealTail(t, s)
	storetest.Close(t, s)
	s = storetest.Open(t, mem, options)
	storetest.Want(t, s, "a", "member")
	storetest.Set(t, s, "d", "1")
	storetest.SealTail(t, s)
	list := s.Log().Compactable()
	if err := compaction.Of(s).CompactRun(list[2:3]); err != nil {
		t.Fatal(err)
	}
	storetest.Want(t, s, "a", "member")
	clock.Advance(2 * time.Hour)
	storetest.Want(t, s, "a", storetest.Absent)
	if err := s.SweepAll(); err != nil {
		t.Fatal(err)
	}
	list = s.Log().Compactable()
	if err := compaction.Of(s).CompactRun(list[:1]); err != nil {
		t.Fatal(err)
	}
	storetest.Close(t, s)
	s = storetest.Open(t, mem, options)
	defer storetest.Close(t, s)
	storetest.Want(t, s, "a", storetest.Absent)
}
