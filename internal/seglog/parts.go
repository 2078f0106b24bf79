package seglog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// A value too large to buffer is written in parts: records that have no effect by themselves,
// between which there may be records of other writers, because the append lock is held for one part
// at a time. A last record commits them: it carries the key as any other does, the length of the
// whole as its L attribute, and as its value the list of the parts,
//
//	<bytes of each part but the last> <segment>.<offset> <segment>.<offset> …
//
// so that a read at any offset of the value finds its part without a scan. A crash
// before the last record leaves parts that nothing refers to; compaction drops them.

const PartBytes = 1 << 20

// AppendPlace adds the place of the part to a list.
func (p *Pending) AppendPlace(list []byte) []byte {
	_, offset := SplitAddress(p.Address)
	list = append(append(append(list, ' '), p.Segment.String()...), '.')
	return strconv.AppendUint(list, uint64(offset), 16)
}

// Parts are parts under way, which no record lists yet.
type Parts struct{ From record.SegmentID }

// BeginParts excludes the records appended from now on from compaction, until EndParts.
func (l *Log) BeginParts() *Parts {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	p := new(Parts)
	if l.Tail != nil {
		p.From = l.Tail.ID
	}
	l.Parts = append(l.Parts, p)
	return p
}

func (l *Log) EndParts(p *Parts) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Parts = Without(l.Parts, func(o *Parts) bool { return o == p })
}

// partsFromLocked reports whether parts that are under way may be in a segment.
func (l *Log) partsFromLocked(s *Segment) bool {
	return slices.ContainsFunc(l.Parts, func(p *Parts) bool { return p.From <= s.ID })
}

// Reserve asks the file system for room at the end of the tail, and gives it back: the
// segments that will use it may be others. Only a lack of room is an error.
func (l *Log) Reserve(bytes int64) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.Failure(); err != nil {
		return err
	}
	if err := l.readyLocked(); err != nil {
		return l.refused(err)
	}
	if err := l.drain(l.Tail); err != nil { // the file must have the end at which it is cut off
		return err
	}
	end := l.Tail.End.Load()
	err := l.ReserveTo(&l.Tail.Tail, end+bytes+RoomKept)
	if l.NoReserve {
		return nil
	}
	if cut := l.GiveBack(&l.Tail.Tail, 0); cut != nil {
		return cut
	}
	kept := l.roomLocked(l.Tail, end, false)
	if kept != nil { // otherwise deletions would have less than before
		l.keepLocked(l.Tail)
	}
	if vfs.IsNoSpace(err) {
		return l.refused(NoSpace(err))
	}
	return l.refused(kept)
}

// ParsePlace reads an item of the list.
func ParsePlace(word string) (record.SegmentID, int64, error) {
	name, at, _ := strings.Cut(word, ".")
	id, err := record.ParseSegmentID(name)
	offset, err2 := record.ParseHex(at)
	if err == nil && err2 == nil && offset >= MaxSegmentBytes {
		err = record.ErrSyntax
	}
	return id, int64(offset), errors.Join(err, err2)
}

// PartList returns the list of the parts of a value, and the length of each but the last.
func (l *Log) PartList(e *Record) (words []string, piece uint64, err error) {
	words = strings.Split(string(e.Value), " ")
	piece, err = record.ParseHex(words[0])
	if words = words[1:]; err != nil || piece == 0 || piece > record.MaxInlineBytes || (e.Large+piece-1)/piece != uint64(len(words)) {
		return nil, 0, l.BadParts(e, "its list of parts does not add up to %d bytes", e.Large)
	}
	return words, piece, nil
}

// BadParts returns the error for damage of a large value.
func (l *Log) BadParts(e *Record, format string, args ...any) error {
	return &CorruptError{File: l.Dir, Reason: fmt.Sprintf("the value of record %d: ", e.Seq) + fmt.Sprintf(format, args...)}
}

// HasParts reports whether the segments in a list of parts exist.
func (l *Log) HasParts(list []byte) bool {
	byID := l.set.Load().byID
	words := strings.Split(string(list), " ")
	return !slices.ContainsFunc(words[1:], func(word string) bool {
		id, _, err := ParsePlace(word)
		return err == nil && byID[id] == nil
	})
}

// BeginsParts reports whether the first part of a list is at a position.
func (p Position) BeginsParts(list []byte) bool {
	words := strings.SplitN(string(list), " ", 3)
	if p.segment == nil || len(words) < 2 {
		return false
	}
	id, offset, _ := ParsePlace(words[1])
	return p.segment.ID == id && p.offset == offset
}

// ReadParts joins the value whose parts e lists.
func ReadParts(l *Log, e Record) ([]byte, error) {
	if e.Large > uint64(MaxValueBytes) {
		return nil, fmt.Errorf("%w: a value of %d bytes, the most is %d on this platform", ErrTooLarge, e.Large, int64(MaxValueBytes))
	}
	words, size, err := l.PartList(&e)
	if err != nil {
		return nil, err
	}
	value := make([]byte, 0, e.Large)
	buf := make([]byte, size+record.MaxHeadBytes+uint64(len(e.Key))+2)
	owner := uint64(0)
	for i, word := range words {
		p, err := ReadPart(l, word, buf)
		if err != nil {
			return nil, err
		}
		want := min(size, e.Large-uint64(len(value)))
		if !p.IsPart(&e, i, owner) || uint64(len(p.Value)) != want {
			return nil, l.BadParts(&e, "%s is not its part %d", word, i)
		}
		owner = p.Owner
		value = append(value, p.Value...)
	}
	return value, nil
}

// ReadPart reads the record that an item of the list names.
func ReadPart(l *Log, word string, buf []byte) (Record, error) {
	id, offset, err := ParsePlace(word)
	seg := l.ByID(id)
	if err != nil || seg == nil {
		return Record{}, &CorruptError{File: l.Dir, Reason: fmt.Sprintf("there is no place %q for a part of a value", word)}
	}
	return seg.Read(offset, buf)
}
