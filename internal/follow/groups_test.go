package follow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/compaction"
	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/follow"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// ahead writes members of a group that has no commit yet: some keys, which get a value.
func ahead(t *testing.T, s *engine.Store, keys int, value string) *seglog.Group {
	t.Helper()
	g := &seglog.Group{Log: s.Log()}
	for n := range keys {
		p := &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: fmt.Append(nil, "key ", n), Value: []byte(value)}
		if err := g.Ahead(p); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// TestFollowerForgetsGroups: a follower remembers no group that counts, and the members of one that was given
// up for no longer than their segments are there.
func TestFollowerForgetsGroups(t *testing.T) {
	mem := vfs.NewMem()
	s := storetest.Open(t, mem, func(o *engine.Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer storetest.Close(t, s)
	storetest.Set(t, s, "a", "1")
	reader := storetest.Open(t, mem, func(o *engine.Options) { o.ReadOnly = true })
	defer storetest.Close(t, reader)
	refresh := func() {
		t.Helper()
		if err := reader.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	content := map[string]string{"a": "1"}
	for round := range 60 {
		var changes []*engine.Change
		for n := range 40 {
			key, value := fmt.Sprint("key ", n), fmt.Sprint(round, strings.Repeat("v", 60))
			changes = append(changes, &engine.Change{Write: engine.Write{Key: []byte(key), Value: []byte(value)}})
			if round%2 == 0 {
				content[key] = value
			}
		}
		if round%2 > 0 {
			ahead(t, s, len(changes), "given up").End()
		} else if err := s.WriteAll(changes, engine.Process); err != nil {
			t.Fatal(err)
		}
		refresh()
		for compaction.Of(s).Step() {
		}
		refresh()
	}
	recovery, members := follow.Of(reader).Tailer().R, 0
	for _, list := range recovery.Groups {
		members += len(list)
	}
	if spread := len(recovery.Spread) + len(reader.Log().Spread); spread > 0 || members > 100 {
		t.Errorf("the follower remembers %d groups that count, and %d members of groups that were given up", spread, members)
	}
	storetest.WantSame(t, reader, content)
	storetest.WantSame(t, s, content)
}
