package store

import (
	"errors"
	"fmt"

	"github.com/copaldb/copal/internal/seglog"
)

// rereadAll applies the records of all segments that the manifest names.
func (r *recovery) rereadAll() error {
	l := r.log
	l.manifestMu.Lock()
	list := l.manifest.Clone().Segments
	l.manifestMu.Unlock()
	for _, e := range list {
		seg := l.byID(e.ID)
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
func (r *recovery) reread(seg *segment) error {
	sc := &seglog.Scanner{File: wholeSegment{seg}, Salt: seg.salt, Offset: seg.head, End: seg.end.Load()}
	for sc.Offset < sc.End {
		at, e, err := sc.Next()
		var d *seglog.Damage
		if errors.As(err, &d) {
			return seglog.FormatError(seg.path, d.Offset, d.Reason)
		}
		if err != nil {
			return fmt.Errorf("copal: %s: %w", seg.path, err)
		}
		e.Written = seg.start + e.Time
		r.goOn(e.Seq)
		r.next = e.Seq + 1
		if err := r.apply(seg, at, e); err != nil {
			return err
		}
	}
	return nil
}

// wholeSegment reads a segment from wherever its bytes stand.
type wholeSegment struct{ *segment }

func (s wholeSegment) ReadAt(p []byte, off int64) (int, error) { return s.readAt(p, off) }
