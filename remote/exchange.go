package remote

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/engine"
)

// A change of one element that depends on the element alone is one command, which compares it: so
// it shares connections, and a write of another element does not undo it. Without such a command it
// watches the key, on a connection of its own.

// exchange makes an edit if its element is still was or, if that is the zero Element, still missing.
// Otherwise the error is ErrConflict.
func (r *redis) exchange(ctx context.Context, of driver.Of, was, next *driver.Element, d engine.Durability) error {
	swaps := of.Type == engine.HashType && r.schemas != nil // only a copal serve has them
	switch {
	case r.inside != nil || !swaps && !r.has.scripts:
		return r.fits(ctx, of.Key, r.exchangeWatched(ctx, of, was, next, d))
	case was.Sub == nil && next.Delete:
		return nil
	}
	var replies []rueidis.RedisMessage
	var err error
	if swaps {
		replies, err = r.change(ctx, d, r.swapField(of, was, next))
	} else {
		replies, err = r.run(ctx, d, exchangeScripts[of.Type], of.Key, r.exchangeArgs(of, was, next))
	}
	if err != nil {
		return r.fits(ctx, of.Key, err)
	}
	if n, err := whole(replies[0]); err != nil || n > 0 {
		return err
	}
	return driver.ErrConflict
}

// swapField is the command of copal for an exchange.
func (r *redis) swapField(of driver.Of, was, next *driver.Element) command {
	c := write("COPAL.SWAP", of.Key, string(next.Sub))
	if was.Sub != nil {
		c.args = append(c.args, "IFEQ", r.wrap(was.Value, was.Schema))
	}
	if !next.Delete {
		c.args = append(c.args, "SET", r.wrap(next.Value, next.Schema))
	}
	return c
}

// script is a script and the hash by which a server knows it.
type script struct{ text, hash string }

func newScript(text string) script { return script{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))} }

// exchangeScripts compare an element with the third argument if the second is 1, and else want it
// missing. They set it to the fourth, or delete it.
var exchangeScripts = map[engine.CollectionType]script{
	engine.HashType: newScript(`local was = ARGV[2] == '1' and ARGV[3]
if redis.call('HGET', KEYS[1], ARGV[1]) ~= was then return 0 end
if ARGV[4] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[4]) else redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1`),
	engine.SortedSetType: newScript(`local now = redis.call('ZSCORE', KEYS[1], ARGV[1])
if now then now = tonumber(now) end
local was = ARGV[2] == '1' and tonumber(ARGV[3])
if now ~= was then return 0 end
if ARGV[4] then redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
return 1`),
	engine.SetType: newScript(`local was = ARGV[2] == '1'
if (redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1) ~= was then return 0 end
if ARGV[4] then redis.call('SADD', KEYS[1], ARGV[1]) else redis.call('SREM', KEYS[1], ARGV[1]) end
return 1`),
}

func (r *redis) exchangeArgs(of driver.Of, was, next *driver.Element) []string {
	value := func(e *driver.Element) string {
		switch of.Type {
		case engine.HashType:
			return r.wrap(e.Value, e.Schema)
		case engine.SortedSetType:
			return score(e.Score)
		}
		return ""
	}
	args := []string{string(next.Sub), "0", ""}
	if was.Sub != nil {
		args[1], args[2] = "1", value(was)
	}
	if !next.Delete {
		args = append(args, value(next))
	}
	return args
}

// run has the server run a script about a key. The script is sent whole to a server that does not
// know it by its hash.
func (r *redis) run(ctx context.Context, d engine.Durability, s script, key []byte, args []string) ([]rueidis.RedisMessage, error) {
	call := command{name: "EVALSHA", words: []string{s.hash, "1"}, keyed: true, key: string(key), args: args}
	m, err := r.change(ctx, d, call)
	if refused(err, "NOSCRIPT", "NOPERM") { // a user may have the right to the other alone
		call.name, call.words = "EVAL", []string{s.text, "1"}
		m, err = r.change(ctx, d, call)
	}
	return m, err
}

// exchangeWatched is exchange by watching the key.
func (r *redis) exchangeWatched(ctx context.Context, of driver.Of, was, next *driver.Element, d engine.Durability) error {
	list, _ := r.edits(of, []driver.Element{*next})
	_, err := r.watched(ctx, d, [][]byte{of.Key}, func(ctx context.Context, r *redis) ([]command, error) {
		now, err := r.Element(ctx, of, next.Sub)
		if missing(err) != nil {
			return nil, err
		}
		if (now.Sub == nil) != (was.Sub == nil) || !bytes.Equal(now.Value, was.Value) || now.Schema != was.Schema || now.Score != was.Score {
			return nil, driver.ErrConflict
		}
		return list, nil
	})
	return err
}
