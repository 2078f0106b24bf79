package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// writeGivenUp writes a group ahead that is given up before its commit.
func writeGivenUp(t *testing.T, s *Store, changes []*Change) {
	t.Helper()
	g := &together{store: s, changes: changes}
	g.group.Log = s.log
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	g.group.End()
}

// TestCompactionForgetsGivenUpGroups: while a run is compacted that a group has left which was given up, its members are in memory for no longer than
// their segment is read; and all of them go.
func TestCompactionForgetsGivenUpGroups(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer mustClose(t, s)
	mustSet(t, s, "a", "1")
	var changes []*Change
	for n := range 300 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 80))}})
	}
	writeGivenUp(t, s, changes)
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	s.housekeeping.Lock()
	run := s.log.Compactable()
	most := 0
	var c *compaction
	c = s.newCompaction(run, func() error {
		members := 0
		for _, list := range c.groups {
			members += len(list)
		}
		most = max(most, members)
		return nil
	})
	err := errors.Join(c.copy(), c.discard())
	s.house.moving.Store(nil)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if len(run) < 10 || most > 300/len(run)+5 || len(c.groups) > 0 {
		t.Errorf("a run of %d segments: up to %d members in memory, and %d groups in the end", len(run), most, len(c.groups))
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if st := s.log.Records.Load(); st > 3 {
		t.Errorf("%d records are left", st)
	}
	s.wantSame(t, map[string]string{"a": "1"})
}

// TestFollowerForgetsGroups: a follower remembers no group that counts, and the members of one that was given up for no longer than their segments are there.
func TestFollowerForgetsGroups(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer mustClose(t, s)
	mustSet(t, s, "a", "1")
	reader := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
	defer mustClose(t, reader)
	refresh := func() {
		t.Helper()
		if err := reader.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	content := map[string]string{"a": "1"}
	for round := range 60 {
		var changes []*Change
		for n := range 40 {
			key, value := fmt.Sprint("key ", n), fmt.Sprint(round, strings.Repeat("v", 60))
			changes = append(changes, &Change{Write: Write{Key: []byte(key), Value: []byte(value)}})
			if round%2 == 0 {
				content[key] = value
			}
		}
		if round%2 > 0 {
			writeGivenUp(t, s, changes)
		} else if err := s.WriteAll(changes, Process); err != nil {
			t.Fatal(err)
		}
		refresh()
		for s.tidyOnce(noPause) {
		}
		refresh()
	}
	members := 0
	for _, list := range reader.follower.tailer.R.Groups {
		members += len(list)
	}
	if spread := len(reader.follower.tailer.R.Spread) + len(reader.log.Spread); spread > 0 || members > 100 {
		t.Errorf("the follower remembers %d groups that count, and %d members of groups that were given up", spread, members)
	}
	reader.wantSame(t, content)
	s.wantSame(t, content)
}
