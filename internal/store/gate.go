package store

import (
	"sync"
	"sync/atomic"
)

// A gate knows who is inside: whoever looks at the log without holding the lock of a key. It lets
// compaction wait until all those have left who may still hold an address from before, and keeps
// nobody out meanwhile.
//
// There are two rooms, each a lock that is shared by those in it. A newcomer goes into
// the room that the epoch names. A grace period turns the epoch round and then takes the other room's
// lock, once for each room: so it has met everybody who was inside when it began, while
// newcomers are let into the room that it does not wait for. Who finds a room
// being closed goes into the other one, so nobody waits behind a grace period, however long that
// waits for a reader.
//
// To exclude is another matter: that takes both rooms, and who comes then waits.
type gate struct {
	rooms   [2]sync.RWMutex
	epoch   atomic.Uint32
	mu      sync.Mutex  // one closes rooms at a time; taken before rooms
	closing atomic.Bool // both, to exclude
}

// pass is what one gets who enters, and shows who leaves.
type pass uint8

// enter waits only while others are excluded.
func (g *gate) enter() pass {
	for {
		e := g.epoch.Load() & 1
		switch {
		case g.rooms[e].TryRLock():
			return pass(e)
		case g.rooms[1-e].TryRLock():
			return pass(1 - e)
		case g.closing.Load():
			g.rooms[e].RLock()
			return pass(e)
		}
	}
}

func (g *gate) leave(p pass) { g.rooms[p].RUnlock() }

// grace returns when everybody who was inside at the call has left.
func (g *gate) grace() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range g.rooms {
		room := &g.rooms[(g.epoch.Add(1)-1)&1]
		passThrough(room)
	}
}

// passThrough returns when everybody has given back the lock who held it at the call.
func passThrough(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}

// exclude returns when nobody is inside, and keeps everybody out until admit.
func (g *gate) exclude() {
	g.mu.Lock()
	g.closing.Store(true)
	for i := range g.rooms {
		g.rooms[i].Lock()
	}
}

func (g *gate) admit() {
	g.closing.Store(false)
	for i := range g.rooms {
		g.rooms[i].Unlock()
	}
	g.mu.Unlock()
}
