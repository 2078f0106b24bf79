package engine

import (
	"context"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestSystemRecordsOfLaterVersions: system records with names that this version does not know are additions. Whether
// they are set or deleted, in a group or by themselves, opening, following and Check pass over them, and compaction
// keeps them.
func TestSystemRecordsOfLaterVersions(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 500 })
	mustSet(t, s, "a", "1")
	later := func(op record.Op, key, value string) *seglog.Pending {
		return &seglog.Pending{Head: record.Head{Op: op, Kind: record.System, Space: 7}, Key: []byte(key), Value: []byte(value)}
	}
	if err := s.log.Append(later(record.Set, "space:7", "keys int ordered yes later word")); err != nil {
		t.Fatal(err)
	}
	g := &seglog.Group{Log: s.log}
	if _, err := g.Commit(later(record.Set, "db:0", "7"), later(record.Delete, "db:1", "")); err != nil {
		t.Fatal(err)
	}
	g.End()
	s.log.Shown.Add(1)
	for range 40 {
		mustSet(t, s, "b", "2")
	}
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	if err := s.compact(s.log.Compactable(), noPause); err != nil {
		t.Fatal(err)
	}
	want := render(contentsOf(t, s))
	mustClose(t, s)
	for _, index := range []bool{true, false} {
		if !index {
			logtest.RemoveIndex(mem, "db")
		}
		found, err := Check(context.Background(), "db", mem, nil)
		if err != nil || len(found.Problems) > 0 {
			t.Fatalf("Check: %v, %v", err, found.Problems)
		}
		s = mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
		if got := render(contentsOf(t, s)); got != want {
			t.Errorf("it holds %s, want %s", got, want)
		}
		names := map[string]bool{}
		for _, seg := range s.log.Segments() {
			err := seg.Each(func(_ int64, e *seglog.Record) error {
				if e.Kind == record.System {
					names[string(e.Key)] = true
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !names["space:7"] || !names["db:0"] || !names["db:1"] {
			t.Errorf("of the later records there are %v", names)
		}
		mustClose(t, s)
	}
}
