package compaction

import (
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// A disk that is short of room is a reason to compact, however little garbage there is.
//
// Whoever reserves room for the tail, a MiB at a time, asks what the disk has left. When that is less than
// compaction may need, or a write was refused, the keeper is told, and writes wait until it has seen what can
// be done: if the garbage is a quarter of what is left, or more, it takes out of the way segment by segment of
// which a quarter is garbage, those first that have least to be copied, and the tail where that is mostly
// garbage. The snapshot of the index goes before anything is given up, and the room that is kept for deletions
// is lent. So what is overwritten again and again fits a disk of a few times its size, and deletions make room
// on a full one, as far as what still counts of some segment fits beside it. For that segments are no longer
// than an eighth of the room that there is (size).
//
// What did not fit is not tried again before it has become less, or there is more room.

// MakeRoom compacts whatever gives back a quarter of what it takes, when the disk is short of room, and lets
// writes wait meanwhile, so that as few as possible are refused. Keep does so; of a store without goroutines it
// is for the caller.
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
	k.hasRoom() // also of what was lent when all else was due
	k.tight.Store(false)
}

// hasRoom takes back what was lent.
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

// ShortOfRoom is told by a write after which the disk has so few bytes left that compaction might have to do
// without. Writes wait until Keep has looked.
func (k *Keeper) ShortOfRoom(free int64) {
	k.free.Store(free)
	if !k.tight.Swap(true) {
		k.store.SlowDown(1) // until the keeper has seen what is to be done
		k.Wake()
	}
}

// roomiest is the run that gives back most easily a quarter of what it takes, or nil. It has nothing of which
// the files would stay because somebody reads there yet: copies of that would take what room there is.
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

// hopeless reports whether there is no room for a run, for there was none for as much. Of one of which hardly
// anything is copied that is never said: it may be that somebody else had what it takes, at that moment. And
// what is left is asked for anew: the write that was refused may have been longer.
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
