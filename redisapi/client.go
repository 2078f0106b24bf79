package redisapi

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/resp"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// The buffers of a busy client. One that waits for a request has none.
const (
	readBytes  = 18 << 10 // of the first read of a request: doubled, it has room for a power of two and a head
	replyBytes = 64 << 10 // after which replies are sent although more requests have arrived
)

// lent is the memory of a busy client.
type lent struct {
	in, out []byte
	batch   *copal.Batch // empty; nil before it was needed
}

// client is a connection. Its fields belong to the goroutine that serves it, unless their comments
// name another owner.
type client struct {
	command.Call // the command that runs
	input
	identity
	transacting
	hearing
	tracker
	s      *Server
	nc     net.Conn
	socket waiter

	by       copal.Durability
	stay     stay        // where the server has users
	stays    func() bool // ends waiting for the grant to be revoked; nil without
	silence  silence
	from     int       // the beginning in Buf of the reply to the command that runs
	unsynced bool      // it has written entries that must be on the disk before the reply
	clock    time.Time // when the last of the arrived commands ended, zero for none
	charged  charges

	entered   bool                    // it shares pausing.writing
	inPlaceOf *blocked                // of a client that carries out a command for another
	waits     atomic.Pointer[blocked] // while it waits for a key

	ending atomic.Bool  // the server shuts down
	killed atomic.Bool  // the connection is closed, and carries nothing out any more
	seen   atomic.Int64 // when the last command began, in nanoseconds since 1970
	ran    atomic.Pointer[command.Row]
}

// input is the memory for requests.
type input struct {
	parser resp.Parser
	in     []byte // the bytes that have arrived
	off    int    // of which this has been read
	lent   *lent  // nil while nothing has arrived
}

// identity names a client for others.
type identity struct {
	id                  int64
	since               time.Time
	name                atomic.Pointer[string]
	libName, libVersion atomic.Pointer[string]
}

func newClient(s *Server, nc net.Conn, id int64) *client {
	c := &client{nc: nc, identity: identity{id: id, since: time.Now()}}
	c.serves(s)
	c.socket.of(lender{nc, c.borrow, c.giveBack})
	c.durable(s.Durability)
	c.openAccount()
	c.become(s.stranger())
	c.seen.Store(c.since.UnixNano())
	return c
}

// serves makes the client one of a server.
func (c *client) serves(s *Server) { c.s, c.Conn, c.Shared = s, c, &s.shared }

// own returns the run of a command that is about its connection, or the server.
func own(run func(*client) error) func(*command.Call) error {
	return func(c *command.Call) error { return run(c.Conn.(*client)) }
}

// IsSecure reports whether the connection has TLS.
func (c *client) IsSecure() bool {
	_, ok := c.nc.(*tls.Conn)
	return ok
}

// IsKilled reports whether the client carries nothing out any more.
func (c *client) IsKilled() bool {
	if c.inPlaceOf != nil {
		c = c.inPlaceOf.c
	}
	return c.killed.Load()
}

// HasEnded reports whether the client has closed its end of the connection.
func (c *client) HasEnded() bool { return c.socket.ended() }

// Held returns the transaction of COPAL.BEGIN, nil for none.
func (c *client) Held() *copal.Tx {
	if s := c.session.Load(); s != nil {
		return s.tx
	}
	return nil
}

// LendBatch returns an empty batch, or nil if there is none yet.
func (c *client) LendBatch() (b *copal.Batch) {
	b, c.lent.batch = c.lent.batch, nil
	return b
}

// KeepBatch keeps a batch, which is empty again.
func (c *client) KeepBatch(b *copal.Batch) { c.lent.batch = b }

// durable makes the client's writes as durable as d. Those of a connection that wants the disk are
// written to the log, and synced together before they are answered.
func (c *client) durable(d copal.Durability) {
	c.by = d
	c.Connect()
}

// limit sets the greatest length of requests, which is small until the client has a grant.
func (c *client) limit() {
	c.parser.Limits = resp.Limits{Args: 10, Bulk: 16 << 10}
	if c.Grant.Load() != nil {
		c.parser.Limits = resp.Limits{Args: math.MaxInt32, Bulk: int(min(command.MaxString, c.s.MaxRequest)), Grows: c.argumentsGrow}
	}
}

// farewellTime is the time that clients have to read their replies when the server shuts down.
const farewellTime = 10 * time.Second

// end asks the client to end after the requests that have arrived.
func (c *client) end() {
	c.ending.Store(true)
	c.nc.SetReadDeadline(time.Now())
	c.nc.SetWriteDeadline(c.s.farewell)
}

// serve reads requests and answers them until the connection ends. The frames from here to the wait for a request are
// small, so that 10,000 clients that wait do with the smallest stacks: rare work is in functions of its own.
func (c *client) serve() {
	defer c.cut()
	err := c.handshake()
	if err == nil {
		err = c.safely(c.requests)
	}
	c.ended(err)
}

// ended gives back everything that the client holds, and logs why its connection has ended.
func (c *client) ended(err error) {
	c.leave() // if a command has panicked
	c.Turn.End()
	c.forgetWatches()
	c.hearNothing()
	c.stopTracking()
	c.stopMonitor()
	c.become(nil) // ends its transaction and its feed, too
	c.depart()
	c.giveBack()
	c.drain()
	c.Account.Close()
	if err != nil && !c.ending.Load() {
		c.s.Logger.Debug("a connection has ended", "client", c.id, "address", c.nc.RemoteAddr(), "error", err)
	}
}

// handshakeTime is how long a client of TLS may take to begin.
const handshakeTime = 10 * time.Second

// handshake begins TLS. So a client that says nothing is closed, and others that write to it do not wait.
func (c *client) handshake() error {
	secure, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	return secure.HandshakeContext(ctx)
}

// safely makes of a panic, which is a fault of ours, the end of this connection alone.
func (c *client) safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.Logger.Error("a command has panicked", "client", c.id, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("a command has panicked")
		}
	}()
	return f()
}

// cut closes the connection without the closing message of TLS, which might take long.
func (c *client) cut() {
	if secure, ok := c.nc.(*tls.Conn); ok {
		secure.NetConn().Close()
		return
	}
	c.nc.Close()
}

func (c *client) requests() error {
	for {
		args, n, err := c.parser.Next(c.in[c.off:])
		if c.killed.Load() {
			return errors.New("the connection was killed")
		}
		if err != nil {
			return c.refuse(err)
		}
		if n == 0 {
			if err := c.flush(); err != nil || c.Closing {
				return err
			}
			c.Turn.Begin(c.user())
			if err := c.read(); err != nil {
				return err
			}
			c.clock = time.Time{}
			continue
		}
		c.off += n
		if args == nil {
			continue
		}
		if protocol := c.foreign(args); protocol != "" {
			return c.mistaken(protocol)
		}
		c.dispatch(args)
		if c.Closing {
			return c.flush()
		}
		if len(c.Buf) >= replyBytes {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
}

// foreign returns the protocol of a request that is not one of Redis, and "" for others.
func (c *client) foreign(args [][]byte) string {
	switch {
	case c.parser.Inline():
		return protocolOf(args)
	case command.Is(args[0], "POST"), command.Is(args[0], "HOST:"): // Redis closes these in either form
		return "HTTP"
	}
	return ""
}

// mistaken ends the client, which speaks another protocol, without a reply.
func (c *client) mistaken(protocol string) error {
	c.s.foreigner(c, protocol)
	return errors.Join(resp.ProtocolError("a line of "+protocol), c.flush())
}

// refuse replies with an error to bytes that are not a request. The client ends with the error that
// refuse returns.
func (c *client) refuse(err error) error {
	if errors.Is(err, resp.ErrBinary) {
		c.s.foreigner(c, "binary")
	}
	if !c.silent() {
		c.Error("ERR " + err.Error())
	}
	return errors.Join(err, c.flush())
}

// flush sends the replies with one write, or leaves them to the outbox. Before that it syncs the
// writes of a client that asks for it.
func (c *client) flush() error {
	c.from = 0
	if len(c.Buf) == 0 && !c.silence.tookBack && !c.holds {
		return nil
	}
	c.Turn.End()
	if err := c.sync(); err != nil {
		// All replies are dropped, not only those to writes: the store refuses all other writes.
		if len(c.Buf) > 0 {
			c.Cut(0)
			c.Error("ERR the disk has failed, and it is not known whether the last writes are on it: " + err.Error())
		}
		c.Closing = true
	}
	c.silence.tookBack = false
	return c.deliver()
}

// writeBytes is the number of bytes that a client has to read within IdleTimeout.
const writeBytes = 1 << 20

// Wrote notes that the client asks for a write.
func (c *client) Wrote() {
	if c.by == copal.FSync {
		c.unsynced = true
	}
}

// sync brings the writes of the client to the disk, if it wants them there.
func (c *client) sync() error {
	if !c.unsynced {
		return nil
	}
	err := c.s.DB.Sync()
	c.unsynced = err != nil
	return err
}

// read adds to the bytes that have arrived. The error is io.EOF if the connection has ended, and
// os.ErrDeadlineExceeded if the server shuts down.
func (c *client) read() error {
	c.in = c.in[:copy(c.in, c.in[c.off:])]
	c.off = 0
	switch {
	case int64(len(c.in)) >= c.s.MaxRequest:
		return c.refuse(resp.ProtocolError("too big request"))
	case len(c.in) == 0:
		return c.idle()
	case len(c.in) == cap(c.in):
		if err := c.grow(int(min(int64(c.parser.Wants(len(c.in))), c.s.MaxRequest))); err != nil {
			return c.refuse(err)
		}
	}
	if err := c.beforeRead(); err != nil {
		return err
	}
	n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
	return c.arrived(n, err)
}

// idle waits for the first bytes of a request, without buffers.
func (c *client) idle() error {
	c.giveBack()
	if c.ending.Load() {
		return os.ErrDeadlineExceeded
	}
	if err := c.beforeRead(); err != nil {
		return err
	}
	return c.arrived(c.socket.read())
}

// beforeRead sets the deadline for the next bytes of a client that does not wait for others.
func (c *client) beforeRead() error {
	t, inSession := c.s.IdleTimeout, c.session.Load() != nil
	if most := c.s.SessionTimeout; inSession && most > 0 && (t <= 0 || most < t) {
		t = most
	}
	switch {
	case t <= 0 || c.waits.Load() != nil:
		return nil
	case !inSession && (c.subscribed > 0 || c.monitors):
		c.nc.SetReadDeadline(time.Time{})
	default:
		c.nc.SetReadDeadline(time.Now().Add(t))
	}
	if c.ending.Load() { // end has set an earlier one
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *client) arrived(n int, err error) error {
	if n > 0 {
		c.in = c.in[:len(c.in)+n]
		c.s.counts.in.Add(int64(n))
		c.s.counts.reads.Add(1)
		return nil
	}
	return err
}

// borrow gets the buffers of a client that is busy, and returns the one for requests.
func (c *client) borrow() []byte {
	c.lent = c.s.buffers.Get().(*lent)
	c.in, c.Buf = c.lent.in[:0], c.lent.out[:0]
	return c.in[:cap(c.in)]
}

// grow makes room for n bytes of requests, but for no more than twice the arrived bytes: a client may state any
// length of its request. There is room for more bytes when it returns.
func (c *client) grow(n int) error {
	most := 2 * len(c.in)
	if n == len(c.in)+1 { // it has not said yet
		n = int(min(int64(most), c.s.MaxRequest))
	}
	if n = min(n, most); n <= cap(c.in) {
		return nil
	}
	if err := c.chargeBuffer(&c.charged.requests, n); err != nil {
		return err
	}
	c.in = append(make([]byte, 0, n), c.in...)
	return nil
}

// giveBack gives the buffers back.
func (c *client) giveBack() {
	if c.lent != nil {
		if 0 < cap(c.in) && cap(c.in) <= command.KeptBytes {
			c.lent.in = c.in
		}
		if 0 < cap(c.Buf) && cap(c.Buf) <= command.KeptBytes {
			c.lent.out = c.Buf
		}
		c.s.buffers.Put(c.lent)
		c.lent = nil
	}
	c.in, c.off, c.Buf = nil, 0, nil
	c.Charge(&c.charged.requests, 0)
	c.Charge(&c.charged.replies, 0)
	c.Charge(&c.charged.arguments, 0)
	c.parser.Forget()
	c.Call.Forget()
}

// kill closes the connection. Others call it.
func (c *client) kill() {
	c.killed.Store(true)
	c.Turn.Leave()
	c.stopWaiting(command.NoReply) // so that nothing is popped for it
	c.cut()
}

// foreigner logs the connection of a client that speaks another protocol.
func (s *Server) foreigner(c *client, protocol string) {
	s.foreign.Warn(s.Logger, "a connection was closed whose client speaks another protocol, which a page in a browser or an attacker may have sent",
		"protocol", protocol, "client", c.id, "address", c.nc.RemoteAddr().String())
}

// CutOff closes the connection, because no reply describes the work of the command.
//
//go:noinline
func (c *client) CutOff(err error) {
	c.Closing = true
	c.s.Logger.Warn("a connection is closed: the reply to a command is lost", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "command", c.Row.FullName(), "error", err)
}

// evict closes the client so that others have memory. Another client calls it.
func (c *client) evict() {
	c.killed.Store(true)
	c.Turn.Leave()
	c.s.Logger.Warn("a connection is closed: the memory for requests and replies is used up, and it has the most", "client", c.id,
		"address", c.nc.RemoteAddr().String(), "user", c.user(), "requests", c.charged.requests.Load()+c.charged.arguments.Load()+c.charged.queue.Load()+c.charged.watches.Load(), "names", c.charged.names.Load(),
		"work", c.Work.Load(), "replies", c.charged.replies.Load()+c.charged.output.Load())
	c.cut()
	c.s.senders.Go(func() { c.stopWaiting(command.NoReply) }) // which takes locks that the other may have
}

// endChanges ends the feed of the client, if there is one.
func (c *client) endChanges() {
	if f := c.changes; f != nil {
		c.changes = nil
		f.cancel()
		<-f.gone
	}
}

// endSession ends the session of the client, if there is one, and returns the error for which its
// writes do not count.
func (c *client) endSession(commits bool) error {
	s := c.session.Swap(nil)
	if s == nil {
		return nil
	}
	c.setReadDeadline(time.Time{}) // of a session that is idle
	c.chargeQueue(0)
	return c.CommitHeld(s.tx, commits, func() error {
		s.decision <- commits
		return <-s.ended
	})
}

func (c *client) forgetWatches() {
	for _, w := range c.watches {
		w.then.Close()
	}
	c.watches = nil
	c.Charge(&c.charged.watches, 0)
}

// memory returns the memory of the client by its use. Other goroutines call it.
func (c *client) memory() clientMemory {
	c.outbox.mu.Lock()
	parts := len(c.outbox.pending)
	c.outbox.mu.Unlock()
	m := &c.charged
	return clientMemory{
		qbuf: m.requests.Load(), argvMem: m.arguments.Load(), multiMem: m.queue.Load() + m.watches.Load(), oll: int64(parts), omem: m.output.Load(), total: c.Account.Used(),
	}
}

// openAccount opens the account of a client that has been made.
func (c *client) openAccount() {
	c.Account = c.s.memory.Open(c.user(), c.evict)
	c.Grows = c.replyGrows
}

// chargeBuffer charges a buffer of requests or replies. Small buffers are free.
func (c *client) chargeBuffer(what *atomic.Int64, size int) error {
	if size <= freeBytes {
		size = 0
	}
	return c.Charge(what, int64(size))
}

// replyGrows is Reply.Grows.
func (c *client) replyGrows(size int) error {
	if size-c.from > command.MostReply+freeBytes {
		return command.ErrReplyTooLong
	}
	return c.chargeBuffer(&c.charged.replies, size)
}

// argumentsGrow is Limits.Grows.
func (c *client) argumentsGrow(bytes int) error {
	return c.Charge(&c.charged.arguments, int64(bytes))
}

// dropReplies releases the memory of replies that are sent, or in the outbox.
func (c *client) dropReplies() {
	if cap(c.Buf) > command.KeptBytes {
		c.Buf = nil
		c.Charge(&c.charged.replies, 0)
	} else {
		c.Buf = c.Buf[:0]
	}
}
