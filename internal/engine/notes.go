package engine

import (
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/seglog"
)

// note is the engine's own state of a segment. The log itself has no use for it.
//
// A note is found by the slot of its segment, without a lock: overwriting an entry looks up the note of the segment
// with the old record (forgetRecord). That reads the list, the place in it, and the note, which change only when
// segments come and go, so they stay in the caches of all processors; and it allocates nothing after the first time.
type note struct {
	of *seglog.Segment

	graves     atomic.Pointer[graves] // nil until a record is remembered as dead
	renumbered atomic.Bool            // it may have records with higher numbers than those by which their values count
}

// notes has the notes of all segments.
type notes struct {
	mu     sync.Mutex                             // a leaf; guards all changes
	bySlot atomic.Pointer[[]atomic.Pointer[note]] // replaced when it grows
}

// of returns the note of a segment that is readable, which gets one when it has none.
func (n *notes) of(seg *seglog.Segment) *note {
	if known := n.find(seg); known != nil {
		return known
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.find(seg); known != nil {
		return known // it has come meanwhile
	}
	made := &note{of: seg}
	n.putLocked(made)
	return made
}

// find returns the note of a segment, nil for none. A slot may have the note of an earlier segment.
func (n *notes) find(seg *seglog.Segment) *note {
	list := n.bySlot.Load()
	if list == nil || seg.Slot >= len(*list) {
		return nil
	}
	if known := (*list)[seg.Slot].Load(); known != nil && known.of == seg {
		return known
	}
	return nil
}

// put gives a segment that has just become readable the note that was written before.
func (n *notes) put(made *note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.putLocked(made)
}

// putLocked takes the place of the note of a segment that had the slot before.
func (n *notes) putLocked(made *note) {
	list, slot := n.bySlot.Load(), made.of.Slot
	if list == nil || slot >= len(*list) {
		more := make([]atomic.Pointer[note], max(2*slot, 16))
		if list != nil {
			for i := range *list {
				more[i].Store((*list)[i].Load())
			}
		}
		list = &more
		n.bySlot.Store(list)
	}
	(*list)[slot].Store(made)
}

// drop forgets a segment that is not readable any more.
func (n *notes) drop(seg *seglog.Segment) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.find(seg); known != nil {
		(*n.bySlot.Load())[seg.Slot].Store(nil)
		known.graves.Swap(nil).close()
	}
}
