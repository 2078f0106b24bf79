package redisapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

// visitor is a connection from an address.
type visitor struct {
	net.Conn
	address string
}

func (v visitor) RemoteAddr() net.Addr {
	if v.address == "" {
		return &net.UnixAddr{Net: "unix"}
	}
	at, _ := net.ResolveTCPAddr("tcp", v.address)
	return at
}

// guarded serves a store with a password, which visitors from anywhere reach, until f has returned. gone reports
// whether the server has closed a connection.
func guarded(t *testing.T, maxClients int, log io.Writer, f func(t *testing.T, s *Server, visit func(address string) *peer)) {
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := &Server{DB: db, Access: users(t, access.Password("secret")), MaxClients: maxClients, Logger: slog.New(slog.NewTextHandler(log, nil))}
		s.init()
		var ends []net.Conn
		defer func() {
			for _, end := range ends {
				end.Close()
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if n := s.visitors.seats.Used(); n != 0 {
				t.Errorf("%d connections of users are left", n)
			}
		}()
		f(t, s, func(address string) *peer {
			here, there := net.Pipe()
			ends = append(ends, here)
			s.accept(visitor{there, address})
			return newPeer(t, here)
		})
	})
}

// isClosed reports whether the server has closed the connection, or has nothing more to say for now.
func (p *peer) isClosed() bool {
	p.nc.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer p.nc.SetReadDeadline(time.Time{})
	_, err := p.r.Peek(1)
	return err == io.EOF || err == io.ErrClosedPipe
}

// A stranger has ten seconds, whatever it does: it is silent, sends one command after the other, does not read, or has
// said of a long request that it comes.
func TestStrangersHaveATime(t *testing.T) {
	var log bytes.Buffer
	guarded(t, 100, &log, func(t *testing.T, s *Server, visit func(string) *peer) {
		user := visit("192.0.2.1:1")
		user.want("AUTH secret", "OK")
		silent, unread, slow, unix := visit("192.0.2.1:2"), visit("192.0.2.1:3"), visit("192.0.2.1:4"), visit("")
		io.WriteString(unread.nc, "PING\r\n")
		io.WriteString(slow.nc, "*2\r\n$4\r\nAUTH\r\n$1000\r\n")
		there, here := net.Pipe()
		defer here.Close()
		s.accept(tls.Server(visitor{there, "192.0.2.1:5"}, &tls.Config{}))
		busy := visit("192.0.2.1:6")
		again := visit("192.0.2.1:7")
		again.want("AUTH secret", "OK")
		began := time.Now()
		for time.Since(began) < authTime-time.Second {
			busy.want("PING", "(error) NOAUTH Authentication required.")
			slow.nc.Write([]byte("x"))
			time.Sleep(time.Second)
		}
		again.want("RESET", "RESET")
		if silent.isClosed() || busy.isClosed() {
			t.Error("a stranger was closed before its time")
		}
		time.Sleep(2 * time.Second)
		for name, p := range map[string]*peer{"silent": silent, "slow": slow, "unix": unix, "busy": busy} {
			if !p.isClosed() {
				t.Errorf("the %s stranger is still there", name)
			}
		}
		if n := len(s.all()); n != 2 { // the one that does not read, and the one within TLS, are gone, too
			t.Errorf("%d clients are left", n)
		}
		again.want("PING", "(error) NOAUTH Authentication required.")
		time.Sleep(authTime)
		if !again.isClosed() {
			t.Error("the client that is a stranger again is still there")
		}
		time.Sleep(time.Hour)
		user.want("PING", "PONG")
	})
	if lines := strings.Count(log.String(), "shown no token"); lines != 1 {
		t.Errorf("%d lines: %s", lines, log.String())
	}
}

// Strangers have a quarter of the connections. The oldest of the address with most leaves for a new one.
func TestStrangersHaveAPart(t *testing.T) {
	guarded(t, 64, io.Discard, func(t *testing.T, s *Server, visit func(string) *peer) {
		count := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := len(s.all()); n != want {
				t.Fatalf("%d clients are there, want %d", n, want)
			}
		}
		other := visit("192.0.2.1:1")
		var list []*peer
		for n := range 40 {
			list = append(list, visit(fmt.Sprintf("[2001:db8::%x]:1", n))) // which are one address
		}
		count(16)
		if other.isClosed() || !list[24].isClosed() || list[25].isClosed() {
			t.Error("others than the oldest strangers of one address were closed")
		}
		var known []*peer
		for n := range 48 {
			p := visit(fmt.Sprintf("192.0.2.%d:1", n))
			p.want("AUTH secret", "OK")
			known = append(known, p)
		}
		for n := range 100 {
			visit(fmt.Sprintf("198.51.100.%d:1", n))
		}
		count(64)
		for n, p := range known {
			if p.do("PING") != "PONG" {
				t.Fatalf("user %d", n)
			}
		}
		late := visit("203.0.113.1:1")
		late.want("AUTH secret", "(error) "+string(errMaxClients))
		if !late.isClosed() {
			t.Error("a user has more connections than there are")
		}
		known[0].nc.Close()
		synctest.Wait()
		if got := visit("203.0.113.2:1").do("HELLO 2 AUTH default secret"); !strings.Contains(got, "standalone") {
			t.Error(got)
		}
	})
}

// One user with all connections of users keeps no other out.
func TestUsersShareConnections(t *testing.T) {
	var log bytes.Buffer
	guarded(t, 16, &log, func(t *testing.T, s *Server, visit func(string) *peer) {
		if err := s.Access.Set(access.Password("secret"), access.User{Name: "alice", Tokens: []string{access.Hash("a")}, Read: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		var list []*peer
		for n := range 12 {
			p := visit(fmt.Sprint("192.0.2.1:", n+1))
			p.want("AUTH alice a", "OK")
			list = append(list, p)
		}
		var all []*peer
		for range 6 {
			p := visit("192.0.2.2:1")
			p.want("AUTH secret", "OK")
			all = append(all, p)
		}
		closed := 0
		for _, p := range list {
			if p.isClosed() {
				closed++
			}
		}
		if closed != 6 {
			t.Errorf("%d connections of the user with most were closed for six of another", closed)
		}
		visit("192.0.2.2:1").want("AUTH secret", "(error) "+string(errMaxClients))
		all[0].want("AUTH alice a", "OK")
		all[0].want("RESET", "RESET")
		visit("192.0.2.2:1").want("AUTH secret", "OK")
	})
	if n := strings.Count(log.String(), "closed for another user"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// Wrong tokens from one address are slowed over all of its connections. A right token is not,
// unless too many wrong ones wait: then the address gets an error. Other addresses are not
// affected.
func TestWrongTokensTakeTime(t *testing.T) {
	var log bytes.Buffer
	guarded(t, 100, &log, func(t *testing.T, _ *Server, visit func(string) *peer) {
		const wrong = "(error) WRONGPASS invalid username-password pair or user is disabled."
		guess := func(words string) time.Duration {
			began := time.Now()
			p := visit("192.0.2.1:1")
			p.want(words, wrong)
			p.nc.Close()
			return time.Since(began)
		}
		for n := range 10 {
			if took := guess(fmt.Sprint("AUTH ", n)); took != 0 {
				t.Errorf("wrong token %d takes %v", n, took)
			}
		}
		for _, words := range []string{"AUTH x", "AUTH default x", "HELLO 3 AUTH default x"} {
			if took := guess(words); took != time.Second {
				t.Errorf("%s takes %v", words, took)
			}
		}
		began := time.Now()
		visit("192.0.2.1:1").want("AUTH secret", "OK")
		visit("192.0.2.2:1").want("AUTH x", wrong)
		for range 8 {
			visit("192.0.2.1:1").send("AUTH x")
		}
		synctest.Wait()
		if got := visit("192.0.2.1:1").do("AUTH secret"); !strings.HasPrefix(got, "(error) ERR too many wrong tokens") {
			t.Error(got)
		}
		visit("192.0.2.2:1").want("AUTH secret", "OK")
		if took := time.Since(began); took != 0 {
			t.Errorf("others waited for %v", took)
		}
	}) // a shutdown does not wait for these answers
	if lines := strings.Count(log.String(), "wrong user or token"); lines != 1 {
		t.Errorf("%d lines: %s", lines, log.String())
	}
}

// Without users no client is a stranger.
func TestWithoutUsersNobodyIsAStranger(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		var list []*peer
		for range 40 {
			list = append(list, dial())
		}
		time.Sleep(time.Hour)
		list[0].want("PING", "PONG")
		if s.visitors != nil {
			t.Error("there are strangers")
		}
	})
}
