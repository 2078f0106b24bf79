package redisapi

import (
	"time"

	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/sparing"
	"github.com/copaldb/copal/internal/strangers"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// If the server has users, a client without a token is a stranger. Strangers have a limited time to
// name their user, and share a quarter of the connections. When these are taken, a new stranger
// replaces the oldest one of the address with the most. Users share the other connections. When
// these are taken, a connection of the user with the most is closed for another user.

// authTime is the default of Server.AuthTimeout.
const authTime = 10 * time.Second

const errMaxClients command.Error = "ERR max number of clients reached"

// visitors are the connections of strangers and of users, if the server has users.
type visitors struct {
	lot     *strangers.Lot
	seats   *budget.Budget // of connections
	unknown sparing.Log
	outdone sparing.Log
}

func newVisitors(connections int) *visitors {
	ofStrangers := max(connections/4, 1)
	return &visitors{lot: strangers.New(ofStrangers), seats: budget.New(int64(max(connections-ofStrangers, 1)))}
}

// stay is the place of a client among the connections of strangers or of users.
type stay struct {
	place *strangers.Place
	late  *time.Timer     // nil without a bound
	seat  *budget.Account // nil for a stranger
}

// arrive makes the client a stranger, or one of its user, after its grant has changed. It returns
// an error and ends the client if the user has too many connections.
func (c *client) arrive() error {
	v := c.s.visitors
	if v == nil {
		return nil
	}
	if c.Grant.Load() == nil {
		c.depart()
		c.receive()
		return nil
	}
	if c.stay.seat == nil {
		seat := v.seats.Open(c.user(), func() {
			v.outdone.Warn(c.s.Logger, "a connection was closed for another user, as its own has the most", "client", c.id, "address", c.nc.RemoteAddr().String(), "user", c.user())
			c.kill()
		})
		if err := seat.Take(1); err != nil {
			c.Closing = true
			return errMaxClients
		}
		c.depart()
		c.stay.seat = seat
		return nil
	}
	c.stay.seat.Belong(c.user())
	return nil
}

// receive makes the client a stranger.
func (c *client) receive() {
	v := c.s.visitors
	if v == nil {
		return
	}
	place := v.lot.Enter(c.nc.RemoteAddr(), func() { c.dismiss("other strangers have come since, and there are too many") })
	c.stay.place = place
	if t := c.s.AuthTimeout; t > 0 {
		c.stay.late = time.AfterFunc(t, func() {
			if place.Leave() {
				c.dismiss("it has not named its user in time")
			}
		})
	}
}

// depart gives the connection back.
func (c *client) depart() {
	if c.stay.place != nil {
		c.stay.place.Leave()
	}
	if c.stay.late != nil {
		c.stay.late.Stop()
	}
	if c.stay.seat != nil {
		c.stay.seat.Close()
	}
	c.stay = stay{}
}

// dismiss closes the connection of a stranger. Others call it.
func (c *client) dismiss(why string) {
	c.kill()
	c.s.visitors.unknown.Warn(c.s.Logger, "a connection was closed that had shown no token", "why", why, "client", c.id, "address", c.nc.RemoteAddr().String())
}
