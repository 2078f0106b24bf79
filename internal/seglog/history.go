package seglog

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/copaldb/copal/internal/record"
)

// A window of history is the part of the past that is kept: the state as of each moment from its
// beginning on can be read. The manifest has its beginning and its length, in time and perhaps in
// bytes of the log, until a process asks for another length.
//
// The beginning moves when compaction removes records that no later moment needs. Within the window
// it removes nothing.

// History is the window in the manifest.
type History struct {
	Seq, Time uint64 // of the first moment: the number of its last record, and Unix milliseconds
	Keep      uint64 // for how many milliseconds replaced records are kept, or Forever
	Bytes     int64  // of the log that suffice, even if they are younger; 0 for no such bound
}

// Forever is the length of a window that never moves.
const Forever = math.MaxUint64

// forever is its spelling in the manifest.
const forever = "ever"

// encode writes
//
//	history 1f00 time 19a8c3d2e10 for 240c8400 bytes 40000000
func (h *History) encode() string {
	keep := forever
	if h.Keep != Forever {
		keep = record.Hex(h.Keep)
	}
	line := fmt.Sprintf("history %x time %x for %s", h.Seq, h.Time, keep)
	if h.Bytes > 0 {
		line += fmt.Sprintf(" bytes %x", h.Bytes)
	}
	return line + "\n"
}

func (m *Manifest) parseHistory(f *record.Fields) error {
	h := &History{Seq: f.Hex("history"), Time: f.Hex("time"), Keep: Forever}
	keep := f.Word("for")
	if f.Has("bytes") {
		n := f.Hex("bytes")
		if n == 0 || n > math.MaxInt64 {
			return fmt.Errorf("%w: a window of history of %x bytes", record.ErrSyntax, n)
		}
		h.Bytes = int64(n)
	}
	if err := f.End(); err != nil {
		return err
	}
	if keep != forever {
		var err error
		if h.Keep, err = record.ParseHex(keep); err != nil || h.Keep == Forever {
			return fmt.Errorf("%w: a window of history for %q", record.ErrSyntax, keep)
		}
	}
	if m.History != nil {
		return fmt.Errorf("%w: two windows of history", record.ErrSyntax)
	}
	m.History = h
	return nil
}

// beginning returns the first moment whose state can be read. A log that was never compacted has all moments.
func (m *Manifest) beginning() (h History, ok bool) {
	switch {
	case m.History != nil:
		return *m.History, true
	case m.Floor == 0:
		return History{Time: m.Created}, true
	}
	return History{}, false
}

// A Moment is a place in the log, and a time: records with a higher number, or written later, do
// not exist yet.
type Moment struct{ Seq, Time uint64 }

// Unbounded means no bound for a number or a time.
const Unbounded = math.MaxUint64

// AtSeq returns the moment of a record, AtTime the moment of a time in Unix milliseconds.
func AtSeq(seq uint64) Moment   { return Moment{seq, Unbounded} }
func AtTime(time uint64) Moment { return Moment{Unbounded, time} }

// before reports whether the moment comes before a record with this number and time.
func (m Moment) before(seq, time uint64) bool { return seq > m.Seq || time > m.Time }

// canShow returns ErrHistoryLost when the state as of the moment cannot be read any more.
func (m *Manifest) canShow(at Moment) error {
	from, ok := m.beginning()
	switch {
	case !ok:
		return fmt.Errorf("%w: no window of history is kept, and the log has been compacted", ErrHistoryLost)
	case at.before(from.Seq, from.Time):
		return fmt.Errorf("%w: the window of history begins with record %d", ErrHistoryLost, from.Seq)
	}
	return nil
}

// History returns the window of the log, nil for none, or if no log was opened.
func (l *Log) History() *History {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	if l.Manifest == nil || l.Manifest.History == nil {
		return nil
	}
	h := *l.Manifest.History
	return &h
}

// HistoryFrom returns the number of the last record of the first moment that can be read. whole
// reports whether there is one: otherwise compaction may have left out later records.
func (l *Log) HistoryFrom() (seq uint64, whole bool) {
	l.manifestMu.Lock()
	defer l.manifestMu.Unlock()
	from, whole := l.Manifest.beginning()
	return from.Seq, whole
}

// keepHistory sets the requested window in the manifest of a process that begins to write. A log
// that was never compacted has had all of it from the beginning.
func (l *Log) keepHistory(m *Manifest) {
	keep := uint64(l.Window)
	if l.Window == math.MaxInt64 {
		keep = Forever
	}
	switch {
	case l.Window < 0:
		m.History = nil
	case l.Window == 0:
	case m.History != nil:
		m.History.Keep, m.History.Bytes = keep, l.WindowBytes
	case m.Floor == 0:
		m.History = &History{Time: m.Created, Keep: keep, Bytes: l.WindowBytes}
	default:
		m.History = &History{l.NextSeq - 1, max(l.LastTime, l.millisLocked()), keep, l.WindowBytes}
	}
}

// beginAt lets the window begin later.
func (h *History) beginAt(at Moment) { h.Seq, h.Time = max(h.Seq, at.Seq), max(h.Time, at.Time) }

// OlderThan returns the first segments of a list, which is in order, whose records were all written at a time
// or before.
func (l *Log) OlderThan(time uint64, list []*Segment) []*Segment {
	return list[:sort.Search(len(list), func(i int) bool { return !l.endsBy(list[i], time) })]
}

// endsBy reports whether every record of a segment was written at a time or before, as far as the
// next segments show.
func (l *Log) endsBy(seg *Segment, time uint64) bool {
	all := l.Segments()
	at, _ := findSegment(all, seg.ID)
	for _, next := range all[min(at+1, len(all)):] {
		if next.End.Load() > next.Head {
			e, err := next.Read(next.Head, nil)
			return err == nil && e.Written <= time
		}
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.LastTime <= time
}

// FartherThan returns the first segments of a list, the beginning of the log, after which the log
// has so many bytes.
func (l *Log) FartherThan(bytes int64, list []*Segment) []*Segment {
	behind := int64(0)
	for _, seg := range l.Segments() {
		behind += seg.End.Load()
	}
	for i, seg := range list {
		if behind -= seg.End.Load(); behind < bytes {
			return list[:i]
		}
	}
	return list
}

// Each calls f with the records of a segment, front to back, wherever their bytes are. A record is
// valid until f returns. The segment must not be removed meanwhile.
func (s *Segment) Each(f func(at int64, e *Record) error) error {
	sc := &Scanner{File: wholeSegment{s}, Salt: s.Salt, Offset: s.Head, End: s.End.Load()}
	for sc.Offset < sc.End {
		at, e, err := sc.Next()
		if d, ok := errors.AsType[*Damage](err); ok {
			return FormatError(s.Path, d.Offset, d.Reason)
		}
		if err != nil {
			return fmt.Errorf("copal: %s: %w", s.Path, err)
		}
		e.Written = s.Start + e.Time
		if err := f(at, &e); err != nil {
			return err
		}
	}
	return nil
}
