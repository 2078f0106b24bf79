package seglog

import (
	"github.com/copaldb/copal/internal/vfs"
)

// Room is reserved before a record is accepted, see package tail. How much:
//
// While the disk is short of room, the writer that finds the tail full makes the next segment. The keeper may not
// run for a while; the tail would grow until there is no room beside it for its live records, and could never be
// compacted.
//
// A little is kept for deletions, or no room could be made on a full disk. It stays reserved when the store is
// closed, for the same reason. If there is less, all of it is kept.

const (
	RoomAhead = 1 << 20  // reserved at once
	RoomKept  = 64 << 10 // at the end, for deletions only
	roomLeast = 4 << 10  // of that part, if the disk has no more
)

// roomLocked makes sure that the segment has room up to end, and for later deletions unless this is
// one. Its error refuses the write; nothing has changed.
func (l *Log) roomLocked(t *Segment, end int64, deletion bool) error {
	need := end + RoomKept
	if deletion {
		need = end
	}
	if need <= t.Room() || l.NoReserve {
		return nil
	}
	from := t.Room()
	var err error
	ahead := end + RoomKept + RoomAhead
	if l.short { // the next segment needs the room after this one's end
		ahead = min(ahead, max(end, l.Nominal())+RoomKept)
	}
	for _, to := range [...]int64{ahead, end + RoomKept, need} {
		if l.lent && !deletion && !l.sparesLocked(to-from) {
			err = vfs.ErrNoSpace
			continue
		}
		if err = l.ReserveTo(&t.Tail, to); l.NoReserve {
			return nil
		}
		if err == nil {
			free, known := l.FS.Free(l.Dir)
			if l.short = known && free < l.Nominal()+RoomAhead; l.short { // less than compaction may need
				l.ShortOfRoom(free)
			}
			return nil
		}
		if !vfs.IsNoSpace(err) {
			break
		}
		l.short = true
		l.ShortOfRoom(0)
	}
	return NoSpace(err)
}

// sparesLocked reports whether so many bytes can be taken without the room that is lent to
// compaction, which makes room for all later writes.
func (l *Log) sparesLocked(bytes int64) bool {
	free, known := l.FS.Free(l.Dir)
	return !known || free >= bytes+2*RoomKept
}

// beginRoomLocked reserves room for the first append of this process. A lack of it is reported by the write.
func (l *Log) beginRoomLocked() {
	if l.roomLocked(l.Tail, l.Tail.End.Load(), false) != nil {
		l.keepLocked(l.Tail)
	}
}

// takeRoomLocked releases the room that an earlier process has kept in segments that no longer
// grow, for the present tail.
func (l *Log) takeRoomLocked() {
	for _, s := range l.holdRoom {
		if size, err := s.File.Size(); err == nil && size == s.End.Load() && !l.NoReserve {
			l.ReportError("giving back reserved space", s.File.Truncate(size))
		}
	}
	l.holdRoom = nil
}

// keepLocked reserves as much as possible of the room for deletions, less the room that is lent.
func (l *Log) keepLocked(s *Segment) {
	most := int64(RoomKept)
	if l.lent {
		most = roomLeast
	}
	l.keepSomeLocked(s, most)
}

func (l *Log) keepSomeLocked(s *Segment, most int64) {
	end := s.End.Load()
	for n := end + most - s.Room(); n >= roomLeast && !l.NoReserve; n /= 2 {
		if to := s.Room() + n; to <= end+most {
			l.ReserveTo(&s.Tail, to) // else less
		}
	}
}

// releaseLocked releases the room reserved after the end of the segment, which is all in the file.
// If the segment may grow again, the room for deletions is kept.
func (l *Log) releaseLocked(s *Segment, keep bool) error {
	if !keep {
		return l.GiveBack(&s.Tail, 0)
	}
	err := l.GiveBack(&s.Tail, RoomKept)
	if err == nil {
		l.keepLocked(s)
	}
	return err
}

// Lend gives back the room that the tail has reserved, so that there is some for a new manifest. It
// keeps roomLeast of the room for deletions, for those that come meanwhile.
func (l *Log) Lend() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	err := l.lendLocked()
	if err == nil && l.Tail != nil {
		l.keepSomeLocked(l.Tail, roomLeast)
		l.lent = true
	}
	return err
}

func (l *Log) lendLocked() error {
	if l.Tail == nil {
		return nil
	}
	if err := l.drain(l.Tail); err != nil {
		return err
	}
	return l.releaseLocked(l.Tail, false)
}

// TakeBack reserves the lent room again.
func (l *Log) TakeBack() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.lent = false
	if l.Tail != nil {
		l.keepLocked(l.Tail)
	}
}
