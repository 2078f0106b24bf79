package engine

import (
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// Each segment counts the bytes in it that compaction could reclaim: the records of entries that have been
// overwritten or deleted, the parts of values that no entry lists, and records of removals, which are of use
// for a while only. So compaction knows the segments with the most to gain. Only the order of its work depends
// on the numbers, which may be a little wrong after a crash.

// bury counts the record of an entry as dead, which was the newest one of its key up to now. The caller holds the
// key's lock, or is recovery.
func (s *Store) bury(h *hit) {
	if h.address != 0 && !s.shadow {
		slot, _ := seglog.SplitAddress(h.address)
		s.log.Segment(slot).Dead.Add(s.countParts(h, 1))
	}
}

// revive undoes the count of a new entry's parts as dead, made when they were written.
func (s *Store) revive(h *hit) {
	if !s.shadow {
		s.countParts(h, -1)
	}
}

// countParts adds to the dead bytes of the segments that hold parts of the entry's value, or takes from
// them. It returns the length of the entry's own record.
func (s *Store) countParts(h *hit, sign int64) (bytes int64) {
	if h.bytes <= seglog.PartBytes { // it has no parts
		return h.bytes
	}
	e, err := s.readAt(h.address, nil)
	if err != nil || e.Large == 0 {
		return min(h.bytes, seglog.PartBytes)
	}
	s.countListed(&e, sign)
	return int64(e.Bytes)
}

// buryParts counts as dead the parts that a record lists.
func (s *Store) buryParts(e *seglog.Record) {
	if e.Large > 0 {
		s.countListed(e, 1)
	}
}

func (s *Store) countListed(e *seglog.Record, sign int64) {
	words := strings.Split(string(e.Value), " ")
	size, _ := record.ParseHex(words[0])
	left := e.Large
	for _, word := range words[1:] {
		n := min(size, left)
		left -= n
		if id, _, err := seglog.ParsePlace(word); err == nil {
			if seg := s.log.ByID(id); seg != nil {
				seg.Dead.Add(sign * seglog.PartWeight(len(e.Key), int(n)))
			}
		}
	}
}
