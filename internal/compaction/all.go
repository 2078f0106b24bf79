package compaction

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// Compact gives back all the space that can be given back, then returns. It does not compact
// segments written meanwhile.
//
// On a full disk the live records of a segment must fit beside it. Segments that do not fit stay,
// which is an error only if nothing else could be given back: so repeated calls come to an end.
//
// progress, which may be nil, is called with the garbage given back so far and all garbage, in
// bytes. When ctx ends, so does Compact, with its error; the space given back by then stays free.
func (k *Keeper) Compact(ctx context.Context, progress func(done, total int64)) error {
	if err := k.writable(); err != nil {
		return err
	}
	lost, refused := k.store.FlushAll()
	if refused != nil && !errors.Is(refused, seglog.ErrNoSpace) {
		return errors.Join(lost, refused)
	}
	if err := k.store.Sweep(); err != nil {
		return err
	}
	if k.openGain() >= min(newSegment, k.log.SegmentBytes/smallest) {
		if err := k.sealTail(); err != nil {
			return err
		}
	}
	if k.log.TailNow() == nil { // nothing was written yet
		return errors.Join(lost, refused, ctx.Err())
	}
	last := k.log.Last()
	had, err := k.withoutSnapshot()
	lent, compacted := false, k.log.Compacted.Load()
	var damage []error
	garbage := k.garbage()
	for more := true; more && err == nil; {
		if progress != nil {
			progress(max(garbage-k.garbage(), 0), garbage)
		}
		if err = ctx.Err(); err != nil {
			break
		}
		more, err = k.shrinkOnce(ctx, last)
		switch {
		case errors.Is(err, seglog.ErrNoSpace) && !lent:
			lent, more, err = true, true, k.borrow()
		case more && err != nil: // the damaged segment stays, and the rest goes on
			damage, err = append(damage, err), nil
		}
	}
	if errors.Is(err, seglog.ErrNoSpace) && k.log.Compacted.Load() > compacted {
		err = nil
	}
	if lent {
		k.repay()
	}
	if had {
		k.log.WantSnapshot()
	}
	k.once(func() error { return nil })
	k.Wake() // it later removes the files that still have readers
	if refused != nil && (err == nil || errors.Is(err, seglog.ErrNoSpace)) {
		more, again := k.store.FlushAll()
		lost, err = errors.Join(lost, more), errors.Join(err, again)
	}
	if err == nil && progress != nil {
		progress(garbage, garbage) // the rest cannot be given back
	}
	return errors.Join(append(damage, lost, err)...)
}

// borrow is Lend for a Compact: until repay, Keep does not take the room back.
func (k *Keeper) borrow() error {
	return k.store.Housekeep(func() error {
		k.borrowers++
		return k.log.Lend()
	})
}

// repay follows on every borrow, if the store is not being closed.
func (k *Keeper) repay() {
	k.store.Housekeep(func() error {
		if k.borrowers--; k.borrowers == 0 {
			k.log.TakeBack()
		}
		return nil
	})
}

// smallest is for logs of segments below a MiB, as tests make them: they are compacted for less.
const smallest = 1 << 10

// openGain returns the bytes of garbage in segments that are not sealed, or in all segments before
// the first write.
func (k *Keeper) openGain() (bytes int64) {
	var sealed []*seglog.Segment
	if k.log.Wrote() {
		sealed = k.compactable()
	}
	for _, seg := range k.log.Segments() {
		if !slices.Contains(sealed, seg) {
			bytes += k.of(seg).gain()
		}
	}
	return bytes
}

// garbage returns the bytes of dead records in the log.
func (k *Keeper) garbage() int64 {
	u := k.usage()
	return max(u.log-u.live, 0)
}

// withoutSnapshot removes the snapshot of the index from the disk, so that compacted segments can
// be removed at once, and lets everything be tried again.
func (k *Keeper) withoutSnapshot() (had bool, err error) {
	err = k.store.Housekeep(func() error {
		for _, seg := range k.log.Readable() {
			k.of(seg).leftAt = 0 // there may be room now, or the tail with a record may have ended
		}
		if err = k.look(true); err == nil {
			had, err = k.log.AbandonSnapshot()
		}
		return err
	})
	return had, err
}

// shrinkOnce compacts one run of the segments from before Compact began. An error with more set is
// one of damage.
func (k *Keeper) shrinkOnce(ctx context.Context, last uint64) (more bool, err error) {
	err = k.store.Housekeep(func() error {
		more, err = k.shrinkLocked(ctx, last)
		return err
	})
	return more, err
}

func (k *Keeper) shrinkLocked(ctx context.Context, last uint64) (more bool, err error) {
	k.store.DropRetired()
	list := k.compactable()
	list = slices.DeleteFunc(list, func(seg *seglog.Segment) bool { return seg.Last > last })
	run := k.cheapest(list, math.MaxInt32, func(*seglog.Segment) bool { return false })
	if run == nil {
		run = k.firstKeeper(list)
	}
	if run == nil {
		run = k.small(list, 2)
	}
	if run == nil {
		return false, nil
	}
	err = k.compact(run, func() error {
		return errors.Join(k.goOn(), ctx.Err())
	})
	_, corrupt := errors.AsType[*seglog.CorruptError](err)
	if damaged := corrupt && k.log.Failure() == nil; damaged || errors.Is(err, errLeft) {
		k.leave(run)
		if !damaged {
			err = nil
		}
		return true, err
	}
	return err == nil, err
}
