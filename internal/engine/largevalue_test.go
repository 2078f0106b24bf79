package engine

import (
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestLargeValueAsksForItsRoomFirst: the room for a large value is asked for before its first part
// is written. A refusal leaves nothing of it, and the value is stored once there is room again.
func TestLargeValueAsksForItsRoomFirst(t *testing.T) {
	full := vfs.Fault{Kinds: vfs.OpAllocate, Match: logtest.IsLog, N: 2, Err: vfs.ErrNoSpace} // the first is for "a"
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

func TestPartsThatAreNotThere(t *testing.T) {
	for name, list := range map[string]string{
		"no place": "5 1.ffffff", "no segment": "5 9.10", "not a list": "5 x", "another record": "5 1.", "too few": "3 1.5e", "nothing": "",
	} {
		set := logtest.Rec(record.Set, record.Value, "big", list, func(h *record.Head) { h.Large = 5 })
		s := mustOpen(t, logtest.Hand(t, set))
		_, err := s.Get(nil, []byte("big"))
		if !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}
