package store

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A value too large to buffer is written in parts: records that count for nothing,
// between which other writers' records may stand, because the append lock is held
// for one part at a time. A last record commits them: it carries the key as any
// other does, the length of the whole as its L attribute, and as its value the list
// of the parts,
//
//	<bytes of each part but the last> <segment>.<offset> <segment>.<offset> …
//
// so that a read at any offset of the value finds its part without a scan. A crash
// before the last record leaves parts that nothing refers to; compaction drops them.

const partBytes = 1 << 20

// appendPlace adds to a list where the part was written.
func (p *pending) appendPlace(list []byte) []byte {
	_, offset := seglog.SplitAddress(p.address)
	list = append(append(append(list, ' '), p.segment.String()...), '.')
	return strconv.AppendUint(list, uint64(offset), 16)
}

// partsUnderWay says that parts are being written which no record lists yet.
type partsUnderWay struct{ from record.SegmentID }

// beginParts lets compaction leave alone what is appended from now on, until endParts.
func (l *log) beginParts() *partsUnderWay {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := new(partsUnderWay)
	if l.tail != nil {
		p.from = l.tail.id
	}
	l.parts = append(l.parts, p)
	return p
}

func (l *log) endParts(p *partsUnderWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = slices.DeleteFunc(l.parts, func(o *partsUnderWay) bool { return o == p })
}

// partsFromLocked reports whether parts that are under way may be in a segment.
func (l *log) partsFromLocked(s *segment) bool {
	return slices.ContainsFunc(l.parts, func(p *partsUnderWay) bool { return p.from <= s.id })
}

// reserve asks the file system for room at the end of the tail, and gives it back: the
// segments that will use it may be others. Only a lack of room is an error.
func (l *log) reserve(bytes int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.failure(); err != nil {
		return err
	}
	if err := l.readyLocked(); err != nil {
		return l.refused(err)
	}
	if err := l.drain(l.tail); err != nil { // it is cut off at its end, which the file must have
		return err
	}
	end := l.tail.end.Load()
	err := l.tail.file.Allocate(end, bytes+roomKept)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if cut := l.tail.file.Truncate(end); cut != nil {
		return l.fail(cut)
	}
	l.tail.room = end
	kept := l.roomLocked(l.tail, end, false)
	if kept != nil { // or deletions had less than before
		l.keepLocked(l.tail)
	}
	if vfs.IsNoSpace(err) {
		return l.refused(seglog.NoSpace(err))
	}
	return l.refused(kept)
}

// parsePlace reads an item of the list.
func parsePlace(word string) (record.SegmentID, int64, error) {
	name, at, _ := strings.Cut(word, ".")
	id, err := record.ParseSegmentID(name)
	offset, err2 := record.ParseHex(at)
	if err == nil && err2 == nil && offset >= seglog.MaxSegmentBytes {
		err = record.ErrSyntax
	}
	return id, int64(offset), errors.Join(err, err2)
}

// hasParts reports whether the segments are there that a list of parts names.
func (l *log) hasParts(list []byte) bool {
	byID := l.set.Load().byID
	words := strings.Split(string(list), " ")
	return !slices.ContainsFunc(words[1:], func(word string) bool {
		id, _, err := parsePlace(word)
		return err == nil && byID[id] == nil
	})
}

// beginsParts reports whether the first part of a list stands at a position.
func (p position) beginsParts(list []byte) bool {
	words := strings.SplitN(string(list), " ", 3)
	if p.segment == nil || len(words) < 2 {
		return false
	}
	id, offset, _ := parsePlace(words[1])
	return p.segment.id == id && p.offset == offset
}
