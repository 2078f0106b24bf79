package redisapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/server"
)

// Server serves one store. The fields are settings, which must not change once it serves; DB is the
// only one that is needed.
type Server struct {
	DB *copal.DB

	// Access has the users. A client shows that it is one of them by AUTH or HELLO with a token. If
	// Access is nil, every client may do everything.
	Access *access.Users

	// Durability is the durability of writes on a connection that has not set one by CLIENT
	// DURABILITY. The zero Durability is copal.Write.
	Durability copal.Durability

	MaxClients  int           // connections at a time; 0 is 10,000
	MaxRequest  int64         // bytes of one request; 0 is 1 GiB
	AuthTimeout time.Duration // in which a client has to show a token, where there are users; 0 is 10 seconds, less no bound
	IdleTimeout time.Duration // after which a connection is closed that sends nothing, or does not read; 0 is never
	Debug       bool          // the command DEBUG works

	// SessionTimeout is the time for which a connection may send nothing after COPAL.BEGIN. Then it
	// is closed, and its transaction is rolled back. Until a transaction ends, the store keeps the
	// data of its view, in memory and in old files. 0 is five minutes; a negative value is no
	// limit.
	SessionTimeout time.Duration

	// ClusterAddress is the host and port by which clients reach the server as a cluster of one
	// shard, for libraries that know nothing but clusters. Such a server has database 0 alone. Empty
	// is no cluster.
	ClusterAddress string

	// ClientMemory bounds the memory of all connections for requests, replies, and the work of
	// commands, in bytes. When it is used up, the server closes the largest connection of the user
	// with the most memory. 0 is 1 GiB.
	ClientMemory int64

	// OutputBuffer is the number of bytes of replies that may wait for a connection that does not
	// read. A connection with more is closed. 0 is 256 MiB.
	OutputBuffer int64

	Logger *slog.Logger // receives the events of connections; nil discards them

	connections
	statistics
	news
	once       sync.Once
	mu         sync.Mutex
	shared     command.Shared // with the calls of clients
	memory     *budget.Budget
	buffers    sync.Pool // of *lent
	waiting    waiting
	pausing    pausing
	senders    sync.WaitGroup // goroutines that send messages, compact, or end a pause
	kept       keptSettings
	compacting atomic.Bool // BGREWRITEAOF
	cancel     context.CancelFunc
	leaving    context.Context // ends when the shutdown begins
	leave      context.CancelFunc
}

// connections has the listeners and the clients of a server.
type connections struct {
	ids      atomic.Int64 // of clients
	closing  bool
	farewell time.Time      // when clients that have not read their replies are closed; set once, before they end
	running  sync.WaitGroup // goroutines of clients
	serving  map[net.Listener]struct{}
	clients  map[int64]*client
	visitors *visitors    // nil if the server has no users
	refusing atomic.Int32 // connections that get the reply now that there are too many
}

// table has all commands. Some of their functions look at it.
var table *command.Table

// ErrServerClosed is returned by Server.Serve after Shutdown.
var ErrServerClosed = errors.New("redisapi: the server is closed")

// Serve serves db at a TCP address, such as "127.0.0.1:6379", until ctx is done. Then commands that
// run are carried out and answered, connections are closed, and Serve returns nil. db stays open.
func Serve(ctx context.Context, db *copal.DB, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := &Server{DB: db}
	return s.Run(ctx, l)
}

// Run serves the connections of a listener, such as one of crypto/tls or of a unix socket, until ctx
// is done, and then shuts the server down. A server may have several listeners.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { s.Shutdown(context.WithoutCancel(ctx)) })
	defer stop()
	err := s.Serve(l)
	if errors.Is(err, ErrServerClosed) && ctx.Err() != nil {
		return s.Shutdown(context.WithoutCancel(ctx)) // which returns when the last client is gone
	}
	return err
}

func (s *Server) init() {
	s.once.Do(func() {
		if s.Durability == 0 {
			s.Durability = copal.Write
		}
		if s.MaxClients == 0 {
			s.MaxClients = 10_000
		}
		if s.MaxRequest == 0 {
			s.MaxRequest = 1 << 30
		}
		if s.ClientMemory == 0 {
			s.ClientMemory = mostMemory
		}
		if s.OutputBuffer == 0 {
			s.OutputBuffer = mostOutput
		}
		s.memory = budget.New(s.ClientMemory)
		if s.Logger == nil {
			s.Logger = slog.New(slog.DiscardHandler)
		}
		if s.AuthTimeout == 0 {
			s.AuthTimeout = authTime
		}
		if s.SessionTimeout == 0 {
			s.SessionTimeout = 5 * time.Minute
		}
		if s.Access != nil {
			s.visitors = newVisitors(s.MaxClients)
		}
		s.shared.Publish = s.eventOfKey
		s.shared.DB, s.shared.Table, s.shared.Started, s.shared.ClusterAddress, s.shared.Debug = s.DB, table, time.Now(), s.ClusterAddress, s.Debug
		s.lastSave.Store(s.shared.Started.Unix())
		s.figures = make([]figures, len(table.Numbered))
		s.slow.threshold.Store(10_000)
		s.slow.limit(128)
		s.shared.Context, s.cancel = context.WithCancel(context.Background())
		s.leaving, s.leave = context.WithCancel(s.shared.Context)
		var random [20]byte
		rand.Read(random[:])
		s.shared.ID = hex.EncodeToString(random[:])
		s.buffers.New = func() any { return &lent{in: make([]byte, 0, readBytes), out: make([]byte, 0, readBytes)} }
		s.serving, s.clients = map[net.Listener]struct{}{}, map[int64]*client{}
	})
}

// Serve accepts connections from l until it fails, or until Shutdown: then the error is
// ErrServerClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if s.ClusterAddress != "" {
		if _, _, err := server.SplitAddress(s.ClusterAddress); err != nil {
			return fmt.Errorf("redisapi: %w", err)
		}
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.serving[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.serving, l)
		s.mu.Unlock()
	}()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(nc)
			continue
		case s.isClosing():
			return ErrServerClosed
		}
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.ENOBUFS) {
			return fmt.Errorf("accepting connections: %w", err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.Logger.Warn("a connection cannot be accepted", "error", err, "pause", pause)
		time.Sleep(pause)
	}
}

// endAll ends the goroutines that do not belong to clients.
func (s *Server) endAll() {
	s.cancel()
	s.feed.stop()
	s.senders.Wait()
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// mostRefusing is the number of connections that are refused with an error at the same time. Each
// has a descriptor meanwhile, which the store may need; more are closed without a reply.
const mostRefusing = 8

// accept begins to serve a connection, or refuses it.
func (s *Server) accept(nc net.Conn) {
	c := s.admit(nc)
	if c == nil {
		return
	}
	c.receive()
	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		delete(s.clients, c.id)
		s.mu.Unlock()
	}()
}

// admit returns a client for a connection, nil for one that it has refused.
func (s *Server) admit(nc net.Conn) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		go nc.Close()
		return nil
	case len(s.clients) >= s.MaxClients && s.visitors == nil:
		s.counts.rejected.Add(1)
		if s.refusing.Add(1) > mostRefusing {
			s.refusing.Add(-1)
			go nc.Close()
			return nil
		}
		go func() { // by TLS it takes the client's words, too
			defer s.refusing.Add(-1)
			nc.SetDeadline(time.Now().Add(time.Second))
			nc.Write([]byte("-" + errMaxClients + "\r\n"))
			nc.Close()
		}()
		return nil
	}
	s.counts.connections.Add(1)
	c := newClient(s, nc, s.ids.Add(1))
	s.clients[c.id] = c
	s.running.Add(1)
	return c
}

// Shutdown closes the listeners, lets each client finish the requests that have arrived, and closes
// the connections. Requests that CLIENT PAUSE holds back are not carried out. A client that has not read its replies
// ten seconds later is closed, too. When ctx is done before that, it closes them at once, and returns the error of ctx;
// a command that runs still ends by itself then. The store stays open.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	s.leave()
	s.mu.Lock()
	if !s.closing {
		s.closing, s.farewell = true, time.Now().Add(farewellTime)
	}
	for l := range s.serving {
		l.Close()
	}
	for _, c := range s.clients {
		c.end()
	}
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		s.endAll()
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for _, c := range s.clients {
		c.cut()
	}
	s.mu.Unlock()
	s.cancel()
	s.feed.stop()
	return ctx.Err()
}
