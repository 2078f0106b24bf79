package strangers

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/copaldb/copal/internal/sparing"
)

// Lot has places for strangers. Where all are taken, a new stranger gets the place of one of the address with most: of
// the one that has been a stranger for longest.
type Lot struct {
	mu     sync.Mutex
	free   int
	places map[netip.Prefix][]*Place // by origin, in the order in which they came
}

// New returns a lot with so many places.
func New(places int) *Lot { return &Lot{free: places, places: map[netip.Prefix][]*Place{}} }

// Place is the place of a stranger.
type Place struct {
	lot    *Lot
	origin netip.Prefix
	end    func()
	left   bool // guarded by lot.mu
}

// Enter gives a stranger a place, and closes another's connection by its end if all are taken. end
// closes this one's for a later stranger, and is called at most once, with no lock held.
func (l *Lot) Enter(remote net.Addr, end func()) *Place {
	p := &Place{lot: l, origin: sparing.Origin(remote.String()), end: end}
	if last := l.enter(p); last != nil {
		last.end()
	}
	return p
}

func (l *Lot) enter(p *Place) (last *Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == 0 {
		most := p.origin
		for origin, list := range l.places {
			if len(list) > len(l.places[most]) {
				most = origin
			}
		}
		last = l.places[most][0]
		last.leaveLocked()
	}
	l.free--
	l.places[p.origin] = append(l.places[p.origin], p)
	return last
}

// Leave gives the place back: the connection is closed, or its client is known. It reports whether the place was there.
func (p *Place) Leave() bool {
	p.lot.mu.Lock()
	defer p.lot.mu.Unlock()
	return p.leaveLocked()
}

func (p *Place) leaveLocked() bool {
	if p.left {
		return false
	}
	p.left = true
	list := p.lot.places[p.origin]
	for i, other := range list {
		if other == p {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if p.lot.places[p.origin] = list; len(list) == 0 {
		delete(p.lot.places, p.origin)
	}
	p.lot.free++
	return true
}

type knownKey struct{}

// With returns the context of a connection. Its known takes the connection from the strangers to a user.
func With(ctx context.Context, known func(user string) error) context.Context {
	return context.WithValue(ctx, knownKey{}, known)
}

// Known reports that the client of a connection is known, as a user. Its error is one of With's known, nil in other
// contexts.
func Known(ctx context.Context, user string) error {
	known, ok := ctx.Value(knownKey{}).(func(string) error)
	if !ok {
		return nil
	}
	return known(user)
}
