package store

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestLargeValueAsksForItsRoomFirst: the room for a large value is asked for before its first part
// is written. A refusal leaves nothing of it, and the value is stored once there is room again.
func TestLargeValueAsksForItsRoomFirst(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpAllocate, Match: isLog, N: 2, Err: vfs.ErrNoSpace} // the first is that of "a"
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), &full))
	mustSet(t, s, "a", "1")
	before := s.Stats()
	if err := s.Set(nil, []byte("large"), make([]byte, 8<<20), 0, Process); !errors.Is(err, seglog.ErrNoSpace) {
		t.Errorf("Set: %v", err)
	}
	if after := s.Stats(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
	if err := s.Set(nil, []byte("large"), make([]byte, 8<<20), 0, Process); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
