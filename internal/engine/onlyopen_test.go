package engine

import (
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// TestMapThatWasOnlyOpen: a snapshot of the index has a map that was open and never written to. The ends of entries
// under its prefix are recorded as those of raw ones, which they are to the log.
func TestMapThatWasOnlyOpen(t *testing.T) {
	mem, clock := vfs.NewMem(), logtest.NewClock()
	told := func(o *Options) { o.Clock, o.ExpiryEvents = clock, true }
	s := mustOpen(t, mem, told)
	if _, err := s.Map("users"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "other", "value")
	mustClose(t, s)
	s = mustOpen(t, mem, told)
	if s.snapshot == nil {
		t.Fatal("there is no snapshot")
	}
	deadline, err := s.Deadline(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(nil, &Write{Key: []byte("users:1"), Value: []byte("x"), Expiry: deadline}); err != nil {
		t.Fatal(err)
	}
	image := mem.ProcessCrash()
	mustClose(t, s)
	clock.Advance(time.Minute)
	s = mustOpen(t, image, told)
	if err := wantEnds(s); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}
