package redisapi

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/opened"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/internal/turns"
)

// call is a command that runs. Its method for a command writes one reply, or returns an error before
// it has written anything, to the reply or to the store.
type call struct {
	resp.Reply // to the requests that have arrived and have no reply yet
	conn       connection
	shared     *shared
	db         atomic.Int32                 // the database of the connection; others read it
	grant      atomic.Pointer[access.Grant] // of the connection, nil before it has given a token; others read it
	direct     *copal.Raw                   // the store
	held       *copal.Tx                    // the transaction of COPAL.BEGIN, nil without
	account    *budget.Account
	work       atomic.Int64 // bytes of scratch that the account is charged with; others read it
	inPlace    bool         // it runs for a client that waits, on the goroutine of another
	closing    bool         // the connection ends after this reply
	missed     bool         // it has not found a key

	cmd  *command
	args [][]byte   // with the name, or names, of the command
	raw  *copal.Raw // what the command reads and writes: the store, or the transaction in which it runs
	tx   *copal.Tx  // in which it runs, nil for none

	typed bool // values are in the typed form

	// after is what is to be done outside of the store once the transaction has committed; it runs again until then.
	after []func()

	scratch int64         // bytes that it has for its work
	reading int64         // of them, for the largest value that it has read
	left    int           // steps until goOn looks again
	counted int           // bytes of c.Buf that goOn has counted
	looked  time.Duration // since the server began: when goOn last looked at the connection, 0 for not yet
	gone    time.Duration // when the client was found to have gone, 0 for one that is there
	turn    turns.Turn
	tries   int // of its transaction

	taken  []byte                   // for take
	taking func(value []byte) error // appends a value to taken
	bulk   func(value []byte) error // replies a value
}

// shared is the part of a server that its calls use.
type shared struct {
	db           *copal.DB
	ctx          context.Context // ends with the server
	started      time.Time
	cluster      bool         // the server is a cluster of one shard
	debug        bool         // the command DEBUG works
	hits, misses atomic.Int64 // of keys that were read
	cursors      userCursors
}

// connection is the connection of a call, as far as commands need it.
type connection interface {
	IsKilled() bool   // it carries nothing out any more
	HasEnded() bool   // the client has closed its end
	CutOff(err error) // closes it: there is no reply that says what the command has done
	TypedStore() *copal.Raw
	PutTyped(content string, key, value []byte, deadline time.Time) error
	AreAwaited(keys [][]byte) bool // by clients that wait
	Await(kind string, keys [][]byte, most time.Duration) error
	LendBatch() *copal.Batch // an empty one, or nil; the caller keeps it until KeepBatch
	KeepBatch(b *copal.Batch)
}

// forget gives back what a long request has taken.
func (c *call) forget() {
	c.args = nil
	if cap(c.taken) > keptBytes {
		c.taken = nil
	}
}

// execute runs the command as its row says.
func (c *call) execute() (err error) {
	if len(c.args) > manyArguments {
		c.uses(len(c.args) * entryBytes) // for lists and maps of them
	}
	if c.left--; c.left < 0 && !c.inPlace {
		c.left = stepsOf
		c.turn.Look(c.shared.ctx)
	}
	c.after, c.looked, c.gone = c.after[:0], 0, 0
	before := len(c.Buf)
	c.counted = before
	switch {
	case c.held != nil && c.cmd.flags&(write|readonly) != 0:
		if err = c.runIn(c.held, before); err != nil && c.cmd.flags&write != 0 && stopsWork(err) {
			c.conn.CutOff(err) // which rolls back what the command may have written by half
		}
	case c.cmd.how == looking:
		err = c.shared.db.View(func(tx *copal.Tx) error { return c.runIn(tx, before) })
	case c.cmd.how == changing:
		err = c.update(func(tx *copal.Tx) error { return c.runIn(tx, before) })
	default:
		c.raw, c.tx = c.store(), nil
		if err = c.cmd.run(c); err == nil && c.Err() != nil {
			err = c.lost()
		}
	}
	c.used()
	c.left -= (len(c.Buf) - c.counted) / stepBytes
	if err != nil {
		c.Cut(before) // a transaction may fail in the end, too
		return err
	}
	for _, f := range c.after {
		f()
	}
	return nil
}

// update runs f in a transaction that writes, and again until it counts. Each time it begins with the reply, and with
// the work for afterwards, as they were.
func (c *call) update(f func(tx *copal.Tx) error) error {
	before := len(c.Buf)
	defer func() { c.tries = 0 }()
	return c.shared.db.Update(func(tx *copal.Tx) error {
		c.tries++
		c.after = c.after[:0]
		c.Cut(before)
		return f(tx)
	})
}

// runIn runs the command in a transaction, which may not be the first that tries.
func (c *call) runIn(tx *copal.Tx, before int) error {
	c.raw, c.tx = c.store().In(tx), tx
	c.Cut(before)
	err := c.whole(c.cmd.run(c))
	if err != nil {
		c.Cut(before)
	}
	return err
}

// later has f called once the transaction of the call has committed, and at once where there is none.
func (c *call) later(f func()) {
	if c.tx == nil {
		f()
	} else {
		c.after = append(c.after, f)
	}
}

// kinds are the types that Redis tells, by those of Raw.Type.
var kinds = map[string]string{"value": "string", "hash": "hash", "list": "list", "set": "set", "zset": "zset", "stream": "stream"}

// exists reports whether there is an entry under key, which is an error if its type is another.
func (c *call) exists(key []byte, kind string) (bool, error) {
	switch found, err := c.raw.Type(key); {
	case missing(err):
		return false, nil
	case err != nil:
		return false, err
	case found != kind:
		return false, errWrongType
	}
	return true, nil
}

// take reads the value of a key, which stays until the next call of take. A key without one has
// none, and ok is false.
func (c *call) take(key []byte) (value []byte, ok bool, err error) {
	if c.taking == nil {
		c.taking = func(value []byte) error {
			if n := len(c.taken) + len(value); n > max(keptBytes, cap(c.taken)) {
				if c.uses(n - cap(c.taken)); c.Err() != nil {
					return c.Err()
				}
			}
			c.taken = append(c.taken, value...)
			return nil
		}
	}
	c.taken = c.taken[:0]
	switch err := c.raw.View(key, c.taking); {
	case err == nil:
		return c.taken, true, nil
	case missing(err):
		return nil, false, nil
	default:
		return nil, false, err
	}
}

// count notes for INFO whether a key that was to be read is there.
func (c *call) count(found bool) {
	if found {
		c.shared.hits.Add(1)
	} else {
		c.missed = true
		c.shared.misses.Add(1)
	}
}

// What arguments say.

// now is the time to which deadlines relate.
func (c *call) now() time.Time { return time.Now() }

// maxString is the longest value of a string, as in Redis.
const maxString = 512 << 20

// atomically runs f in the transaction of the call, or in one of its own.
func (c *call) atomically(f func() error) error {
	if c.tx != nil {
		return f()
	}
	defer func() { c.raw, c.tx = c.store(), nil }()
	return c.update(func(tx *copal.Tx) error {
		c.raw, c.tx = c.store().In(tx), tx
		return c.whole(f())
	})
}

// atOneMoment is atomically for a command that may only read.
func (c *call) atOneMoment(f func() error) error {
	if c.cmd.flags&write != 0 || c.tx != nil {
		return c.atomically(f)
	}
	defer func() { c.raw, c.tx = c.store(), nil }()
	return c.shared.db.View(func(tx *copal.Tx) error {
		c.raw, c.tx = c.store().In(tx), tx
		return f()
	})
}

// fitsRedis returns an error for a value that is longer than Redis would have it.
func fitsRedis(value []byte) error {
	if len(value) > maxString {
		return errTooLong
	}
	return nil
}

// mayHoldCollection returns an error for a key of a typed map that has values: it would not read a collection.
func (c *call) mayHoldCollection(key []byte) error {
	typed, err := copaladmin.IsTyped(c.shared.db, key)
	if typed {
		return errorf("ERR key %q belongs to a typed map, which holds no collections", key)
	}
	return err
}

// put sets a value. A deadline that has passed leaves the key without an entry, and the zero Time is
// none.
func (c *call) put(key, value []byte, deadline time.Time) error {
	if err := fitsRedis(value); err != nil {
		return err
	}
	switch {
	case deadline.IsZero():
		return c.raw.Set(key, value)
	case deadline.After(c.now()):
		err := c.raw.SetUntil(key, value, deadline)
		if err == nil || deadline.After(c.now()) {
			return err
		}
	}
	_, err := c.raw.Delete(key)
	return err
}

// rewrite sets a value and leaves its deadline, in a transaction.
func (c *call) rewrite(key, value []byte, existed bool) error {
	var at time.Time
	if existed {
		var err error
		if at, err = c.raw.Deadline(key); err != nil {
			return err
		}
	}
	return c.put(key, value, at)
}

// look calls f with the value of a key, which is f's until it returns; nil without one.
func (c *call) look(key []byte, f func(value []byte)) error {
	err := c.raw.View(key, func(value []byte) error {
		if value == nil { // a key that exists
			value = []byte{}
		}
		f(value)
		return nil
	})
	c.count(err == nil)
	if missing(err) {
		f(nil)
		return nil
	}
	return err
}

// bulks replies an array of strings.
func (c *call) bulks(list [][]byte) {
	c.Array(len(list))
	for _, value := range list {
		if c.Bulk(value); c.Err() != nil {
			return
		}
	}
}

// collected are the values of a sequence, which the command has for its work.
func collected(c *call, of iter.Seq[[]byte]) (list [][]byte) {
	for value := range steps(c, of) {
		list = append(list, value)
		c.uses(len(value) + entryBytes)
	}
	return list
}

// lengthOf is the length of the value of a key. It reads no large value, unless that is shown in another form than the
// stored one.
func lengthOf(c *call, key []byte) (n int64, err error) {
	shown := c.typed || opened.DriverOf(c.shared.db) != nil
	if !shown {
		found := func(e *copaladmin.Found) error {
			n, shown = max(e.Large, int64(len(e.Value))), e.IsRendered(c.shared.db)
			return nil
		}
		if c.tx != nil {
			err = copaladmin.Look(c.tx, key, found)
		} else {
			err = copaladmin.Look(c.shared.db, key, found)
		}
	}
	if shown {
		err = c.raw.View(key, func(value []byte) error {
			n = int64(len(value))
			return nil
		})
	}
	return n, err
}

// store is what the command reads and writes outside of transactions.
func (c *call) store() *copal.Raw {
	if !c.typed {
		return c.direct
	}
	return c.conn.TypedStore()
}

// mayReadFrom returns an error where the client may not read all keys of its database with a prefix.
func (c *call) mayReadFrom(prefix []byte) error {
	if !c.grant.Load().MayRead(c.rawKey(prefix)) {
		return errNoPermission
	}
	return nil
}

// open returns the error of a store that is closed, which walks and counts do not tell.
func (c *call) open() error {
	if _, err := c.raw.Deadline(nil); !missing(err) {
		return err
	}
	return nil
}

// alone returns an error in a cluster, whose only database is 0. It names what needs others.
func (c *call) alone(what string) error {
	if c.shared.cluster {
		return errorf("ERR %s in cluster mode", what)
	}
	return nil
}

// whole is the error of a command, or else its reply's.
func (c *call) whole(err error) error {
	if err == nil {
		err = c.Err()
	}
	return err
}

// lost is the error of the reply of a command that has run without a transaction.
//
//go:noinline
func (c *call) lost() error {
	if c.cmd.flags&write != 0 {
		c.conn.CutOff(c.Err())
	}
	return c.Err()
}

// debugging is an error unless the server has DEBUG.
func (c *call) debugging() error {
	if c.shared.debug {
		return nil
	}
	return errorf("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.")
}
