package feed

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

// A Hub has many watchers share one reader of the log. A watcher begins with a feed of its own.
// When that has reached the end, the watcher joins: it gives its feed up, and gets the changes of
// the hub's feed in a queue of its own.
//
//   - There is no goroutine. The hub's feed is read by one of the waiting watchers, the reader,
//     which is the holder of the token lead. It hands out the changes until there is one for
//     itself.
//   - If all watchers are slow, none reads, and the hold of the hub's feed keeps the log for them,
//     within the limits of holds.
//   - A watcher whose queue is full leaves, with a fork of the hub's feed, which is after the last
//     change in its queue. So it reads the log itself again, misses nothing, and joins again when
//     it is through.
//   - A watcher may join when it has had every change up to the place of the hub's feed, or
//     further. It ignores changes of the hub that it has had.
//
// The hub's feed reads the changes that any of the watchers wants. Those for others come between
// the changes of a group for one watcher, so More is known with the next change for the watcher, or
// with the last of the group.
type Hub struct {
	lead chan struct{} // holds one token: its taker reads

	mu     sync.Mutex // guards all below, and the queues; held for one record at a time
	feed   *Feed      // nil while no watcher has joined
	exact  map[string][]*Watcher
	others []*Watcher // of prefixes
	held   []*Watcher // with a change of a group that has not ended
	joined int
}

// NewHub returns a hub without watchers. The channel lead is empty and has room for one token.
func NewHub(lead chan struct{}) *Hub {
	h := &Hub{lead: lead, exact: map[string][]*Watcher{}}
	h.lead <- struct{}{}
	return h
}

// Watcher yields the changes of some entries. It is used by one goroutine.
type Watcher struct {
	hub   *Hub
	store *engine.Store
	of    Of
	feed  *Feed  // its own; nil when it has joined
	upTo  uint64 // the last number of its own feed when it joined

	held  *Event // a change of a group of which more may follow
	queue []Event
	ready chan struct{} // something is in the queue, or the watcher must read for itself, or has failed
	err   error
}

// queued is the number of changes that wait for a slow watcher before it reads for itself.
const queued = 16

// Watch begins a watcher of the changes of some entries after a position, as Open does. The caller
// closes it.
func (h *Hub) Watch(s *engine.Store, p seglog.Position, of Of) (*Watcher, error) {
	f, err := Open(s, p, of)
	if err != nil {
		return nil, err
	}
	return &Watcher{hub: h, store: s, of: of, feed: f, ready: make(chan struct{}, 1)}, nil
}

// Next is Feed.Next. The bytes are the caller's.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	for {
		if ctx.Err() != nil {
			return Event{}, context.Cause(ctx)
		}
		e, some, alone, err := w.queuedEvent()
		switch {
		case some || err != nil:
			return e, err
		case alone:
			err = w.readOwn(ctx)
		default:
			w.wait(ctx)
		}
		if err != nil {
			return Event{}, err
		}
	}
}

// Told returns the number up to which the watcher has yielded every change; ok is false while that
// is unknown, amid a group or with changes in the queue.
func (w *Watcher) Told() (seq uint64, ok bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	f := w.feed
	if f == nil {
		f = w.hub.feed
	}
	if f == nil || f.group != nil || w.held != nil || len(w.queue) > 0 || w.err != nil {
		return 0, false
	}
	return max(f.at.Next-1, w.upTo), true
}

// queuedEvent takes the next change out of the queue. Its error comes after the last of them. alone
// reports that the watcher reads for itself.
func (w *Watcher) queuedEvent() (e Event, some, alone bool, err error) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if len(w.queue) == 0 {
		return e, false, w.feed != nil, w.err
	}
	e = w.queue[0]
	w.queue[0] = Event{}
	w.queue = w.queue[1:]
	e.Key, e.Element, e.From, e.value = bytes.Clone(e.Key), bytes.Clone(e.Element), bytes.Clone(e.From), bytes.Clone(e.value) // which others may have, too
	return e, true, false, nil
}

// readOwn reads a change from the watcher's own feed, or joins when there is none.
func (w *Watcher) readOwn(ctx context.Context) error {
	f := w.feed
	if f.atRest() {
		if err := f.look(); err != nil {
			return err
		}
		if f.atRest() && !w.join() {
			return f.await(ctx)
		}
		return nil
	}
	var e Event
	told, err := f.step(&e)
	if told {
		w.take(&e)
	}
	if f.group == nil {
		w.settle()
	}
	return err
}

// take gives the watcher a change from a feed, if it wants that. It waits for the next one, or the
// end of its group.
func (w *Watcher) take(e *Event) {
	if !w.wants(e) {
		return
	}
	w.more(true)
	held := *e
	w.held = &held
}

// settle hands the watcher the last change of a group.
func (w *Watcher) settle() { w.more(false) }

func (w *Watcher) more(more bool) {
	if w.held != nil {
		w.held.More = more
		w.queue, w.held = append(w.queue, *w.held), nil
	}
}

func (w *Watcher) wants(e *Event) bool {
	if e.Seq <= w.upTo {
		return false
	}
	if e.Op != record.Range {
		return w.of.Has(e.Key)
	}
	r, err := e.Range()
	return err == nil && w.of.Meets(&r)
}

// join gives up the watcher's own feed, if the hub's has not come further.
func (w *Watcher) join() bool {
	over, joined := w.joinHub()
	if over != nil {
		over.Close() // without the lock of the hub
	}
	return joined
}

// joinHub is join. It returns the watcher's feed if the hub's has taken its place.
func (w *Watcher) joinHub() (over *Feed, joined bool) {
	h, f := w.hub, w.feed
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed != nil && f.at.Next < h.feed.at.Next {
		return nil, false
	}
	w.upTo, w.feed = f.at.Next-1, nil
	if h.feed == nil {
		h.feed, f.of = f, h
	} else {
		over = f
	}
	h.joined++
	if key, is := w.of.(Key); is {
		h.exact[string(key)] = append(h.exact[string(key)], w)
	} else {
		h.others = append(h.others, w)
	}
	return over, true
}

// leaveLocked takes a watcher out that has joined. It returns the hub's feed if no watcher is left
// to read it.
func (h *Hub) leaveLocked(w *Watcher) (last *Feed) {
	if key, is := w.of.(Key); is {
		if list := without(h.exact[string(key)], w); len(list) > 0 {
			h.exact[string(key)] = list
		} else {
			delete(h.exact, string(key))
		}
	} else {
		h.others = without(h.others, w)
	}
	h.held = without(h.held, w)
	if h.joined--; h.joined == 0 {
		last, h.feed = h.feed, nil
	}
	return last
}

func without(list []*Watcher, w *Watcher) []*Watcher {
	return slices.DeleteFunc(list, func(o *Watcher) bool { return o == w })
}

// Has reports whether any of the watchers wants changes of a key. The caller holds mu.
func (h *Hub) Has(key []byte) bool {
	return len(h.exact[string(key)]) > 0 || slices.ContainsFunc(h.others, func(w *Watcher) bool { return w.of.Has(key) })
}

// Meets reports whether any of the watchers may want a range. The caller holds mu.
func (h *Hub) Meets(*engine.Range) bool { return true }

// wait returns when there is something for the watcher, for which it reads if no other one does.
func (w *Watcher) wait(ctx context.Context) {
	select {
	case <-w.ready:
	case <-ctx.Done():
	case <-w.hub.lead:
		w.read(ctx)
		w.hub.lead <- struct{}{}
	}
}

// read reads the hub's feed until there is something for the watcher, or the context is done. It holds lead.
func (w *Watcher) read(ctx context.Context) {
	for ctx.Err() == nil {
		rests, err := w.hub.step(w)
		if err == nil && rests == nil {
			return
		}
		if err == nil {
			err = rests.await(ctx)
		}
		if err != nil && ctx.Err() == nil {
			w.hub.fail(err)
			return
		}
	}
}

// step reads records until there is something for the watcher that reads, or returns the feed, which rests.
func (h *Hub) step(reader *Watcher) (rests *Feed, err error) {
	for {
		done, rests, err := h.stepOne(reader)
		if done || err != nil {
			return rests, err
		}
	}
}

func (h *Hub) stepOne(reader *Watcher) (done bool, rests *Feed, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feed
	if len(reader.queue) > 0 || reader.feed != nil || reader.err != nil {
		return true, nil, nil
	}
	if f.atRest() {
		return true, f, nil
	}
	var e Event
	told, err := f.step(&e)
	if told {
		h.tellLocked(&e)
	}
	if f.group == nil {
		h.settleLocked()
	}
	return false, nil, err
}

// tellLocked hands out a change.
func (h *Hub) tellLocked(e *Event) {
	list := append(slices.Clone(h.others), h.exact[string(e.Key)]...)
	if e.Op == record.Range {
		list = slices.Clone(h.others)
		for _, of := range h.exact {
			list = append(list, of...)
		}
	}
	for _, w := range list {
		first := w.held == nil
		if w.take(e); first && w.held != nil {
			h.held = append(h.held, w)
		}
		h.handLocked(w)
	}
}

// settleLocked is called when no group is open.
func (h *Hub) settleLocked() {
	list := h.held
	h.held = nil
	for _, w := range list {
		w.settle()
		h.handLocked(w)
	}
}

// handLocked lets a watcher read its queue. One whose queue is full goes on by itself after that.
func (h *Hub) handLocked(w *Watcher) {
	if len(w.queue) > queued {
		w.feed, w.upTo = h.feed.fork(), 0
		w.feed.of = w.of
		h.leaveLocked(w) // and the hub's feed stays with its reader
	}
	if len(w.queue) > 0 {
		w.wake()
	}
}

func (w *Watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// fail ends all watchers that have joined, with an error after the changes in their queues.
func (h *Hub) fail(err error) {
	h.mu.Lock()
	f := h.feed
	list := slices.Clone(h.others)
	for _, of := range h.exact {
		list = append(list, of...)
	}
	for _, w := range list {
		h.leaveLocked(w)
		w.err = err
		w.wake()
	}
	h.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

// Close ends the watcher.
func (w *Watcher) Close() {
	h := w.hub
	h.mu.Lock()
	list := []*Feed{w.feed}
	if w.feed == nil && w.err == nil {
		list = append(list, h.leaveLocked(w))
	}
	w.feed, w.err = nil, seglog.ErrClosed
	h.mu.Unlock()
	for _, f := range list {
		if f != nil {
			f.Close()
		}
	}
}
