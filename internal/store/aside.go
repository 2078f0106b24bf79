package store

import (
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// asideLog is what recovery has told a log, laid aside while a reader recovers the log anew. Nothing
// of it changes meanwhile: everybody else waits.
type asideLog struct {
	manifest          *seglog.Manifest
	storeID           uint64
	nextSeq, lastTime uint64
	set               *segmentSet
	freeSlots         []int
	records           int64
	durable           position
	left              leftByRecovery
}

// layAside makes the log what it is before recovery, but for slots: those that are in use stay so,
// because iterations may still have addresses in them.
func (l *log) layAside() *asideLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &asideLog{
		manifest: l.manifest, storeID: l.storeID, nextSeq: l.nextSeq, lastTime: l.lastTime, set: l.set.Load(),
		freeSlots: slices.Clone(l.freeSlots), records: l.records.Load(), durable: l.durable, left: l.leftByRecovery,
	}
	set := a.set.clone()
	clear(set.byID)
	set.ordered, set.log = nil, nil
	l.set.Store(set)
	l.records.Store(0)
	l.leftByRecovery = leftByRecovery{}
	return a
}

// putBack makes the log what it was when a was laid aside, and closes what was opened since.
func (l *log) putBack(a *asideLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := map[*segment]bool{}
	for _, seg := range slices.Concat(l.set.Load().bySlot, l.dropped) {
		failed[seg] = true
	}
	for _, seg := range a.set.bySlot {
		delete(failed, seg)
	}
	delete(failed, nil)
	for seg := range failed {
		seg.close() // it was only read
	}
	l.manifest, l.storeID, l.nextSeq, l.lastTime = a.manifest, a.storeID, a.nextSeq, a.lastTime
	l.set.Store(a.set)
	l.freeSlots = a.freeSlots
	l.records.Store(a.records)
	l.durable = a.durable
	l.durableSeq.Store(a.durable.seq)
	l.leftByRecovery = a.left
}

// sameStore returns an error if the log that was recovered since is that of another store.
func (l *log) sameStore(a *asideLog) error {
	if a.manifest.Edit > 0 && l.storeID != a.storeID {
		return l.goneError()
	}
	return nil
}

// retire gives up what was laid aside, for the log has been recovered. It returns the segments, which
// are in the set no more, and are the caller's to close when nobody reads there.
func (a *asideLog) retire() []*segment {
	for _, seg := range a.left.dropped {
		seg.file.Close() // it was only read
	}
	return a.set.log
}
