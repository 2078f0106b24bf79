package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/redisserver"
	"github.com/copaldb/copal/redisapi"
)

// target is a kind of server, and a way in which the driver uses it.
type target struct {
	name   string
	start  func(t *testing.T) (address string)
	change func(*features) // removes features that the server then seems not to have
	near   int             // Config.CacheBytes
}

// serveAt serves a new store in memory at an address until stop is called.
func serveAt(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &redisapi.Server{DB: db}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return l.Addr().String(), func() {
		s.Shutdown(context.Background())
		<-ended
		db.Close()
	}
}

// serveCopal serves a store in memory until the test ends.
func serveCopal(t *testing.T) (address string) {
	t.Helper()
	address, stop := serveAt(t, "127.0.0.1:0")
	t.Cleanup(stop)
	return address
}

func startRedis(t *testing.T) (address string) {
	t.Helper()
	_, address = redisserver.Start(t)
	return address
}

// targets are those that a test goes through: all of them, or the one whose address the environment has.
func targets() []target {
	if address := os.Getenv("COPAL_REMOTE"); address != "" {
		return []target{{name: "environment", start: func(*testing.T) string { return address }}}
	}
	return []target{
		{name: "copal", start: serveCopal},
		{name: "copal, kept near", start: serveCopal, near: 1 << 20},
		{name: "copal as Redis", start: serveCopal, change: func(f *features) { f.copal = false }},
		{name: "copal by DELEX", start: serveCopal, change: func(f *features) { f.copal, f.deleteIf = false, false }},
		{name: "copal by WATCH", start: serveCopal, change: func(f *features) {
			f.copal, f.setIf, f.deleteIf, f.deleteEx, f.scripts = false, false, false, false, false
		}},
		{name: "Redis", start: startRedis},
		{name: "Redis, kept near", start: startRedis, near: 40_000},
		{name: "Redis by WATCH", start: startRedis, change: func(f *features) { f.scripts = false }},
		{name: "Redis before 7.0", start: startRedis, change: func(f *features) { f.expireTime = false }},
	}
}

// each runs a test on each target.
func each(t *testing.T, f func(t *testing.T, at target)) {
	for _, at := range targets() {
		t.Run(at.name, func(t *testing.T) { f(t, at) })
	}
}

// driver starts the server, and returns a driver for it.
func (at target) driver(t *testing.T) driver.Driver {
	t.Helper()
	return at.driverOf(t, at.start(t))
}

func (at target) driverOf(t *testing.T, address string) driver.Driver {
	t.Helper()
	// With the default, five seconds, a busy machine fails tests that wait for nothing.
	return at.connect(t, Config{Addresses: strings.Split(address, ","), Timeout: time.Minute})
}

func (at target) connect(t *testing.T, c Config) driver.Driver {
	t.Helper()
	c.CacheBytes = at.near
	r, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at.change != nil {
		at.change(&r.has)
	}
	d := r.driver()
	t.Cleanup(func() { d.Close() })
	return d
}

func (at target) open(t *testing.T) *copal.DB {
	t.Helper()
	return store(t, at.driver(t))
}

// store returns a store with a driver. An error that a read cannot return fails the test.
func store(t *testing.T, d driver.Driver) *copal.DB {
	t.Helper()
	db, err := copal.OpenDriven(d, copal.WithErrorHandler(onError(t)))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// onError returns an error handler that fails the test, except for keys that hold another type.
func onError(t *testing.T) func(error) {
	return func(err error) {
		if !errors.Is(err, copal.ErrType) {
			t.Error("the error handler got", err)
		}
	}
}

// proxy passes bytes between clients and a server. It treats the request that contains the word as
// how says, once.
type proxy struct {
	t      *testing.T
	to     string
	word   []byte
	how    int
	mu     sync.Mutex
	met    bool
	always bool          // not only once
	caught chan struct{} // closed when the word has come
	over   chan struct{} // closed when held requests may end
}

const (
	dropRequest = iota // the connection ends, and the server never sees the request
	dropReply          // the server has carried it out, and the connection ends
	hold               // nothing happens any more on the connection
)

func newProxy(t *testing.T, to, word string, how int) (p *proxy, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p = &proxy{t: t, to: to, word: []byte(word), how: how, caught: make(chan struct{}), over: make(chan struct{})}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(nc)
		}
	}()
	return p, l.Addr().String()
}

// meets reports whether a request is the one.
func (p *proxy) meets(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met && !p.always || !bytes.Contains(request, p.word) {
		return false
	}
	if !p.met {
		p.met = true
		close(p.caught)
	}
	return true
}

// wasMet fails the test if the request has not come.
func (p *proxy) wasMet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.met {
		p.t.Fatalf("no request with %q has come by the proxy", p.word)
	}
}

// invalidation is a message that keys have changed.
var invalidation = regexp.MustCompile(`>2\r\n\$10\r\ninvalidate\r\n(\*1\r\n\$\d+\r\n[^\r]*\r\n|_\r\n)`)

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	dropping := make(chan struct{})
	replied := make(chan struct{})
	go func() {
		defer client.Close()
		defer close(replied)
		b := make([]byte, 1<<16)
		for {
			n, err := server.Read(b)
			if err != nil {
				return
			}
			select {
			case <-dropping:
				reply := invalidation.ReplaceAll(b[:n], nil) // which may come before the command has run
				if len(reply) == 0 || string(p.word) == "EXEC" && !bytes.Contains(reply, []byte("*")) {
					continue // or is of a command before, which is in the queue
				}
				return
			default:
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	in := bufio.NewReader(client)
	for {
		request, err := readRequest(in)
		if err != nil {
			return
		}
		if p.meets(request) {
			switch p.how {
			case dropRequest:
				return
			case hold:
				<-p.over
				return
			}
			close(dropping)
			server.Write(request)
			<-replied
			return
		}
		if _, err := server.Write(request); err != nil {
			return
		}
	}
}

// readRequest reads an array of strings, and returns its bytes.
func readRequest(in *bufio.Reader) (request []byte, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	request = append(request, line...)
	for range atoi(line[1:]) {
		if line, err = in.ReadBytes('\n'); err != nil {
			return nil, err
		}
		request = append(request, line...)
		text := make([]byte, atoi(line[1:])+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		request = append(request, text...)
	}
	return request, nil
}

func atoi(line []byte) (n int) {
	for _, c := range strings.TrimSpace(string(line)) {
		n = n*10 + int(c-'0')
	}
	return n
}
