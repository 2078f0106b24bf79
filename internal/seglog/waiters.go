package seglog

import "github.com/copaldb/copal/internal/tail"

// waiters has the channels that are signalled when the log has become longer. Guarded by Log.Mu.
type waiters struct {
	List  []chan<- struct{} // with room for one
	ended bool              // the store is closed
}

// WakeWhenBeyond makes the log send to wake when there is a record with a higher number. It reports false when
// there already is one, or the log has ended.
func (l *Log) WakeWhenBeyond(seq uint64, wake chan<- struct{}) bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.NextSeq-1 != seq || l.Waiters.ended {
		return false
	}
	l.Waiters.List = append(l.Waiters.List, wake)
	return true
}

// WakeNoMore undoes it.
func (l *Log) WakeNoMore(wake chan<- struct{}) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Waiters.List = Without(l.Waiters.List, func(o chan<- struct{}) bool { return o == wake })
}

// wakeAllLocked is called when the log has become longer.
func (l *Log) wakeAllLocked() {
	for _, wake := range l.Waiters.List {
		tail.Wake(wake)
	}
	clear(l.Waiters.List)
	l.Waiters.List = l.Waiters.List[:0]
}

// EndWaiting is called when the store is closed, and reads return that error.
func (l *Log) EndWaiting() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Waiters.ended = true
	l.wakeAllLocked()
}
