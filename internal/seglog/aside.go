package seglog

import (
	"slices"
)

// AsideLog is the recovered state of a log, laid aside while a reader recovers the log again. It
// does not change meanwhile, because all other callers wait.
type AsideLog struct {
	manifest          *Manifest
	storeID           uint64
	nextSeq, lastTime uint64
	set               *segmentSet
	freeSlots         []int
	records           int64
	durable           uint64
	left              leftByRecovery
}

// LayAside resets the log to its state before recovery, except for slots: those in use stay in use,
// because iterations may still have addresses in them.
func (l *Log) LayAside() *AsideLog {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	a := &AsideLog{
		manifest: l.Manifest, storeID: l.StoreID, nextSeq: l.NextSeq, lastTime: l.LastTime, set: l.set.Load(),
		freeSlots: slices.Clone(l.freeSlots), records: l.Records.Load(), durable: l.Durable.Load(), left: l.leftByRecovery,
	}
	set := a.set.clone()
	clear(set.byID)
	set.ordered, set.log = nil, nil
	l.set.Store(set)
	l.Records.Store(0)
	l.leftByRecovery = leftByRecovery{}
	return a
}

// PutBack restores the state that was laid aside, and closes the files that were opened since.
func (l *Log) PutBack(a *AsideLog) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	failed := map[*Segment]bool{}
	for _, seg := range slices.Concat(l.set.Load().bySlot, l.dropped) {
		failed[seg] = true
	}
	for _, seg := range a.set.bySlot {
		delete(failed, seg)
	}
	delete(failed, nil)
	for seg := range failed {
		seg.Close() // it was only read
	}
	l.Manifest, l.StoreID, l.NextSeq, l.LastTime = a.manifest, a.storeID, a.nextSeq, a.lastTime
	l.set.Store(a.set)
	l.freeSlots = a.freeSlots
	l.Records.Store(a.records)
	l.Durable.Store(a.durable)
	l.leftByRecovery = a.left
}

// SameStore returns an error if the log that was recovered since belongs to another store.
func (l *Log) SameStore(a *AsideLog) error {
	if a.manifest.Edit > 0 && l.StoreID != a.storeID {
		return l.goneError()
	}
	return nil
}

// Retire gives up the state that was laid aside, once the log has been recovered. It returns the
// segments that are no longer in the set; the caller closes them when their readers have left.
func (a *AsideLog) Retire() []*Segment {
	for _, seg := range a.left.dropped {
		seg.File.Close() // it was only read
	}
	return a.set.log
}
