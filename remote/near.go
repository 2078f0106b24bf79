package remote

import (
	"bytes"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
)

// near caches entries that maps have read. The server remembers the keys that this client reads,
// and reports their changes (CLIENT TRACKING): then they are dropped. They are also dropped when
// this process writes them, before the command is sent and when its answer has come, because the
// report may come after that answer. When a connection ends, there are no reports any more, and all
// entries are dropped.
//
// A report may overtake the reply that it makes outdated. Each shard counts its drops, and a reply
// is kept only if nothing was dropped since it was asked for.
//
// Some servers change keys without a report: by SWAPDB, or when a node of a cluster loses a slot
// that it still has keys of, or is cut off from the others and not from this client. So all entries
// are also dropped every now and then.
type near struct {
	most   int // bytes of a shard
	now    func() time.Time
	closed chan struct{}
	seed   maphash.Seed
	shards [64]nearShard
}

type nearShard struct {
	mu        sync.Mutex
	forgotten uint64 // raised when a key of the shard may have changed
	entries   map[string]*nearEntry
	bytes     int
}

// nearEntry is a cached entry. It does not change, except for the value that a map has decoded.
type nearEntry struct {
	driver.Entry
	decoded atomic.Value
}

// nearCost estimates the memory of an entry in addition to its bytes.
const nearCost = 256

// size estimates the memory of an entry: its key, its value, the same decoded, and the rest.
func (e *nearEntry) size() int { return len(e.Key) + 2*len(e.Value) + nearCost }

func newNear(bytes int) *near {
	n := &near{now: time.Now, seed: maphash.MakeSeed(), closed: make(chan struct{})}
	n.most = bytes / len(n.shards)
	for i := range n.shards {
		n.shards[i].entries = map[string]*nearEntry{}
	}
	tick := time.NewTicker(nearAge)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-n.closed:
				return
			case <-tick.C:
				n.forgetAll()
			}
		}
	}()
	return n
}

// nearAge is the longest time for which an entry is cached. It is a variable for tests.
var nearAge = time.Minute

// close ends the forgetting. It is called once.
func (n *near) close() {
	if n != nil {
		close(n.closed)
	}
}

func (n *near) shard(key []byte) *nearShard {
	return &n.shards[maphash.Bytes(n.seed, key)%uint64(len(n.shards))]
}

// find returns the cached entry, nil for none, and the count of drops for keep.
func (n *near) find(key []byte) (e *nearEntry, forgotten uint64) {
	sh := n.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e = sh.entries[string(key)]
	if e != nil && e.Deadline != 0 && n.now().UnixMilli() >= int64(e.Deadline) {
		sh.dropLocked(string(key))
		e = nil
	}
	return e, sh.forgotten
}

// keep caches an entry that was read, if nothing was dropped since find, and makes room for it.
func (n *near) keep(key []byte, forgotten uint64, read driver.Entry) *nearEntry {
	e := &nearEntry{Entry: read}
	sh := n.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.forgotten != forgotten || e.size() > n.most || sh.entries[string(key)] != nil { // which may be newer
		return nil
	}
	for other := range sh.entries { // which come in no order
		if sh.bytes+e.size() <= n.most {
			break
		}
		sh.dropLocked(other)
	}
	sh.entries[string(key)] = e
	sh.bytes += e.size()
	return e
}

func (sh *nearShard) dropLocked(key string) {
	if e := sh.entries[key]; e != nil {
		delete(sh.entries, key)
		sh.bytes -= e.size()
	}
}

func (n *near) forget(key string) {
	sh := n.shard([]byte(key))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.forgotten++
	sh.dropLocked(key)
}

func (n *near) forgetAll() {
	for i := range n.shards {
		sh := &n.shards[i]
		sh.mu.Lock()
		sh.forgotten++
		clear(sh.entries)
		sh.bytes = 0
		sh.mu.Unlock()
	}
}

// changed drops the entries of a change from Watch, before it is yielded: its connection may be
// ahead of the others.
func (n *near) changed(c *driver.Change) {
	switch {
	case n == nil || c.Idle:
	case c.Range || c.Dropped || c.From != nil:
		n.forgetAll()
	default:
		n.forget(string(c.Key))
	}
}

// read forgets an entry that is another one by now, as a read shows that has asked the server.
func (n *near) read(key []byte, now *driver.Entry, err error) {
	if n == nil {
		return
	}
	sh := n.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[string(key)]; e != nil && (err != nil || e.Schema != now.Schema || !bytes.Equal(e.Value, now.Value)) {
		sh.forgotten++
		sh.dropLocked(string(key))
	}
}

// told is called by the client with the keys that have changed, nil for any.
func (n *near) told(keys []rueidis.RedisMessage) {
	if keys == nil {
		n.forgetAll()
	}
	for i := range keys {
		key, err := keys[i].ToString()
		if err != nil {
			n.forgetAll()
			return
		}
		n.forget(key)
	}
}

// written drops the entries that commands change.
func (n *near) written(list []command) {
	if n == nil {
		return
	}
	for i := range list {
		switch c := &list[i]; {
		case c.reads:
		case changesAny[c.name]:
			n.forgetAll()
		case c.keyed:
			n.forget(c.key)
		}
	}
}

// changesAny are the commands that change keys which they do not name, or name as an argument.
var changesAny = map[string]bool{"RENAME": true, "COPAL.DELRANGE": true, "COPAL.COMMIT": true}

// GetKept returns the entry under key, perhaps from the cache.
func (r *redis) GetKept(ctx context.Context, key []byte) (driver.Entry, *atomic.Value, error) {
	if r.near == nil || r.inside != nil {
		e, err := r.Get(ctx, key, false)
		return e, nil, err
	}
	if r.closed.Load() {
		return driver.Entry{}, nil, copal.ErrClosed
	}
	kept, forgotten := r.near.find(key)
	if kept == nil {
		e, err := r.ask(ctx, key, true)
		if err == nil && e.Deadline != 0 {
			_, err = r.Time(ctx) // for find
		}
		if err != nil {
			return e, nil, err
		}
		if kept = r.near.keep(key, forgotten, e); kept == nil {
			return e, nil, nil
		}
	}
	return kept.Entry, &kept.decoded, nil
}

var _ driver.Caching = (*redis)(nil)
