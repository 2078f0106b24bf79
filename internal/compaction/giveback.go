package compaction

import (
	"errors"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// GiveBack gives back the space of parts that no record lists, in the segments from one on, because
// the disk is full. The rest stays until a later compaction. The caller holds no lock.
func (k *Keeper) GiveBack(from record.SegmentID) {
	tail := k.log.TailNow()
	if tail == nil {
		return
	}
	var err error
	if 2*k.of(tail).gain() >= tail.End.Load() {
		err = k.sealTail()
	} else {
		err = k.log.SyncEnded()
	}
	for more := err == nil; more && err == nil; {
		more, err = k.reclaimOnce(from)
	}
	if err != nil && !errors.Is(err, seglog.ErrNoSpace) && !errors.Is(err, seglog.ErrClosed) && k.log.Failure() == nil {
		k.log.ReportError("giving back the space of a value that did not fit", err)
	}
}

// reclaimOnce compacts one of the segments, and reports whether it did.
func (k *Keeper) reclaimOnce(from record.SegmentID) (more bool, err error) {
	return k.Run(func(list []*seglog.Segment) ([]*seglog.Segment, error) {
		for i, seg := range list {
			if n := k.of(seg); seg.ID < from || seg.ID.Generation() > 0 || !n.worth() || 2*n.gain() < seg.End.Load() {
				continue
			}
			if k.log.SnapshotNames(seg.ID) { // or the file would stay
				if _, err := k.log.AbandonSnapshot(); err != nil {
					return nil, err
				}
			}
			return list[i : i+1], nil
		}
		return nil, nil
	}, nil)
}
