package engine

import (
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A disk that is short of room is a reason to compact, however little garbage there is.
//
// Whoever reserves room for the tail, a MiB at a time, asks what the disk has left. When that is less than compaction may need, or a write was refused, housekeeping is told,
// and writes wait until it has seen what can be done: if the garbage is a quarter of what is left, or more, it takes out of the way segment by segment of which a quarter
// is garbage, those first that have least to be copied, and the tail where that is mostly garbage. The snapshot of the index goes before anything is given up, and the room that
// is kept for deletions is lent. So what is overwritten again and again fits a disk of a few times its size, and deletions make room on a full one, as far as what still counts of
// some segment fits beside it. For that segments are no longer than an eighth of the room that there is (size).
//
// What did not fit is not tried again before it has become less, or there is more room.

// makeRoom compacts whatever gives back a quarter of what it takes, when the disk is short of room, and lets writes wait meanwhile, so that as few as possible
// are refused.
func (s *Store) makeRoom() {
	if !s.house.tight.Load() {
		return
	}
	if s.due() {
		s.endTailOf(func(t *seglog.Segment) bool {
			dead := t.Dead.Load()
			if dead < max(leastGarbage, s.house.tailLeft) || 4*dead < t.End.Load() {
				return false
			}
			s.house.tailLeft = dead + leastGarbage // if there is no room for another
			return true
		})
		for s.due() && s.tidyOnce(s.rest) {
			s.house.tailLeft = 0 // there is some now
		}
	}
	s.hasRoom() // also of what was lent when all else was due
	s.house.tight.Store(false)
}

// hasRoom takes back what was lent.
func (s *Store) hasRoom() {
	s.housekeeping.Lock()
	defer s.housekeeping.Unlock()
	if s.house.borrowers == 0 {
		s.log.TakeBack()
	}
	s.house.lent = false
	if bytes := s.log.OutlivedBytes(); bytes > 0 && bytes >= s.house.free.Load()/4 { // else another snapshot costs more than it gives back
		if _, err := s.log.AbandonSnapshot(); err != nil {
			s.log.ReportError("giving back what the snapshot of the index needs", err)
		}
		s.log.WantSnapshot()
	}
}

// shortOfRoom is told by a write after which the disk has so few bytes left that compaction might have to do without.
func (h *housekeeper) shortOfRoom(free int64) {
	h.free.Store(free)
	if !h.tight.Swap(true) {
		h.delay.Store(int64(maxWriteDelay)) // until housekeeping has seen what is to be done
		h.wakeHouse()
	}
}

// roomiest is the run that gives back most easily a quarter of what it takes, or nil. It has nothing of which the files would stay because somebody reads there yet: copies
// of that would take what room there is.
func (s *Store) roomiest() []*seglog.Segment {
	list := s.log.Compactable()
	stays := s.stays(list)
	if run := s.cheapest(list, 4, stays); run != nil {
		return run
	}
	if run := s.keepers(list); !slices.ContainsFunc(run, stays) {
		return run
	}
	return nil
}

// stays tells of which segments of a list the files would stay for a while if they were compacted.
func (s *Store) stays(list []*seglog.Segment) func(*seglog.Segment) bool {
	all := make([]retired, len(list))
	for i, seg := range list {
		all[i] = retired{seg, notYet}
	}
	held := s.holders(all)
	return func(seg *seglog.Segment) bool { return held(retired{seg, notYet}) }
}

// hopeless reports whether there is no room for a run, for there was none for as much. Of one of which hardly anything is copied that is never said: it may be that somebody else
// had what it takes, at that moment. And what is left is asked for anew: the write that was refused may have been longer.
func (s *Store) hopeless(run []*seglog.Segment) bool {
	cost := s.costOf(run)
	if s.house.tooMuch == 0 || cost < s.house.tooMuch || cost <= seglog.RoomKept/2 {
		return false
	}
	free, known := s.opts.FS.Free(s.log.Dir)
	if !known {
		free = s.house.free.Load()
	}
	return cost+seglog.RoomAhead > free
}
