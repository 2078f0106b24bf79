package turns

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	free  = time.Millisecond      // of a call, which takes no turn
	slice = 10 * time.Millisecond // after which a turn passes on, if others wait

	// patience is the time after which a turn of which nothing has been heard is taken for blocked, perhaps by a call
	// that waits for a turn. It counts no more.
	patience = 500 * time.Millisecond
)

// Turn is the share of a call in the processors. A call ends its turn before it waits for something that may take long.
type Turn struct {
	user  string
	until time.Time  // the call may run without another look
	has   *turn      // nil for none
	next  chan *turn // while it waits; guarded by all.mu
	left  bool       // Leave was called; guarded by all.mu
}

// ErrLeft is the error of a call whose turn was given up by Leave.
var ErrLeft = errors.New("the call has given up its turn")

// Begin begins a call of a user, and ends the one before.
func (t *Turn) Begin(user string) {
	t.End()
	t.user, t.until = user, time.Time{}
}

// Look is called some times in a millisecond by a call that may take long, with no lock held. It waits where others
// have their turns first, and returns the error of ctx if that is done, or ErrLeft.
func (t *Turn) Look(ctx context.Context) error {
	now := time.Now()
	switch {
	case t.until.IsZero():
		t.until = now.Add(free)
	case now.Before(t.until):
	case t.has != nil && all.renew(t.has):
		t.until = now.Add(slice)
	default:
		t.End()
		return t.wait(ctx)
	}
	return ctx.Err()
}

// Long is Look before a step that takes some milliseconds by itself.
func (t *Turn) Long(ctx context.Context) error {
	if t.has != nil {
		return t.Look(ctx)
	}
	return t.wait(ctx)
}

func (t *Turn) wait(ctx context.Context) (err error) {
	t.has, err = all.take(ctx, t)
	t.until = time.Now().Add(slice)
	return err
}

// Leave ends the waiting of the call, now and later: its client is gone. Others may call it.
func (t *Turn) Leave() { all.leave(t) }

// End ends the turn. The call may go on, and takes another turn at its next look.
func (t *Turn) End() {
	if t.has != nil {
		all.give(t.has)
		t.has = nil
		t.until = t.until.Add(-slice)
	}
}

// all are the turns of the process, whose processors they are.
var all queue

// queue has the calls that have turns and those that wait for one.
type queue struct {
	mu    sync.Mutex
	turns []*turn
	users []*waiters // that wait, the next one first
}

// turn is a turn that counts, unless it is not in the queue any more.
type turn struct{ heard time.Time }

// waiters are the calls of a user that wait, the next one first.
type waiters struct {
	user string
	list []chan *turn
}

// most is how many calls may have a turn at a time.
func most() int { return max(1, runtime.GOMAXPROCS(0)-3) }

// renew reports whether a turn goes on.
func (q *queue) renew(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.heard = time.Now()
	return len(q.users) == 0 && slices.Contains(q.turns, t)
}

// take waits for a turn of a call. The turn is nil if the call has left, or if ctx was done, before there was one.
func (q *queue) take(ctx context.Context, of *Turn) (t *turn, err error) {
	next := make(chan *turn, 1)
	q.mu.Lock()
	if of.left {
		q.mu.Unlock()
		return nil, ErrLeft
	}
	of.next = next
	q.addLocked(of.user, next)
	late := time.NewTimer(q.passLocked())
	q.mu.Unlock()
	defer late.Stop()
	for {
		select {
		case t, ok := <-next:
			if !ok {
				return nil, ErrLeft
			}
			return t, ctx.Err()
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			if !q.removeLocked(next) {
				t = <-next
			}
			return t, ctx.Err()
		case <-late.C:
		}
		q.mu.Lock()
		late.Reset(q.passLocked())
		q.mu.Unlock()
	}
}

// leave takes a call out of those that wait, and lets it wait no more.
func (q *queue) leave(t *Turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.left = true
	if t.next != nil && q.removeLocked(t.next) {
		close(t.next)
	}
}

func (q *queue) give(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.turns, t); i >= 0 {
		q.turns = slices.Delete(q.turns, i, i+1)
		q.passLocked()
	}
}

// passLocked gives turns to the next that wait, and returns the time until a turn may be taken for blocked.
func (q *queue) passLocked() (left time.Duration) {
	now := time.Now()
	q.turns = slices.DeleteFunc(q.turns, func(t *turn) bool { return now.Sub(t.heard) >= patience })
	for len(q.users) > 0 && len(q.turns) < most() {
		w := q.users[0]
		q.users = q.users[1:]
		t := &turn{now}
		q.turns = append(q.turns, t)
		w.list[0] <- t
		if w.list = w.list[1:]; len(w.list) > 0 {
			q.users = append(q.users, w)
		}
	}
	left = patience
	for _, t := range q.turns {
		left = min(left, patience-now.Sub(t.heard))
	}
	return left
}

func (q *queue) addLocked(user string, next chan *turn) {
	for _, w := range q.users {
		if w.user == user {
			w.list = append(w.list, next)
			return
		}
	}
	q.users = append(q.users, &waiters{user, []chan *turn{next}})
}

// removeLocked takes a call out of those that wait. It reports false for one that has got its turn.
func (q *queue) removeLocked(next chan *turn) bool {
	for i, w := range q.users {
		for j, other := range w.list {
			if other == next {
				if w.list = append(w.list[:j], w.list[j+1:]...); len(w.list) == 0 {
					q.users = append(q.users[:i], q.users[i+1:]...)
				}
				return true
			}
		}
	}
	return false
}
