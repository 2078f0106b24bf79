package redisapi

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/copaldb/copal/internal/sparing"
)

// A client without a token, where the server has users, is a stranger. Strangers have a time in which to name their
// user, and a part of the connections, so that those who have named themselves keep a place. When the part is full, the
// oldest stranger is closed for a new one: a client that is about to name its user is younger than an attacker that
// holds its connections. The same goes for the part of one address, so that an attacker closes its own connections.

// authTime is the default of Server.AuthTimeout.
const authTime = 10 * time.Second

// stranger is a client in the list of strangers.
type stranger struct {
	*client
	from netip.Prefix
	late *time.Timer // nil without a bound
	at   *list.Element
}

// lobby are the strangers of a server. Server.mu guards it.
type lobby struct {
	list list.List // of *stranger, the oldest first
	by   map[netip.Prefix]int
}

// mostStrangers returns how many connections strangers may have, and those of one address.
func (s *Server) mostStrangers() (all, ofAddress int) {
	all = max(s.MaxClients/2, 1)
	return all, min(max(s.MaxClients/8, 16), all)
}

// receiveLocked takes a stranger in, and returns the one that has to leave for it, if there is one.
// The caller kills it.
func (s *Server) receiveLocked(c *client) (leaves *client) {
	all, ofAddress := s.mostStrangers()
	n := &stranger{client: c, from: sparing.Origin(c.nc.RemoteAddr().String())}
	l := &s.lobby
	switch {
	case l.by[n.from] >= ofAddress:
		leaves = s.dismissLocked(func(other *stranger) bool { return other.from == n.from })
	case l.list.Len() >= all, len(s.clients) >= s.MaxClients:
		leaves = s.dismissLocked(func(*stranger) bool { return true })
	}
	if l.by == nil {
		l.by = map[netip.Prefix]int{}
	}
	l.by[n.from]++
	n.at = l.list.PushBack(n)
	c.stranger = n
	if s.AuthTimeout > 0 {
		n.late = time.AfterFunc(s.AuthTimeout, func() { s.tooLate(n) })
	}
	return leaves
}

// dismissLocked takes the oldest of some strangers out of the server. Its connection counts no longer.
func (s *Server) dismissLocked(of func(*stranger) bool) *client {
	for e := s.lobby.list.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*stranger); of(n) {
			s.leaveLocked(n)
			delete(s.clients, n.id)
			return n.client
		}
	}
	return nil
}

// leaveLocked takes a client out of the strangers. It reports whether it was one.
func (s *Server) leaveLocked(n *stranger) bool {
	if n == nil || n.at == nil {
		return false
	}
	s.lobby.list.Remove(n.at)
	n.at = nil
	if n.late != nil {
		n.late.Stop()
	}
	if s.lobby.by[n.from]--; s.lobby.by[n.from] == 0 {
		delete(s.lobby.by, n.from)
	}
	return true
}

// tooLate closes a client that has not named its user in time.
func (s *Server) tooLate(n *stranger) {
	s.mu.Lock()
	still := s.leaveLocked(n)
	s.mu.Unlock()
	if still {
		s.closeStranger(n.client, "it has not named its user in time")
	}
}

// dismissed closes the stranger that dismissLocked took out, if it did. The caller does not hold s.mu.
func (s *Server) dismissed(c *client) {
	if c != nil {
		s.closeStranger(c, "other strangers have come since, and there are too many")
	}
}

func (s *Server) closeStranger(c *client, why string) {
	c.kill()
	s.unknown.Warn(s.Logger, "a connection was closed that had shown no token", "why", why, "client", c.id, "address", c.nc.RemoteAddr().String())
}

// arrive makes the client a stranger, or one that is known.
func (c *client) arrive(known bool) {
	s := c.s
	if s.Access == nil {
		return
	}
	s.mu.Lock()
	var leaves *client
	if known {
		s.leaveLocked(c.stranger)
	} else if _, here := s.clients[c.id]; here && (c.stranger == nil || c.stranger.at == nil) {
		leaves = s.receiveLocked(c)
	}
	s.mu.Unlock()
	s.dismissed(leaves)
}
