package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// command is a command to send. It owns its bytes, because a call that ends with its context leaves
// them with the client.
type command struct {
	name  string
	words []string // before the key
	keyed bool
	key   string
	args  []string
	reads bool // and changes nothing, so it may be sent twice

	blocks bool // until something happens, for as long as the context lets it
}

// read is a command about a key that changes nothing, and write is one that may.
func read(name string, key []byte, args ...string) command {
	return command{name: name, keyed: true, key: string(key), args: args, reads: true}
}

func write(name string, key []byte, args ...string) command {
	return command{name: name, keyed: true, key: string(key), args: args}
}

// plain is a command about no key.
func plain(name string, args ...string) command { return command{name: name, args: args} }

// ask is plain, and changes nothing.
func ask(name string, args ...string) command { return command{name: name, args: args, reads: true} }

// valued are the commands that carry values, as arguments or in their replies.
var valued = map[string]bool{
	"GET": true, "SET": true, "DELIFEQ": true, "DELEX": true, "HGET": true, "HSET": true, "HSCAN": true, "COPAL.SWAP": true, "LINDEX": true,
	"LRANGE": true, "LSET": true, "LINSERT": true, "LPUSH": true, "RPUSH": true,
}

func (c *command) build(on rueidis.CommandClient, typed bool) rueidis.Completed {
	name := []string{"COPAL.TYPED", c.name}
	if !typed || !valued[c.name] {
		name = name[1:]
	}
	b := on.B().Arbitrary(name...).Args(c.words...)
	if c.keyed {
		b = b.Keys(c.key)
	}
	b = b.Args(c.args...)
	switch {
	case c.reads:
		return b.ReadOnly()
	case c.blocks:
		return b.Blocking()
	}
	return b.Build()
}

// redis is a driver for each server that speaks the protocol of Redis, and for clusters of them.
type redis struct {
	*link
	on      rueidis.CommandClient // the shared connections, or one
	schemas *schemas              // unless nil, values have the typed form of copal
	inside  *session              // unless nil: commands count together when that commits
}

// onto is the driver on one connection.
func (r *redis) onto(on rueidis.CommandClient) *redis {
	n := *r
	n.on = on
	return &n
}

// do sends commands in one piece, and returns the replies; an error reply is among them as one.
func (r *redis) do(ctx context.Context, list ...command) ([]rueidis.RedisResult, error) {
	replies, err := r.sendAll(ctx, list)
	if err != nil || r.schemas == nil {
		return replies, err
	}
	// The store may lack a schema that it had, because it is another one: a restored copy. The
	// command was refused, so it may be sent again, unless others in the list were carried out. A
	// transaction starts again (together).
	if refused(replies[0].Error(), "NOSCHEMA") && !slices.ContainsFunc(list[1:], func(c command) bool { return !c.blocks }) {
		if err := r.schemas.declareAll(ctx); err != nil {
			return nil, err
		}
		return r.sendAll(ctx, list)
	}
	return replies, nil
}

var errNoCommand = fmt.Errorf("copal: there is no command for this with a collection of this type: %w", errors.ErrUnsupported)

// sendAll is do, once.
func (r *redis) sendAll(ctx context.Context, list []command) ([]rueidis.RedisResult, error) {
	if s := r.inside; s != nil {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.ended {
			return nil, s.after
		}
	}
	wrote := false
	for i := range list {
		if list[i].name == "" {
			return nil, errNoCommand
		}
		wrote = wrote || !list[i].reads && !list[i].blocks && r.inside == nil
	}
	if wrote {
		r.near.written(list)
		defer r.near.written(list)
	}
	c := call{link: r.link, on: r.on, typed: r.schemas != nil, wrote: wrote, list: list}
	return c.send(ctx)
}

// message is a reply, null too. An error reply is an error.
func message(reply rueidis.RedisResult) (rueidis.RedisMessage, error) {
	m, err := reply.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return m, refusal(err)
	}
	return m, nil
}

// get sends one command that changes nothing.
func (r *redis) get(ctx context.Context, c command) (rueidis.RedisMessage, error) {
	replies, err := r.do(ctx, c)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return message(replies[0])
}

// number is get of a number.
func (r *redis) number(ctx context.Context, c command) (int64, error) {
	m, err := r.get(ctx, c)
	if err != nil {
		return 0, err
	}
	return whole(m)
}

func whole(m rueidis.RedisMessage) (int64, error) {
	n, err := m.AsInt64()
	if err != nil {
		return 0, refusal(err)
	}
	return n, nil
}

// change sends commands that change something, one after the other, and waits until the change is as durable as d says.
// The error says which was refused first.
func (r *redis) change(ctx context.Context, d engine.Durability, list ...command) (replies []rueidis.RedisMessage, err error) {
	if d != engine.Power || r.inside != nil {
		results, err := r.do(ctx, list...)
		if err != nil {
			return nil, err
		}
		return messages(results)
	}
	if len(list) > 1 {
		return r.atOnce(ctx, d, list) // as one, because a node of a cluster may refuse a part of them, and alone starts again
	}
	if err := r.has.noFSync; err != nil {
		return nil, err
	}
	err = r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
		results, err := r.onto(on).do(ctx, list[0], waitForDisk(ctx))
		if err != nil {
			return err
		}
		if replies, err = messages(results[:1]); err != nil {
			return err
		}
		return onDisk(results[1])
	})
	return replies, err
}

func messages(results []rueidis.RedisResult) (list []rueidis.RedisMessage, err error) {
	list = make([]rueidis.RedisMessage, len(results))
	for i := range results {
		if list[i], err = message(results[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// watched makes a change that depends on the entries of keys. plan reads them, with the driver that
// it is given, and returns the commands of the change, none for no change. They are carried out
// together, and only if the keys were not written meanwhile; otherwise plan is called again.
func (r *redis) watched(ctx context.Context, d engine.Durability, keys [][]byte, plan func(context.Context, *redis) ([]command, error)) (replies []rueidis.RedisMessage, err error) {
	if r.inside != nil {
		list, err := plan(ctx, r)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return r.change(ctx, d, list...)
	}
	if d == engine.Power && r.has.noFSync != nil {
		return nil, r.has.noFSync
	}
	watch := command{name: "WATCH", keyed: true, key: string(keys[0]), reads: true}
	for _, key := range keys[1:] {
		watch.args = append(watch.args, string(key))
	}
	err = r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
		one, declared := r.onto(on), false
		for range mostConflicts {
			if _, err := one.get(ctx, watch); err != nil {
				return err
			}
			list, err := plan(ctx, one)
			if err != nil || len(list) == 0 {
				if _, failed := one.get(ctx, ask("UNWATCH")); failed != nil {
					return failed
				}
				return err
			}
			var done bool
			replies, done, err = one.together(ctx, d, list)
			if unknown := new(undeclared); errors.As(err, unknown) && !declared {
				declared = true // now, and the command was refused
				continue
			}
			if err != nil || done {
				return err
			}
		}
		return errBusy
	})
	return replies, err
}

// atOnce carries out commands about one node as one.
func (r *redis) atOnce(ctx context.Context, d engine.Durability, list []command) (replies []rueidis.RedisMessage, err error) {
	if d == engine.Power && r.has.noFSync != nil {
		return nil, r.has.noFSync
	}
	err = r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
		one, done := r.onto(on), false
		replies, done, err = one.together(ctx, d, list)
		if unknown := new(undeclared); errors.As(err, unknown) {
			replies, done, err = one.together(ctx, d, list)
		}
		if err == nil && !done { // although nothing is watched
			err = errAnswer
		}
		return err
	})
	return replies, err
}

// undeclared is the refusal of commands whose values have a schema that the store did not know, and does now, unless
// the caller does not know it either.
type undeclared struct{ error }

func (e undeclared) Unwrap() error { return e.error }

// mostConflicts is the number of tries of watched.
const mostConflicts = 10_000

var errBusy = fmt.Errorf("%w: the change of a collection was given up after %d tries: another write came first each time", engine.ErrNested, mostConflicts)

// together carries out commands as one, on a connection of its own. It reports false if the
// connection watches a key that was written: then nothing was done.
func (r *redis) together(ctx context.Context, d engine.Durability, list []command) (replies []rueidis.RedisMessage, done bool, err error) {
	all := append(append([]command{plain("MULTI")}, list...), plain("EXEC"))
	if d == engine.Power {
		all = append(all, waitForDisk(ctx))
	}
	results, err := r.do(ctx, all...)
	if err != nil {
		return nil, false, err
	}
	if _, err := messages(results[:len(list)+1]); err != nil {
		if r.schemas != nil && refused(err, "NOSCHEMA") {
			err = cmp.Or(r.schemas.declareAll(ctx), error(undeclared{err}))
		}
		return nil, false, err
	}
	executed, err := message(results[len(list)+1])
	if err != nil || executed.IsNil() {
		return nil, false, err
	}
	if replies, err = executed.ToArray(); err != nil {
		return nil, false, refusal(err)
	}
	for i := range replies {
		if err := replies[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, false, refusal(err)
		}
	}
	if d == engine.Power {
		err = onDisk(results[len(results)-1])
	}
	return replies, true, err
}

// wrap returns a value in the form in which it is sent: the typed form, if the server has that.
func (r *redis) wrap(value []byte, schema uint64) string {
	if r.schemas == nil {
		return string(value)
	}
	var text strings.Builder
	text.Grow(8 + len(value))
	var name [8]byte
	binary.BigEndian.PutUint64(name[:], schema)
	text.Write(name[:])
	text.Write(value)
	return text.String()
}

// unwrap is the way back. The bytes are the caller's.
func (r *redis) unwrap(text string) (value []byte, schema uint64, err error) {
	value = append(make([]byte, 0, len(text)), text...)
	if r.schemas == nil {
		return value, 0, nil
	}
	if len(value) < 8 {
		return nil, 0, errors.New("copal: the server has sent a value without the name of its schema")
	}
	return value[8:], binary.BigEndian.Uint64(value), nil
}

// unwrapMessage is unwrap of a reply.
func (r *redis) unwrapMessage(m rueidis.RedisMessage) (value []byte, schema uint64, err error) {
	text, err := m.ToString()
	if err != nil {
		return nil, 0, refusal(err)
	}
	return r.unwrap(text)
}

// millis is a deadline as an argument. Servers take those of the next 200 million years.
func millis(deadline uint64) string {
	return strconv.FormatUint(min(deadline, math.MaxInt64>>1), 10)
}

func itoa(n int) string { return strconv.Itoa(n) }

var (
	_ driver.Driver  = (*redis)(nil)
	_ driver.Whole   = (*redis)(nil)
	_ driver.Clocked = (*redis)(nil)
)
