package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// TestSnapshotIsDueOnceWhileAGroupIsUnderWay: a snapshot of the index that cannot cover more than the last one is not due, however long the log
// becomes; it is when the group has ended.
func TestSnapshotIsDueOnceWhileAGroupIsUnderWay(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer mustClose(t, s)
	mustSet(t, s, "a", "1")
	var changes []*Change
	for n := range 200 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 80))}})
	}
	g := &together{store: s, changes: changes}
	g.group.log = s.log
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	if !s.snapshotDue() {
		t.Error("the first snapshot is not due")
	}
	s.housekeeping.Lock()
	err := s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if s.snapshotDue() {
		t.Error("a snapshot is due although the last one covers all that can be covered")
	}
	g.group.end()
	if !s.snapshotDue() {
		t.Error("no snapshot is due although the group has ended")
	}
}
