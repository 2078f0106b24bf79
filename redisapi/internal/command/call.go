package command

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/internal/turns"
	"github.com/copaldb/copal/redisapi/internal/events"
)

// Call is a command that runs. The function of its row writes one reply, or returns an error before it has written
// anything, to the reply or to the store.
type Call struct {
	resp.Reply // to the requests that have arrived and have no reply yet
	Conn       Connection
	Shared     *Shared
	Database   atomic.Int32                 // the database of the connection; others read it
	Grant      atomic.Pointer[access.Grant] // of the connection, nil before it has given a token; others read it
	Direct     *copal.Raw                   // the store
	shaped     *copal.Raw                   // the store with values in the typed form; nil before it was needed
	Account    *budget.Account
	Work       atomic.Int64 // bytes of scratch that the account is charged with; others read it
	InPlace    bool         // it runs for a client that waits, on the goroutine of another
	Closing    bool         // the connection ends after this reply

	Row   *Row
	Args  [][]byte   // with the name, or names, of the command
	Store *copal.Raw // the store, or the transaction in which the command runs
	Tx    *copal.Tx  // in which it runs, nil for none

	Typed bool // values are in the typed form
	notes

	// After has the work outside of the store once the transaction has committed; the command runs again until then.
	After []func()

	scratch int64         // bytes that it has for its work
	reading int64         // of them, for the largest value that it has read
	left    int           // steps until GoOn looks again
	counted int           // bytes of c.Buf that GoOn has counted
	looked  time.Duration // since the server began: when GoOn last looked at the connection, 0 for not yet
	gone    time.Duration // when the client was found to have gone, 0 for one that is there
	Turn    turns.Turn
	tries   int // of its transaction

	Taken     []byte                   // for Take
	taking    func(value []byte) error // appends a value to Taken
	ReplyBulk func(value []byte) error // replies a value
}

// Shared is the part of a server that its calls use.
type Shared struct {
	DB             *copal.DB
	Context        context.Context // ends with the server
	Started        time.Time
	ID             string // 40 digits that name the server
	ClusterAddress string // of a cluster of one shard; "" for none
	Debug          bool   // the command DEBUG works
	Table          *Table
	Schemas        Schemas
	Events         events.Log
	Publish        func(e *events.Event, seq uint64) // sends the messages of an event
	cursors        userCursors

	_            [64]byte     // the fields above are read by each command, those below are written
	Hits, Misses atomic.Int64 // of keys that were read
	_            [64]byte
}

// Connection is the connection of a call, as far as commands need it.
type Connection interface {
	IsSecure() bool                // it has TLS
	IsKilled() bool                // it carries nothing out any more
	HasEnded() bool                // the client has closed its end
	Held() *copal.Tx               // the transaction of COPAL.BEGIN, nil for none
	CutOff(err error)              // closes it, as no reply describes the work of the command
	Wrote()                        // the client has asked for a write
	AreAwaited(keys [][]byte) bool // by clients that wait
	Await(kind string, keys [][]byte, most time.Duration) error
	LendBatch() *copal.Batch // an empty one, or nil; the caller keeps it until KeepBatch
	KeepBatch(b *copal.Batch)
}

// Forget gives back the memory of a long request.
func (c *Call) Forget() {
	c.Args = nil
	if cap(c.Taken) > KeptBytes {
		c.Taken = nil
	}
}

// Execute runs the command as its row says.
func (c *Call) Execute() (err error) {
	if len(c.Args) > manyArguments {
		c.Uses(len(c.Args) * EntryBytes) // for lists and maps of them
	}
	if c.left--; c.left < 0 && !c.InPlace {
		c.left = StepsOf
		c.Turn.Look(c.Shared.Context)
	}
	c.After, c.looked, c.gone = c.After[:0], 0, 0
	c.beginNotes()
	before, noted := len(c.Buf), len(c.notes.list)
	c.counted = before
	switch held := c.held(); {
	case held != nil:
		if err = c.RunIn(held, before); err != nil && c.Row.Flags&Write != 0 && stopsWork(err) {
			c.Conn.CutOff(err) // which rolls back the writes of the command
		}
	case c.Row.How == Looking:
		err = c.Shared.DB.View(func(tx *copal.Tx) error { return c.RunIn(tx, before) })
	case c.Row.How == Changing, c.notes.on&^events.Miss != 0 && c.Row.Flags&(Write|NoMulti|Blocking) == Write && !c.Row.Keys.None():
		err = c.Update(func(tx *copal.Tx) error { return c.RunIn(tx, before) })
	default:
		c.Store, c.Tx = c.Base(), nil
		c.noteKeys()
		if err = c.Row.Run(c); err == nil && c.Err() != nil {
			err = c.lost()
		}
	}
	c.used()
	c.left -= (len(c.Buf) - c.counted) / stepBytes
	if err != nil {
		c.Cut(before) // a transaction may fail in the end, too
		c.notes.list = c.notes.list[:min(noted, len(c.notes.list))]
		return err
	}
	c.publishMisses(noted)
	for _, f := range c.After {
		f()
	}
	return nil
}

// held returns the transaction of COPAL.BEGIN for a command that reads or writes entries.
func (c *Call) held() *copal.Tx {
	if c.Row.Flags&(Write|ReadOnly) == 0 {
		return nil
	}
	return c.Conn.Held()
}

// Update runs f in a transaction that writes, and again until it counts. Each time it begins with the reply, and with
// the work for afterwards, as they were.
func (c *Call) Update(f func(tx *copal.Tx) error) (err error) {
	before := len(c.Buf)
	committed := false
	defer func() {
		c.tries = 0
		c.settleNotes(committed)
	}()
	err = c.Shared.DB.Update(func(tx *copal.Tx) error {
		c.settleNotes(false)
		c.notes.list, c.notes.unnamed = nil, false
		c.tries++
		c.After = c.After[:0]
		c.Cut(before)
		err := f(tx)
		if err == nil {
			c.openNotes(tx)
		}
		return err
	})
	committed = err == nil
	return err
}

// RunIn runs the command in a transaction, which may not be the first that tries.
func (c *Call) RunIn(tx *copal.Tx, before int) error {
	c.Store, c.Tx = c.Base().In(tx), tx
	c.Cut(before)
	noted := len(c.notes.list)
	c.noteKeys()
	err := c.Whole(c.Row.Run(c))
	if err != nil {
		c.Cut(before)
		c.notes.list = c.notes.list[:noted]
	}
	return err
}

// Later has f called once the transaction of the call has committed, and at once where there is none.
func (c *Call) Later(f func()) {
	if c.Tx == nil {
		f()
	} else {
		c.After = append(c.After, f)
	}
}

// TypeNames has the names of Redis for the types of Raw.Type.
var TypeNames = map[string]string{"value": "string", "hash": "hash", "list": "list", "set": "set", "zset": "zset", "stream": "stream"}

// Exists reports whether there is an entry under key, which is an error if its type is another.
func (c *Call) Exists(key []byte, kind string) (bool, error) {
	switch found, err := c.Store.Type(key); {
	case IsMissing(err):
		return false, nil
	case err != nil:
		return false, err
	case found != kind:
		return false, ErrWrongType
	}
	return true, nil
}

// Take reads the value of a key, which stays until the next call of take. A key without one has
// none, and ok is false.
func (c *Call) Take(key []byte) (value []byte, ok bool, err error) {
	if c.taking == nil {
		c.taking = func(value []byte) error {
			if n := len(c.Taken) + len(value); n > max(KeptBytes, cap(c.Taken)) {
				if c.Uses(n - cap(c.Taken)); c.Err() != nil {
					return c.Err()
				}
			}
			c.Taken = append(c.Taken, value...)
			return nil
		}
	}
	c.Taken = c.Taken[:0]
	switch err := c.Store.View(key, c.taking); {
	case err == nil:
		return c.Taken, true, nil
	case IsMissing(err):
		return nil, false, nil
	default:
		return nil, false, err
	}
}

// Count notes for INFO whether a key that was to be read is there.
func (c *Call) Count(found bool) {
	if found {
		c.Shared.Hits.Add(1)
	} else {
		c.Shared.Misses.Add(1)
	}
}

// Now is the time to which deadlines relate.
func (c *Call) Now() time.Time { return time.Now() }

// MaxString is the longest value of a string, as in Redis.
const MaxString = 512 << 20

// Atomically runs f in the transaction of the call, or in one of its own.
func (c *Call) Atomically(f func() error) error {
	if c.Tx != nil {
		return f()
	}
	defer func() { c.Store, c.Tx = c.Base(), nil }()
	return c.Update(func(tx *copal.Tx) error {
		c.Store, c.Tx = c.Base().In(tx), tx
		c.noteKeys()
		return c.Whole(f())
	})
}

// AtOneMoment is atomically for a command that may only read.
func (c *Call) AtOneMoment(f func() error) error {
	if c.Row.Flags&Write != 0 || c.Tx != nil {
		return c.Atomically(f)
	}
	defer func() { c.Store, c.Tx = c.Base(), nil }()
	return c.Shared.DB.View(func(tx *copal.Tx) error {
		c.Store, c.Tx = c.Base().In(tx), tx
		return f()
	})
}

// FitsRedis returns an error for a value that is longer than Redis would have it.
func FitsRedis(value []byte) error {
	if len(value) > MaxString {
		return ErrTooLong
	}
	return nil
}

// MayHoldCollection returns an error for a key of a typed map that has values: it would not read a collection.
func (c *Call) MayHoldCollection(key []byte) error {
	typed, err := copaladmin.IsTyped(c.Shared.DB, key)
	if typed {
		return Errorf("ERR key %q belongs to a typed map, which holds no collections", key)
	}
	return err
}

// Put sets a value. A deadline that has passed leaves the key without an entry, and the zero Time is
// none.
func (c *Call) Put(key, value []byte, deadline time.Time) error {
	if err := FitsRedis(value); err != nil {
		return err
	}
	switch {
	case deadline.IsZero():
		return c.Store.Set(key, value)
	case deadline.After(c.Now()):
		err := c.Store.SetUntil(key, value, deadline)
		if err == nil || deadline.After(c.Now()) {
			return err
		}
	}
	_, err := c.Store.Delete(key)
	return err
}

// IfChanged returns a function for Update. An entry that f reports as unchanged is not written: no record, event or
// message comes of it, and no WATCH ends. Every command that computes a value from the present one uses it.
func IfChanged[V any](c *Call, f func(e *copal.Entry[V]) (changed bool, err error)) func(e *copal.Entry[V]) error {
	return func(e *copal.Entry[V]) error {
		changed, err := f(e)
		if c.notes.same = err == nil && e.Exists && !changed; c.notes.same {
			e.Cancel()
		}
		return err
	}
}

// Rewrite sets a value, unless it is equal to the present one, and leaves its deadline.
func (c *Call) Rewrite(key, value []byte) error {
	_, _, err := c.Store.Update(key, IfChanged(c, func(e *copal.Entry[[]byte]) (bool, error) {
		changed := !bytes.Equal(e.Value, value)
		e.Value = value
		return changed, FitsRedis(value)
	}))
	return err
}

// Look calls f with the value of a key, which is f's until it returns; nil without one.
func (c *Call) Look(key []byte, f func(value []byte)) error {
	err := c.Store.View(key, func(value []byte) error {
		if value == nil { // a key that exists
			value = []byte{}
		}
		f(value)
		return nil
	})
	c.Count(err == nil)
	if IsMissing(err) {
		f(nil)
		return nil
	}
	return err
}

// Bulks replies an array of strings.
func (c *Call) Bulks(list [][]byte) {
	c.Array(len(list))
	for _, value := range list {
		if c.Bulk(value); c.Err() != nil {
			return
		}
	}
}

// Collected are the values of a sequence, which the command has for its work.
func Collected(c *Call, of iter.Seq[[]byte]) (list [][]byte) {
	for value := range Steps(c, of) {
		list = append(list, value)
		c.Uses(len(value) + EntryBytes)
	}
	return list
}

// Entry calls f with the entry under key, as copal/admin.Look does.
func (c *Call) Entry(key []byte, f func(e *copaladmin.Found) error) error {
	if c.Tx != nil {
		return copaladmin.Look(c.Tx, key, f)
	}
	return copaladmin.Look(c.Shared.DB, key, f)
}

// LengthOf is the length of the value of a key. It reads no large value, unless that is shown in another form than the
// stored one.
func LengthOf(c *Call, key []byte) (n int64, err error) {
	shown := c.Typed
	if !shown {
		err = c.Entry(key, func(e *copaladmin.Found) error {
			n, shown = max(e.Large, int64(len(e.Value))), e.IsRendered(c.Shared.DB)
			return nil
		})
		shown = shown || errors.Is(err, errors.ErrUnsupported) // of a store on another machine
	}
	if shown {
		err = c.Store.View(key, func(value []byte) error {
			n = int64(len(value))
			return nil
		})
	}
	return n, err
}

// Base returns the store for commands outside of transactions.
func (c *Call) Base() *copal.Raw {
	if !c.Typed {
		return c.Direct
	}
	return c.typedStore()
}

// MayReadFrom returns an error where the client may not read all keys of its database with a prefix.
func (c *Call) MayReadFrom(prefix []byte) error {
	if !c.Grant.Load().MayRead(c.RawKey(prefix)) {
		return ErrNoPermission
	}
	return nil
}

// CheckOpen returns the error of a store that is closed, which walks and counts do not report.
func (c *Call) CheckOpen() error {
	if _, err := c.Store.Deadline(nil); !IsMissing(err) {
		return err
	}
	return nil
}

// Alone returns an error in a cluster, whose only database is 0. The text names the command that needs others.
func (c *Call) Alone(what string) error {
	if c.Shared.ClusterAddress != "" {
		return Errorf("ERR %s in cluster mode", what)
	}
	return nil
}

// Whole is the error of a command, or else its reply's.
func (c *Call) Whole(err error) error {
	if err == nil {
		err = c.Err()
	}
	return err
}

// lost is the error of the reply of a command that has run without a transaction.
//
//go:noinline
func (c *Call) lost() error {
	if c.Row.Flags&Write != 0 {
		c.Conn.CutOff(c.Err())
	}
	return c.Err()
}

// Debugging is an error unless the server has DEBUG.
func (c *Call) Debugging() error {
	if c.Shared.Debug {
		return nil
	}
	return Errorf("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.")
}
