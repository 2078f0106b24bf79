package store

import "errors"

// finish makes everything durable, and removes the ring when that has succeeded. Without
// an append there is nothing to do.
func (l *log) finish() error {
	defer l.end()
	if !l.wrote() {
		return nil
	}
	err := l.drainTail()
	if err == nil {
		l.mu.Lock()
		err = l.releaseLocked(l.tail, l.spare == nil)
		l.mu.Unlock()
	}
	if err == nil {
		err = l.syncTo(l.last())
	}
	l.awaitSync()
	closed := err == nil && l.failure() == nil && l.sayClosed()
	return errors.Join(err, l.closeRing(closed))
}

// end lets no sync work in the directory any more, which may be another process's as soon as the lock is given back.
func (l *log) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.awaitSync()
}

// wrote reports whether this process has appended to the log.
func (l *log) wrote() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail != nil
}

// release closes the files, and says nothing to the disk.
func (l *log) release() error {
	errs := []error{l.closeRetained()}
	for _, seg := range l.set.Load().bySlot {
		if seg != nil {
			errs = append(errs, seg.close())
		}
	}
	for _, seg := range l.dropped {
		errs = append(errs, seg.file.Close())
	}
	if l.marker != nil {
		errs = append(errs, l.marker.File.Close())
	}
	return errors.Join(errs...)
}
