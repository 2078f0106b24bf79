package turns

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	free  = time.Millisecond      // of a call, which takes no turn
	slice = 10 * time.Millisecond // after which a turn passes on, if others wait

	// patience is the time without a turn that passes on after which those that have one are taken for blocked, perhaps
	// by a call that waits for its turn. Another may run then.
	patience = 500 * time.Millisecond
)

// Turn is the share of a call in the processors. The zero Turn is for a call of the store itself. A call ends its turn
// before it waits for something that may take long.
type Turn struct {
	user  string
	since time.Time // of the call or, with a turn, of that
	round uint64    // of the turn, 0 for none
}

// Begin begins a call of a user, and ends the one before.
func (t *Turn) Begin(user string) {
	t.End()
	t.user, t.since = user, time.Time{}
}

// Look is called some times in a millisecond by a call that may take long, with no lock held. It waits where others
// have their turns first, and returns the error of ctx if that is done.
func (t *Turn) Look(ctx context.Context) error {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	switch took := now.Sub(t.since); {
	case t.round == 0 && took < free, t.round != 0 && took < slice:
		return ctx.Err()
	case t.round != 0 && !all.waits():
		t.since = now
		return ctx.Err()
	}
	t.End()
	return t.wait(ctx)
}

// Long is Look before a step that takes some milliseconds by itself.
func (t *Turn) Long(ctx context.Context) error {
	if t.round != 0 {
		return t.Look(ctx)
	}
	return t.wait(ctx)
}

func (t *Turn) wait(ctx context.Context) error {
	t.round = all.take(ctx, t.user)
	t.since = time.Now()
	return ctx.Err()
}

// End ends the turn. The call may go on.
func (t *Turn) End() {
	if t.round != 0 {
		all.give(t.round)
		t.round = 0
	}
}

// all are the turns of the process, whose processors they are.
var all = queue{round: 1}

// queue has the calls that have turns and those that wait for one.
type queue struct {
	mu      sync.Mutex
	round   uint64     // of the turns that count; those of earlier ones are taken for blocked
	running int        // turns of the round
	passed  time.Time  // when the last turn began
	users   []*waiters // that wait, the next one first
}

// waiters are the calls of a user that wait, the next one first.
type waiters struct {
	user string
	list []chan uint64
}

// most is how many calls may have a turn at a time.
func most() int { return max(1, runtime.GOMAXPROCS(0)-2) }

func (q *queue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.users) > 0
}

// take waits for a turn and returns its round, or 0 if ctx was done before.
func (q *queue) take(ctx context.Context, user string) (round uint64) {
	turn := make(chan uint64, 1)
	q.mu.Lock()
	q.addLocked(user, turn)
	q.passLocked()
	late := time.NewTimer(patience - time.Since(q.passed))
	q.mu.Unlock()
	defer late.Stop()
	for {
		select {
		case round = <-turn:
			return round
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			if !q.removeLocked(user, turn) {
				round = <-turn
			}
			return round
		case <-late.C:
		}
		q.mu.Lock()
		if time.Since(q.passed) >= patience {
			q.round++
			q.running = 0
			q.passLocked()
		}
		late.Reset(patience - time.Since(q.passed))
		q.mu.Unlock()
	}
}

func (q *queue) give(round uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if round == q.round {
		q.running--
		q.passLocked()
	}
}

// passLocked gives turns to the next that wait.
func (q *queue) passLocked() {
	for len(q.users) > 0 && q.running < most() {
		w := q.users[0]
		q.users = q.users[1:]
		q.running++
		q.passed = time.Now()
		w.list[0] <- q.round
		if w.list = w.list[1:]; len(w.list) > 0 {
			q.users = append(q.users, w)
		}
	}
}

func (q *queue) addLocked(user string, turn chan uint64) {
	for _, w := range q.users {
		if w.user == user {
			w.list = append(w.list, turn)
			return
		}
	}
	q.users = append(q.users, &waiters{user, []chan uint64{turn}})
}

// removeLocked takes a call out of those that wait. It reports false for one that has got its turn.
func (q *queue) removeLocked(user string, turn chan uint64) bool {
	for i, w := range q.users {
		for j, other := range w.list {
			if other == turn {
				if w.list = append(w.list[:j], w.list[j+1:]...); len(w.list) == 0 {
					q.users = append(q.users[:i], q.users[i+1:]...)
				}
				return true
			}
		}
	}
	return false
}
