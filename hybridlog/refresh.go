package hybridlog

import "errors"

// A log that was opened read-only opens the files of a segment when somebody first reads there. The writer may
// have trimmed or compacted them by then: the bytes stand elsewhere, or are gone, and neither is damage. So a
// file that is missing is a reason to look at the manifest again. The end stays what it was when the log was
// opened.

// refreshed returns the segments as they are now, if err says that a file of the set is missing and the log is
// read-only, else nil.
func (l *Log) refreshed(old *set, err error) *set {
	var c *CorruptError
	if err == nil || !l.opts.readOnly || !errors.As(err, &c) || !c.missing {
		return nil
	}
	l.refreshMu.Lock()
	defer l.refreshMu.Unlock()
	if now := l.set.Load(); now != old {
		return now // somebody else was faster
	}
	look := &Log{opts: l.opts, dir: l.dir}
	if look.recover() != nil || look.logID != l.logID || look.end.Load() < l.end.Load() {
		return nil
	}
	l.stale = append(l.stale, old.segments...)
	l.set.Store(look.set.Load())
	return l.set.Load()
}
