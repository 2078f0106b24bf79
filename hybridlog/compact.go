package hybridlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
)

// Nothing in a log becomes worthless in the middle, so there is little to compact: segments much smaller than they
// should be, because a process died and the next began a new one, and a first segment whose beginning is trimmed.
//
// A run of fragments, adjacent sealed segments that fit into one, is copied into a new segment, entry by entry and
// verified. The copy takes its place. The rest of a first segment that is mostly trimmed is copied, too. No address
// changes. The steps, and the state that a crash after each leaves:
//
//  1. the new files are written and synced, and so are their names: files that no manifest names;
//  2. the manifest is swapped: old or new, which hold the same;
//  3. when the old segments have no reader any more they are removed: files that no manifest names.
//
// A run with damage is not copied, so that readable bytes stay readable; other runs are.

// Compact joins fragments and gives back the space of trimmed bytes, as the log does by itself from
// time to time. It waits for readers of the files that it removes, so it must not be called inside
// View.
func (l *Log) Compact() error {
	if l.opts.readOnly {
		return ErrReadOnly
	}
	l.housekeeping.Lock()
	defer l.housekeeping.Unlock()
	if err := l.begun(); err != nil {
		return err
	}
	if err := l.sync(true); err != nil {
		return err
	}
	var damage error
	damaged := map[*segment]bool{} // by the first of a run
	for {
		runs := slices.DeleteFunc(l.runs(l.set.Load()), func(run []*segment) bool { return damaged[run[0]] })
		if len(runs) == 0 {
			return damage
		}
		switch err := l.join(runs[0]); {
		case errors.Is(err, ErrCorrupt) && l.tails.Failure() == nil:
			damage, damaged[runs[0][0]] = errors.Join(damage, err), true
		case err != nil:
			return err
		}
	}
}

// Trim removes the entries that end at or before an address, and gives back the space of segments
// that hold no others. The log then begins at First: at the address, or at the beginning of the
// entry that contains it. The trimming is durable when Trim returns. A read of trimmed bytes is
// ErrTrimmed. An address that is trimmed already changes nothing. An address beyond the end is
// ErrRange. If the file system can reserve room, the log keeps some for Trim, so that it works on a
// full disk.
//
// Trim waits for readers of the files that it removes, so it must not be called inside View.
func (l *Log) Trim(before Address) error {
	if l.opts.readOnly {
		return ErrReadOnly
	}
	l.housekeeping.Lock()
	defer l.housekeeping.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	switch {
	case int64(before) > l.end.Load():
		return fmt.Errorf("%w: trimming up to %d, the log ends at %d", ErrRange, before, l.end.Load())
	case before <= l.set.Load().first:
		return l.nameFound() // an earlier process may have trimmed it
	}
	gone, err := l.trimWritten(before)
	if l.lacksRoom(err) {
		gone, err = l.trimFound(before, err)
	}
	if err != nil {
		return err
	}
	l.remove(gone)
	l.fragmented()
	return nil
}

// trimWritten trims a log to which this process writes, and returns the segments that are in no use any more.
func (l *Log) trimWritten(before Address) (gone []*segment, err error) {
	if err := l.begun(); err != nil {
		return nil, err
	}
	// The manifest must not say more than the files: the end that is trimmed to could be lost else.
	if err := l.sync(true); err != nil {
		return nil, err
	}
	before, err = l.entryAt(before)
	if err != nil || before <= l.set.Load().first {
		return nil, err
	}
	return l.trim(before)
}

// trimFound trims the log as an earlier process left it, where there is no room for copies of that,
// and returns the segments that are in no use any more. The manifest still names the open segments
// and the ring, and states the trimmed part of the first. Recovery needs only the lengths of its
// files, so it is enough that they were synced in place. cause is the reason why this process
// cannot write.
func (l *Log) trimFound(before Address, cause error) (gone []*segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.recovered
	if l.closed.Load() || l.tail != nil || len(r.doubtful) == 0 || r.mark == nil || r.mark.Failed {
		return nil, cause
	}
	before, err = l.entryAt(before)
	if err != nil {
		return nil, err
	}
	if before <= l.set.Load().first {
		return nil, l.nameFoundLocked()
	}
	for _, d := range r.doubtful {
		if err := l.settleInPlace(d.segment); err != nil {
			return nil, err
		}
	}
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	all := l.set.Load().segments
	live := all
	for len(live) > 1 && live[0].last() <= before {
		live = live[1:]
	}
	gone = all[:len(all)-len(live)]
	m := l.manifestWith(l.logID, nil)
	m.segments = m.segments[len(gone):]
	m.begin, m.first = live[0].start, before
	if m.trimmed, err = live[0].trimmedAt(min(int64(before-m.begin), live[0].bytes.End.Load())); err != nil {
		return nil, err
	}
	if !r.sameCache {
		m.cache = ""
	}
	if err = l.swap(m); l.lacksRoom(err) {
		for _, s := range r.open { // the process before has kept some
			l.cutTorn(s)
		}
		err = l.swap(m)
	}
	if err != nil {
		return nil, err
	}
	isGone := func(s *segment) bool { return slices.Contains(gone, s) }
	r.open = slices.DeleteFunc(r.open, isGone)
	r.doubtful = slices.DeleteFunc(r.doubtful, func(d doubt) bool { return isGone(d.segment) })
	l.set.Store(newSet(before, live))
	l.tails.Raise(uint64(before), files.Mark{})
	return gone, nil
}

// entryAt is the beginning of the entry that an address is in, or the address where one begins.
func (l *Log) entryAt(a Address) (Address, error) {
	s := l.set.Load().find(a)
	off := int64(a - s.start)
	if off == 0 || off == s.bytes.End.Load() {
		return a, nil
	}
	r, err := s.readFrames()
	if err != nil {
		return 0, err
	}
	defer r.close()
	f, err := r.find(off)
	for slot := f.slot - 1; err == nil && slot >= s.trimmed.frames; slot-- {
		var before numbered
		if before, err = r.at(slot, -1); err == nil && before.entry {
			return s.start + Address(before.end), nil
		}
	}
	return s.start + Address(s.trimmed.end), err
}

// begun sees to it that the log is ready to be changed.
func (l *Log) begun() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.tails.Failure(); err != nil {
		return err
	}
	if l.tail == nil {
		return l.beginLocked()
	}
	return nil
}

// trim swaps the manifest, and returns the segments that are in no use any more.
func (l *Log) trim(before Address) (gone []*segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sealed := l.syncedLocked()
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	var live []*segment
	m := l.manifestWith(l.logID, sealed)
	m.first = before
	for _, s := range l.set.Load().segments {
		if s.synced.Load() && s.last() <= before {
			gone = append(gone, s)
			m.segments = slices.DeleteFunc(m.segments, func(e manifestSegment) bool { return e.id == s.id })
		} else {
			live = append(live, s)
		}
	}
	m.begin = live[0].start
	if m.trimmed, err = live[0].trimmedAt(min(int64(before-m.begin), live[0].bytes.End.Load())); err != nil {
		return nil, err
	}
	err = l.swap(m)
	if errors.Is(err, ErrNoSpace) && l.tails.Failure() == nil { // the room kept for this
		if err = l.freeRoomLocked(); err == nil {
			err = l.swap(m)
		}
	}
	if err != nil {
		return nil, err
	}
	l.set.Store(newSet(before, live))
	l.aheadMost = maxEnd
	return gone, nil
}

// remove removes unused segments, once their readers have left.
func (l *Log) remove(gone []*segment) {
	if len(gone) == 0 {
		return
	}
	l.gate.Grace()
	for _, s := range gone {
		l.tails.ReportError("closing a segment", s.close())
		l.tails.ReportError("removing a segment", l.removeFiles(s.id))
	}
}

// runs returns the segments to join, in order, each run to one segment.
func (l *Log) runs(set *set) (runs [][]*segment) {
	var run []*segment
	bytes, slots := int64(0), int64(0)
	end := func() {
		if len(run) > 1 || len(run) == 1 && mostlyTrimmed(run[0], set.first) {
			runs = append(runs, run)
		}
		run, bytes, slots = nil, 0, 0
	}
	for _, s := range set.segments {
		n, frames := max(int64(s.last()-max(s.start, set.first)), 0), s.slots()
		large := n > l.opts.segmentBytes/2 || frames > l.opts.segmentSlots/2
		if !s.synced.Load() || large && !mostlyTrimmed(s, set.first) {
			end()
			continue
		}
		if bytes+n > l.opts.segmentBytes || slots+frames > l.opts.segmentSlots {
			end()
		}
		run, bytes, slots = append(run, s), bytes+n, slots+frames
	}
	end()
	return runs
}

func mostlyTrimmed(s *segment, first Address) bool {
	return int64(first-s.start) > s.bytes.End.Load()/2
}

// join copies a run into one segment, or removes it if all of it is trimmed.
func (l *Log) join(run []*segment) error {
	set := l.set.Load()
	if run[len(run)-1].last() <= set.first { // a segment that ended while it was trimmed stays until now
		gone, err := l.trim(set.first)
		l.remove(gone)
		return err
	}
	start := max(run[0].start, set.first)
	generation := uint32(0)
	for _, s := range run {
		generation = max(generation, s.id.Generation())
	}
	x, err := l.createSegment(record.NewSegmentID(run[0].id.Order(), generation+1), l.logID)
	if err != nil {
		return l.tails.Refusal(err)
	}
	s := newSegment(l.opts.fsys, l.dir, x.id, x.salt)
	s.begin(start)
	err = l.copyRun(x, s, run)
	if err := errors.Join(err, x.close()); err != nil {
		return errors.Join(noSpace(err), l.removeFiles(x.id))
	}
	s.ended.Store(true)
	s.synced.Store(true)
	if err := l.replace(run, s); err != nil {
		if l.tails.Failure() == nil {
			err = errors.Join(err, l.removeFiles(s.id))
		}
		return err
	}
	l.remove(run)
	return nil
}

// copyRun writes the entries of the run that are not trimmed to the new segment, and syncs it.
func (l *Log) copyRun(x *spare, to *segment, run []*segment) error {
	w := &copier{next: framer{seal: to.seal}, x: x}
	for _, s := range run {
		if err := l.copySegment(w, s, int64(max(to.start, s.start)-s.start)); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	to.bytes.End.Store(w.next.end)
	to.sums.End.Store(w.next.slot * frameBytes)
	if _, err := x.sums.WriteAt(to.beginning(), lineBytes); err != nil {
		return err
	}
	if err := x.bytes.Sync(); err != nil {
		return err
	}
	return x.sums.Sync()
}

// copySegment copies the bytes of a segment from an offset on, with the ends of its entries.
func (l *Log) copySegment(w *copier, s *segment, from int64) error {
	in := l.gate.Enter()
	defer l.gate.Leave(in)
	c, err := s.open()
	if err != nil {
		return err
	}
	c.distrust() // it is read for the last time: the copied blocks are verified now
	begin := from
	for f, err := range s.frames(from) {
		if err != nil {
			return err
		}
		if f.end-begin < copyAtOnce && !f.entry {
			continue
		}
		p := w.space(int(f.end - begin))
		if err := s.readAt(c, p, begin); err != nil {
			return err
		}
		if err := w.add(p, f.entry); err != nil {
			return err
		}
		begin = f.end
	}
	return nil
}

const copyAtOnce = 256 << 10

// copier writes a segment.
type copier struct {
	x             *spare
	next          framer
	bytes, frames []byte
	done          place // the end of the written part
}

// space returns n bytes for the caller to fill and add.
func (w *copier) space(n int) []byte {
	w.bytes = append(w.bytes, make([]byte, n)...)
	return w.bytes[len(w.bytes)-n:]
}

func (w *copier) add(p []byte, entry bool) error {
	if entry {
		w.frames = w.next.add(w.frames, p, nil)
	} else {
		w.frames = w.next.part(w.frames, p, nil)
	}
	if len(w.bytes) >= copyAtOnce {
		return w.flush()
	}
	return nil
}

func (w *copier) flush() error {
	if len(w.bytes) == 0 {
		return nil
	}
	if _, err := w.x.bytes.WriteAt(w.bytes, w.done.end); err != nil {
		return err
	}
	if _, err := w.x.sums.WriteAt(w.frames, headerBytes+w.done.frames*frameBytes); err != nil {
		return err
	}
	w.done.end += int64(len(w.bytes))
	w.done.frames += int64(len(w.frames) / frameBytes)
	w.bytes, w.frames = w.bytes[:0], w.frames[:0]
	return nil
}

// replace puts a segment in the place of a run.
func (l *Log) replace(run []*segment, s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	sealed := append(l.syncedLocked(), s)
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	m := l.manifestWith(l.logID, sealed)
	at := slices.IndexFunc(m.segments, func(e manifestSegment) bool { return e.id == run[0].id })
	m.segments = slices.Replace(m.segments, at, at+len(run), lineOf(s))
	set := l.set.Load()
	list := slices.Clone(set.segments)
	at = slices.Index(list, run[0])
	list = slices.Replace(list, at, at+len(run), s)
	m.begin = list[0].start
	if at == 0 { // it begins where the log does
		m.trimmed = trimPlace{}
	}
	if err := l.swap(m); err != nil {
		return err
	}
	l.set.Store(newSet(set.first, list))
	return nil
}

// fragmented wakes the compactor if there are enough fragments.
func (l *Log) fragmented() {
	if n := l.opts.fragments; n > 0 && l.Stats().Fragments >= n {
		tail.Wake(l.compact)
	}
}

// keepCompact is the goroutine that compacts.
func (l *Log) keepCompact() {
	l.fragmented()
	var timer clock.Timer
	defer timer.Stop()
	for {
		if l.opts.every > 0 {
			timer.Set(l.opts.clock, l.opts.every)
		}
		select {
		case <-l.stop:
			return
		case <-timer.C:
		case <-l.compact:
		case <-l.cool:
			timer.Stop()
			l.closeRetired()
			continue
		}
		timer.Stop()
		if len(l.runs(l.set.Load())) > 0 && l.tails.Failure() == nil {
			l.tails.ReportError("compacting", l.Compact())
		}
	}
}

// poke wakes the keeper.
func (l *Log) poke() { tail.Wake(l.wake) }

// trustFor is the time for which a verified block is read without another verification.
const trustFor = time.Minute

// keep is the goroutine that makes the next segment in advance, syncs every second under
// SyncEverySecond, and forgets which blocks were verified.
func (l *Log) keep() {
	var second, minute clock.Timer
	defer func() { second.Stop(); minute.Stop() }()
	for {
		minute.Set(l.opts.clock, trustFor)
		if l.opts.policy == SyncEverySecond && l.dirty.Load() && l.tails.Failure() == nil {
			second.Set(l.opts.clock, time.Second)
		}
		select {
		case <-l.stop:
			return
		case <-l.wake:
			l.prepareSpare()
		case <-second.C:
			second.Stop()
			l.tails.SyncInTime(uint64(l.end.Load()), l.syncAll)
		case <-minute.C:
			minute.Stop()
			l.distrust()
			if l.opts.readOnly {
				l.closeRetired()
			}
		}
	}
}

// distrust lets each block be verified when it is read next. Segments without a read since the last
// time are closed.
func (l *Log) distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.set.Load().segments {
		c := s.content.Load()
		if c != nil && !c.distrust() && s.synced.Load() {
			l.retire(s, c)
		}
	}
}
