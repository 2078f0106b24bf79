package seglog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// Recovery goes on after damage only in a store that is opened for reading. The damage is noted,
// and the log goes on with the next whole record of the segment: a whole record contains the offset
// and the salt with which it was written, so nothing else can be mistaken for one.
//
// The owner of the log gets the keys that the damaged bytes still name, so that a read of these
// keys is an error. More cannot be known: the checksum is of the whole record, so a key that can be
// read may be damaged itself, and the keys in bytes that do not parse are lost.

// Lost is a key named in damaged bytes.
type Lost struct {
	Head    record.Head // unverified; only the kind of the key and the key space are usable
	Key     []byte      // valid during the call
	Value   []byte      // of a member of a group, if replay needs it
	Seq     uint64      // number of the last record that the damage may have taken
	Address Address     // a read there is an error
}

// passing is the code that goes on after damage. Only PassDamage names it, so programs that never call that do not
// contain it.
type passing struct {
	lose func(Lost) error
	pass func(r *Recovery, seg *Segment, t *TailReader, cause error, corrupt *CorruptError, cut bool) (more bool, err error)
	head func(r *Recovery, e ManifestSegment, cause error) (*Segment, error)
}

// PassDamage lets recovery go on after damage, and call lose with each key that the damaged bytes name. Damage has
// the errors then.
func (r *Recovery) PassDamage(lose func(Lost) error) {
	r.passing = &passing{lose, (*Recovery).passDamage, (*Recovery).passHead}
}

// pass lets recovery go on after the last record that it has read of a segment, when cause reports
// a loss. more reports whether there are bytes to read after it. pass returns cause if the caller
// does not want to go on, and where that makes no sense: in a file of a newer version, whose
// records cannot be recognized, and at the end of a file that may have been cut.
func (r *Recovery) pass(seg *Segment, t *TailReader, cause error, cut bool) (more bool, err error) {
	corrupt, ok := errors.AsType[*CorruptError](cause)
	if r.passing == nil || !ok {
		return false, cause
	}
	return r.passing.pass(r, seg, t, cause, corrupt, cut)
}

// passDamage is pass for a caller that wants to go on. corrupt is the error in cause.
func (r *Recovery) passDamage(seg *Segment, t *TailReader, cause error, corrupt *CorruptError, cut bool) (more bool, err error) {
	from, first, last := seg.End.Load(), r.Next, r.Next
	next, err := r.resume(seg, t, from)
	if err != nil || t.GaveUp || cut && next == nil {
		return false, errors.Join(cause, err)
	}
	end := t.End
	if next != nil {
		end, last = t.Offset, max(next.Seq, 1)-1
	}
	named, err := r.suspect(seg, t, from, end, last, corrupt.Reason)
	if err != nil {
		return false, err
	}
	switch {
	case next != nil:
		r.goOn(next.Seq)
		seg.End.Store(end)
	default:
		last = first + max(named.records, 1) - 1
		r.goOn(last + 1)
		seg.End.Store(named.end)
	}
	whole := named.end == end && named.records == last-first+1
	r.note(corrupt, lossOf(first, last, whole))
	return next != nil, nil
}

// passHead opens a segment whose first line cannot be read. The manifest says which it is, and the
// checksums of its records verify that. The time of writing is unknown: times count from the making
// of the store.
func (r *Recovery) passHead(e ManifestSegment, cause error) (*Segment, error) {
	l, path := r.Log, filepath.Join(r.Log.Dir, e.ID.FileName())
	corrupt, ok := errors.AsType[*CorruptError](cause)
	f, err := l.FS.Open(path, vfs.ReadOnly)
	if err != nil || !ok {
		return nil, cause
	}
	s := &Scanner{File: f}
	if s.End, err = f.Size(); err == nil {
		b, readErr := s.Window(record.MaxHeaderBytes)
		if _, _, parsed := record.ParseSegmentHeader(b); readErr == nil && parsed == nil {
			return nil, errors.Join(cause, f.Close()) // the line is whole, and of another segment
		}
		err = errors.Join(readErr, s.SkipTo(0))
	}
	if err != nil || s.Offset >= s.End { // without a record the segment cannot be identified
		return nil, errors.Join(cause, err, f.Close())
	}
	r.note(corrupt, "its records are read as ever, and when they were written is not known")
	seg := &Segment{ID: e.ID, Salt: e.Salt, Start: l.Manifest.Created, Tail: tail.Tail{Path: path, File: f}, Head: s.Offset}
	seg.End.Store(seg.Head)
	return seg, nil
}

// lossOf describes the loss of some records; named reports whether all of them still name their
// keys.
func lossOf(first, last uint64, named bool) string {
	switch {
	case !named:
		return fmt.Sprintf("records from %d on are lost, and any key may be as it was before", first)
	case first == last:
		return fmt.Sprintf("a read of the key that record %d names is an error; if that key itself is damaged, another is as it was before", first)
	}
	return fmt.Sprintf("reads of the keys that records %d to %d name are errors; if one of those is damaged itself, another is as it was before", first, last)
}

// note keeps the damage for the owner of the log.
func (r *Recovery) note(err *CorruptError, loss string) {
	r.Damage = append(r.Damage, &CorruptError{File: err.File, Offset: err.Offset, Reason: err.Reason + "; " + loss})
}

// passEnd lets the log go on with the record with the number next, although records before it are missing, if
// damage up to the end of a segment explains that. Otherwise it returns cause: files are missing, cut short or
// older.
func (r *Recovery) passEnd(cause error, next uint64) error {
	if !r.endless {
		return cause
	}
	r.goOn(next)
	return nil
}

// resume moves past the damage, to the next whole record, which it returns; nil for none.
func (r *Recovery) resume(seg *Segment, t *TailReader, from int64) (*Record, error) {
	t.Offset, t.Gaps, t.Last = from, seg.ID.Generation() > 0, r.Next-1
	follows, err := t.Resume()
	if err != nil || t.GaveUp {
		return nil, err
	}
	at := t.Offset
	if !follows {
		t.Offset = from
		if at, follows, err = t.RingFollows(); err != nil || !follows {
			return nil, err
		}
	}
	t.Offset, t.Last = at, 0
	_, e, _, err := t.Next()
	t.Offset, t.Last = at, 0
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// chain is a sequence of bytes that look like adjacent records.
type chain struct {
	records uint64
	end     int64
}

// suspect passes all keys that the bytes in [from, end) of a segment name to the owner of the log.
// It returns the chain that begins there.
func (r *Recovery) suspect(seg *Segment, t *TailReader, from, end int64, last uint64, reason string) (c chain, err error) {
	c.end = from
	s := &Scanner{File: t.Segment, Offset: from, End: t.End}
	for at := from; at < min(end, s.End); at = s.Offset { // the rest may be only in the ring
		var h record.Head
		head, b, err := s.head(&h, at == from)
		if err != nil {
			return c, err
		}
		if head > 0 && len(b) >= head+h.KeyBytes {
			total := int64(h.Length(head))
			if at == c.end && at+total <= end {
				c = chain{c.records + 1, at + total}
			}
			seg.lose(at, reason)
			if err = r.passing.lose(Lost{Head: h, Key: b[head : head+h.KeyBytes], Seq: last, Address: AddressOf(seg.Slot, at)}); err != nil {
				return c, err
			}
		}
		if err = s.SkipTo(at + 1); err != nil {
			return c, err
		}
	}
	seg.lose(from, reason)
	return c, r.loseGroups(AddressOf(seg.Slot, from), last)
}

// head parses the head of the record at s.Offset, unverified, and returns the bytes of the record
// as far as they exist. If it is sure that a record begins here, its checksum need not even look
// like one.
func (s *Scanner) head(h *record.Head, sure bool) (int, []byte, error) {
	b, err := s.Window(record.MaxHeadBytes)
	if err != nil {
		return 0, nil, err
	}
	if sure && len(b) > 8 {
		b = append([]byte("00000000"), b[8:]...)
	}
	head, err := h.Parse(b)
	if err != nil {
		return 0, nil, nil
	}
	b, err = s.Window(head + h.KeyBytes)
	return head, b, err
}

// lose makes reads at an offset errors.
func (s *Segment) lose(offset int64, reason string) {
	if s.lost == nil {
		s.lost = map[int64]error{}
	}
	s.lost[offset] = &CorruptError{File: s.Path, Offset: offset, Reason: reason}
}

// loseGroups loses the members of all groups that have no commit yet: it may have been among the
// damaged bytes, as may members. A later commit finds its members again.
func (r *Recovery) loseGroups(a Address, last uint64) error {
	for _, members := range r.Groups {
		for _, m := range members {
			if err := r.passing.lose(Lost{Head: m.Head, Key: m.Key, Value: m.Value, Seq: last, Address: a}); err != nil {
				return err
			}
		}
	}
	return nil
}

// later returns the number of the first record after a segment, 0 if there is none.
func (r *Recovery) later(seg *Segment) uint64 {
	for _, later := range r.segments {
		if later.ID <= seg.ID {
			continue
		}
		size, err := later.File.Size()
		if err != nil {
			return 0
		}
		if _, e, _, err := r.reader(later, size).Next(); err == nil {
			return e.Seq
		}
	}
	return 0
}
