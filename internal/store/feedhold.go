package store

import "slices"

// What feeds have to do with those who write and compact.
//
// A segment that compaction has replaced stays while a feed has yet to read it, as one does that a view needs. But a feed that nobody
// reads shall not fill the disk: the segments kept for feeds are together no longer than the log itself, or as
// Options.FeedBytes if that is more. Beyond that the oldest go, and whoever needs them is told that they are lost.

const defaultFeedBytes = 64 << 20

// feeds are those that are open. Guarded by log.mu.
type feeds struct {
	open    []*Feed
	waiting []*Feed // that are to be woken by the next record
	ended   bool    // the store is closed
	hold    int64   // Options.FeedBytes
}

// holdFor keeps what a feed has yet to read: what stands behind the place where it begins, and of groups that are committed behind it what
// stands before.
func (l *log) holdFor(f *Feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		if g.number < f.at.next {
			f.open[g.number] = feedPlace{g.from.segment, g.from.entry.Bytes}
		}
	}
	for number, g := range l.spread {
		if number < f.at.next && f.at.next <= g.commit {
			f.open[number] = feedPlace{}
		}
	}
	f.lower(f.at.next)
	l.feeds.open = append(l.feeds.open, f)
}

func (l *log) letGoOf(f *Feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feeds.open = slices.DeleteFunc(l.feeds.open, func(o *Feed) bool { return o == f })
}

// lower lets what stands before a record go, if nothing that began there is open.
func (f *Feed) lower(low uint64) {
	for number := range f.open {
		low = min(low, number)
	}
	f.low.Store(low)
}

// feedNeeds are those of a list of segments out of use, in any order, that are kept for feeds.
func (l *log) feedNeeds(list []*segment) map[*segment]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.feeds.open) == 0 {
		return nil
	}
	low := ^uint64(0)
	for _, f := range l.feeds.open {
		low = min(low, f.low.Load())
	}
	most := int64(0)
	for _, seg := range l.set.Load().ordered {
		if !seg.unlisted.Load() {
			most += seg.end.Load()
		}
	}
	most = max(most, l.feeds.hold)
	needs := map[*segment]bool{}
	newestFirst := slices.SortedFunc(slices.Values(list), func(a, b *segment) int { return int(int64(b.id.Order()) - int64(a.id.Order())) })
	for _, seg := range newestFirst {
		if seg.id.Generation() > 0 || seg.records == 0 || seg.last < low {
			continue
		}
		if most -= seg.end.Load(); most < 0 {
			break
		}
		needs[seg] = true
	}
	return needs
}

// wakeWhenBeyond sees to it that a feed is woken when there is a record with a higher number. It reports false when there is one.
func (l *log) wakeWhenBeyond(seq uint64, f *Feed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nextSeq-1 != seq || l.feeds.ended {
		return false
	}
	l.feeds.waiting = append(l.feeds.waiting, f)
	return true
}

// wakeNoMore undoes it.
func (l *log) wakeNoMore(f *Feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feeds.waiting = slices.DeleteFunc(l.feeds.waiting, func(o *Feed) bool { return o == f })
}

// wakeFeedsLocked is called when the log has become longer.
func (l *log) wakeFeedsLocked() {
	for _, f := range l.feeds.waiting {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	clear(l.feeds.waiting)
	l.feeds.waiting = l.feeds.waiting[:0]
}

// endFeeds is called when the store is closed, and reads say so.
func (l *log) endFeeds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feeds.ended = true
	l.wakeFeedsLocked()
}
