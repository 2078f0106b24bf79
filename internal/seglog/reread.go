package seglog

import (
	"errors"
	"fmt"
)

// RereadAll applies the records of all segments that the manifest names.
func (r *Recovery) RereadAll() error {
	l := r.Log
	l.manifestMu.Lock()
	list := l.Manifest.Clone().Segments
	l.manifestMu.Unlock()
	for _, e := range list {
		seg := l.ByID(e.ID)
		if seg == nil { // beyond a hole, or made a moment ago
			continue
		}
		if err := r.reread(seg); err != nil {
			return err
		}
	}
	return nil
}

// reread applies the records of a segment, which is not changed.
func (r *Recovery) reread(seg *Segment) error {
	sc := &Scanner{File: wholeSegment{seg}, Salt: seg.Salt, Offset: seg.Head, End: seg.End.Load()}
	for sc.Offset < sc.End {
		at, e, err := sc.Next()
		var d *Damage
		if errors.As(err, &d) {
			return FormatError(seg.Path, d.Offset, d.Reason)
		}
		if err != nil {
			return fmt.Errorf("copal: %s: %w", seg.Path, err)
		}
		e.Written = seg.Start + e.Time
		r.goOn(e.Seq)
		r.Next = e.Seq + 1
		if err := r.apply(seg, at, e); err != nil {
			return err
		}
	}
	return nil
}

// wholeSegment reads a segment from wherever its bytes stand.
type wholeSegment struct{ *Segment }

func (s wholeSegment) ReadAt(p []byte, off int64) (int, error) { return s.readAt(p, off) }
