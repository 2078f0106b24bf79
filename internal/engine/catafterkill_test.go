package engine

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestSegmentsHaveAllAfterAKill: when a store that was killed has been opened and closed, without a write, its
// segments have every record, so that they can be read without the ring. Opened by a reader, nothing changes.
func TestSegmentsHaveAllAfterAKill(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 900 })
	for i := range 50 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	image := mem.ProcessCrash()
	before := contentOfDir(t, image, "db")
	if n := len(readOriginals(t, image, "db")); n >= 50 {
		t.Fatalf("%d records are in the segments: nothing is in the ring alone", n)
	}
	mustClose(t, mustOpen(t, image, func(o *Options) { o.ReadOnly = true }))
	if !equalDirs(before, contentOfDir(t, image, "db")) {
		t.Error("a reader has changed the store")
	}
	for range 2 {
		mustClose(t, mustOpen(t, image))
		all := readOriginals(t, image, "db")
		for i := range 50 {
			if i >= len(all) || all[i].key != fmt.Sprint("key ", i) {
				t.Fatalf("record %d of %d in the segments is not that of key %d", i, len(all), i)
			}
		}
	}
	s = mustOpen(t, image)
	defer mustClose(t, s)
	if n := s.Stats().Keys; n != 50 {
		t.Errorf("%d keys", n)
	}
}
