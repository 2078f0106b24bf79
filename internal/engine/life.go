package engine

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// The life of an entry is read from the log, segment by segment from the newest to the oldest, each from front
// to back. The places of its records, not their values, are kept until they are yielded. A member of a group
// counts by its commit, which may be in a later segment and has been seen then. Until all segments with members
// of such a group have been read, no version from before its commit is yielded.

// Version is the state of an entry from a record on.
type Version struct {
	Entry             // with the number from which on it counts, and its time; no value for a deletion or a collection
	Deleted    bool   // by a record: of the key, or of a range that has it
	Expired    bool   // its deadline came first
	Collection string // the type of the key's collection, "" for none
}

// event is a record that concerns the key.
type event struct {
	segment *seglog.Segment
	offset  int64
	op      record.Op
	group   uint64
	seq     uint64 // from which on it counts
	time    uint64
}

// life reads the events of a key, newest first.
type life struct {
	store   *Store
	key     []byte
	space   uint64
	commits map[uint64]event // of groups that may have members in segments yet to be read, and where one was found
	found   []event          // in the order of their numbers, and not yielded yet
	from    uint64           // the window begins with this number
	next    uint64           // when the version after the yielded one came
}

// History yields the versions of the entry under key, the newest first: those of the window of history, and
// last the one that was there when that begins. Without a window it yields the versions in the log. If that was
// compacted, the last pair is ErrHistoryLost. Later writes are not yielded. After an error iteration ends.
func (s *Store) History(key []byte) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if err := s.history(bytes.Clone(key), yield); err != nil {
			yield(Version{}, err)
		}
	}
}

// history returns an error that has not been yielded yet.
func (s *Store) history(key []byte, yield func(Version, error) bool) error {
	if !s.opts.ReadOnly {
		if err := s.flushForView(); err != nil {
			return err
		}
	}
	var segments, pinned seglog.Pinned
	l := &life{store: s, key: key, commits: map[uint64]event{}, next: s.now()}
	err := s.still(func() {
		segments, pinned = slices.Clone(s.log.Segments()), s.log.PinAll()
	})
	defer func() { pinned.Unpin(); s.LetGo() }()
	if err != nil {
		return err
	}
	from, whole := s.log.HistoryFrom()
	l.from = from
	for _, seg := range slices.Backward(segments) {
		if err := l.read(seg); err != nil {
			return err
		}
		if more, err := l.tell(seg.First, yield); !more || err != nil {
			return err
		}
	}
	if !whole {
		return seglog.ErrHistoryLost
	}
	return nil
}

// read adds the records of the key in a segment.
func (l *life) read(seg *seglog.Segment) error {
	var here []event
	err := seg.Each(func(at int64, e *seglog.Record) error {
		switch about, err := l.isAbout(e); {
		case err != nil:
			return err
		case e.Op == record.Commit:
			l.commits[e.Group] = event{seq: e.Seq, time: e.Written}
		case about:
			here = append(here, event{seg, at, e.Op, e.Group, e.Seq, e.Written})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, e := range here {
		if c, committed := l.commits[e.group]; e.group != 0 { // of which the last member counts
			later := c.segment != nil && c.segment != seg || slices.ContainsFunc(here[i+1:], func(o event) bool { return o.group == e.group })
			if e.seq, e.time = c.seq, c.time; !committed || later {
				continue
			}
			c.segment = seg
			l.commits[e.group] = c
		}
		l.found = append(l.found, e)
	}
	slices.SortStableFunc(l.found, func(a, b event) int { return cmp.Compare(b.seq, a.seq) })
	return nil
}

// isAbout reports whether a record that counts concerns the key.
func (l *life) isAbout(e *seglog.Record) (bool, error) {
	switch {
	case e.Space != l.space || e.Kind != record.Value && e.Kind != record.Meta || e.Op == record.Part || e.Op == record.Commit:
		return false, nil
	case e.Op == record.Range:
		r, err := keyrange.Deleted(e.Key, e.Value)
		return err == nil && r.Has(l.key), err
	}
	return bytes.Equal(e.Key, l.key), nil
}

// tell yields the versions that no record before the segment beginning with first can precede. It reports
// whether there may be more.
func (l *life) tell(first uint64, yield func(Version, error) bool) (more bool, err error) {
	until := uint64(0)
	for number, c := range l.commits {
		if number >= first {
			delete(l.commits, number)
			continue
		}
		until = max(until, c.seq)
	}
	for len(l.found) > 0 && l.found[0].seq > until {
		e := l.found[0]
		l.found = l.found[1:]
		v, was, err := l.version(e)
		if err != nil {
			return false, err
		}
		if was && !yield(v, nil) || e.seq <= l.from {
			return false, nil
		}
	}
	return true, nil
}

// version reads the record of an event. was is false for a deletion that compaction has made of a set with a
// deadline: there was a version, but it is unknown.
func (l *life) version(at event) (v Version, was bool, err error) {
	err = l.store.Inside(func() error {
		e, err := at.segment.Read(at.offset, nil)
		if err != nil {
			return err
		}
		v.Deleted, was = e.Op != record.Set, e.Op != record.Delete || e.Expiry == 0
		v.Expired = e.Expiry != 0 && (v.Deleted || e.Expiry <= l.next)
		v.hit.expiry = e.Expiry
		switch {
		case v.Deleted:
		case e.Kind == record.Meta:
			c, err := collection.ParseMeta(e.Value)
			v.Collection = string(c.Type)
			return err
		case e.Large > 0:
			v.Value, err = seglog.ReadParts(l.store.log, e)
		default:
			v.Value = e.Value
		}
		v.Schema = e.Schema
		return err
	})
	v.Seq, v.Time = at.seq, time.UnixMilli(int64(at.time))
	l.next = at.time
	return v, was, err
}
