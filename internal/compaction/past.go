package compaction

import (
	"fmt"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// In a store with a window of history, a record that is dead now may count at a moment of the
// window. So compaction considers two moments, and drops the records that count at neither:
//
//   - It compacts segments that are entirely older than the window, and leaves the others
//     unchanged.
//   - A record is dead if it counts neither now nor at the end of the last of these segments. A
//     store of that moment decides (moment.go of the engine). No later moment needs the dropped
//     records, because a record that does not count at one moment counts at no later one.
//   - Deletions are dropped by the same rule as without a window: no older segment may have the
//     deleted records, and a compacted segment has no records that were dead at that moment.
//   - The window begins at that moment from the swap on.
//
// The store of the moment also counts the garbage of a segment. Opening it costs a reading of the
// log up to there, so the keeper looks when an eighth of the part older than the window has become
// so since the last look.
//
// Three things prevent the compaction of a run: parts of a value with its record after the run,
// whenever that counts; members of a group that commits after the moment; and damage.

// compactable returns the segments that can be compacted, oldest first.
func (k *Keeper) compactable() []*seglog.Segment {
	list := k.log.Compactable()
	h := k.log.History()
	if k.windowed.Store(h != nil); h == nil {
		return list
	}
	old := 0 // number of segments before the window, by either bound
	if now := uint64(max(k.opts.Clock.Now().UnixMilli(), 0)); h.Keep <= now {
		old = len(k.log.OlderThan(now-h.Keep, list))
	}
	if h.Bytes > 0 {
		old = max(old, len(k.log.FartherThan(h.Bytes, list)))
	}
	return list[:old]
}

// look counts the garbage in the part older than the window. If asked is false, it looks only when
// so much has become older that it may pay. The caller is in Housekeep, and calls endPast when
// everything that pays has been compacted.
func (k *Keeper) look(asked bool) error {
	list := k.compactable()
	if !k.windowed.Load() || len(list) == 0 {
		return nil
	}
	total, fresh := int64(0), int64(0)
	for _, seg := range list {
		total += seg.End.Load()
		if seg.ID.Order() > k.looked {
			fresh += seg.End.Load()
		}
	}
	if !asked && (8*fresh < total || fresh < k.slack()) {
		return nil
	}
	past, err := k.openPast(list)
	if err != nil {
		return err
	}
	k.looked = list[len(list)-1].ID.Order()
	for _, seg := range list {
		k.of(seg).then.Store(past.Log().ByID(seg.ID).Dead.Load())
	}
	return nil
}

// pastOf returns the store of the moment as of which a run is compacted, nil without a window.
func (k *Keeper) pastOf(run []*seglog.Segment) (*engine.Store, error) {
	list := k.compactable()
	switch {
	case !k.windowed.Load():
		return nil, nil
	case k.past != nil && knows(k.past, run):
		return k.past, nil
	case len(list) == 0 || list[len(list)-1].ID < run[len(run)-1].ID:
		return nil, fmt.Errorf("%w: it is within the window of history", errLeft)
	}
	return k.openPast(list)
}

// knows reports whether a store of a moment has all segments of a run.
func knows(past *engine.Store, run []*seglog.Segment) bool {
	for _, seg := range run {
		if there := past.Log().ByID(seg.ID); there == nil || there.Last != seg.Last {
			return false
		}
	}
	return true
}

// openPast opens the moment at the end of a list of segments, or at which the window begins if that is later.
func (k *Keeper) openPast(list []*seglog.Segment) (*engine.Store, error) {
	k.endPast()
	seq := uint64(0)
	if h := k.log.History(); h != nil { // earlier records cannot be read any more, and need not be
		seq = h.Seq
	}
	for _, seg := range list {
		seq = max(seq, seg.Last)
	}
	past, err := k.store.OpenMoment(seglog.AtSeq(seq))
	if err != nil {
		return nil, err
	}
	if k.past = past; !knows(past, list) {
		k.endPast()
		return nil, fmt.Errorf("%w: the log as of record %d has other segments", errLeft, seq)
	}
	return past, past.SweepAll()
}

// savePast writes an index of the moment, if something was compacted: from there on the log is read for each later
// moment, and for the next look. If a group was under way, the index would lack its members. The caller is in
// Housekeep.
func (k *Keeper) savePast() {
	if k.whole && !k.tight.Load() && k.goOn() == nil {
		k.log.ReportError("writing an index of the window's beginning", k.store.SavePast(k.past))
	}
}

// endPast closes the store of the moment. The caller is in Housekeep.
func (k *Keeper) endPast() {
	if k.past != nil {
		k.log.ReportError("closing the log as of the window's beginning", k.store.CloseMoment(k.past))
		k.past, k.whole = nil, false
	}
}

// once calls f in Housekeep, before compaction rests.
func (k *Keeper) once(f func() error) error {
	return k.store.Housekeep(func() error {
		defer k.endPast()
		defer k.savePast()
		return f()
	})
}

// inside calls f inside the gates.
func (c *compaction) inside(f func() error) error {
	return c.store.Inside(func() error {
		if c.past == nil {
			return f()
		}
		return c.past.Inside(f)
	})
}

// standing is Table.Standing, now or at the moment: a record is live if it is so at either.
func (c *compaction) standing(t *engine.Table, e *seglog.Record, a seglog.Address) (live, gone bool, err error) {
	live, gone, err = t.Standing(e, a)
	if c.past == nil || live || err != nil {
		return live, gone, err
	}
	if t = c.past.TableOf(e.Space, e.Kind, e.Key); t == nil {
		return false, false, fmt.Errorf("%w: nothing was known of key space %d", errLeft, e.Space)
	}
	slot, offset := seglog.SplitAddress(a)
	return t.Standing(e, seglog.AddressOf(c.past.Log().ByID(c.log.Segment(slot).ID).Slot, offset))
}

// forgetIndex removes the snapshot of the index from the disk, before the swap, if a window is
// kept: among the copies are records that do not count any more. They would count again for a
// reader with an index that covers the newer records and does not know the segments.
func (c *compaction) forgetIndex() error {
	if c.past == nil {
		return nil
	}
	_, err := c.log.AbandonSnapshot()
	return err
}

// pastPart is part with a window of history.
func (c *compaction) pastPart(at partPlace, e *seglog.Record) error {
	for i, s := range []*engine.Store{c.past, c.store} {
		t := s.TableOf(e.Space, e.Kind, e.Key)
		if t == nil {
			continue
		}
		owner, err := c.owner(s, t, e.Key, &c.lists[i])
		if err != nil {
			return err
		}
		if owner == 0 || !c.lists[i].places[at] {
			continue
		}
		slot, _ := seglog.SplitAddress(owner)
		if !c.has(c.log.ByID(s.Log().Segment(slot).ID)) {
			return fmt.Errorf("%w: the record of a large value is after it", errLeft)
		}
		return c.putPart(at, e)
	}
	listed, err := c.listedBehind(at)
	if listed {
		err = fmt.Errorf("%w: the record of a large value was after it", errLeft)
	}
	return err
}

// listedBehind reports whether a record after the run lists a part in it, whether that counts now
// or not.
func (c *compaction) listedBehind(at partPlace) (bool, error) {
	if c.behind != nil {
		return c.behind[at], nil
	}
	c.behind = map[partPlace]bool{}
	for _, seg := range c.log.Segments() {
		if seg.ID < c.run[len(c.run)-1].ID || c.has(seg) {
			continue
		}
		err := seg.Each(func(_ int64, e *seglog.Record) error {
			if e.Op != record.Set || e.Large == 0 {
				return c.pause()
			}
			return c.addPlaces(c.behind, e, seg)
		})
		if err != nil {
			return false, err
		}
	}
	return c.behind[at], nil
}
