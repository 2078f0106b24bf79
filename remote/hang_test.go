package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi"
)

// pipes is a network in memory: in a bubble of synctest it has the time of the bubble.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.accepted:
		return nc, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// pipeEnd is an end of a pipe that has an address, as the server asks for one.
type pipeEnd struct{ net.Conn }

func (pipeEnd) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (pipeEnd) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// line is a way to a server that can hang: then no byte passes, and connections are still made.
type line struct {
	server *pipes
	mu     sync.Mutex // guards the rest
	hangs  chan struct{}
	left   int // bytes from the server that pass before it hangs, if it is to; -1 for no end
	cut    *cut
	passed [2]int // bytes to the server and from it
	own    *copal.DB
	conns  *conns
}

func (l *line) dial(ctx context.Context, _ string) (net.Conn, error) {
	client, outer := net.Pipe()
	inner, server := net.Pipe()
	select {
	case l.server.accepted <- pipeEnd{server}:
	case <-l.server.closed:
		return nil, net.ErrClosed
	}
	pass := func(to, from net.Conn, way int) {
		defer to.Close()
		defer from.Close()
		b := make([]byte, 4096)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if now, ends := l.cuts(n, way); ends {
				to.Write(b[:now])
				return
			}
			l.pass(func(n int) { to.Write(b[:n]); copy(b, b[n:]) }, n, way == fromServer)
		}
	}
	go pass(inner, outer, toServer)
	go pass(outer, inner, fromServer)
	return pipeEnd{client}, nil
}

const toServer, fromServer = 0, 1

// cut ends a connection, once, after some bytes one way.
type cut struct{ way, after int }

// cuts returns how many of n bytes pass, and whether the connection ends then.
func (l *line) cuts(n, way int) (now int, ends bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed[way] += n
	switch c := l.cut; {
	case c == nil || c.way != way:
	case n > c.after:
		l.cut = nil
		return c.after, true
	default:
		c.after -= n
	}
	return n, false
}

// pass passes n bytes, as many as may pass.
func (l *line) pass(write func(n int), n int, counted bool) {
	l.mu.Lock()
	hangs, now := l.hangs, n
	if hangs != nil && counted && l.left >= 0 {
		now = min(n, l.left)
		l.left -= now
	} else if hangs != nil && l.left == 0 {
		now = 0
	}
	l.mu.Unlock()
	if now > 0 {
		write(now)
	}
	if now < n {
		<-hangs
		write(n - now)
	}
}

// hang has the line hang after some bytes from the server, until the result is called.
func (l *line) hang(after int) (goOn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hangs := make(chan struct{})
	l.hangs, l.left = hangs, after
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hangs = nil
		close(hangs)
	}
}

// inBubble calls f with a store on a server, and the line to it, in a bubble.
func inBubble(t *testing.T, at target, c Config, f func(t *testing.T, l *line, db *copal.DB, reported func() []error)) {
	synctest.Test(t, func(t *testing.T) {
		own, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		l := &line{server: newPipes(), left: -1, own: own}
		s := &redisapi.Server{DB: own}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l.server) }()
		c.Addresses, c.dialing = []string{"pipe:1"}, l.dial
		r, err := c.connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		l.conns = r.conns
		if at.change != nil {
			at.change(&r.has)
		}
		var mu sync.Mutex
		var errs []error
		db, err := copal.OpenDriven(r.driver(), copal.WithErrorHandler(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}))
		if err != nil {
			t.Fatal(err)
		}
		f(t, l, db, func() []error {
			mu.Lock()
			defer mu.Unlock()
			defer func() { errs = nil }()
			return errs
		})
		db.Close()
		s.Shutdown(context.Background())
		<-served
		own.Close()
		time.Sleep(time.Minute) // of the bubble: the client's goroutines end
	})
}

// inMemory are the targets whose server can be in a bubble.
func inMemory() (list []target) {
	for _, at := range targets() {
		if at.name == "copal" || at.name == "copal as Redis" || at.name == "copal by WATCH" {
			list = append(list, at)
		}
	}
	return list
}

// TestCallsEndInTime: a call ends when the time limit or the deadline of its context has come, if
// the server hangs at any byte of its answer, or takes new connections and says nothing.
func TestCallsEndInTime(t *testing.T) {
	const limit, sooner = 5 * time.Second, 300 * time.Millisecond
	for _, at := range inMemory() {
		for _, how := range []string{"hangs", "is cut, and hangs"} {
			t.Run(at.name+" "+how, func(t *testing.T) {
				inBubble(t, at, Config{Timeout: limit}, func(t *testing.T, l *line, db *copal.DB, reported func() []error) {
					x := openThings(t, db)
					for _, v := range verbs {
						if v.copal && at.name != "copal" {
							continue
						}
						for _, ends := range []time.Duration{limit, sooner} {
							if v.store && ends == sooner {
								continue
							}
							if err := x.fill(); err != nil {
								t.Fatal(v.name, err)
							}
							reported()
							goOn := l.hang(0)
							if how != "hangs" {
								l.conns.end()
								short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
								x.with(short).m.Load("a") // which finds that its connection has ended
								cancel()
								reported()
							}
							ctx, cancel := context.WithTimeout(t.Context(), ends)
							if ends == limit {
								ctx = context.WithoutCancel(ctx)
							}
							began := time.Now()
							err := v.do(x.with(ctx))
							took := time.Since(began)
							cancel()
							if v.silent {
								err = errors.Join(reported()...)
							}
							if took > ends {
								t.Errorf("%s took %v of %v: %v", v.name, took, ends, err)
							}
							switch own := errors.Is(err, context.DeadlineExceeded); {
							case how != "hangs" && errors.Is(err, io.ErrClosedPipe):
								// of a connection of its own, which it finds to have ended
							case err == nil:
								t.Errorf("%s reports no error", v.name)
							case own != (ends == sooner):
								t.Errorf("%s: the error is that of the context, or not: %v", v.name, err)
							case ends == limit && !errors.Is(err, os.ErrDeadlineExceeded):
								t.Errorf("%s: the error is not that of the time limit: %v", v.name, err)
							}
							goOn()
							time.Sleep(3 * limit) // of the bubble: the connections are given up
						}
					}
				})
			})
		}
	}
}

// TestCallsWaitInTime: a call that waits for the connection that another one makes ends with its own
// context, and has sent nothing then.
func TestCallsWaitInTime(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		x := openThings(t, db)
		if err := x.m.Set("b", 1); err != nil { // which declares the schema
			t.Fatal(err)
		}
		goOn := l.hang(0)
		l.conns.end()
		first := make(chan error, 1)
		go func() { _, err := x.m.Load("a"); first <- err }()
		synctest.Wait()
		for _, later := range []time.Duration{10 * time.Millisecond, 2 * time.Second} { // soon after the end, and while only the dialing shows it
			time.Sleep(later)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			began := time.Now()
			err := x.m.WithContext(ctx).Set("a", 1)
			if took := time.Since(began); took > 300*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, copal.ErrUnknown) {
				t.Errorf("after %v: %v", took, err)
			}
			cancel()
		}
		goOn()
		if err := <-first; !errors.Is(err, copal.ErrNotFound) {
			t.Error(err)
		}
		if _, err := x.m.Load("a"); !errors.Is(err, copal.ErrNotFound) {
			t.Error("the write was made after its call had ended:", err)
		}
	})
}

// TestOpenEndsInTime: Open ends in time whichever byte of the server's answers is the last.
func TestOpenEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		l := &line{server: newPipes(), left: -1}
		s := &redisapi.Server{DB: own}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l.server) }()
		for after := 0; ; after++ {
			for _, ends := range []time.Duration{defaultTimeout, time.Second} {
				goOn := l.hang(after)
				ctx, cancel := context.WithTimeout(t.Context(), ends+time.Nanosecond)
				began := time.Now()
				db, err := Config{Addresses: []string{"pipe:1"}, dialing: l.dial}.Open(ctx)
				took := time.Since(began)
				cancel()
				if err == nil {
					goOn()
					db.Close()
				} else if took > ends+time.Nanosecond || errors.Is(err, context.DeadlineExceeded) != (ends == time.Second) || errors.Is(err, os.ErrDeadlineExceeded) != (ends != time.Second) {
					t.Errorf("after %d bytes Open took %v: %v", after, took, err)
				}
				if err != nil {
					goOn()
				} else if ends == time.Second {
					s.Shutdown(context.Background())
					<-served
					own.Close()
					time.Sleep(time.Minute)
					if after < 100 {
						t.Errorf("%d bytes are all", after)
					}
					return
				}
				time.Sleep(time.Minute)
			}
		}
	})
}

// TestCloseEndsInTime: Close ends although the server hangs.
func TestCloseEndsInTime(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		x := openThings(t, db)
		var all sync.WaitGroup
		for range 20 { // connections of their own
			all.Go(func() { x.hash.Update("f", plus) })
		}
		all.Wait()
		goOn := l.hang(0)
		defer goOn()
		began := time.Now()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > defaultTimeout {
			t.Errorf("Close took %v", took)
		}
	})
}

// TestGreetingEndsInTime: a call that makes a connection ends with its context while the server does
// not answer the greeting, and has sent nothing then.
func TestGreetingEndsInTime(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		m, err := copal.OpenMap[string, int](db, "m")
		if err == nil {
			err = m.Set("a", 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		set := func() (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := m.WithContext(ctx).Set("a", 2)
			return time.Since(began), err
		}
		l.conns.end()
		goOn := l.hang(0)
		time.Sleep(time.Minute) // the client has found that the connection has ended
		if took, err := set(); took > 300*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, copal.ErrUnknown) {
			t.Errorf("after %v: %v", took, err)
		}
		goOn()
		if a, err := m.Load("a"); a != 1 || err != nil {
			t.Error("the write was made after its call had ended:", a, err)
		}
		goOn = l.hang(0) // while there has been trouble
		if took, err := set(); took > 300*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, copal.ErrUnknown) {
			t.Errorf("of a write that was sent, after %v: %v", took, err)
		}
		goOn()
	})
}
