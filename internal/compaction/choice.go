package compaction

import (
	"math"
	"slices"

	"github.com/copaldb/copal/internal/seglog"
)

// gain estimates the bytes that a compaction of the segment would give back.
func (n noted) gain() int64 { return max(n.dead()-n.kept, 0) }

// cost estimates the bytes that it would copy.
func (n noted) cost() int64 { return n.End.Load() - n.gain() + 4<<10 }

func (k *Keeper) costOf(run []*seglog.Segment) (bytes int64) {
	for _, seg := range run {
		bytes += k.of(seg).cost()
	}
	return bytes
}

// worth reports whether a compaction of the segment would gain anything, and was not given up since
// the segment last changed.
func (n noted) worth() bool { return n.gain() > 0 && !n.left() }

// pays reports whether a quarter of the segment comes back by a compaction.
func (n noted) pays() bool { return n.worth() && 4*n.gain() > n.End.Load() }

// left reports whether a compaction of the segment was given up, and too little has changed since for another.
func (n noted) left() bool { return n.leftAt > n.dead() }

// bestRun returns the run that gives back most for each copied byte, or nil. Many short segments come first.
func (k *Keeper) bestRun() []*seglog.Segment {
	list := k.compactable()
	if k.manyFiles() { // one swap for all of them, where the garbage in each would have one
		return k.small(list, mergeFrom)
	}
	var best noted
	at := 0
	for i, seg := range list {
		if n := k.of(seg); n.pays() && (best.note == nil || n.gain()*best.cost() > best.gain()*n.cost()) {
			best, at = n, i
		}
	}
	if best.note != nil {
		return k.widen(list, at)
	}
	if run := k.small(list, mergeFrom); run != nil {
		return run
	}
	return k.keepers(list)
}

// widen adds to a segment the neighbours that are worth it as well, as far as the copies fit one
// segment. They are maxRun at most, or as many as are no longer than one.
func (k *Keeper) widen(list []*seglog.Segment, at int) []*seglog.Segment {
	i, j, cost, read := at, at, k.of(list[at]).cost(), list[at].End.Load()
	for more := true; more && (j-i+1 < maxRun || read < k.log.Nominal()); {
		more = false
		for _, next := range []int{i - 1, j + 1} {
			if next < 0 || next >= len(list) {
				continue
			}
			n := k.of(list[next])
			if !n.worth() || 2*n.gain() < n.End.Load() || cost+n.cost() > k.log.Nominal() {
				continue
			}
			cost, read = cost+n.cost(), read+n.End.Load()
			i, j, more = min(i, next), max(j, next), true
		}
	}
	return list[i : j+1]
}

// small returns adjacent segments that fit one together, at least so many.
func (k *Keeper) small(list []*seglog.Segment, least int) []*seglog.Segment {
	for i := range list {
		j, total := i, int64(0)
		for j < len(list) && total+list[j].End.Load() <= k.log.Nominal() && !k.of(list[j]).left() {
			total += list[j].End.Load()
			j++
		}
		if j-i >= least {
			return list[i:j]
		}
	}
	return nil
}

// keepers returns the segments to compact so that deletions need not be kept any more, if these
// take much space: the oldest segment that may hold deleted records or, if there is none, the first
// that has such deletions.
func (k *Keeper) keepers(list []*seglog.Segment) []*seglog.Segment {
	if u := k.usage(); 4*u.kept < u.log {
		return nil
	}
	return k.firstKeeper(list)
}

// firstKeeper never chooses a segment that would have to keep all its deletions again: that would
// never end.
func (k *Keeper) firstKeeper(list []*seglog.Segment) []*seglog.Segment {
	clean := uint64(math.MaxUint64) // deletions that came later have to stay
	if seq, ok := k.log.SnapshotSeq(); ok {
		clean = seq
	}
	for i, seg := range list {
		n := k.of(seg)
		if n.left() {
			clean = min(clean, n.cleanTo)
			continue
		}
		from := k.mayGoFrom(n, clean)
		if from == 0 {
			continue
		}
		for j, older := range list[:i] {
			if k.of(older).cleanTo < from {
				return list[j : j+1]
			}
		}
		return list[i : i+1]
	}
	return nil
}

// mayGoFrom returns the number of the first deletion that compaction had to keep in a segment and may now drop,
// if that is not beyond clean; else 0. A deletion with a deadline that is kept for the snapshot of the index
// does not count: a copy of it would be kept as well.
func (k *Keeper) mayGoFrom(n noted, clean uint64) uint64 {
	from := n.keptFrom
	if _, snapshot := k.log.SnapshotSeq(); n.datedFrom > 0 && (!snapshot || k.log.SnapshotNames(n.ID)) && (from == 0 || n.datedFrom < from) {
		from = n.datedFrom
	}
	if from > clean {
		return 0
	}
	return from
}

// cheapest returns a run around the segment that takes the least room to compact, among those with
// more than one part in parts of garbage that out does not exclude; nil for none.
func (k *Keeper) cheapest(list []*seglog.Segment, parts int64, out func(*seglog.Segment) bool) []*seglog.Segment {
	var best noted
	at := 0
	for i, seg := range list {
		if n := k.of(seg); n.worth() && parts*n.gain() > seg.End.Load() && (best.note == nil || n.cost() < best.cost()) && !out(seg) {
			best, at = n, i
		}
	}
	if best.note == nil {
		return nil
	}
	run := k.widen(list, at)
	if free, known := k.log.FS.Free(k.log.Dir); known && k.costOf(run)+seglog.RoomAhead > free || slices.ContainsFunc(run, out) {
		return list[at : at+1]
	}
	return run
}
