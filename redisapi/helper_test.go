package redisapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal"
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

// send sends a request of words, of which those in double quotes are Go strings.
func (p *peer) send(words string) {
	p.t.Helper()
	args := split(p.t, words)
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
	text, err := readReply(p.r)
	if err != nil {
		p.t.Fatalf("after %q: %v", text, err)
	}
	return text
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	kind, line := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return line, nil
	case '-':
		return "(error) " + line, nil
	case '_':
		return "nil", nil
	case '#', ',', '(':
		return string(kind) + line, nil
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return line, err
	}
	if n < 0 {
		return "nil" + map[byte]string{'*': "[]"}[kind], nil
	}
	switch kind {
	case '$', '=':
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return strconv.Quote(string(text[:n])), err
	case '%':
		var list []string
		for range n {
			key, err := readReply(r)
			if err != nil {
				return key, err
			}
			value, err := readReply(r)
			if err != nil {
				return value, err
			}
			list = append(list, key+": "+value)
		}
		return "{" + strings.Join(list, " ") + "}", nil
	}
	var list []string
	for range n {
		each, err := readReply(r)
		if err != nil {
			return each, err
		}
		list = append(list, each)
	}
	return strings.TrimPrefix(string(kind), "*") + "[" + strings.Join(list, " ") + "]", nil
}

// split splits a line into words as strconv.Quote writes them, or without quotes.
func split(t *testing.T, line string) (words []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		word, _ := strconv.Unquote(quoted)
		words, line = append(words, word), line[len(quoted):]
	}
	return words
}

// bracketed are what stands in <> in a reply.
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
