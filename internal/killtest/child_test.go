package killtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/store"
)

// childVariable holds the order of a process that is to be a child.
const childVariable = "COPAL_KILLTEST_CHILD"

// order is what a child is to do.
type order struct {
	Dir          string
	Seed, Cycle  uint64
	SyncInterval time.Duration
	SegmentBytes int64 // 0: as ever
	RingBytes    int64 // likewise
	Lazy         bool  // nothing is synced by the writers
	RestartEvery int   // operations of writer 0 between closing and opening the store again; 0: never
	Bug          bug
}

// child writes until it is killed.
type child struct {
	order
	session atomic.Pointer[session]
	ops     atomic.Int64
	stale   [writers]map[slot]op // of the planted bug: the last asynchronous write
}

// session is a store from its opening to its closing.
type session struct {
	db       *copal.DB
	shelves  []shelf
	replaced chan struct{} // closed when the next session is there
}

// runChild carries out an order. It returns only when something fails.
func runChild(text string) error {
	c := &child{}
	if err := json.Unmarshal([]byte(text), &c.order); err != nil {
		return err
	}
	if c.SegmentBytes > 0 {
		store.DefaultSegmentBytes = c.SegmentBytes
	}
	if c.RingBytes > 0 {
		store.DefaultRingBytes = c.RingBytes
	}
	send(frame{What: hello})
	if err := c.open(); err != nil {
		return err
	}
	send(frame{What: opened})
	failed := make(chan error)
	for w := range uint8(writers) {
		go func() { failed <- c.write(w) }()
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
	db, err := copal.Open(c.Dir, copal.SyncInterval(c.SyncInterval))
	if err != nil {
		return err
	}
	shelves, err := openShelves(db)
	if err != nil {
		return err
	}
	c.session.Store(&session{db: db, shelves: shelves, replaced: make(chan struct{})})
	return nil
}

// restart closes the store while the other writers write, and opens it again.
func (c *child) restart() error {
	old := c.session.Load()
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
		if err == nil && writer == 0 && c.RestartEvery > 0 && n%c.RestartEvery == 0 {
			err = c.restart()
		}
		if err != nil && !errors.Is(err, copal.ErrClosed) {
			return err
		}
	}
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
		return false, s.db.FSyncAll()
	case o.Kind == syncMap && c.Bug != noFlush:
		return false, sh.sync()
	case o.Kind.syncs():
		return false, nil
	case o.Kind.sets():
		return false, errors.Join(sh.set(o), c.setStale(sh, o))
	}
	return sh.remove(o)
}

// setStale is the planted bug of an asynchronous write that lands after a newer one.
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

// readBack checks that the writer finds what it has just written.
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
