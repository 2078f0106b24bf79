package killtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/seglog"
)

// childVariable holds the order of a child process.
const childVariable = "COPAL_KILLTEST_CHILD"

// order is the work of a child.
type order struct {
	Dir          string
	Mix          string
	Seed, Cycle  uint64
	Begin        int64 // Unix milliseconds
	SyncInterval time.Duration
	SegmentBytes int64 // 0: as ever
	RingBytes    int64 // 0 for the default, too
	Lazy         bool  // nothing is synced by the writers
	RestartEvery int   // operations between closing and opening the store again; 0: never
	Bug          bug
}

// child writes until it is killed.
type child struct {
	order
	mix        *mix
	session    atomic.Pointer[session]
	ops, done  atomic.Int64
	restarting sync.Mutex
	stale      [writers]map[slot]op // of the planted bug: the last asynchronous write
}

// session is a store from its opening to its closing.
type session struct {
	db       *copal.DB
	shelves  []shelf       // nil when no writer writes single values
	hands    []hands       // one for each writer of a shape
	replaced chan struct{} // closed when the next session is there
}

// runChild carries out an order. It returns only when something fails.
func runChild(text string) error {
	c := &child{}
	if err := json.Unmarshal([]byte(text), &c.order); err != nil {
		return err
	}
	c.mix = mixNamed(c.Mix)
	if c.SegmentBytes > 0 {
		seglog.DefaultSegmentBytes = c.SegmentBytes
	}
	if c.RingBytes > 0 {
		seglog.DefaultRingBytes = c.RingBytes
	}
	send(frame{What: hello})
	if err := c.open(); err != nil {
		return err
	}
	send(frame{What: opened})
	failed := make(chan error)
	for w := range c.mix.writers {
		go func() { failed <- c.work(uint8(w)) }()
	}
	if c.mix.values {
		for w := range uint8(writers) {
			go func() { failed <- c.write(w) }()
		}
	}
	if c.mix.shrinks {
		go func() { failed <- c.shrink() }()
	}
	return <-failed
}

// send writes frames to the pipe, in one piece. Without a parent the process dies.
func send(frames ...frame) {
	var b []byte
	for _, f := range frames {
		b = f.append(b)
	}
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(3)
	}
}

func (c *child) open() error {
	db, err := copal.Open(c.Dir, copal.WithSyncInterval(c.SyncInterval))
	if err != nil {
		return err
	}
	s, err := c.mix.open(db)
	if err == nil {
		c.session.Store(s)
	}
	return err
}

// open returns all that the writers of the mix need.
func (m *mix) open(db *copal.DB) (*session, error) {
	s := &session{db: db, replaced: make(chan struct{})}
	if m.values {
		shelves, err := openShelves(db)
		if err != nil {
			return nil, err
		}
		s.shelves = shelves
	}
	for w, sh := range m.writers {
		h, err := sh.open(db, uint8(w))
		if err != nil {
			return nil, err
		}
		s.hands = append(s.hands, h)
	}
	return s, nil
}

// restart closes the store while the other writers write, and opens it again.
func (c *child) restart() error {
	c.restarting.Lock()
	defer c.restarting.Unlock()
	old := c.session.Load()
	send(frame{What: closing})
	if err := old.db.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	send(frame{What: closed})
	if err := c.open(); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	send(frame{What: opened})
	close(old.replaced)
	return nil
}

// write is one writer: announce, do, acknowledge, and so on.
func (c *child) write(writer uint8) error {
	plan := newPlanner(c.Seed, c.Cycle, writer)
	plan.lazy = c.Lazy
	var acknowledge []frame
	for n := 1; ; n++ {
		o := plan.next()
		send(append(acknowledge, frame{What: announced, Op: o})...)
		if c.Bug == ackEarly {
			send(frame{What: acked, Op: o, Existed: c.has(o.slot)})
		}
		s := c.session.Load()
		existed, err := c.do(s, o)
		switch {
		case errors.Is(err, copal.ErrClosed):
			acknowledge = []frame{{What: refused, Op: o}}
			<-s.replaced
		case err != nil:
			return fmt.Errorf("%v: %w", o, err)
		default:
			acknowledge = []frame{{What: acked, Op: o, Existed: existed}}
			if n%8 == 0 {
				err = c.readBack(s, o)
			}
		}
		if c.Bug == ackEarly {
			acknowledge = nil
		}
		if err == nil {
			err = c.pause()
		}
		if err != nil && !errors.Is(err, copal.ErrClosed) {
			return err
		}
	}
}

// pause is called after each operation. Now and then it closes the store and opens it again. A
// child that has done more than any kill waits for waits itself: its log shall not grow, and
// compaction catch up.
func (c *child) pause() error {
	switch n := c.done.Add(1); {
	case n > 4*int64(c.mix.acks)+100:
		send(frame{What: finished})
		<-time.After(time.Hour)
	case c.RestartEvery > 0 && n%int64(c.RestartEvery) == 0:
		return c.restart()
	}
	return nil
}

// shrink compacts the store, again and again.
func (c *child) shrink() error {
	for {
		s := c.session.Load()
		send(frame{What: shrinking})
		if err := s.db.Compact(context.Background(), nil); errors.Is(err, copal.ErrClosed) {
			<-s.replaced
		} else if err != nil {
			return fmt.Errorf("shrink: %w", err)
		}
	}
}

// work is one writer of a shape.
func (c *child) work(writer uint8) error {
	dice := newDice(&c.order, writer)
	var acknowledge []frame
	for {
		step := c.mix.writers[writer].plan(dice.next())
		o := op{Kind: aStep, Count: step.count, slot: slot{Writer: writer}}
		send(append(acknowledge, frame{What: announced, Op: o})...)
		s := c.session.Load()
		if c.Bug == ackEarly {
			send(frame{What: acked, Op: o})
		}
		existed, err := c.doStep(s.hands[writer], &step)
		switch {
		case errors.Is(err, copal.ErrClosed):
			acknowledge = []frame{{What: refused, Op: o}}
			<-s.replaced
		case err != nil && step.late():
			acknowledge = []frame{{What: refused, Op: o}}
		case err != nil:
			return fmt.Errorf("%v: %w", &step, err)
		default:
			acknowledge = []frame{{What: acked, Op: o, Existed: existed}}
		}
		if c.Bug == ackEarly {
			acknowledge = nil
		}
		if err := c.pause(); err != nil {
			return err
		}
	}
}

// late reports whether the step has a deadline that has passed, which is refused.
func (s *step) late() bool {
	now := time.Now().UnixMilli()
	return slices.ContainsFunc(s.changes, func(c change) bool { return c.until > 0 && c.until <= now })
}

// doStep does a step, with the planted bug, if any.
func (c *child) doStep(h hands, s *step) (existed bool, err error) {
	n := c.ops.Add(1)
	switch {
	case c.Bug == skipSome && n%10 == 0:
		return true, nil
	case c.Bug == mixUp && n%10 == 0 && len(s.changes) > 0:
		s.changes[0].value.Count++
	case c.Bug == halfSteps && len(s.changes) > 1:
		first, rest := *s, *s
		first.changes, rest.changes = s.changes[:len(s.changes)/2], s.changes[len(s.changes)/2:]
		if _, err := h.do(&first); err != nil {
			return false, err
		}
		return h.do(&rest)
	}
	return h.do(s)
}

// do carries out an operation, with the planted bug, if any.
func (c *child) do(s *session, o op) (existed bool, err error) {
	n := c.ops.Add(1)
	sh := s.shelves[o.Shelf]
	switch {
	case c.Bug == skipSome && n%100 == 0 && o.Kind.sets():
		return false, nil
	case c.Bug == mixUp && n%100 == 0 && o.Kind.sets():
		o.Count++ // another value than the one announced
	case c.Bug == reviveSome && n%20 == 0 && o.Kind.removes():
		existed, err = sh.remove(o)
		return existed, errors.Join(err, sh.set(o))
	}
	switch {
	case o.Kind == syncAll && c.Bug != noFlush:
		return false, s.db.Sync()
	case o.Kind == syncMap && c.Bug != noFlush:
		return false, sh.sync()
	case o.Kind.syncs():
		return false, nil
	case o.Kind.sets():
		return false, errors.Join(sh.set(o), c.setStale(sh, o))
	}
	return sh.remove(o)
}

// setStale plants the bug of an asynchronous write that lands after a newer one.
func (c *child) setStale(sh shelf, o op) error {
	if c.Bug != staleAsync {
		return nil
	}
	mine := c.stale[o.Writer]
	older, ok := mine[o.slot]
	switch {
	case o.Kind.async() && mine == nil:
		c.stale[o.Writer] = map[slot]op{o.slot: o}
	case o.Kind.async():
		mine[o.slot] = o
	case ok:
		delete(mine, o.slot)
		older.Kind = set
		return sh.set(older)
	}
	return nil
}

// has reports whether there is an entry; for the sake of a planted bug.
func (c *child) has(s slot) bool {
	_, err := c.session.Load().shelves[s.Shelf].load(s)
	return err == nil
}

// readBack checks that the writer finds the value it has just written.
func (c *child) readBack(s *session, o op) error {
	if c.Bug != none || o.Kind.syncs() {
		return nil
	}
	v, err := s.shelves[o.Shelf].load(o.slot)
	switch {
	case errors.Is(err, copal.ErrNotFound) && !o.Kind.sets():
		return nil
	case err != nil:
		return fmt.Errorf("reading back %v: %w", o, err)
	case !o.Kind.sets() || !v.is(o):
		return fmt.Errorf("reading back %v: found %v", o, v)
	}
	return nil
}
