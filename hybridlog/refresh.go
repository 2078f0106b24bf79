package hybridlog

import "errors"

// A log that was opened read-only opens the files of a segment at the first read there. The writer
// may have trimmed or compacted them by then: the bytes are elsewhere, or gone, and neither is
// damage. So a missing file is a reason to read the manifest again. The end of the log does not
// change after opening.

// refreshed returns the present segments if err reports a missing file of the set and the log is
// read-only, else nil.
func (l *Log) refreshed(old *set, err error) *set {
	var c *CorruptError
	if err == nil || !l.opts.readOnly || !errors.As(err, &c) || !c.missing {
		return nil
	}
	l.refreshMu.Lock()
	defer l.refreshMu.Unlock()
	if now := l.set.Load(); now != old {
		return now // another goroutine was faster
	}
	look := &Log{opts: l.opts, dir: l.dir}
	if look.recover() != nil || look.logID != l.logID || look.end.Load() < l.end.Load() {
		return nil
	}
	l.stale = append(l.stale, old.segments...)
	l.set.Store(look.set.Load())
	return l.set.Load()
}
