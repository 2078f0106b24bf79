package hybridlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Write appends p, all of it or nothing. It makes the log an io.Writer; see Append.
func (l *Log) Write(p []byte) (int, error) {
	if _, err := l.Append(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Append writes p at the end of the log, as one entry, and returns the address of its first byte.
// When it returns nil, p survives the death of the process, and a power cut as the SyncPolicy says.
// Append does not keep p. An empty p writes nothing, and Append returns the end.
//
// After ErrNoSpace and ErrTooLarge nothing was written, and the log goes on. Other errors are
// ErrReadOnly and ErrClosed. With AlwaysSync the write may succeed and its sync fail. Then the
// entry can be read, and it is unknown whether it will survive: the error says so, and the log
// refuses further writes.
func (l *Log) Append(p []byte) (Address, error) {
	if len(p) > MaxEntryBytes {
		return 0, fmt.Errorf("%w: a write of %d bytes", ErrTooLarge, len(p))
	}
	if l.opts.readOnly {
		return 0, ErrReadOnly
	}
	if l.behind.Load() >= mostBehind {
		if err := l.tails.Alone(l.syncEnded); err != nil {
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
	t.sums.End.Store(next.slot * frameBytes)
	t.bytes.End.Store(next.end)
	l.end.Store(int64(t.start) + next.end)
	if l.tails.Ring != nil {
		if err := l.tails.Ring.Acknowledge(uint64(t.start) + uint64(next.end)); err != nil {
			return 0, l.tails.Fail(fmt.Errorf("writing to the ring: %w", err))
		}
		l.tails.StoredLocked(t.files().Enough(), false)
	}
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
	if err := l.tails.Failure(); err != nil {
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

// roomAhead is the room reserved at a time, or more if the writes need more. A write into reserved
// room is a third faster.
const (
	roomAhead   = 4 << 20
	writesAhead = 64
)

// roomLocked reserves room for n bytes at off and for their frames.
func (l *Log) roomLocked(off int64, n int) error {
	if l.tails.NoReserve {
		return nil
	}
	end := off + int64(n) + l.roomKept()
	t := l.tail
	if end > t.bytes.Room() {
		if err := l.reserveLocked(&t.bytes, end, max(roomAhead, writesAhead*int64(n)), l.opts.segmentBytes); err != nil {
			return err
		}
	}
	frames := (l.next.slot + framesFor(off, n)) * frameBytes
	if frames > t.sums.Room() {
		return l.reserveLocked(&t.sums, frames, roomAhead, l.opts.segmentSlots*frameBytes)
	}
	return nil
}

// roomKept is the room that stays reserved after the end of the tail, also when the log is closed,
// so that Trim finds room for its manifest on a full disk.
func (l *Log) roomKept() int64 { return l.opts.roomKept + 128*int64(len(l.set.Load().segments)) }

// freeRoomLocked gives up all room that is reserved after the end of the tail, which it drains for
// that.
func (l *Log) freeRoomLocked() error {
	if err := l.drain(l.tail); err != nil {
		return err
	}
	return l.giveBackRoom(l.tail)
}

// reserveLocked reserves up to end, and some more where there is more, but not beyond most. Where there was
// less, less is asked for until there may be more again: on some file systems to ask in vain takes as long as
// to reserve all that there is.
func (l *Log) reserveLocked(t *tail.Tail, end, ahead, most int64) error {
	for ahead = min(ahead, l.aheadMost); ; ahead /= 8 {
		if ahead < 4<<10 {
			ahead = 0
		}
		err := l.tails.ReserveTo(t, max(end, min(end+ahead, most)))
		switch {
		case err == nil:
			return nil
		case !vfs.IsNoSpace(err) || ahead == 0:
			return noSpace(err)
		}
		l.aheadMost = ahead / 8
	}
}

// putLocked writes p at the end of the tail, and its frames: into the ring, or into the files if
// there is no ring or p is so long that a copy does not pay.
func (l *Log) putLocked(next *framer, p []byte) error {
	off, slot := next.end, next.slot
	sums := l.tail.content.Load().sums
	if r := l.tails.Ring; r != nil && len(p) <= l.opts.bypass && int64(len(p)) <= r.Parts[0].Longest() {
		ok, err := l.makeWayLocked(off, int64(len(p)), slot, framesFor(off, len(p)))
		if err != nil {
			return err
		}
		if ok {
			l.frames = next.add(l.frames[:0], p, sums)
			if err := r.Parts[0].Store(&l.tail.bytes, p, off); err != nil {
				return l.tails.Fail(fmt.Errorf("writing to the ring: %w", err))
			}
			return l.putFramesLocked(slot)
		}
	}
	if err := l.tails.Drain(&l.tail.bytes, l.tail.bytes.End.Load()); err != nil {
		return err
	}
	if err := l.tails.LookLocked(&l.tail.bytes, off, int64(len(p))); err != nil {
		return err
	}
	if err := l.writeLocked(next, p, sums); err != nil {
		return l.cutBackLocked(err)
	}
	l.ringFrom = off + int64(len(p))
	if err := l.putFramesLocked(slot); err != nil {
		return err
	}
	l.tail.bytes.Wrote(off + int64(len(p)))
	return nil
}

// sumBeside is the length from which on another goroutine computes the sums of a write meanwhile.
const sumBeside = 512 << 10

// writeLocked writes p to the file, and makes its frames.
func (l *Log) writeLocked(next *framer, p []byte, sums []uint32) error {
	off := next.end
	if len(p) < sumBeside {
		l.frames = next.add(l.frames[:0], p, sums)
		_, err := l.tail.bytes.File.WriteAt(p, off)
		return err
	}
	summed := make(chan struct{})
	go func() {
		defer close(summed)
		l.frames = next.add(l.frames[:0], p, sums)
	}()
	_, err := l.tail.bytes.File.WriteAt(p, off)
	<-summed
	return err
}

// putFramesLocked writes l.frames, whose first has the given number. The last of several is written
// last, alone, since it makes the others valid.
func (l *Log) putFramesLocked(slot int64) error {
	off, n := slot*frameBytes, int64(len(l.frames))
	if r := l.tails.Ring; r != nil && n <= r.Parts[1].Longest() {
		ok, err := l.makeWayLocked(0, 0, slot, n/frameBytes)
		if err != nil {
			return err
		}
		if ok {
			head := n - frameBytes
			if head > 0 {
				if err := r.Parts[1].Store(&l.tail.sums, l.frames[:head], off); err != nil {
					return l.tails.Fail(fmt.Errorf("writing to the ring: %w", err))
				}
			}
			if err := r.Parts[1].Store(&l.tail.sums, l.frames[head:], off+head); err != nil {
				return l.tails.Fail(fmt.Errorf("writing to the ring: %w", err))
			}
			return nil
		}
	}
	if err := l.drain(l.tail); err != nil {
		return err
	}
	if _, err := l.tail.sums.File.WriteAt(l.frames, headerBytes+off); err != nil {
		return l.cutBackLocked(err)
	}
	l.frameFrom = slot + n/frameBytes
	l.tail.sums.Wrote(l.frameFrom * frameBytes)
	return nil
}

// makeWayLocked sees to it that the ring can take n bytes at off and some frames; ok is false when it cannot,
// and is not used any more.
func (l *Log) makeWayLocked(off, n, slot, frames int64) (ok bool, err error) {
	r, t := l.tails.Ring, l.tail
	at, more := slot*frameBytes, frames*frameBytes
	bytes, numbers, drained := int64(0), int64(0), true // ends of the parts that are overwritten, and must be elsewhere
	if n > 0 {
		bytes, drained = r.Parts[0].Overwrites(off, n), t.bytes.InFile(off) >= r.Parts[0].Needs(off, n)
	}
	if frames > 0 {
		numbers, drained = r.Parts[1].Overwrites(at, more)/frameBytes, drained && t.sums.InFile(at) >= r.Parts[1].Needs(at, more)
	}
	if l.claimed && (l.synced.end < bytes || l.synced.frames < numbers) {
		if err := l.syncTailLocked(); err != nil {
			return false, err
		}
	}
	if !drained {
		if err := l.drain(t); err != nil {
			return false, err
		}
	}
	l.ringFrom, l.frameFrom = max(l.ringFrom, bytes), max(l.frameFrom, numbers)
	if n > 0 {
		err = r.Parts[0].Populate(off, n)
	}
	if err == nil && frames > 0 {
		err = r.Parts[1].Populate(at, more)
	}
	if err != nil { // a page of it is not to be had
		if err := l.drain(t); err != nil {
			return false, err
		}
		return false, l.tails.LeaveRing()
	}
	return true, nil
}

// cutBackLocked undoes a failed write. The file of frames is cut back only if it has all before: the ring may
// have more.
func (l *Log) cutBackLocked(cause error) error {
	t, all := l.tail, []*tail.Tail{&l.tail.bytes}
	if frames := t.sums.End.Load(); t.sums.InFile(frames) == frames {
		all = append(all, &t.sums)
	}
	return l.tails.CutBack(cause, all...)
}

// spare is the segment that becomes the tail next.
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
		err = l.tails.SyncDir()
	}
	if err != nil {
		return nil, errors.Join(err, x.close(), l.removeFiles(id))
	}
	return x, nil
}
