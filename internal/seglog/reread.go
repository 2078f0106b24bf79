package seglog

// RereadAll applies the records of all segments that the manifest names.
func (r *Recovery) RereadAll() error {
	l := r.Log
	l.manifestMu.Lock()
	list := l.Manifest.Clone().Segments
	l.manifestMu.Unlock()
	for _, e := range list {
		seg := l.ByID(e.ID)
		if seg == nil { // beyond a hole, or just made
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
	return seg.Each(func(at int64, e *Record) error {
		r.goOn(e.Seq)
		r.Next = e.Seq + 1
		return r.apply(seg, at, *e)
	})
}

// wholeSegment reads a segment wherever its bytes are.
type wholeSegment struct{ *Segment }

func (s wholeSegment) ReadAt(p []byte, off int64) (int, error) { return s.readAt(p, off) }
