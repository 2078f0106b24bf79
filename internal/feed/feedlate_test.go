package feed

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/storetest"
	"github.com/copaldb/copal/internal/vfs"
)

// Feeds that begin in the middle of a group or large value, and the segments that they keep.

// TestFeedThatBeginsWithinAGroup: a feed that begins while a group is being written keeps the members that are
// there, however much is compacted before it is read.
func TestFeedThatBeginsWithinAGroup(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 1000 })
	defer s.Close()
	g := seglog.Group{Log: s.Log()}
	member := func(i int) *seglog.Pending {
		return &seglog.Pending{Head: record.Head{Op: record.Set, Kind: record.Value}, Key: fmt.Append(nil, "member ", i), Value: bytes.Repeat([]byte("v"), 50)}
	}
	for i := range 49 {
		if err := g.Ahead(member(i)); err != nil {
			t.Fatal(err)
		}
		storetest.Set(t, s, fmt.Sprint("other ", i), "1") // garbage among the members, when it is set again
	}
	p, err := s.Now()
	if err != nil {
		t.Fatal(err)
	}
	h := newHears(t, s, p)
	defer h.feed.Close()
	if _, err := g.Commit(member(49)); err != nil {
		t.Fatal(err)
	}
	g.End()
	for i := range 50 {
		storetest.Set(t, s, fmt.Sprint("other ", i), "again")
	}
	if err := storetest.Compact(s); err != nil {
		t.Fatal(err)
	}
	if s.Log().Compacted.Load() == 0 {
		t.Fatal("nothing was compacted")
	}
	list, err := h.some(t, 1<<30)
	if err != nil || len(list) != 51 || len(list[0]) != 50 {
		t.Fatalf("%d changes are yielded, %v", len(list), err)
	}
}

// TestFeedOfLargeMember: a large value of a group can be asked for when compaction has made a
// record by itself of it, until its key has another value.
func TestFeedOfLargeMember(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 3000 })
	defer s.Close()
	storetest.Set(t, s, "old", "1")
	large := strings.Repeat("large ", seglog.PartBytes/4)
	changes := []*engine.Change{{Write: engine.Write{Key: []byte("large"), Value: []byte(large)}}, {Write: engine.Write{Key: []byte("short"), Value: []byte("1")}}}
	if err := s.WriteAll(changes, engine.Process); err != nil {
		t.Fatal(err)
	}
	f, err := Open(s, seglog.Position{Seq: s.Log().Last() - 3}, Prefix("large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		storetest.Set(t, s, "old", strings.Repeat("v", 3000))
		if err := storetest.Compact(s); err != nil {
			t.Fatal(err)
		}
	}
	if s.Log().HasParts(e.value) {
		t.Fatal("its parts are where they were")
	}
	if value, err := f.Value(&e); err != nil || string(value) != large {
		t.Errorf("%d bytes, %v", len(value), err)
	}
}

// TestFeedLetsGoOfOthersParts: the parts of large values that a feed is not about are kept no
// longer than the records beside them.
func TestFeedLetsGoOfOthersParts(t *testing.T) {
	s := storetest.Open(t, vfs.NewMem(), func(o *engine.Options) { o.SegmentBytes = 3000 })
	defer s.Close()
	f, err := Open(s, seglog.Position{}, Prefix("key"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	storetest.Set(t, s, "other", strings.Repeat("large ", seglog.PartBytes/4))
	storetest.Set(t, s, "key", "1")
	if e, err := f.Next(t.Context()); err != nil || string(e.Key) != "key" {
		t.Fatalf("%q, %v", e.Key, err)
	}
	if len(f.open) > 0 {
		t.Errorf("%d values and groups are still open", len(f.open))
	}
}

// atEnd returns a context that ends when a feed waits for a further record.
func atEnd(f *Feed) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		awaitWaiting(f, f.log.Last()+1)
		cancel()
	}()
	return ctx
}
