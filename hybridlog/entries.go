package hybridlog

import (
	"errors"
	"iter"
)

// Entry is the bytes of one call of Append or Write.
type Entry struct {
	Address Address
	Data    []byte // the caller's own
}

// Span is the place of an entry.
type Span struct {
	Address Address
	Bytes   int
}

// Entries yields the entries that begin at or after an address, in order: those that existed at the
// call, unless they are trimmed meanwhile. Entries(0) yields all. An error is the last that it
// yields.
func (l *Log) Entries(from Address) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for span, err := range l.Spans(from) {
			e := Entry{Address: span.Address}
			if err == nil {
				e.Data = make([]byte, span.Bytes)
				_, err = l.ReadAt(e.Data, int64(span.Address))
			}
			if errors.Is(err, ErrTrimmed) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Spans yields the places of the entries of Entries, without reading them. View shows an entry
// without a copy.
func (l *Log) Spans(from Address) iter.Seq2[Span, error] {
	return func(yield func(Span, error) bool) {
		upTo := Address(l.end.Load())
		for from < upTo {
			next, err := l.spansFrom(from, upTo, func(s Span) bool { return yield(s, nil) })
			if err != nil {
				yield(Span{}, err)
				return
			}
			if next < 0 {
				return
			}
			from = next
		}
	}
}

// spansAtOnce is the number of spans that are read before the caller sees the first: a caller that
// looks at them holds up no compaction.
const spansAtOnce = 256

// spansFrom yields some entries, and returns where to go on, or -1 when the caller has had enough.
func (l *Log) spansFrom(from, upTo Address, yield func(Span) bool) (Address, error) {
	list, next, err := l.someSpans(from, upTo)
	if err != nil {
		return 0, err
	}
	for _, s := range list {
		if !yield(s) {
			return -1, nil
		}
	}
	return next, nil
}

// someSpans collects some entries that begin at an address or after it, in one segment.
func (l *Log) someSpans(from, upTo Address) (list []Span, next Address, err error) {
	in, err := l.enter()
	if err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave(in)
	set := l.set.Load()
	return l.someSpansOf(set, from, upTo)
}

func (l *Log) someSpansOf(set *set, from, upTo Address) (list []Span, next Address, err error) {
	from = max(from, set.first)
	if from >= upTo {
		return nil, upTo, nil
	}
	s := set.find(from)
	if s == nil {
		return nil, upTo, nil
	}
	// An entry begins at the end of the previous one; a frame shows which entry ends at from or
	// after it.
	off := int64(from - s.start)
	begin := int64(-1)
	if off == s.trimmed.end { // trimmed bytes have no frames
		begin = off
	}
	for f, err := range s.frames(max(off-1, 0)) {
		if fresh := l.refreshed(set, err); fresh != nil {
			return l.someSpansOf(fresh, from, upTo)
		}
		if err != nil {
			return nil, 0, err
		}
		if begin >= 0 && f.entry && s.start+Address(f.end) <= upTo {
			list = append(list, Span{s.start + Address(begin), int(f.end - begin)})
		}
		if f.entry {
			begin = f.end
		}
		if len(list) == spansAtOnce {
			return list, s.start + Address(f.end), nil
		}
	}
	return list, s.last(), nil
}
