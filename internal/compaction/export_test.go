package compaction

import (
	"context"
	"errors"
	"time"

	"github.com/copaldb/copal/internal/seglog"
)

// Seams for the tests.

// LeastSegment is the nominal size of a segment of a small store.
const LeastSegment = leastSegment

// Usage is how the log's bytes are used.
type Usage struct{ Log, Live, Kept int64 }

// Garbage returns the bytes of dead records.
func (u Usage) Garbage() int64 { return u.Log - u.Live }

func SegmentFor(live, limit int64) int64 { return segmentFor(live, limit) }

func (k *Keeper) Usage() Usage {
	u := k.usage()
	return Usage{u.log, u.live, u.kept}
}

func (k *Keeper) Garbage() int64               { return k.garbage() }
func (k *Keeper) TidyOnce(f func() error) bool { return k.tidyOnce(f) }
func (k *Keeper) HasRoom()                     { k.hasRoom() }
func (k *Keeper) Due() bool                    { return k.due() }
func (k *Keeper) Size()                        { k.size() }
func (k *Keeper) Rest() error                  { return k.rest() }
func (k *Keeper) Borrow() error                { return k.borrow() }
func (k *Keeper) SealTail() error              { return k.sealTail() }
func (k *Keeper) Tight() bool                  { return k.tight.Load() }
func (k *Keeper) Lent() bool                   { return k.lent }
func (k *Keeper) SetLent()                     { k.lent = true }

func (k *Keeper) ShrinkOnce(ctx context.Context, last uint64) (more bool, err error) {
	return k.shrinkOnce(ctx, last)
}

// CompactRun compacts a run, or leaves it alone with an error.
func (k *Keeper) CompactRun(run []*seglog.Segment) error {
	return k.store.Housekeep(func() error { return k.compact(run, k.goOn) })
}

// RestAfter rests as a goroutine does after so much work.
func (k *Keeper) RestAfter(d time.Duration) error {
	k.opts.Inline, k.since = false, time.Now().Add(-d)
	defer func() { k.opts.Inline = true }()
	return k.rest()
}

// MembersInMemory copies all that can be compacted, and discards the copies. It returns how many members of
// groups were in memory at most, and in the end.
func (k *Keeper) MembersInMemory() (most, left int, err error) {
	err = k.store.Housekeep(func() error {
		defer k.moving.Store(nil)
		var c *compaction
		c = k.newCompaction(k.log.Compactable(), nil, func() error {
			most = max(most, len(c.waiting))
			return nil
		})
		err := errors.Join(c.copy(), c.discard())
		left = len(c.waiting)
		return err
	})
	return most, left, err
}

// ClosingTime bounds the copying of a compaction at Close.
const ClosingTime = closingTime

// SetNow gives the keeper another clock for that.
func (k *Keeper) SetNow(now func() time.Time) { k.now = now }
