package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/checkpoint"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestSnapshotIsDueOnceWhileAGroupIsUnderWay: a snapshot of the index that cannot cover more than the last one
// is not due, however long the log becomes; it is when the group has ended.
func TestSnapshotIsDueOnceWhileAGroupIsUnderWay(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 })
	defer mustClose(t, s)
	mustSet(t, s, "a", "1")
	var changes []*Change
	for n := range 200 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 80))}})
	}
	g := &together{store: s, changes: changes}
	g.group.Log = s.log
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
	g.group.End()
	if !s.snapshotDue() {
		t.Error("no snapshot is due although the group has ended")
	}
}

// underWay returns a group of many members in several segments, which are in the log without the commit.
func underWay(t *testing.T, s *Store, name string) *together {
	t.Helper()
	var changes []*Change
	for n := range 30 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, name, n), Value: []byte(strings.Repeat(name, 20))}})
	}
	g := &together{store: s, changes: changes}
	g.group.Log = s.log
	if err := g.prepare(); err != nil {
		t.Fatal(err)
	}
	return g
}

// commitBehindADeletion deletes a key of the group "first", whose members are in the log, commits the group, and
// takes a snapshot of the index.
func commitBehindADeletion(t *testing.T, s *Store, first *together) {
	t.Helper()
	if _, err := s.Delete(nil, []byte("first0"), Process); err != nil {
		t.Fatal(err)
	}
	if _, err := first.lockAndCommit(); err != nil {
		t.Fatal(err)
	}
	first.group.End()
	s.housekeeping.Lock()
	err := s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFirstAlone checks that the group "first" counts, and "second" does not.
func wantFirstAlone(t *testing.T, s *Store) {
	t.Helper()
	for n := range 30 {
		wantValue(t, s, fmt.Sprint("first", n), strings.Repeat("first", 20))
		wantValue(t, s, fmt.Sprint("second", n), absent)
	}
}

// TestSnapshotThatDividesAGroup: of two groups that overlap one commits before a snapshot of the index and the
// other does not. The committed group is there after a crash, with the key that was deleted between member and
// commit; also after a compaction, and a crash that leaves no snapshot.
func TestSnapshotThatDividesAGroup(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 }
	s := mustOpen(t, mem, small)
	mustSet(t, s, "first0", "old")
	first, second := underWay(t, s, "first"), underWay(t, s, "second")
	commitBehindADeletion(t, s, first)
	wantFirstAlone(t, s)
	mem = mem.ProcessCrash()
	second.group.End()
	mustClose(t, s)
	s = mustOpen(t, mem, small)
	wantFirstAlone(t, s)
	for mustSet(t, s, "other", "1"); compactRun(s, 1) == nil && s.log.Compacted.Load() < 3; {
		mustSet(t, s, "other", strings.Repeat("o", 1000))
	}
	wantFirstAlone(t, s)
	mem = mem.ProcessCrash()
	mustClose(t, s)
	logtest.RemoveIndex(mem, "db")
	s = mustOpen(t, mem, small)
	wantFirstAlone(t, s)
	mustClose(t, s)
}

// TestSnapshotThatEndsWithACommit: the last record of a snapshot of the index is the commit of a group, of which the
// members are in segments before it. Compaction of the commit's segment keeps it, also after an opening.
func TestSnapshotThatEndsWithACommit(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 }
	s := mustOpen(t, mem, small)
	mustSet(t, s, "first0", "old")
	commitBehindADeletion(t, s, underWay(t, s, "first"))
	holds := s.log.Segments()[len(s.log.Segments())-1].ID
	mem = mem.ProcessCrash()
	mustClose(t, s)
	s = mustOpen(t, mem, small)
	mustSet(t, s, "other", strings.Repeat("o", 3000))
	mustSet(t, s, "other", "1")
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	run := slices.DeleteFunc(s.log.Compactable(), func(seg *seglog.Segment) bool { return seg.ID != holds })
	if len(run) != 1 {
		t.Fatalf("the segment of the commit, %v, cannot be compacted", holds)
	}
	if err := s.compact(run, noPause); err != nil {
		t.Fatal(err)
	}
	mem = mem.ProcessCrash()
	mustClose(t, s)
	logtest.RemoveIndex(mem, "db")
	s = mustOpen(t, mem, small)
	wantFirstAlone(t, s)
	mustClose(t, s)
}

// TestSnapshotOfAGroupThatIsReplayed: a snapshot of the index knows the entries of a group of which it covers no
// record, because another that began before it is under way. Compaction keeps its members, also of a key which
// was deleted between the member and the commit.
func TestSnapshotOfAGroupThatIsReplayed(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 }
	s := mustOpen(t, mem, small)
	mustSet(t, s, "first0", "old")
	second, first := underWay(t, s, "second"), underWay(t, s, "first")
	commitBehindADeletion(t, s, first)
	image := mem.ProcessCrash()
	second.group.End()
	mustClose(t, s)
	s = openNoMoreDead(t, image, small)
	mustSet(t, s, "other", strings.Repeat("o", 3000))
	mustSet(t, s, "other", "1")
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	if err := s.compact(s.log.Compactable(), noPause); err != nil {
		t.Fatal(err)
	}
	wantFirstAlone(t, s)
	mustClose(t, s)
}

// openNoMoreDead opens a store with a snapshot of the index, and checks that no more is counted as dead than without.
func openNoMoreDead(t *testing.T, mem *vfs.Mem, opts func(*Options)) *Store {
	t.Helper()
	bare := mem.ProcessCrash()
	logtest.RemoveIndex(bare, "db")
	s := mustOpen(t, bare, opts)
	whole := s.usage()
	mustClose(t, s)
	s = mustOpen(t, mem, opts)
	if now := s.usage(); now.log-now.live > whole.log-whole.live {
		t.Errorf("%d bytes are dead, %d when the whole log is read", now.log-now.live, whole.log-whole.live)
	}
	return s
}

// TestSnapshotOfAGroupWithARange: a snapshot of the index knows the entries of a group of which it covers no record.
// The group deletes a range in which its own keys are, so the records that were written ahead are in the log once
// more, after the range. Their replay does not change the entries: their records are neither counted nor remembered
// as dead, or compaction would drop them.
func TestSnapshotOfAGroupWithARange(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes, o.GroupBytes = 20_000, 300 }
	s := mustOpen(t, mem, small)
	second := underWay(t, s, "second")
	err := s.Transact(Process, func(tx *Tx) error {
		if err := tx.DeleteRange(keyrange.Prefix([]byte("key "))); err != nil {
			return err
		}
		for n := range 5 {
			if err := tx.Write(nil, &Write{Key: fmt.Append(nil, "key ", n), Value: []byte(strings.Repeat("v", 100))}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.housekeeping.Lock()
	err = s.takeSnapshot(nil)
	s.housekeeping.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "late", "1")
	mustSet(t, s, "late", "2")
	image := mem.ProcessCrash()
	second.group.End()
	mustClose(t, s)
	s = openNoMoreDead(t, image, small)
	if remembered, _ := graved(t, s); remembered > 0 {
		t.Errorf("%d records are remembered as dead", remembered)
	}
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "other", "1")
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	if err := s.compact(s.log.Compactable(), noPause); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for n := range 5 {
			wantValue(t, s, fmt.Sprint("key ", n), strings.Repeat("v", 100))
		}
		mustClose(t, s)
		s = mustOpen(t, image, small)
	}
	mustClose(t, s)
}

// TestSnapshotOfAGroupWithoutSegments: an index snapshot can be read that names a group with no
// segments, because compaction has removed its members.
func TestSnapshotOfAGroupWithoutSegments(t *testing.T) {
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
	if err := s.log.SyncEnded(); err != nil {
		t.Fatal(err)
	}
	err = s.compact(s.log.Compactable(), noPause)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.log.Spread) != 0 {
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

// TestDamagedSnapshotThatDividesAGroup: the entries in a snapshot of a group that it divides survive although its
// parts are damaged, and the first of them is needed before recovery comes to the commit.
func TestDamagedSnapshotThatDividesAGroup(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *Options) { o.SegmentBytes = 2000; o.GroupBytes = 300 }
	s := mustOpen(t, mem, small)
	mustSet(t, s, "first0", "old")
	first, second := underWay(t, s, "first"), underWay(t, s, "second")
	commitBehindADeletion(t, s, first)
	mem = mem.ProcessCrash()
	second.group.End()
	mustClose(t, s)
	name := logtest.Index(mem)
	text := logtest.Read(t, mem, name)
	f, err := mem.Open(filepath.Join("db", name), vfs.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	x, err := checkpoint.Read(f, int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, table := range x.Tables {
		for _, p := range table.Parts {
			text[p.Offset] ^= 1
		}
	}
	logtest.Write(t, mem, name, text)
	s = mustOpen(t, mem, small)
	defer mustClose(t, s)
	wantFirstAlone(t, s)
}
