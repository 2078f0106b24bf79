package redisapi

import (
	"bytes"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TCP probes a silent peer every 15 seconds, the default of listeners in Go's net, and ends the
// connection after 9 probes without an answer. So the connection of a peer that has disappeared
// ends without IdleTimeout, too.
func TestHostilePeersAreProbed(t *testing.T) {
	s, address := newServer(t)
	dial(t, address).want("PING", "PONG")
	for option, want := range map[[2]int]int{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE}:   1,
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}:  15,
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 15,
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}:   9,
	} {
		got := 0
		control(t, s.all()[0].nc, func(fd int) (err error) {
			got, err = unix.GetsockoptInt(fd, option[0], option[1])
			return err
		})
		if got != want {
			t.Errorf("option %v is %d, want %d", option, got, want)
		}
	}
}

func control(t *testing.T, nc net.Conn, f func(fd int) error) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil || failed != nil {
		t.Skip(err, failed)
	}
}

// The first probe of TCP after a peer has disappeared releases its connection, wherever the peer
// has stopped. If a reply is under way to the peer, its retransmission does so.
func TestHostilePeersAreGone(t *testing.T) {
	if os.Getenv("COPAL_LONG") != "1" {
		t.Skip("waits for probes of TCP, some seconds: COPAL_LONG=1")
	}
	s, address := newServer(t)
	if err := s.DB.Raw().Set([]byte("k"), bytes.Repeat([]byte("x"), 64<<20)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nabc", "BLPOP list 0\r\n", "SUBSCRIBE c\r\n", "GET k\r\n"} {
		p := dial(t, address)
		p.want("PING", "PONG")
		c := s.all()[0]
		if err := c.nc.(*net.TCPConn).SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 1}); err != nil {
			t.Fatal(err)
		}
		before := s.counts.in.Load()
		if _, err := p.nc.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		until(func() bool { return s.counts.in.Load()-before == int64(len(text)) })
		switch text[:min(len(text), 5)] {
		case "BLPOP":
			until(func() bool { return c.waits.Load() != nil })
		case "SUBSC":
			p.wantNext(`["subscribe" "c" 1]`)
		}
		if text != "GET k\r\n" { // nothing is under way any more, to be sent again to a peer that is gone
			acknowledged(t, p.nc)
			acknowledged(t, c.nc)
		}
		control(t, p.nc, func(fd int) error { // a socket that is being repaired is closed without a word
			return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1)
		})
		p.nc.Close()
		began := time.Now()
		until(func() bool { return len(s.all()) == 0 })
		t.Logf("the peer that has stopped after %q is released after %v", text, time.Since(began))
	}
	if n := s.waiting.count.Load(); n != 0 {
		t.Errorf("%d clients wait", n)
	}
}

// acknowledged waits until the other end has acknowledged all that was written.
func acknowledged(t *testing.T, nc net.Conn) {
	for left := 1; left > 0; runtime.Gosched() {
		control(t, nc, func(fd int) (err error) {
			left, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
			return err
		})
	}
}
