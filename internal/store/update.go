package store

import (
	"bytes"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/copaldb/copal/internal/record"
)

// An update reads an entry, lets a function decide, and commits the decision if the
// entry is still the one that was read; else it begins again. The function runs
// without any lock, so it may use the store and may panic.
//
// After the first conflict the key has a queue: those who update it then do so one at
// a time, and only plain writes can still come between. Whoever is at the head of a queue
// never waits in another, which an update within an update would do; so no circle of
// waiting can close.
//
// A write to the key from within its own update would be a conflict for ever. It
// succeeds the first time, when nobody looks; the second time the goroutine is known,
// and the write is refused and the update given up, both with ErrNested.

// ErrNested is a write to a key from within its own update.
var ErrNested = errors.New("copal: a write to the key that is being updated")

// Decision is what an update makes of an entry.
type Decision int

const (
	Keep   Decision = iota // leave it as it is
	Put                    // store the value
	Remove                 // delete it
)

// Change is the outcome of the function of an update.
type Change struct {
	Decision
	Value  []byte
	Schema uint64
}

// Update applies decide to the entry of key, atomically. decide gets nil when there is
// none; it may be called several times, and the last call counts. Its error ends the update.
func (s *Store) Update(t *Table, key []byte, d Durability, decide func(*Entry) (Change, error)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := s.updates.allow(key); err != nil {
		return err
	}
	seq, err := s.update(t, key, decide)
	if err != nil || d == Process {
		return err
	}
	return s.log.syncTo(seq)
}

// update returns the number up to which the log must be synced to make the outcome durable.
func (s *Store) update(t *Table, key []byte, decide func(*Entry) (Change, error)) (uint64, error) {
	seq, err := s.tryUpdate(t, key, decide)
	for err == errConflict {
		seq, err = s.queuedUpdate(t, key, decide)
	}
	return seq, err
}

// queuedUpdate tries at the head of the key's queue.
func (s *Store) queuedUpdate(t *Table, key []byte, decide func(*Entry) (Change, error)) (uint64, error) {
	u, leave := s.updates.enter(key)
	defer leave()
	seq, err := s.tryUpdate(t, key, decide)
	if u.nested.Load() {
		return 0, ErrNested
	}
	return seq, err
}

// errConflict says that the entry is not the one that was read.
var errConflict = errors.New("the entry has changed")

func (s *Store) tryUpdate(t *Table, key []byte, decide func(*Entry) (Change, error)) (uint64, error) {
	var entry *Entry
	version := uint64(0)
	switch e, err := s.Get(t, key); {
	case err == nil:
		entry, version = &e, e.Seq
	case err != ErrNotFound:
		return 0, err
	}
	change, err := decide(entry)
	if err != nil {
		return 0, err
	}
	if change.Decision == Keep || change.Decision == Remove && entry == nil {
		return s.log.last(), s.log.failure() // what was seen is to be as durable as what is written
	}
	if err := checkValue(change.Value); err != nil {
		return 0, err
	}
	p := &pending{Head: record.Head{Op: record.Set, Kind: record.Value, Schema: change.Schema}, key: key, value: change.Value}
	if change.Decision == Remove {
		p = &pending{Head: record.Head{Op: record.Delete, Kind: record.Value}, key: key}
	}
	if err := s.appendParts(p); err != nil {
		return 0, err
	}
	seq, _, err := s.commit(t, p, &version)
	return seq, err
}

// updates knows which goroutine updates which key at the head of a queue.
type updates struct {
	mu    sync.Mutex
	freed *sync.Cond // of mu: a key has lost its head
	heads map[string]*update
	n     atomic.Int32 // number of heads, so that a write need not look when there are none
}

// update is a goroutine at work on a key.
type update struct {
	goroutine uint64
	nested    atomic.Bool // it has tried to write the key by other means
}

func (q *updates) init() {
	q.heads = map[string]*update{}
	q.freed = sync.NewCond(&q.mu)
}

// enter waits until this goroutine is the head for key. One that is the head for another key
// does not wait, and is not the head if somebody else is.
func (q *updates) enter(key []byte) (*update, func()) {
	u := &update{goroutine: goroutineID()}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.heads[string(key)] != nil {
		if q.isHeadLocked(u.goroutine) {
			return u, func() {}
		}
		q.freed.Wait()
	}
	q.heads[string(key)] = u
	q.n.Add(1)
	name := string(key)
	return u, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.heads, name)
		q.n.Add(-1)
		q.freed.Broadcast()
	}
}

func (q *updates) isHeadLocked(goroutine uint64) bool {
	for _, u := range q.heads {
		if u.goroutine == goroutine {
			return true
		}
	}
	return false
}

// allow refuses a write to a key that the same goroutine is updating.
func (q *updates) allow(key []byte) error {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.heads[string(key)]
	if u == nil || u.goroutine != goroutineID() {
		return nil
	}
	u.nested.Store(true)
	return ErrNested
}

// goroutineID is the number of this goroutine, which the runtime tells only as text:
// "goroutine 7 [running]: …". It takes a microsecond, and is asked for after a conflict alone.
func goroutineID() uint64 {
	var buf [64]byte
	b := buf[:runtime.Stack(buf[:], false)]
	b = bytes.TrimPrefix(b, []byte("goroutine "))
	n, err := strconv.ParseUint(string(b[:max(bytes.IndexByte(b, ' '), 0)]), 10, 64)
	if err != nil {
		panic("store: the runtime has changed the text of its stack traces")
	}
	return n
}
