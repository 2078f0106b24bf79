package hybridlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// Write appends p. It is Append for who wants an io.Writer: all of p is written, or nothing.
func (l *Log) Write(p []byte) (int, error) {
	if _, err := l.Append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Append writes p at the end of the log, as one entry, and returns the address of its first byte. When it returns nil, p
// survives the death of the process, and a power cut as the SyncPolicy says. p is not kept. To append nothing writes
// nothing, and returns the end.
//
// The errors are ErrNoSpace and ErrTooLarge, after which the log goes on and nothing was written, ErrReadOnly, and ErrClosed. When with AlwaysSync
// the write succeeds and its sync fails, the entry can be read and it is not known whether it will survive: the error says so, and the log refuses further writes.
func (l *Log) Append(p []byte) (Address, error) {
	if len(p) > MaxEntryBytes {
		return 0, fmt.Errorf("%w: a write of %d bytes", ErrTooLarge, len(p))
	}
	if l.opts.readOnly {
		return 0, ErrReadOnly
	}
	if l.behind.Load() >= mostBehind {
		if err := l.leadAlone(whatEnded); err != nil {
			return 0, err
		}
	}
	at, err := l.append(p)
	if err != nil {
		return 0, err
	}
	if l.opts.policy == AlwaysSync && len(p) > 0 {
		err = l.syncTo(at + Address(len(p)))
	}
	return at, err
}

func (l *Log) append(p []byte) (Address, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readyLocked(len(p)); err != nil {
		return 0, err
	}
	t := l.tail
	off := l.next.end
	if len(p) == 0 {
		return t.start + Address(off), nil
	}
	if err := l.roomLocked(off, len(p)); err != nil {
		return 0, err
	}
	next := l.next
	if err := l.putLocked(&next, p); err != nil {
		return 0, err
	}
	l.next = next
	t.slots.Store(next.slot)
	t.end.Store(next.end)
	l.end.Store(int64(t.start) + next.end)
	l.storedLocked(t)
	if !l.dirty.Load() && !l.dirty.Swap(true) && l.opts.policy == SyncEverySecond {
		l.poke()
	}
	return t.start + Address(off), nil
}

// readyLocked sees to it that n bytes can be appended to the tail.
func (l *Log) readyLocked(n int) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.failure(); err != nil {
		return err
	}
	if l.tail == nil {
		if err := l.beginLocked(); err != nil {
			return err
		}
	}
	if l.next.end > 0 && (l.next.end+int64(n) > l.opts.segmentBytes || l.next.slot+framesFor(l.next.end, n) > l.opts.segmentSlots) {
		if err := l.rollLocked(); err != nil {
			return err
		}
	}
	if need := l.next.end + int64(n); need > l.tail.capacity {
		return l.enlargeLocked(need)
	}
	if !l.wanted && !l.opts.inline && (l.next.end > l.opts.segmentBytes/2 || l.next.slot > l.opts.segmentSlots/2) {
		l.wanted = true
		l.poke()
	}
	return nil
}

// enlargeLocked maps more of the tail, which is empty, for a write that is longer than a segment.
func (l *Log) enlargeLocked(n int64) error {
	t, old := l.tail, l.tail.content.Load()
	t.capacity = n
	c, err := t.contentOf(old.file, vfs.ReadWrite, make([]uint32, blocksOf(n)))
	if err != nil {
		t.capacity = l.opts.segmentBytes
		return err
	}
	t.content.Store(c)
	if old.view != nil { // there was nothing to be read
		return wrap(old.view.Close())
	}
	return nil
}

// roomAhead is reserved at a time, or as much as so many writes take, where that is more. It pays: a write into reserved room is a third faster.
const (
	roomAhead   = 4 << 20
	writesAhead = 64
)

// roomLocked reserves room for n bytes at off and for their frames: behind the ends of the files, without changing their length. So a full disk is
// found out while the write can be refused, and what was accepted will fit whenever it is drained.
func (l *Log) roomLocked(off int64, n int) error {
	if l.noReserve {
		return nil
	}
	end := off + int64(n) + l.roomKept()
	if end > l.room {
		if err := l.reserveLocked(l.tailFile, &l.room, end, max(roomAhead, writesAhead*int64(n)), l.opts.segmentBytes); err != nil {
			return err
		}
	}
	frames := headerBytes + (l.next.slot+framesFor(off, n))*frameBytes
	if frames > l.sumsRoom {
		return l.reserveLocked(l.tail.sums, &l.sumsRoom, frames, roomAhead, headerBytes+l.opts.segmentSlots*frameBytes)
	}
	return nil
}

// roomKept is what stays reserved behind the end of the tail, also when the log is closed, so that Trim finds room for its
// manifest on a full disk.
func (l *Log) roomKept() int64 { return l.opts.roomKept + 128*int64(len(l.set.Load().segments)) }

// freeRoomLocked gives up all that is reserved behind the end of the tail, which is drained for that.
func (l *Log) freeRoomLocked() error {
	if err := l.drain(l.tail); err != nil {
		return err
	}
	if err := l.uncutTailLocked(); err != nil {
		return err
	}
	l.giveBackRoom(l.tailFile, l.next.end)
	l.giveBackRoom(l.tail.sums, headerBytes+l.next.slot*frameBytes)
	l.room, l.sumsRoom = l.next.end, headerBytes+l.next.slot*frameBytes
	return nil
}

// reserveLocked reserves up to end, and some more where there is more, but not beyond most. Where there was less, less is asked for until there may be
// more again: on some file systems to ask in vain takes as long as to reserve all that there is.
func (l *Log) reserveLocked(f vfs.File, room *int64, end, ahead, most int64) error {
	for ahead = min(ahead, l.aheadMost); ; ahead /= 8 {
		if ahead < 4<<10 {
			ahead = 0
		}
		to := max(end, min(end+ahead, most))
		err := f.Allocate(*room, to-*room)
		switch {
		case err == nil:
			*room = to
			return nil
		case errors.Is(err, errors.ErrUnsupported):
			l.noReserve = true
			return nil
		case !vfs.IsNoSpace(err) || ahead == 0:
			return noSpace(err)
		}
		l.aheadMost = ahead / 8
	}
}

// putLocked writes p behind the end of the tail, and its frames: into the ring, or into the files where there is no ring,
// or p is so long that the copy is not worth it.
func (l *Log) putLocked(next *framer, p []byte) error {
	off, slot := next.end, next.slot
	sums := l.tail.content.Load().sums
	if r := l.ring; r != nil && len(p) <= l.opts.bypass && int64(len(p)) <= r.bytes.Size/4 {
		ok, err := l.makeWayLocked(off, int64(len(p)), slot, framesFor(off, len(p)))
		if err != nil {
			return err
		}
		if ok {
			l.frames = next.add(l.frames[:0], p, sums)
			if err := r.bytes.Store(l.tail, p, off); err != nil {
				return l.fail(fmt.Errorf("writing to the ring: %w", err))
			}
			return l.putFramesLocked(slot)
		}
	}
	if err := l.drainToEnd(l.tail); err != nil {
		return err
	}
	if end := off + int64(len(p)); off/drainBytes < end/drainBytes { // the look costs more than a short write
		if err := uncut(l.tailFile, l.tail.path(), off); err != nil {
			return l.fail(fmt.Errorf("append: %w", err))
		}
	}
	if err := l.writeLocked(next, p, sums); err != nil {
		return l.cutBackLocked(off, err)
	}
	l.ringFrom = off + int64(len(p))
	if err := l.putFramesLocked(slot); err != nil {
		return err
	}
	l.tail.drained.Store(off + int64(len(p)))
	return nil
}

// sumBeside is how long a write is whose sums another goroutine computes meanwhile.
const sumBeside = 512 << 10

// writeLocked writes p to the file, and makes its frames.
func (l *Log) writeLocked(next *framer, p []byte, sums []uint32) error {
	off := next.end
	if len(p) < sumBeside {
		l.frames = next.add(l.frames[:0], p, sums)
		_, err := l.tailFile.WriteAt(p, off)
		return err
	}
	summed := make(chan struct{})
	go func() {
		defer close(summed)
		l.frames = next.add(l.frames[:0], p, sums)
	}()
	_, err := l.tailFile.WriteAt(p, off)
	<-summed
	return err
}

// putFramesLocked writes l.frames, whose first has the given number. The last of several comes last by itself: it is what makes the others count.
func (l *Log) putFramesLocked(slot int64) error {
	off, n := slot*frameBytes, int64(len(l.frames))
	if r := l.ring; r != nil && n <= r.frames.Size/4 {
		ok, err := l.makeWayLocked(0, 0, slot, n/frameBytes)
		if err != nil {
			return err
		}
		if ok {
			head := n - frameBytes
			if head > 0 {
				if err := r.frames.Store(l.tail, l.frames[:head], off); err != nil {
					return l.fail(fmt.Errorf("writing to the ring: %w", err))
				}
			}
			if err := r.frames.Store(l.tail, l.frames[head:], off+head); err != nil {
				return l.fail(fmt.Errorf("writing to the ring: %w", err))
			}
			return nil
		}
	}
	if err := l.drain(l.tail); err != nil {
		return err
	}
	if _, err := l.tail.sums.WriteAt(l.frames, headerBytes+off); err != nil {
		return l.cutBackLocked(l.next.end, err)
	}
	l.frameFrom = slot + n/frameBytes
	l.tail.drainedFrames.Store(l.frameFrom)
	return nil
}

// makeWayLocked sees to it that the ring can take n bytes at off and some frames; ok is false when it cannot, and is not used any more.
func (l *Log) makeWayLocked(off, n, slot, frames int64) (ok bool, err error) {
	r, t := l.ring, l.tail
	bytes, numbers := int64(0), int64(0) // what must stand elsewhere
	if n > 0 {
		bytes = min(r.bytes.Needs(off, n), off)
	}
	if frames > 0 {
		numbers = min(r.frames.Needs(slot*frameBytes, frames*frameBytes)/frameBytes, slot)
	}
	if l.claimed && (l.synced.end < bytes || l.synced.frames < numbers) {
		if err := l.syncTailLocked(); err != nil {
			return false, err
		}
	}
	if t.drained.Load() < bytes || t.drainedFrames.Load() < numbers {
		if err := l.drain(t); err != nil {
			return false, err
		}
	}
	l.ringFrom, l.frameFrom = max(l.ringFrom, bytes), max(l.frameFrom, numbers)
	if n > 0 {
		err = r.bytes.Populate(off, n)
	}
	if err == nil && frames > 0 {
		err = r.frames.Populate(slot*frameBytes, frames*frameBytes)
	}
	if err != nil { // a page of it is not to be had
		err := l.drain(t)
		l.ring, l.leftRing = nil, r
		return false, err
	}
	return true, nil
}

// cutBackLocked undoes a failed write. Only when nothing of it is left, and the reason was a lack of room, may the log go on.
func (l *Log) cutBackLocked(end int64, cause error) error {
	err := l.tailFile.Truncate(end)
	l.room = end
	if err == nil && l.tail.drainedFrames.Load() == l.next.slot {
		err = l.tail.sums.Truncate(headerBytes + l.next.slot*frameBytes)
		l.sumsRoom = headerBytes + l.next.slot*frameBytes
	}
	if err == nil && vfs.IsNoSpace(cause) {
		return noSpace(cause)
	}
	return l.fail(errors.Join(fmt.Errorf("append: %w", cause), err))
}

// spare is a segment that is to become the tail.
type spare struct {
	id          record.SegmentID
	salt        uint64
	bytes, sums vfs.File
}

func (x *spare) close() error { return errors.Join(x.bytes.Close(), x.sums.Close()) }

// createSegment makes the files of a segment, durable and empty.
func (l *Log) createSegment(id record.SegmentID, log uint64) (_ *spare, err error) {
	x := &spare{id: id, salt: l.opts.random()}
	if x.bytes, err = l.opts.fsys.Open(filepath.Join(l.dir, id.FileName()), vfs.Create); err != nil {
		return nil, err
	}
	if x.sums, err = l.opts.fsys.Open(filepath.Join(l.dir, sumsName(id)), vfs.Create); err != nil {
		return nil, errors.Join(err, x.bytes.Close(), l.removeFiles(id))
	}
	h := sumsHeader{log: log, id: id, salt: x.salt}
	_, err = x.sums.WriteAt(h.encode(), 0)
	if err == nil {
		err = x.sums.Sync()
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return nil, errors.Join(err, x.close(), l.removeFiles(id))
	}
	return x, nil
}
