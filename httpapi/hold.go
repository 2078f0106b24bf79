package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/turns"
)

// The memory of all requests counts together, with shares by user: where it is used up, the request that holds most
// of the user with most is ended.

// freeBytes is the length of a buffer that a request may have without counting it.
const freeBytes = 64 << 10

// usualMemory is the default of WithMaxMemory.
const usualMemory = 256 << 20

var errEvicted = busy("%v", budget.ErrFull)

// take counts n bytes that the request holds until it is answered, or gives them back.
func (q *request) take(n int64) error {
	if n > q.maxMemory {
		return problemf(tooLarge, "the request takes %d bytes of memory; the limit of all requests together is %d", n, q.maxMemory)
	}
	if q.account == nil {
		q.account = q.memory.Open(q.grant.Name(), q.evict)
	}
	if q.account.Take(n) != nil {
		return errEvicted
	}
	return nil
}

// give gives bytes back.
func (q *request) give(n int64) {
	if n > 0 {
		q.account.Give(n)
	}
}

// buffer is how many bytes of a buffer have been counted.
type buffer int64

// holds counts a buffer that has grown. One of few bytes is free.
func (b *buffer) holds(q *request, n int) error {
	if n <= freeBytes || buffer(n) <= *b {
		return nil
	}
	err := q.take(int64(n) - int64(*b))
	if err == nil {
		*b = buffer(n)
	}
	return err
}

// free gives a buffer back.
func (b *buffer) free(q *request) {
	q.give(int64(*b))
	*b = 0
}

// grown counts the buffer of the request.
func (q *request) grown() error { return q.counted.holds(q, cap(*q.buf)) }

// tally counts many small pieces of memory of a request.
type tally struct {
	q     *request
	n     int64 // that are not counted yet
	taken int64
}

// take counts a piece, and returns an error when the work is not wanted any more.
func (t *tally) take(n int64) error {
	if t.n += n; t.n > freeBytes {
		if err := t.q.take(t.n); err != nil {
			return err
		}
		t.taken, t.n = t.taken+t.n, 0
	}
	if n == 0 {
		return t.q.goOn()
	}
	return nil
}

// free gives them back.
func (t *tally) free() {
	t.q.give(t.taken)
	t.n, t.taken = 0, 0
}

// evict ends a request for others. A read or a write of the connection that waits ends now.
func (q *request) evict() {
	q.evictions.Add(1)
	q.logger.Debug("a request was ended for others, which have less", "method", q.r.Method, "path", q.r.URL.Path, "user", q.grant.Name())
	q.ending.Lock()
	defer q.ending.Unlock()
	if q.evicted = true; q.ended {
		return
	}
	q.turn.Leave()
	if q.stop != nil {
		q.stop()
	}
	c := http.NewResponseController(q.w)
	c.SetReadDeadline(time.Unix(1, 0))
	c.SetWriteDeadline(time.Unix(1, 0))
}

// end gives back the memory and the place of the request.
func (q *request) end() {
	q.turn.End()
	if q.account != nil || q.place != nil {
		q.ending.Lock()
		q.ended = true
		q.ending.Unlock()
	}
	if q.account != nil {
		q.account.Close()
	}
	if q.place != nil {
		q.place.Close()
	}
}

// enter takes a place of a limited number for the request, until it is answered. A user without a place gets one of
// the user with most, whose request ends.
func (q *request) enter(places *budget.Budget) error {
	q.place = places.Open(q.grant.Name(), q.evict)
	if err := q.place.Take(1); err != nil {
		q.place = nil
		return err
	}
	return nil
}

// goOn returns an error when a request was ended for others, and ends one whose client has gone. Work that may take
// long asks it often.
func (q *request) goOn() error {
	if q.isEvicted() {
		return errEvicted
	}
	if q.tries > 1 {
		return gaveUp(q.r.Context().Err())
	}
	err := q.turn.Look(q.r.Context())
	if errors.Is(err, turns.ErrLeft) {
		return errEvicted
	}
	return gaveUp(err)
}

func (q *request) isEvicted() bool {
	q.ending.Lock()
	defer q.ending.Unlock()
	return q.evicted
}

// The least that a client sends in a second, over the time that it has been given to begin with.
const leastRate = 1 << 10

// receives gives the client until then to send some.
func (q *request) receives(until time.Time) error {
	q.ending.Lock()
	defer q.ending.Unlock()
	if q.evicted {
		return errEvicted
	}
	http.NewResponseController(q.w).SetReadDeadline(until)
	return nil
}

// sends gives the client some time to read.
func (q *request) sends() error {
	q.turn.End()
	q.ending.Lock()
	defer q.ending.Unlock()
	if q.evicted {
		return errEvicted
	}
	until := time.Now().Add(q.patience)
	if !q.last.IsZero() && q.last.Before(until) {
		until = q.last
	}
	http.NewResponseController(q.w).SetWriteDeadline(until)
	return nil
}

// waits lets a client take its time: nothing is being sent.
func (q *request) waits() error {
	q.ending.Lock()
	defer q.ending.Unlock()
	if q.evicted {
		return errEvicted
	}
	http.NewResponseController(q.w).SetWriteDeadline(time.Time{})
	return nil
}

// dropBody closes a body unread, without waiting for it, and with it the connection.
func dropBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Unix(1, 0)); !errors.Is(err, http.ErrNotSupported) {
		r.Body.Close()
	}
}
