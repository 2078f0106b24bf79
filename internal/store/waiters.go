package store

import "slices"

// waiters are those who are to be told that the log has become longer. Guarded by log.mu.
type waiters struct {
	list  []chan<- struct{} // with room for one
	ended bool              // the store is closed
}

// wakeWhenBeyond sees to it that something is sent when there is a record with a higher number. It reports false
// when there is one, or the log has ended.
func (l *log) wakeWhenBeyond(seq uint64, wake chan<- struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nextSeq-1 != seq || l.waiters.ended {
		return false
	}
	l.waiters.list = append(l.waiters.list, wake)
	return true
}

// wakeNoMore undoes it.
func (l *log) wakeNoMore(wake chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters.list = slices.DeleteFunc(l.waiters.list, func(o chan<- struct{}) bool { return o == wake })
}

// wakeAllLocked is called when the log has become longer.
func (l *log) wakeAllLocked() {
	for _, wake := range l.waiters.list {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	clear(l.waiters.list)
	l.waiters.list = l.waiters.list[:0]
}

// endWaiting is called when the store is closed, and reads say so.
func (l *log) endWaiting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters.ended = true
	l.wakeAllLocked()
}
