package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestCompactionNamesNothingTwiceAfterReopening is TestCompactionNamesNothingTwice, but the segment that is replaced by nothing was made by an earlier process.
func TestCompactionNamesNothingTwiceAfterReopening(t *testing.T) {
	for _, how := range []string{"pin", "view"} {
		t.Run(how, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := func(o *Options) { o.SegmentBytes = 1000; o.NoSnapshot = true }
			s := mustOpen(t, mem, opts)
			content := map[string]string{}
			set := func(segment, edition int) {
				for n := range 8 { // less than a segment
					key, value := fmt.Sprintf("%d/%d", segment, n), fmt.Sprint(edition, strings.Repeat("v", 60))
					mustSet(t, s, key, value)
					content[key] = value
				}
				if err := s.sealTail(); err != nil {
					t.Fatal(err)
				}
			}
			for segment := range 4 {
				set(segment, 0)
			}
			compact := func(from, to int) {
				t.Helper()
				s.housekeeping.Lock()
				defer s.housekeeping.Unlock()
				if err := s.compact(s.log.compactable()[from:to], noPause); err != nil {
					t.Fatal(err)
				}
			}
			compact(1, 2)
			mustClose(t, s)
			s = mustOpen(t, mem, opts)
			mustSet(t, s, "begin", "1")
			content["begin"] = "1"
			var pins pinned
			var v *View
			if how == "pin" {
				pins = s.log.pinAll()
			} else {
				v = mustView(t, s)
			}
			set(1, 1)
			compact(1, 2) // to nothing
			compact(0, 2) // into two places
			if how == "pin" {
				pins.unpin()
			} else {
				v.Close()
			}
			s.unpinned()
			mustClose(t, s)
			s, err := Open("db", testOptions(mem))
			if err != nil {
				t.Fatal(err)
			}
			s.wantSame(t, content)
			mustClose(t, s)
		})
	}
}

// TestGroupWithoutSegmentsInSnapshot: a snapshot of the index knows a group; its members are compacted away, the process dies, and the next snapshot names the group with no segments.
func TestGroupWithoutSegmentsInSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	opts := func(o *Options) { o.SegmentBytes = 1000; o.GroupBytes = 300 }
	s := mustOpen(t, mem, opts)
	var changes []*Change
	for n := range 30 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 80))}})
	}
	if err := s.WriteAll(changes, Process); err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	s.housekeeping.Lock()
	err := s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 30 {
		key := fmt.Sprint("key ", n)
		mustSet(t, s, key, "x")
		content[key] = "x"
	}
	if err := s.log.syncEnded(); err != nil {
		t.Fatal(err)
	}
	s.housekeeping.Lock()
	err = s.compact(s.log.compactable(), noPause)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.log.spread) != 0 {
		t.Fatal("spread")
	}
	s.lock.Close() // it dies
	reports := func(o *Options) { opts(o); o.OnError = func(err error) { t.Errorf("reported: %v", err) } }
	s = mustOpen(t, mem, reports)
	if s.snapshot == nil {
		t.Fatal("opened without the snapshot")
	}
	s.wantSame(t, content)
	mustSet(t, s, "z", "1")
	content["z"] = "1"
	mustClose(t, s)
	s = mustOpen(t, mem, reports)
	if s.snapshot == nil {
		t.Error("opened without the snapshot that was written at Close")
	}
	s.wantSame(t, content)
	mustClose(t, s)
}
