package store

import (
	"errors"

	"github.com/copaldb/copal/internal/vfs"
)

// Room is reserved before a record is accepted: on the disk, behind the end of the tail,
// without changing the length of the file. So a full disk is found out while the record
// can still be refused, and what was accepted will fit, whenever it is drained.
//
// A little is kept for deletions, or nobody could make room on a full disk. It stays
// reserved when the store is closed, for the same reason.
//
// Where the file system cannot reserve, a write finds out by itself.

const (
	roomAhead = 1 << 20  // reserved at a time
	roomKept  = 64 << 10 // of which only deletions use the last part
)

// roomLocked sees to it that the segment has room up to end, and for later deletions
// unless this is one. Its error refuses the write; nothing has changed.
func (l *log) roomLocked(t *segment, end int64, deletion bool) error {
	need := end + roomKept
	if deletion {
		need = end
	}
	if need <= t.room || l.noReserve {
		return nil
	}
	from := max(t.room, t.end.Load())
	var err error
	for _, to := range [...]int64{end + roomKept + roomAhead, end + roomKept, need} {
		if err = t.file.Allocate(from, to-from); err == nil {
			t.room = to
			return nil
		}
		if !vfs.IsNoSpace(err) {
			break
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		l.noReserve = true
		return nil
	}
	return noSpace(err)
}

// releaseLocked gives back what is reserved beyond the end of the segment, all of which
// is in the file, but for the given number of bytes.
func (l *log) releaseLocked(s *segment, keep int64) {
	end := s.end.Load()
	if s.room <= end+keep || l.noReserve {
		return
	}
	if err := s.file.Truncate(end); err != nil {
		l.reportError("giving back reserved space", err)
		return
	}
	s.room = end
	if keep > 0 && s.file.Allocate(end, keep) == nil {
		s.room = end + keep
	}
}
