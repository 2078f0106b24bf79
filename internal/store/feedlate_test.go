package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Feeds that begin in the middle of what a later record makes count, and what they keep.

// TestFeedThatBeginsWithinAGroup: a feed that begins while a group is being written keeps the members that are there, however much is compacted before it is read.
func TestFeedThatBeginsWithinAGroup(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes, o.GroupBytes = 1000, 100 })
	defer s.Close()
	g := &together{store: s}
	for i := range 50 {
		g.changes = append(g.changes, &Change{Write: Write{Key: fmt.Append(nil, "member ", i), Value: filled(50, 'v')}})
	}
	g.group.Log = s.log
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	p, err := s.Now()
	if err != nil {
		t.Fatal(err)
	}
	h := newHears(t, s, p)
	defer h.feed.Close()
	if _, err := g.commit(); err != nil {
		t.Fatal(err)
	}
	g.group.End()
	for i := range 50 {
		mustSet(t, s, fmt.Sprint("member ", i), "again")
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if s.log.Compacted.Load() == 0 {
		t.Fatal("nothing was compacted")
	}
	list, err := h.some(t, 1<<30)
	if err != nil || len(list) != 51 || len(list[0]) != 50 {
		t.Fatalf("%d changes are told, %v", len(list), err)
	}
}

// TestFeedOfLargeMember: a large value of a group can be asked for when compaction has made a record by itself of it, for as long as it is that of its key.
func TestFeedOfLargeMember(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 3000 })
	defer s.Close()
	mustSet(t, s, "old", "1")
	large := strings.Repeat("large ", seglog.PartBytes/4)
	changes := []*Change{{Write: Write{Key: []byte("large"), Value: []byte(large)}}, {Write: Write{Key: []byte("short"), Value: []byte("1")}}}
	if err := s.WriteAll(changes, Process); err != nil {
		t.Fatal(err)
	}
	f, err := s.OpenFeed(FeedPoint{After: changes[0].p.Seq - 1}, []byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustSet(t, s, "old", strings.Repeat("v", 3000))
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.log.HasParts(e.value) {
		t.Fatal("its parts are where they were")
	}
	if value, err := f.EventValue(&e); err != nil || string(value) != large {
		t.Errorf("%d bytes, %v", len(value), err)
	}
}

// TestFeedLetsGoOfOthersParts: the parts of large values that a feed is not about are kept no longer than what stands beside them.
func TestFeedLetsGoOfOthersParts(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 3000 })
	defer s.Close()
	f, err := s.OpenFeed(FeedPoint{}, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustSet(t, s, "other", strings.Repeat("large ", seglog.PartBytes/4))
	mustSet(t, s, "key", "1")
	if e, err := f.Next(t.Context()); err != nil || string(e.Key) != "key" {
		t.Fatalf("%q, %v", e.Key, err)
	}
	if len(f.open) > 0 {
		t.Errorf("%d values and groups are still open", len(f.open))
	}
}

// TestFeedOfElements: a change of elements is told as one of their collection, once, also where their number stays and no meta is written; by the key that it
// has, if it is there.
func TestFeedOfElements(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer s.Close()
	want := []string{}
	change := func(told string, edits []*Edit) {
		mustChange(t, s, "hash", edits)
		want = append(want, fmt.Sprint(told, " ", s.log.Last()))
	}
	change("S hash", hset("a", "1", "b", "1"))
	change("S hash", hset("a", "2"))
	change("S hash", hset("a", "3", "b", "3"))
	change("S hash", append(hset("c", "1"), hdel("a")...))
	mustChange(t, s, "other", hset("a", "1"))
	mustChange(t, s, "other", hset("a", "2"))
	change("S hash", hdel("c"))
	mustChange(t, s, "hash gone", hset("a", "1"))
	want = append(want, fmt.Sprint("S hash ", s.log.Last()))
	mustChange(t, s, "hash gone", hset("a", "2"))
	if _, err := s.Delete(nil, []byte("hash gone"), Process); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprint("D  ", s.log.Last()))
	f, err := s.OpenFeed(FeedPoint{}, []byte("hash"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx := atEnd(s)
	for i, want := range want {
		e, err := f.Next(ctx)
		if got := fmt.Sprintf("%c %s %d", e.Op, e.Collection(), e.Seq); err != nil || got != want || e.More || !strings.HasPrefix(string(e.Key), "hash") {
			t.Errorf("change %d: %s of %q, more: %v, %v; want %s", i, got, e.Key, e.More, err, want)
		}
	}
	if e, err := f.Next(ctx); err == nil {
		t.Errorf("%q is told by record %d", e.Key, e.Seq)
	}
}

// atEnd is a context that ends when a feed waits for what is not there.
func atEnd(s *Store) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		awaitWaiting(s, s.log.Last()+1)
		cancel()
	}()
	return ctx
}
