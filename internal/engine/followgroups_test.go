package engine

import (
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
		for s.tidyOnce() {
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
