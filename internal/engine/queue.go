package engine

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/goid"
)

// A change that reads, decides without a lock and then writes loses when another write comes between. The first change
// that loses makes a queue for its subject, and is its head. While there is a queue, each further change of the
// subject joins it before its first try, and the head hands its place to the change that has waited longest. So no
// later change overtakes one that waits, except by a plain write, which reads nothing.
//
// If the head of a queue waited in another one, two heads could wait for each other. So the goroutine of a head never
// waits: it tries beside the head of the other queue.

// subject names the object of competing changes: the entry of a key, or an element or an end of a collection.
type subject struct {
	element bool
	key     string // of the entry, or from elementName
}

// queues has the queues of all subjects for which there is one.
type queues struct {
	mu sync.Mutex // a leaf
	of map[subject]*queue
	n  atomic.Int32 // number of queues, so that a write need not look when there is none
}

// queue is the changes of one subject.
type queue struct {
	of      subject // its key is a copy, as a caller may have changed its own when the queue ends
	head    *turn
	waiting []*turn // in the order of arrival
}

// turn is one change in a queue.
type turn struct {
	goroutine uint64
	comes     chan struct{} // closed when it is the head
	nested    atomic.Bool   // its goroutine has tried to write the subject by other means
}

// attempt calls try until it returns another error than errConflict. The first time there is no turn, unless
// the subject has a queue. The subject's key need not outlive the call.
func (q *queues) attempt(of subject, try func(*turn) error) error {
	if !q.has(of) {
		if err := try(nil); err != errConflict {
			return err
		}
	}
	for {
		if err := q.attemptInTurn(of, try); err != errConflict {
			return err
		}
	}
}

func (q *queues) attemptInTurn(of subject, try func(*turn) error) error {
	t, line := q.enter(of)
	if line == nil {
		return try(t)
	}
	defer q.leave(line)
	for {
		if err := try(t); err != errConflict {
			return err
		}
	}
}

func (q *queues) has(of subject) bool {
	if q.n.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of[of] != nil
}

// enter waits until this goroutine is the head of the subject's queue, which it returns. A goroutine that is the
// head of another queue does not wait, and joins none.
func (q *queues) enter(of subject) (*turn, *queue) {
	t := &turn{goroutine: goid.Get()}
	q.mu.Lock()
	line := q.of[of]
	if line == nil {
		defer q.mu.Unlock()
		line = &queue{of: subject{of.element, strings.Clone(of.key)}, head: t}
		q.of[line.of] = line
		q.n.Add(1)
		return t, line
	}
	if q.headsLocked(t.goroutine) {
		q.mu.Unlock()
		return t, nil
	}
	t.comes = make(chan struct{})
	line.waiting = append(line.waiting, t)
	q.mu.Unlock()
	TurnAwaited()
	<-t.comes
	return t, line
}

// leave hands the queue to the change that has waited longest.
func (q *queues) leave(line *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(line.waiting) == 0 {
		delete(q.of, line.of)
		q.n.Add(-1)
		return
	}
	line.head, line.waiting[0] = line.waiting[0], nil
	line.waiting = line.waiting[1:]
	close(line.head.comes)
}

// TurnAwaited is called when a change has joined a queue in which it must wait. It is a variable for tests.
var TurnAwaited = func() {}

// headsLocked reports whether the goroutine is the head of a queue.
func (q *queues) headsLocked(goroutine uint64) bool {
	for _, line := range q.of {
		if line.head.goroutine == goroutine {
			return true
		}
	}
	return false
}

// allowRange is allow for all keys of a range.
func (q *queues) allowRange(r *Range) error {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for of, line := range q.of {
		if line.head.goroutine == goid.Get() && !of.element && r.Has([]byte(of.key)) {
			line.head.nested.Store(true)
			return ErrNested
		}
	}
	return nil
}

// allow refuses a write to a subject that the same goroutine is updating.
func (q *queues) allow(of subject) error {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.of[of]
	if line == nil || line.head.goroutine != goid.Get() {
		return nil
	}
	line.head.nested.Store(true)
	return ErrNested
}

// Contend calls try until it does not lose, for a change of a collection that depends on the element at one of
// its ends. Once one has lost, those of one collection run one after the other.
func (s *Store) Contend(key []byte, try func() (lost bool, err error)) error {
	return s.queues.attempt(elementSubject(key, nil), func(*turn) error {
		lost, err := try()
		if lost && err == nil {
			err = errConflict
		}
		return err
	})
}
