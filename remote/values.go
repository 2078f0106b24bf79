package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// Get returns the entry under key.
func (r *redis) Get(ctx context.Context, key []byte, dated bool) (driver.Entry, error) {
	e, err := r.ask(ctx, key, dated)
	if r.inside == nil {
		r.near.read(key, &e, err)
	}
	return e, err
}

func (r *redis) ask(ctx context.Context, key []byte, dated bool) (driver.Entry, error) {
	if dated && r.schemas != nil {
		return r.getEntry(ctx, key)
	}
	var m rueidis.RedisMessage
	var deadline uint64
	var err error
	if dated {
		m, deadline, err = r.getDated(ctx, key)
	} else {
		m, err = r.get(ctx, read("GET", key))
	}
	switch {
	case err != nil:
		return driver.Entry{}, r.fits(ctx, key, err)
	case m.IsNil():
		return driver.Entry{}, engine.ErrNotFound
	}
	value, schema, err := r.known(ctx, m)
	return driver.Entry{Key: append([]byte{}, key...), Value: value, Schema: schema, Deadline: deadline}, err
}

// getDated reads a value and its deadline. Another write may come between the two, but then the value is another,
// too, or is the same with this deadline: a Write that depends on it is right either way.
func (r *redis) getDated(ctx context.Context, key []byte) (m rueidis.RedisMessage, deadline uint64, err error) {
	replies, deadline, _, err := r.dated(ctx, key, read("GET", key))
	if err != nil {
		return m, 0, err
	}
	m, err = message(replies[0])
	return m, deadline, err
}

// dated sends commands about a key and asks for its deadline after them, again if the clock of the
// server ticked meanwhile. If it always does, the deadline is later by the time between two
// commands.
func (r *redis) dated(ctx context.Context, key []byte, list ...command) (replies []rueidis.RedisResult, deadline uint64, exists bool, err error) {
	for range mostTicks {
		if replies, err = r.reads(ctx, slices.Concat(list, r.whenDead(key))); err != nil {
			return nil, 0, false, err
		}
		var ticked bool
		if deadline, exists, ticked, err = r.deadline(replies[len(list):]); !ticked {
			break
		}
	}
	return replies, deadline, exists, err
}

const mostTicks = 100

// whenDead returns the commands that ask for the deadline of a key. Servers before 7.0 return only
// its remaining time, by their own clock, which did not tick between two equal answers.
func (r *redis) whenDead(key []byte) []command {
	if r.has.expireTime {
		return []command{read("PEXPIRETIME", key)}
	}
	return []command{read("PTTL", key), ask("TIME"), read("PTTL", key)}
}

// reads sends commands about one key. Those without a key must reach the same node.
func (r *redis) reads(ctx context.Context, list []command) (replies []rueidis.RedisResult, err error) {
	if r.has.expireTime || !r.isCluster() {
		return r.do(ctx, list...)
	}
	err = r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
		if replies, err = r.onto(on).do(ctx, list...); err == nil {
			_, err = message(replies[0])
		}
		return err
	})
	return replies, err
}

// deadline returns the deadline in the replies of whenDead, whether there is an entry, and whether
// the clock ticked meanwhile.
func (r *redis) deadline(replies []rueidis.RedisResult) (deadline uint64, exists, ticked bool, err error) {
	list, err := messages(replies)
	if err != nil {
		return 0, false, false, err
	}
	n, err := whole(list[0])
	switch {
	case err != nil || n == -2:
		return 0, false, false, err
	case n < 0:
		return 0, true, false, nil
	case r.has.expireTime:
		return uint64(n), true, false, nil
	}
	now, err := list[1].AsIntSlice()
	if err != nil || len(now) != 2 {
		return 0, false, false, errAnswer
	}
	again, err := whole(list[2])
	return uint64(now[0]*1000 + now[1]/1000 + n), true, again != n, err
}

// Has reports whether there is an entry.
func (r *redis) Has(ctx context.Context, key []byte) (bool, error) {
	n, err := r.number(ctx, read("EXISTS", key))
	return n > 0, err
}

// Deadline returns the deadline of an entry.
func (r *redis) Deadline(ctx context.Context, key []byte) (uint64, error) {
	_, deadline, exists, err := r.dated(ctx, key)
	if err == nil && !exists {
		err = engine.ErrNotFound
	}
	return deadline, err
}

// Redate gives an entry another deadline.
func (r *redis) Redate(ctx context.Context, key []byte, deadline uint64, d engine.Durability) error {
	list := []command{write("PEXPIREAT", key, millis(deadline))}
	switch {
	case deadline&driver.FromNow != 0:
		list = []command{write("PEXPIRE", key, millis(deadline&^driver.FromNow))}
	case deadline == 0:
		list = []command{write("PERSIST", key), read("EXISTS", key)} // the first says the same of no entry and no deadline
	}
	replies, err := r.change(ctx, d, list...)
	if err != nil {
		return err
	}
	for _, m := range replies {
		if n, err := whole(m); err != nil || n > 0 {
			return err
		}
	}
	return engine.ErrNotFound
}

// Write writes one entry.
func (r *redis) Write(ctx context.Context, w *driver.Write) (existed bool, err error) {
	var m []rueidis.RedisMessage
	switch {
	case w.If == nil && w.Delete:
		m, err = r.change(ctx, w.Durability, write("DEL", w.Key))
	case w.If == nil:
		_, err = r.change(ctx, w.Durability, write("SET", w.Key, r.setting(w)...))
		return false, err
	case w.If.Key == nil && w.Delete:
		return false, nil
	case w.If.Key == nil:
		m, err = r.change(ctx, w.Durability, write("SET", w.Key, append(r.setting(w), "NX")...))
	case r.inside != nil:
		// Other writers do not change the entries that the session sees; their writes are found at
		// the commit.
		w := *w
		w.If = nil
		return r.Write(ctx, &w)
	default:
		m, err = r.swap(ctx, w)
	}
	switch {
	case err != nil:
		return false, r.fits(ctx, w.Key, err)
	case m[0].IsInt64():
		n, err := whole(m[0])
		if err == nil && n == 0 && w.If != nil {
			err = driver.ErrConflict
		}
		return n > 0, err
	case m[0].IsNil():
		return false, driver.ErrConflict
	}
	return false, nil
}

// setting are the arguments of SET.
func (r *redis) setting(w *driver.Write) []string {
	args := append(make([]string, 0, 4), r.wrap(w.Value, w.Schema)) // with room for IFEQ
	if w.Content != "" && r.schemas != nil {
		args = append(args, "CONTENT", w.Content)
	}
	switch {
	case w.If != nil && w.If.Key != nil && w.Deadline == w.If.Deadline:
		return append(args, "KEEPTTL") // it is the same, or has become another since
	case w.Deadline&driver.FromNow != 0:
		return append(args, "PX", millis(w.Deadline&^driver.FromNow))
	case w.Deadline != 0:
		return append(args, "PXAT", millis(w.Deadline))
	}
	return args
}

// swap writes an entry if the key still has the value that was read. Its first reply is null or 0 if not.
func (r *redis) swap(ctx context.Context, w *driver.Write) ([]rueidis.RedisMessage, error) {
	was := r.wrap(w.If.Value, w.If.Schema)
	switch {
	case !w.Delete && r.has.setIf:
		return r.change(ctx, w.Durability, write("SET", w.Key, append(r.setting(w), "IFEQ", was)...))
	case w.Delete && r.has.deleteIf:
		return r.change(ctx, w.Durability, write("DELIFEQ", w.Key, was))
	case w.Delete && r.has.deleteEx:
		return r.change(ctx, w.Durability, write("DELEX", w.Key, "IFEQ", was))
	case r.has.scripts:
		args := []string{was}
		if !w.Delete {
			args = append(args, r.setting(w)...)
		}
		return r.run(ctx, w.Durability, swapScript, w.Key, args)
	}
	return r.watched(ctx, w.Durability, [][]byte{w.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		m, err := r.get(ctx, read("GET", w.Key))
		if err != nil {
			return nil, err
		}
		if now, err := m.ToString(); m.IsNil() || err != nil || now != was {
			return nil, driver.ErrConflict
		}
		if w.Delete {
			return []command{write("DEL", w.Key)}, nil
		}
		return []command{write("SET", w.Key, r.setting(w)...)}, nil
	})
}

// swapScript writes a value, or deletes it, if it has not changed.
var swapScript = newScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] then redis.call('SET', KEYS[1], unpack(ARGV, 2)) else redis.call('DEL', KEYS[1]) end
return 1`)

// WriteAll writes entries together. In a cluster their keys must have one {tag}, or happen to have one slot.
func (r *redis) WriteAll(ctx context.Context, writes []*driver.Write) error {
	if len(writes) == 0 {
		return nil
	}
	list := make([]command, len(writes))
	d := engine.Process
	for i, w := range writes {
		if list[i] = write("SET", w.Key, r.setting(w)...); w.Delete {
			list[i] = write("DEL", w.Key)
		}
		if w.Durability == engine.Power {
			d = engine.Power
		}
	}
	if err := r.oneSlot(list); err != nil {
		return err
	}
	if r.inside != nil {
		_, err := r.change(ctx, d, list...)
		return err
	}
	_, err := r.atOnce(ctx, d, list)
	return err
}

// oneSlot returns an error for commands that one node of a cluster need not be able to carry out.
func (r *redis) oneSlot(list []command) error {
	if !r.isCluster() {
		return nil
	}
	first := r.slot(list[0].key)
	for i := range list {
		if r.slot(list[i].key) != first {
			return errSlots
		}
	}
	return nil
}

var errSlots = fmt.Errorf("copal: keys of a cluster that are written together must have one {tag}: %w", errors.ErrUnsupported)

func (r *redis) slot(key string) uint16 {
	c := r.client.B().Arbitrary("GET").Keys(key).Build()
	return c.Slot()
}
