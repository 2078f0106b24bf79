package compaction

import (
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A disk that is short of room is a reason to compact, however little garbage there is.
//
// When room is reserved for the tail, a MiB at a time, the free bytes of the disk are read. If they
// are less than compaction may need, or a write was refused, the keeper is called, and writes wait
// for its decision: if the garbage is a quarter of the free bytes, or more, it compacts segments of
// which a quarter is garbage one by one, those with the least to copy first, and the tail if that
// is mostly garbage. The snapshot of the index goes before anything is given up, and the room that
// is kept for deletions is lent. So entries that are overwritten again and again fit a disk of a
// few times their size, and deletions make room on a full one, if the live records of some segment
// fit beside it. Therefore segments are at most an eighth of the room (size).
//
// A segment that did not fit is not tried again before it has fewer live records, or there is more
// room.

// MakeRoom compacts segments that give back at least a quarter of their length, when the disk is
// short of room, and lets writes wait meanwhile, so that as few as possible are refused. Keep calls
// it; in a store without goroutines the caller does.
func (k *Keeper) MakeRoom() {
	if !k.tight.Load() {
		return
	}
	if k.due() {
		k.endTailOf(func(t *seglog.Segment) bool {
			dead := t.Dead.Load()
			if dead < max(leastGarbage, k.tailLeft) || 4*dead < t.End.Load() {
				return false
			}
			k.tailLeft = dead + leastGarbage // if there is no room for another
			return true
		})
		for k.due() && k.tidyOnce(k.rest) {
			k.tailLeft = 0 // there is some now
		}
	}
	k.hasRoom() // also takes back room that was lent for other reasons
	k.tight.Store(false)
}

// hasRoom takes back the lent room.
func (k *Keeper) hasRoom() {
	k.store.Housekeep(func() error { k.hasRoomLocked(); return nil })
}

func (k *Keeper) hasRoomLocked() {
	if k.borrowers == 0 {
		k.log.TakeBack()
	}
	k.lent = false
	if bytes := k.log.OutlivedBytes(); bytes > 0 && bytes >= k.free.Load()/4 { // else another snapshot costs more than it gives back
		if _, err := k.log.AbandonSnapshot(); err != nil {
			k.log.ReportError("giving back what the snapshot of the index needs", err)
		}
		k.log.WantSnapshot()
	}
}

// ShortOfRoom is called by a write after which the disk has fewer free bytes than compaction may
// need. Writes wait until Keep has looked.
func (k *Keeper) ShortOfRoom(free int64) {
	k.free.Store(free)
	if !k.tight.Swap(true) {
		k.store.SlowDown(1) // until the keeper has decided
		k.Wake()
	}
}

// roomiest returns the run that gives back a quarter of its length at the least cost, or nil. It
// has no segment whose file would stay for a reader: copies of that would take the remaining room.
func (k *Keeper) roomiest() []*seglog.Segment {
	list := k.compactable()
	stays := k.store.Stays(list)
	if run := k.cheapest(list, 4, stays); run != nil {
		return run
	}
	if run := k.keepers(list); !slices.ContainsFunc(run, stays) {
		return run
	}
	return nil
}

// hopeless reports whether there is no room for a run, because there was none for as much. It is
// false for a run of which hardly anything is copied: another program may have had the room at that
// moment. The free bytes are read again, because the refused write may have been longer.
func (k *Keeper) hopeless(run []*seglog.Segment) bool {
	cost := k.costOf(run)
	if k.tooMuch == 0 || cost < k.tooMuch || cost <= seglog.RoomKept/2 {
		return false
	}
	free, known := k.log.FS.Free(k.log.Dir)
	if !known {
		free = k.free.Load()
	}
	return cost+seglog.RoomAhead > free
}
