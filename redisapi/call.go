package redisapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/internal/turns"
)

// call is a command that runs. Its method for a command writes one reply, or returns an error before
// it has written anything, to the reply or to the store.
type call struct {
	*client
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

// forget gives back what a long request has taken.
func (c *call) forget() {
	c.args = nil
	if cap(c.taken) > keptBytes {
		c.taken = nil
	}
}

// replyError is an error of a request in the words of Redis. It begins with its code.
type replyError string

func (e replyError) Error() string { return string(e) }

func errorf(format string, args ...any) error { return replyError(fmt.Sprintf(format, args...)) }

// The errors of Redis that several commands have.
const (
	errSyntax    replyError = "ERR syntax error"
	errNotInt    replyError = "ERR value is not an integer or out of range"
	errNotFloat  replyError = "ERR value is not a valid float"
	errNaN       replyError = "ERR increment would produce NaN or Infinity"
	errOverflow  replyError = "ERR increment or decrement would overflow"
	errRange     replyError = "ERR value is out of range"
	errPositive  replyError = "ERR value is out of range, must be positive"
	errOutside   replyError = "ERR index out of range"
	errNoKey     replyError = "ERR no such key"
	errWrongType replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errTooLong   replyError = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errSame      replyError = "ERR source and destination objects are the same"
	errDB        replyError = "ERR DB index is out of range"
)

// dispatch carries out a request, and replies.
func (c *client) dispatch(args [][]byte) {
	c.s.counts.commands.Add(1)
	c.from = len(c.Buf)
	cmd, err := find(args)
	if c.call.typed = err == nil && cmd.inner != nil; c.call.typed {
		args = args[1:]
		cmd, err = cmd.inner(args)
	}
	if err == nil {
		err = c.carryOut(cmd, args)
		c.leave()
	} else if c.queue != nil {
		c.queue.bad = true
	}
	if err != nil {
		c.fail(err)
	}
	if c.Err() != nil {
		c.cutOff(c.Err()) // not even the error has found room
		c.Cut(c.from)
	}
	if c.silent() {
		c.Cut(c.from)
		c.silence.tookBack = true
	}
	queued := int64(0)
	if c.queue != nil {
		queued = int64(len(c.queue.list)) + 1
	}
	if c.queued.Load() != queued {
		c.queued.Store(queued)
	}
	c.silence.skips = c.silence.skipsNext
	c.silence.skipsNext = false
}

func (c *client) carryOut(cmd *command, args [][]byte) error {
	switch g := c.grant.Load(); {
	case g.Revoked().Err() == nil:
	case g != nil:
		c.closing = true
		return c.reject(cmd, replyError("NOAUTH The user has other rights now."))
	case cmd.flags&noAuth == 0:
		return c.reject(cmd, replyError("NOAUTH Authentication required."))
	}
	if err := c.mayRun(cmd); err != nil {
		return c.reject(cmd, err)
	}
	if s := c.session.Load(); s != nil {
		if err := s.takes(c, cmd, args); err != nil {
			return c.reject(cmd, err)
		}
	}
	args, ok := c.enter(cmd, args)
	if !ok {
		return nil
	}
	if c.listens() {
		c.hold()
	}
	call := &c.call
	if c.queue != nil && cmd.flags&atOnce == 0 {
		call.cmd, call.args = cmd, c.inside(cmd, args)
		err := call.mayDo()
		if err == nil && call.typed {
			err = call.judgeValues() // within EXEC the others would be carried out
		}
		if err != nil {
			c.queue.bad = true
			return c.reject(cmd, err)
		}
		return c.enqueue(cmd, args)
	}
	if cmd.flags&write != 0 && c.session.Load() == nil {
		c.wrote()
	}
	began := c.clock
	if began.IsZero() {
		began = time.Now()
	}
	c.ran.Store(cmd)
	c.seen.Store(began.UnixNano())
	exec := cmd.name == "exec"
	if !exec {
		c.show(cmd, args)
	}
	raw := c.inside(cmd, args)
	call.cmd, call.args = cmd, raw
	if err := call.judgeKeys(); err != nil {
		return c.reject(cmd, err)
	}
	caching := c.caching
	if c.tracks {
		c.track(cmd, args)
	}
	c.missed = false
	err := call.execute()
	if exec { // behind what it has carried out
		c.show(cmd, args)
	}
	if caching && cmd.name != "multi" && (cmd.parent == nil || cmd.parent.name != "client") {
		c.caching = false
	}
	if call.args == nil {
		args, raw = nil, nil // the command has waited, and they are gone
	}
	c.clock = time.Now()
	c.note(cmd, args, began, c.clock, err != nil)
	if args != nil && err == nil {
		c.s.serve(c.s.changed(nil, cmd, raw))
	}
	if args != nil && c.missed && c.s.notified()&notifyMiss != 0 {
		c.s.missedKeys(cmd, raw)
	}
	return err
}

// reject counts a command that is not carried out.
func (c *client) reject(cmd *command, err error) error {
	c.s.figures[cmd.number].rejected.Add(1)
	return err
}

// makesCollections are the families whose commands write collections.
var makesCollections = map[string]bool{"hash": true, "list": true, "set": true, "sorted-set": true, "geo": true, "stream": true}

// judgeKeys returns an error for keys that the user may not have, or the store does not take, before anything is
// written.
func (c *call) judgeKeys() error {
	err := c.mayDo()
	if c.cmd.flags&write == 0 {
		return err
	}
	c.cmd.keys.each(c.args, func(i int) {
		switch key := c.args[i]; {
		case err != nil:
		case len(key) > copal.MaxKeyBytes:
			err = errorf("ERR a key is longer than %d bytes", copal.MaxKeyBytes)
		case makesCollections[c.cmd.group]:
			err = c.mayHoldCollection(key)
		}
	})
	if err == nil && c.typed {
		err = c.judgeValues()
	}
	return err
}

// execute runs the command as its row says.
func (c *call) execute() (err error) {
	if len(c.args) > manyArguments {
		c.uses(len(c.args) * entryBytes) // for lists and maps of them
	}
	if c.left--; c.left < 0 && c.inPlaceOf == nil {
		c.left = stepsOf
		c.turn.Look(c.s.ctx)
	}
	c.after, c.looked, c.gone = c.after[:0], 0, 0
	before := len(c.Buf)
	c.counted = before
	switch s := c.session.Load(); {
	case s != nil && c.cmd.flags&(write|readonly) != 0:
		if err = c.in(s.tx, before); err != nil && c.cmd.flags&write != 0 && stopsWork(err) {
			c.cutOff(err) // which rolls back what the command may have written by half
		}
	case c.cmd.how == looking:
		err = c.s.DB.View(func(tx *copal.Tx) error { return c.in(tx, before) })
	case c.cmd.how == changing:
		err = c.update(func(tx *copal.Tx) error { return c.in(tx, before) })
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
	return c.s.DB.Update(func(tx *copal.Tx) error {
		c.tries++
		c.after = c.after[:0]
		c.Cut(before)
		return f(tx)
	})
}

// in runs the command in a transaction, which may not be the first that tries.
func (c *call) in(tx *copal.Tx, before int) error {
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

// fail replies an error.
func (c *client) fail(err error) {
	text := errorText(err)
	c.s.counts.errors.Add(1)
	c.s.errorCounts.count(text)
	c.Error(text)
}

// errorText is what Redis calls an error.
func errorText(err error) string {
	var own replyError
	var misfit *copaladmin.MisfitError
	switch {
	case errors.As(err, &own):
		return string(own)
	case errors.As(err, &misfit):
		return "ERR " + err.Error()
	case errors.Is(err, copal.ErrType):
		return string(errWrongType)
	case err == copal.ErrReadOnly:
		return "READONLY You can't write against a read only replica."
	case errors.Is(err, copal.ErrReadOnly): // after a failure, as Redis answers where its disk fails
		return "MISCONF " + err.Error()
	case errors.Is(err, copal.ErrClosed):
		return "ERR the store is closed"
	case errors.Is(err, copal.ErrHistoryLost):
		return "HISTORYLOST " + err.Error()
	}
	return "ERR " + err.Error()
}

// missing reports whether there is no entry.
func missing(err error) bool { return errors.Is(err, copal.ErrNotFound) }

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
func (c *client) count(found bool) {
	if found {
		c.s.counts.hits.Add(1)
	} else {
		c.missed = true
		c.s.counts.misses.Add(1)
	}
}

// What arguments say.

func parseInt(arg []byte) (int64, error) {
	if n, ok := resp.ParseInt(arg); ok {
		return n, nil
	}
	return 0, errNotInt
}

// clamped is a number of elements as an int, at most more than a collection has, so that sums do not overflow.
func clamped(n int64) int { return int(min(max(n, -1<<30), 1<<30)) }

// parseFloat reads a floating-point number, which may be written as infinite, and is no NaN. A number outside the range
// of float64 is an error: it would become infinite, or 0.
func parseFloat(arg []byte) (float64, error) {
	f, inRange, err := parseWide(arg)
	if err == nil && !inRange {
		err = errNotFloat
	}
	return f, err
}

// parseWide is parseFloat that makes infinity or 0 of a number outside the range, and reports whether it is inside.
func parseWide(arg []byte) (f float64, inRange bool, err error) {
	if len(arg) == 0 || arg[0] == ' ' || len(arg) > 512 {
		return 0, false, errNotFloat
	}
	f, err = decimalOrHex(string(arg))
	outside := errors.Is(err, strconv.ErrRange)
	if err != nil && !outside || math.IsNaN(f) || hasUnderscore(arg) {
		return 0, false, errNotFloat
	}
	return f, !outside && (f != 0 || !hasDigits(arg)), nil
}

// hasDigits reports whether the number that a text of 0 or next to it writes is another than 0.
func hasDigits(text []byte) bool {
	exponent := "eE"
	if isHex(string(text)) {
		exponent = "pP"
	}
	if i := bytes.IndexAny(text, exponent); i >= 0 {
		text = text[:i]
	}
	return bytes.ContainsAny(text, "123456789abcdefABCDEF")
}

// decimalOrHex reads a number as C does, of which the hexadecimal ones may have no exponent.
func decimalOrHex(text string) (float64, error) {
	if isHex(text) && !strings.ContainsAny(text, "pP") {
		text += "p0"
	}
	return strconv.ParseFloat(text, 64)
}

func isHex(text string) bool { return strings.ContainsAny(text, "xX") }

func hasUnderscore(arg []byte) bool {
	for _, b := range arg {
		if b == '_' {
			return true
		}
	}
	return false
}

// is reports whether an argument is a word, which is given in capitals.
func is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// now is the time to which deadlines relate.
func (c *call) now() time.Time { return time.Now() }
