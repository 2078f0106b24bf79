package grace

import (
	"sync"
	"sync/atomic"
)

// Gate knows the goroutines inside: those that look at something that others may take away. It lets
// a caller wait until all have left that may still know it, and keeps nothing out meanwhile.
//
// There are two rooms, each a lock that is shared by those in it. A newcomer goes into the room
// that the epoch names. A grace period turns the epoch and then takes the other room's lock, once
// for each room. So it meets every goroutine that was inside when it began, while newcomers are let
// into the room that it does not wait for. A newcomer that finds a room being closed goes into the
// other one. So nothing waits for a grace period, however long that waits for a reader.
//
// To exclude is another matter: that takes both rooms, and newcomers wait.
type Gate struct {
	rooms   [2]sync.RWMutex
	epoch   atomic.Uint32
	mu      sync.Mutex  // one closes rooms at a time; taken before rooms
	closing atomic.Bool // both, to exclude
}

// Pass is given to a goroutine that enters, and shown when it leaves.
type Pass uint8

// Enter waits only while others are excluded.
func (g *Gate) Enter() Pass {
	for {
		e := g.epoch.Load() & 1
		switch {
		case g.rooms[e].TryRLock():
			return Pass(e)
		case g.rooms[1-e].TryRLock():
			return Pass(1 - e)
		case g.closing.Load():
			g.rooms[e].RLock()
			return Pass(e)
		}
	}
}

// TryEnter is Enter for a caller that must not wait while others are excluded: ok is false then. A
// goroutine that is inside already, and entered again while another excludes, would otherwise wait
// for ever.
func (g *Gate) TryEnter() (p Pass, ok bool) {
	for {
		e := g.epoch.Load() & 1
		switch {
		case g.rooms[e].TryRLock():
			return Pass(e), true
		case g.rooms[1-e].TryRLock():
			return Pass(1 - e), true
		case g.closing.Load():
			return 0, false
		}
	}
}

// Leave gives back the Pass of Enter.
func (g *Gate) Leave(p Pass) { g.rooms[p].RUnlock() }

// Busy reports whether somebody is inside, for tests that wait for that.
func (g *Gate) Busy() bool {
	for i := range g.rooms {
		if !g.rooms[i].TryLock() {
			return true
		}
		g.rooms[i].Unlock()
	}
	return false
}

// Grace returns when everybody who was inside at the call has left.
func (g *Gate) Grace() {
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

// Exclude returns when no goroutine is inside, and keeps all out until Admit.
func (g *Gate) Exclude() {
	g.mu.Lock()
	g.closing.Store(true)
	for i := range g.rooms {
		g.rooms[i].Lock()
	}
}

// Admit ends an Exclude.
func (g *Gate) Admit() {
	g.closing.Store(false)
	for i := range g.rooms {
		g.rooms[i].Unlock()
	}
	g.mu.Unlock()
}
