package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal/httpapi"
	"github.com/copaldb/copal/redisapi"
)

// The limits of HTTP. A client has patience for each piece of a body, as long as that comes or is taken.
const (
	headerPatience = 10 * time.Second
	bodyPatience   = 30 * time.Second
	keepAlive      = 2 * time.Minute
	longestHeld    = 16 << 20  // of bodies that are held in memory
	longestHeader  = 256 << 10 // a key of 64 KiB may stand in the path, with three characters for each byte
)

// web serves HTTP.
type web struct {
	server http.Server
	admin  http.Server
	end    context.CancelFunc // of streams, which have no end of their own
	slots  chan struct{}      // one for each connection
}

func newWeb(door *redisapi.Server, s *serving, token string, logger *slog.Logger) *web {
	w := &web{slots: make(chan struct{}, s.maxClients)}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	options := []httpapi.Option{httpapi.WithDurability(door.Durability), httpapi.WithMaxValue(int64(s.maxRequest)),
		httpapi.WithMaxBody(min(int64(s.maxRequest), longestHeld)),
		httpapi.WithLogger(logger), httpapi.WithContext(ctx), httpapi.WithPatience(bodyPatience), httpapi.WithMetrics(door.WriteMetrics), httpapi.WithMetrics(processMetrics)}
	if door.Access != nil {
		options = append(options, httpapi.WithAccess(door.Access))
	}
	if host, _, err := net.SplitHostPort(s.http); door.Access == nil && (err != nil || isLoopback(host)) {
		options = append(options, httpapi.LocalNames())
	}
	if s.clientMemory > 0 {
		options = append(options, httpapi.WithMaxMemory(int64(s.clientMemory)))
	}
	if s.accessLog {
		options = append(options, httpapi.WithAccessLog(logger))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	handler := httpapi.Handler(door.DB, options...)
	w.admin = http.Server{Handler: administration(handler, token), ReadHeaderTimeout: headerPatience, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	w.server = http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: headerPatience, WriteTimeout: bodyPatience,
		IdleTimeout: keepAlive, MaxHeaderBytes: longestHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	if s.idle > 0 {
		w.server.IdleTimeout = s.idle
	}
	return w
}

// serve serves the connections of a listener until shutdown.
func (w *web) serve(l net.Listener) error { return w.server.Serve(l) }

// shutdown ends the streams, lets requests that run end, and closes all connections when ctx is done.
func (w *web) shutdown(ctx context.Context) error {
	w.end()
	err := w.server.Shutdown(ctx)
	if err != nil {
		w.server.Close()
	}
	w.admin.Close() // a profile may take for ever
	return err
}

// limited has as many connections at a time as there are slots, and turns others away.
type limited struct {
	net.Listener
	slots    chan struct{}
	refusing atomic.Int32 // connections that are told so now
}

// mostRefusing is how many are told at a time. Each has a descriptor meanwhile, which the store may need; more are
// closed without a word.
const mostRefusing = 8

// turnedAway is the answer to those for whom there is none.
var turnedAway = func() []byte {
	body := `{"type":"` + httpapi.Page + `#unavailable","title":"The server cannot do this now","status":503,"detail":"the server has as many connections as it takes: --max-clients, or 8 of --admin"}` + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}()

// Accept returns the next connection that has a slot.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotted{Conn: c, slots: l.slots}, nil
		default:
			if l.refusing.Add(1) > mostRefusing {
				l.refusing.Add(-1)
				c.Close()
				continue
			}
			go func() { // by TLS it takes the client's words, too
				defer l.refusing.Add(-1)
				c.SetDeadline(time.Now().Add(time.Second))
				c.Write(turnedAway)
				c.Close()
			}()
		}
	}
}

// slotted is a connection that has a slot until it is closed.
type slotted struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
