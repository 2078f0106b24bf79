package redisapi

import (
	"errors"
	"slices"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

func multiCommands() command.Family {
	return command.NewFamily("transactions", "Transactions",
		&command.Row{Name: "multi", Arity: 1, Flags: command.Fast | command.NoScript | command.NoMulti | command.AtOnce, Run: own((*client).multi), Since: "1.2.0", Summary: "Begins to queue commands."},
		&command.Row{Name: "exec", Arity: 1, Flags: command.NoScript | command.AtOnce, Run: own((*client).exec), Since: "1.2.0", Summary: "Executes the queued commands, as one transaction of the store."},
		&command.Row{Name: "discard", Arity: 1, Flags: command.Fast | command.NoScript | command.AtOnce, Run: own((*client).discard), Since: "2.0.0", Summary: "Discards the queued commands."},
		&command.Row{Name: "watch", Arity: -2, Flags: command.Fast | command.NoScript | command.NoMulti | command.AtOnce, Keys: command.AllKeys, IsSilent: true, Run: own((*client).watch), Since: "2.2.0", Summary: "Makes the next EXEC do nothing if a key has changed until then.",
			Differs: "While keys are watched the store keeps a snapshot: the old place of each key that changes, in memory, and old files. A delivery, an acknowledgement or a claim by a group is a change of the stream."},
		&command.Row{Name: "unwatch", Arity: 1, Flags: command.Fast | command.NoScript, Run: own((*client).unwatch), Since: "2.2.0", Summary: "Forgets all watched keys."},
	)
}

// maxWatches is the number of snapshots that a client may hold.
const maxWatches = 1000

func (c *client) watch() error {
	if c.queue != nil {
		return command.Errorf("ERR WATCH inside MULTI is not allowed")
	}
	bytes := 0
	for _, key := range c.Args[1:] {
		bytes += len(key) + 2*command.EntryBytes
	}
	if err := c.Charge(&c.charged.watches, c.charged.watches.Load()+int64(bytes)); err != nil {
		return err
	}
	w := watched{keys: map[string]struct{}{}}
	for _, key := range c.Args[1:] {
		if !slices.ContainsFunc(c.watches, func(w watched) bool { return w.has(key) }) {
			w.keys[string(key)] = struct{}{}
		}
	}
	if len(c.watches) == maxWatches {
		return command.Errorf("ERR too many WATCH without EXEC or UNWATCH")
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
	c.Later(c.forgetWatches)
	c.OK()
	return nil
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
		return command.Errorf("ERR MULTI calls can not be nested")
	}
	c.queue = new(queue)
	c.OK()
	return nil
}

func (c *client) discard() error {
	if c.queue == nil {
		return command.Errorf("ERR DISCARD without MULTI")
	}
	c.forgetQueue()
	c.forgetWatches()
	c.OK()
	return nil
}

// exec carries out the queue in one transaction. As in Redis, a command that fails does not undo
// the others: commands write nothing before they fail. An error of the store ends the transaction.
func (c *client) exec() error {
	q := c.queue
	if q == nil {
		return command.Errorf("ERR EXEC without MULTI")
	}
	c.queue = nil
	defer c.chargeQueue(0)
	defer c.forgetWatches()
	if q.bad {
		return command.Error("EXECABORT Transaction discarded because of previous errors.")
	}
	for _, each := range q.list {
		if each.cmd.Flags&command.Write != 0 {
			c.Wrote()
		}
	}
	if c.tracks {
		for _, each := range q.list {
			c.track(each.cmd, each.args)
		}
	}
	before, db := len(c.Buf), c.Database.Load()
	err := c.Update(func(tx *copal.Tx) error {
		if err := c.unchanged(tx); err != nil {
			return err
		}
		c.Database.Store(db)
		c.Array(len(q.list))
		for i := range q.list {
			each := &q.list[i]
			if !c.GoOn(1) {
				return c.Err()
			}
			each.raw = c.inside(each.cmd, each.args)
			c.Row, c.Args, c.Typed = each.cmd, each.raw, each.typed
			each.began = time.Now()
			err := c.judgeKeys()
			if err == nil {
				err = c.RunIn(tx, len(c.Buf))
			}
			each.ended, each.failed = time.Now(), err != nil
			var own command.Error
			switch {
			case err == nil:
			case errors.As(err, &own), command.IsType(err):
				c.fail(err)
			default:
				return err
			}
		}
		return c.Err()
	})
	if err != nil {
		c.After = c.After[:0]
		c.Cut(before)
		c.Database.Store(db)
	} else {
		c.serveAfter(q)
	}
	if errors.Is(err, copal.ErrChanged) {
		c.NullArray()
		return nil
	}
	return err
}

// serveAfter serves the clients that wait for changes of the transaction.
func (c *client) serveAfter(q *queue) {
	var keys []string
	for _, each := range q.list {
		c.note(each.cmd, each.args, each.began, each.ended, each.failed)
		c.show(each.cmd, each.args)
		keys = c.s.changed(keys, each.cmd, each.raw)
	}
	c.s.serve(keys)
}
