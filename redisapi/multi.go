package redisapi

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/copaldb/copal"
)

// queue is what a client has queued between MULTI and EXEC.
type queue struct {
	list  []queued
	bytes int
	bad   bool // a command was refused when it was queued: EXEC carries out none
}

type queued struct {
	cmd   *command
	args  [][]byte
	raw   [][]byte // with raw keys, once it is carried out
	typed bool

	began, ended time.Time
	failed       bool
}

func multiCommands() family {
	return known("transactions", "Transactions",
		&command{name: "multi", arity: 1, flags: fast | noScript | noMulti | atOnce, run: own((*client).multi), since: "1.2.0", summary: "Begins to queue commands."},
		&command{name: "exec", arity: 1, flags: noScript | atOnce, run: own((*client).exec), since: "1.2.0", summary: "Executes the queued commands, as one transaction of the store."},
		&command{name: "discard", arity: 1, flags: fast | noScript | atOnce, run: own((*client).discard), since: "2.0.0", summary: "Discards the queued commands."},
		&command{name: "watch", arity: -2, flags: fast | noScript | noMulti | atOnce, keys: allKeys, run: own((*client).watch), since: "2.2.0", summary: "Makes the next EXEC do nothing if a key has changed until then.",
			differs: "While keys are watched the store keeps a snapshot: the old place of each key that changes, in memory, and old files. A delivery, an acknowledgement or a claim by a group is a change of the stream."},
		&command{name: "unwatch", arity: 1, flags: fast | noScript, run: own((*client).unwatch), since: "2.2.0", summary: "Forgets all watched keys."},
	)
}

// enqueue adds a request to the queue, in copies.
func (c *client) enqueue(cmd *command, args [][]byte) error {
	if cmd.flags&noMulti != 0 {
		c.queue.bad = true
		return errorf("ERR Command not allowed inside a transaction")
	}
	c.queue.bytes += 256 // for q, and for the list while it grows
	for _, a := range args {
		c.queue.bytes += len(a) + 48 // for the slices
	}
	if int64(c.queue.bytes) > c.s.MaxRequest {
		c.queue.bad = true
		return errorf("ERR the transaction is too long")
	}
	if err := c.chargeQueue(c.queue.bytes); err != nil {
		c.forgetQueue()
		c.queue = &queue{bad: true}
		return err
	}
	q := queued{cmd: cmd, args: make([][]byte, len(args)), typed: c.typed}
	for i, a := range args {
		q.args[i] = bytes.Clone(a)
	}
	c.queue.list = append(c.queue.list, q)
	c.Simple("QUEUED")
	return nil
}

// chargeQueue charges what the client has queued, in steps.
func (c *client) chargeQueue(bytes int) error {
	return c.charge(&c.charged.queue, int64(bytes)/chargeStep*chargeStep)
}

func (c *client) forgetQueue() {
	c.queue = nil
	c.chargeQueue(0)
}

// watched are the keys of a WATCH, and what they were.
type watched struct {
	then *copal.Snapshot
	keys map[string]struct{}
}

func (w *watched) has(key []byte) bool {
	_, ok := w.keys[string(key)]
	return ok
}

// maxWatches is how many snapshots a client may hold.
const maxWatches = 1000

func (c *client) watch() error {
	if c.queue != nil {
		return errorf("ERR WATCH inside MULTI is not allowed")
	}
	bytes := 0
	for _, key := range c.args[1:] {
		bytes += len(key) + 2*entryBytes
	}
	if err := c.charge(&c.charged.watches, c.charged.watches.Load()+int64(bytes)); err != nil {
		return err
	}
	w := watched{keys: map[string]struct{}{}}
	for _, key := range c.args[1:] {
		if !slices.ContainsFunc(c.watches, func(w watched) bool { return w.has(key) }) {
			w.keys[string(key)] = struct{}{}
		}
	}
	if len(c.watches) == maxWatches {
		return errorf("ERR too many WATCH without EXEC or UNWATCH")
	}
	if len(w.keys) > 0 { // else all are watched since earlier
		var err error
		if w.then, err = c.s.DB.Snapshot(); err != nil {
			return err
		}
		c.watches = append(c.watches, w)
	}
	c.OK()
	return nil
}

func (c *client) unwatch() error {
	c.later(c.forgetWatches)
	c.OK()
	return nil
}

func (c *client) forgetWatches() {
	for _, w := range c.watches {
		w.then.Close()
	}
	c.watches = nil
	c.charge(&c.charged.watches, 0)
}

// unchanged lets the transaction count only if no watched key has changed.
func (c *client) unchanged(tx *copal.Tx) error {
	for _, w := range c.watches {
		for key := range w.keys {
			if err := tx.Require(w.then, []byte(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *client) multi() error {
	if c.queue != nil {
		return errorf("ERR MULTI calls can not be nested")
	}
	c.queue = new(queue)
	c.OK()
	return nil
}

func (c *client) discard() error {
	if c.queue == nil {
		return errorf("ERR DISCARD without MULTI")
	}
	c.forgetQueue()
	c.forgetWatches()
	c.OK()
	return nil
}

// exec carries out the queue in one transaction. A command that fails leaves the others as they are, as in Redis, for
// commands write nothing before they fail. An error of the store ends all of it.
func (c *client) exec() error {
	q := c.queue
	if q == nil {
		return errorf("ERR EXEC without MULTI")
	}
	c.queue = nil
	defer c.chargeQueue(0)
	defer c.forgetWatches()
	if q.bad {
		return replyError("EXECABORT Transaction discarded because of previous errors.")
	}
	for _, each := range q.list {
		if each.cmd.flags&write != 0 {
			c.wrote()
		}
	}
	if c.tracks {
		for _, each := range q.list {
			c.track(each.cmd, each.args)
		}
	}
	before, db := len(c.Buf), c.db.Load()
	err := c.update(func(tx *copal.Tx) error {
		if err := c.unchanged(tx); err != nil {
			return err
		}
		c.db.Store(db)
		c.Array(len(q.list))
		for i := range q.list {
			each := &q.list[i]
			if !c.goOn(1) {
				return c.Err()
			}
			each.raw = c.inside(each.cmd, each.args)
			c.cmd, c.args, c.typed = each.cmd, each.raw, each.typed
			each.began = time.Now()
			err := c.judgeKeys()
			if err == nil {
				err = c.runIn(tx, len(c.Buf))
			}
			each.ended, each.failed = time.Now(), err != nil
			var own replyError
			switch {
			case err == nil:
			case errors.As(err, &own), isType(err):
				c.fail(err)
			default:
				return err
			}
		}
		return c.Err()
	})
	if err != nil {
		c.after = c.after[:0]
		c.Cut(before)
		c.db.Store(db)
	} else {
		c.serveAfter(q)
	}
	if errors.Is(err, copal.ErrChanged) {
		c.NullArray()
		return nil
	}
	return err
}

// serveAfter serves the clients that wait for what the transaction has changed.
func (c *client) serveAfter(q *queue) {
	var keys []string
	for _, each := range q.list {
		c.note(each.cmd, each.args, each.began, each.ended, each.failed)
		c.show(each.cmd, each.args)
		keys = c.s.changed(keys, each.cmd, each.raw)
	}
	c.s.serve(keys)
}
