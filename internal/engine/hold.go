package engine

import (
	"math"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// Conditions for the removal of a segment.
//
// A segment leaves the log when compaction, here or in the process that a reader follows, has put others in its
// place (Log.Segments). From then on no new address leads to it, and it is retired. It is removed when it has no
// holder: it leaves the set, its slot is free, it is closed, and the process that writes removes the file. Until
// then records found in it before can be read. There is one rule, for these holders:
//
//	holder                                      holds segments that              until
//	a read inside the gate                      are retired meanwhile            it leaves the gate
//	a view, or a transaction                    it may have an address in        it is closed
//	a reader of the history                     it has yet to read               it has read them, or is too far behind
//	a read in place, an iteration, a backup,    it has pinned                    unpin
//	a reader of a large value, a cursor
//	the snapshot of the index                   it names, the files alone        there is another snapshot (Log.RemoveFile)
//
// The first four are asked in the order history and views, gate, pins (DropRetired). A view lets go without a look at
// the reads inside the gate that use it, and a read inside may pin a segment before it leaves. A view holds a segment
// that was retired after it was opened, and has a record as old as the view. A reader of the history holds a segment
// with a record from its place on, whenever that was retired, up to a limit that befits the log (history.go).
//
// A holder that lets go checks whether any segment is retired, and has the holders checked again (LetGo). A
// segment is listed as retired before the holders are checked: either a holder sees the list, or its release is
// seen. An unpin checks nothing, to keep reads in place cheap: compaction looks every second.
//
// A retired segment that did not go at once counts neither in the log nor in the excess for which writes are slowed
// down, because writers could not change that.
//
// Close waits for no holder. It closes retired segments and removes the files (closeRetired). Mapped memory stays for
// its pins; a read of the file is an error from then on.
//
// A group or a value under way is no holder: it keeps segments from being compacted, so they do not leave the log
// (Log.Compactable).

// retired is a segment that has left the log, or is checked as if it left now.
type retired struct {
	*seglog.Segment
	after uint64 // number of the last view that was opened before
}

// notYet is later than every view.
const notYet = math.MaxUint64

// outOfUse returns the retired segments. The list never changes. It is replaced by a caller that
// holds Store.housekeeping, or in a read-only store Store.replaying.
func (s *Store) outOfUse() []retired {
	if list := s.retired.Load(); list != nil {
		return *list
	}
	return nil
}

// Retire adds segments that have left the log, and whose addresses are in no index, to the retired ones. The
// caller is in Housekeep or, in a read-only store, in Replay.
func (s *Store) Retire(gone []*seglog.Segment) {
	list := slices.Clone(s.outOfUse())
	for _, seg := range gone {
		list = append(list, retired{seg, s.views.opened.Load()})
	}
	s.setRetired(list)
}

func (s *Store) setRetired(list []retired) {
	if len(list) == 0 {
		s.retired.Store(nil)
		return
	}
	s.retired.Store(&list)
}

// Retired reports whether there are segments that have left the log and have not gone.
func (s *Store) Retired() bool { return s.retired.Load() != nil }

// Stays returns a function that reports for a segment of a list whether its file would stay for a while if it
// left the log now.
func (s *Store) Stays(list []*seglog.Segment) func(*seglog.Segment) bool {
	all := make([]retired, len(list))
	for i, seg := range list {
		all[i] = retired{seg, notYet}
	}
	held := s.holders(all)
	return func(seg *seglog.Segment) bool { return held(retired{seg, notYet}) }
}

// holders returns a function that reports whether a segment of a list has a holder, other than reads inside the
// gate.
func (s *Store) holders(list []retired) func(retired) bool {
	history := s.heldHistory(list)
	return func(r retired) bool {
		return r.Pinned() || history[r.Segment] || s.views.needs(r, s.notes.of(r.Segment).renumbered.Load())
	}
}

// DropRetired removes the retired segments without a holder. The caller is outside of the gate, and in
// Housekeep or, in a read-only store, in Replay.
func (s *Store) DropRetired() {
	list := s.outOfUse()
	held := s.holders(list)
	free := map[*seglog.Segment]bool{}
	for _, r := range list {
		if !held(r) {
			free[r.Segment] = true
		}
	}
	if len(free) == 0 {
		return
	}
	s.grace()
	in, err := s.use()
	if err != nil { // it is closed, and so are all retired segments
		return
	}
	defer s.life.leave(in)
	s.setRetired(seglog.Without(slices.Clone(list), func(r retired) bool {
		if !free[r.Segment] || !r.Release() {
			return false
		}
		s.drop(r.Segment)
		return true
	}))
}

// closeRetired is DropRetired for a store that is no longer used.
func (s *Store) closeRetired() {
	for _, r := range s.outOfUse() {
		s.drop(r.Segment)
	}
	s.setRetired(nil)
}

// drop closes a segment that is retired, and removes its file unless the snapshot of the index holds that.
func (s *Store) drop(seg *seglog.Segment) {
	l := s.log
	l.Remove(seg)
	s.notes.drop(seg)
	err := seg.Close()
	if s.opts.ReadOnly { // the file belongs to the process that writes
		return
	}
	l.ReportError("closing a segment that was compacted", err)
	l.RemoveFile(seg.ID)
}

// LetGo is called by a holder that has just let go, outside the gate. A follower looks by itself, often.
func (s *Store) LetGo() {
	switch {
	case s.retired.Load() == nil || s.opts.ReadOnly:
	case s.opts.Inline && s.housekeeping.TryLock():
		defer s.housekeeping.Unlock()
		if !s.closing.Load() {
			s.DropRetired()
		}
	default:
		s.compaction.Wake()
	}
}
