package engine

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// retiredAndPinned compacts a segment that is pinned, so that it is out of use and stays.
func retiredAndPinned(t *testing.T, s *Store) *seglog.Segment {
	t.Helper()
	for round := range 2 {
		for i := range 20 {
			mustSet(t, s, fmt.Sprint(i), fmt.Sprint("round ", round))
		}
		if err := s.sealTail(); err != nil {
			t.Fatal(err)
		}
	}
	seg := s.log.Segments()[0]
	if !seg.Pin() {
		t.Fatal("what is in use cannot be pinned")
	}
	if err := compactRun(s, 0); err != nil {
		t.Fatal(err)
	}
	if list := s.outOfUse(); len(list) != 1 || list[0].Segment != seg || s.log.InLog(seg) {
		t.Fatalf("out of use is %v, and not the segment that was compacted", list)
	}
	return seg
}

// A pinned segment stays when it is out of use. It is reported, and is no reason to delay writers, which could
// not change that.
func TestPinnedIsHeld(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.NoSnapshot = true })
	seg := retiredAndPinned(t, s)
	if held := s.Stats().HeldBytes; held != seg.End.Load() {
		t.Errorf("%d bytes are held, want %d", held, seg.End.Load())
	}
	if n := s.compactor().DiskBytes(); n != s.usage().log {
		t.Errorf("%d bytes: what is held would slow down writes", n)
	}
	s.unpinned()
	if s.log.Segment(seg.Slot) != seg {
		t.Fatal("it has gone")
	}
	seg.Unpin()
	s.unpinned()
	if s.log.Segment(seg.Slot) != nil || len(s.outOfUse()) != 0 || s.Stats().HeldBytes != 0 || seg.Pin() {
		t.Error("it is held for nobody")
	}
	mustClose(t, s)
}

// A reader inside the gate may pin a segment out of use when the other holders have been asked already.
func TestPinnedWhileItIsDropped(t *testing.T) {
	s := mustOpen(t, vfs.NewMem(), func(o *Options) { o.NoSnapshot = true })
	seg := retiredAndPinned(t, s)
	in := s.life.enter()
	seg.Unpin()
	dropped := make(chan struct{})
	go func() { defer close(dropped); s.unpinned() }()
	logtest.Until(func() bool { // it waits for us, so newcomers go another way; or does not wait
		other := s.life.enter()
		s.life.leave(other)
		return other != in || len(s.outOfUse()) == 0
	})
	if !seg.Pin() {
		t.Fatal("it cannot be pinned")
	}
	s.life.leave(in)
	<-dropped
	if s.log.Segment(seg.Slot) != seg || len(s.outOfUse()) != 1 {
		t.Error("it has gone")
	}
	seg.Unpin()
	s.unpinned()
	if s.log.Segment(seg.Slot) != nil || len(s.outOfUse()) != 0 {
		t.Error("it is held for nobody")
	}
	mustClose(t, s)
}
