package compaction_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCompactionForgetsGivenUpGroups: while a run is compacted that a group has left which was given up, its
// members are in memory for no longer than their segment is read; and all of them go.
func TestCompactionForgetsGivenUpGroups(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer storetest.Close(t, s)
	storetest.Set(t, s, "a", "1")
	group := seglog.Group{Log: s.Log()}
	for n := range 300 {
		p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 80))}
		if err := group.Ahead(p); err != nil {
			t.Fatal(err)
		}
	}
	group.End()
	if err := compaction.Of(s).SealTail(); err != nil {
		t.Fatal(err)
	}
	segments := len(s.Log().Compactable())
	most, left, err := compaction.Of(s).MembersInMemory()
	if err != nil {
		t.Fatal(err)
	}
	if segments < 10 || most > 300/segments+5 || left > 0 {
		t.Errorf("a run of %d segments: up to %d members in memory, and %d groups in the end", segments, most, left)
	}
	if err := compaction.Of(s).Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if st := s.Log().Records.Load(); st > 3 {
		t.Errorf("%d records are left", st)
	}
	storetest.WantSame(t, s, map[string]string{"a": "1"})
}
