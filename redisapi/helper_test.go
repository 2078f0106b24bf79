package redisapi

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/commandtest"
)

// newServer serves a store in memory on a loopback address until the test ends.
func newServer(t *testing.T, change ...func(*Server)) (s *Server, address string) {
	t.Helper()
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	s = &Server{DB: db, Debug: true}
	for _, f := range change {
		f(s)
	}
	s.init()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		s.running.Wait() // for the context has ended, and Shutdown did not wait
		if err := <-ended; err != ErrServerClosed {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// peer is a client in a test.
type peer struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func dial(t *testing.T, address string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc)
}

func newPeer(t *testing.T, nc net.Conn) *peer {
	t.Cleanup(func() { nc.Close() })
	return &peer{t, nc, bufio.NewReader(nc)}
}

// send sends a request of words. Words in double quotes are Go strings.
func (p *peer) send(words string) {
	p.t.Helper()
	args := commandtest.Split(p.t, words)
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := p.nc.Write(out); err != nil {
		p.t.Fatal(err)
	}
}

// do sends a request, and returns the reply as read shows it.
func (p *peer) do(words string) string {
	p.t.Helper()
	p.send(words)
	return p.read()
}

// want does a request and compares the reply.
func (p *peer) want(words, reply string) {
	p.t.Helper()
	if got := p.do(words); got != reply {
		p.t.Errorf("%s: %s, want %s", words, got, reply)
	}
}

// wantNext compares the next reply, of an earlier request or of none.
func (p *peer) wantNext(reply string) {
	p.t.Helper()
	if got := p.read(); got != reply {
		p.t.Errorf("%s came, want %s", got, reply)
	}
}

// read reads a reply, and returns it as text: OK, (error) ERR no, 1, "string", nil, [1 2] for an array, ~[1] for a
// set, >[1] for a push, {1: 2} for a map, ,1.5 for a double.
func (p *peer) read() string {
	p.t.Helper()
	text, err := commandtest.ReadReply(p.r)
	if err != nil {
		p.t.Fatalf("after %q: %v", text, err)
	}
	return text
}

// bracketed returns the texts between < and > in a reply.
func bracketed(reply string) (list []string) {
	for {
		_, rest, ok := strings.Cut(reply, "<")
		if !ok {
			return list
		}
		element, rest, _ := strings.Cut(rest, ">")
		list, reply = append(list, element), rest
	}
}
