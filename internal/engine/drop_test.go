package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// withMap is a store with a map m of one entry.
func withMap(t *testing.T) (*Store, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	if _, err := s.Map("m"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "m:a", "v")
	return s, mem
}

// compactOldest takes a snapshot of the index, and compacts the oldest segment.
func compactOldest(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Housekeep(func() error { return s.takeSnapshot(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := s.compact(s.log.Compactable()[:1], noPause); err != nil {
		t.Fatal(err)
	}
}

// TestDropBesideCompaction: a map that was dropped does not come back with the record that declared it, when
// compaction has copied that, and the record of the deletion is one that the snapshot of the index covers.
func TestDropBesideCompaction(t *testing.T) {
	s, mem := withMap(t)
	mustSet(t, s, "other", "v")
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Drop("m"), s.sealTail()); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "other", "again")
	compactOldest(t, s)
	for range 2 {
		if list := s.Maps(); len(list) != 0 {
			t.Errorf("there are maps: %v", list)
		}
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestDropAndDeclareBesideCompaction: a map that was dropped and came again stays.
func TestDropAndDeclareBesideCompaction(t *testing.T) {
	s, mem := withMap(t)
	mustSet(t, s, "other", "v")
	if err := errors.Join(s.Drop("m"), s.sealTail()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Map("m"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "m:a", "v")
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "other", "again")
	compactOldest(t, s)
	for range 2 {
		if list := s.Maps(); len(list) != 1 {
			t.Errorf("there are maps: %v", list)
		}
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestCompactBehindADrop: the deletion of a map stays in the log, and is nothing that compacting it again would gain.
func TestCompactBehindADrop(t *testing.T) {
	s, _ := withMap(t)
	mustSet(t, s, "other", "v")
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	err := errors.Join(s.Drop("m"), s.Compact(ctx, func(int64, int64) {
		if runs++; runs == 100 {
			cancel()
		}
	}))
	if err != nil {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// TestSetBehindADrop: raw writes after the deletion of a map do not declare it.
func TestSetBehindADrop(t *testing.T) {
	s, mem := withMap(t)
	if err := s.Drop("m"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "m:b", "v")
	for range 2 {
		if list := s.Maps(); len(list) != 0 {
			t.Errorf("there are maps: %v", list)
		}
		wantValue(t, s, "m:b", "v")
		s = mustOpen(t, mem.ProcessCrash())
	}
}

// TestAttachBesideADrop: a map whose table was returned before the map was dropped exists as soon as it is open.
func TestAttachBesideADrop(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	table, err := s.Map("m")
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "m:a", "v")
	if err := s.Drop("m"); err != nil {
		t.Fatal(err)
	}
	s.Attach(table, Values{})
	mustSet(t, s, "m:b", "v")
	for range 2 {
		if list := s.Maps(); len(list) != 1 {
			t.Errorf("there are maps: %v", list)
		}
		s = mustOpen(t, mem.ProcessCrash())
	}
}
