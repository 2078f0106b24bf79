package command

import (
	"bytes"
	"math/rand/v2"
	"sync"
)

// How many places of walks the server remembers of each user, and how many bytes they may have.
const (
	MaxCursors     = 1 << 14
	maxCursorBytes = 16 << 20
)

// userCursors are the cursors of each user, so that the walks of one do not end those of another.
type userCursors struct {
	mu sync.Mutex
	of map[string]*cursors
}

func (u *userCursors) user(name string) *cursors {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]*cursors{}
	}
	if u.of[name] == nil {
		u.of[name] = &cursors{}
	}
	return u.of[name]
}

// cursors are where the walks of a user are.
type cursors struct {
	mu    sync.Mutex
	next  uint64
	last  uint64 // the oldest that is known
	bytes int
	at    map[uint64]walkPlace
}

// walkPlace is the place of a walk, and its name.
type walkPlace struct {
	of string
	at []byte
}

// Give returns a number for a place.
func (k *cursors) Give(of string, at []byte) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil {
		k.at = map[uint64]walkPlace{}
		k.next = 1<<32 + uint64(rand.Uint32()) // so that none of an earlier server is taken for one of this
		k.last = k.next + 1
	}
	k.next++
	k.at[k.next] = walkPlace{of, bytes.Clone(at)}
	k.bytes += len(of) + len(at)
	for k.next-k.last >= MaxCursors || k.bytes > maxCursorBytes {
		k.bytes -= len(k.at[k.last].of) + len(k.at[k.last].at)
		delete(k.at, k.last)
		k.last++
	}
	return k.next
}

// Find is the place of a number, if that is of the same walk.
func (k *cursors) Find(of string, n uint64) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.at[n]
	return p.at, ok && p.of == of
}

func (c *Call) Cursors() *cursors { return c.Shared.cursors.user(c.Grant.Load().Name()) }
