package redisapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// secured serves TLS beside the plain listener of a server.
func secured(t *testing.T, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate(t)}}))
	return l.Addr().String()
}

// helloOf is the first record that a client of TLS sends.
func helloOf(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	go tls.Client(there, config).Handshake()
	record := make([]byte, 16<<10)
	n, err := here.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	return record[:n]
}

// wantEnd reads until the server has closed the connection.
func wantEnd(t *testing.T, what string, nc net.Conn) (got []byte) {
	t.Helper()
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(nc, 64<<10)); err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "tls: ") {
		t.Errorf("%s: %v", what, err)
	}
	return out.Bytes()
}

// TLS clients that break off, send something else, or begin another handshake, and clients that use
// TLS on a plain port, end only their own connections. A good client goes on.
func TestOddClientsOfTLS(t *testing.T) {
	s, plain := newServer(t)
	secure := secured(t, s)
	insecure := &tls.Config{InsecureSkipVerify: true, ServerName: "copal"}
	first := helloOf(t, insecure)
	dialTLS := func(config *tls.Config) *tls.Conn {
		t.Helper()
		nc, err := tls.Dial("tcp", secure, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	good := newPeer(t, dialTLS(insecure))
	good.want("SET k v", "OK")
	for what, sent := range map[string]string{
		"a command":           "SET k plain\r\n",
		"an array":            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nplain\r\n",
		"HTTP":                "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a long record":       "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		"an empty record":     strings.Repeat("\x16\x03\x01\x00\x00", 100),
		"data at first":       "\x17\x03\x03\x00\x05hello",
		"an alert":            "\x15\x03\x01\x00\x02\x02\x28",
		"SSL 2":               "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + strings.Repeat("x", 37),
		"zeros":               strings.Repeat("\x00", 100),
		"two hellos":          string(first) + string(first),
		"a hello and a word":  string(first) + "SET k plain\r\n",
		"a hello with a flaw": string(first[:40]) + "\xff\xff\xff" + string(first[43:]),
	} {
		nc := dialled(t, secure)
		io.WriteString(nc, sent) // the server may close meanwhile
		nc.(*net.TCPConn).CloseWrite()
		if got := wantEnd(t, what, nc); bytes.Contains(got, []byte("+OK\r\n")) || bytes.Contains(got, []byte("-ERR ")) {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, config := range []*tls.Config{{MaxVersion: tls.VersionTLS11}, {MaxVersion: tls.VersionTLS10}} {
		config.InsecureSkipVerify, config.MinVersion = true, tls.VersionTLS10
		if nc, err := tls.Dial("tcp", secure, config); err == nil {
			nc.Close()
			t.Errorf("version %x is taken", config.MaxVersion)
		}
	}
	for _, name := range []string{"x\x00y", "../../etc", strings.Repeat("a.", 120) + "b", "\xff\xfe", "$(id)", "*"} {
		nc, err := tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if err == nil {
			newPeer(t, nc).want("GET k", `"v"`)
			nc.Close()
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}
		for what, sent := range map[string]string{
			"another hello": string(first),
			"plain bytes":   "SET k plain\r\n",
			"a bad record":  "\x17\x03\x03\x00\x20" + strings.Repeat("x", 32),
			"an alert":      "\x15\x03\x03\x00\x02\x01\x00",
			"a change":      strings.Repeat("\x14\x03\x03\x00\x01\x01", 100), // a few are ignored
		} {
			nc := dialTLS(config)
			newPeer(t, nc).want("PING", "PONG")
			io.WriteString(nc.NetConn(), sent)
			wantEnd(t, what, nc.NetConn())
		}
		for _, part := range []string{"\x17", "\x17\x03\x03\x00\x20", "\x17\x03\x03\x00\x20xxxxx"} {
			nc := dialTLS(config)
			newPeer(t, nc).want("PING", "PONG")
			io.WriteString(nc.NetConn(), part)
			nc.NetConn().Close()
		}
	}
	nc := dialled(t, plain)
	nc.Write(first)
	nc.(*net.TCPConn).CloseWrite()
	if got := wantEnd(t, "TLS where none is", nc); bytes.HasPrefix(got, []byte("\x16")) {
		t.Errorf("a hello to the other port: %q", got)
	}
	good.want("GET k", `"v"`)
	for len(s.all()) > 1 {
		runtime.Gosched()
	}
}

// A client of TLS that reaches the port without TLS learns so: it does not wait for ever.
func TestTLSWhereNoneIs(t *testing.T) {
	s, plain := newServer(t)
	nc, err := net.Dial("tcp", plain)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("a handshake with no TLS has succeeded")
	}
	for len(s.all()) > 0 {
		runtime.Gosched()
	}
}

// A hundred half handshakes do not delay a good client, and end by themselves. A client that is
// silent after its handshake stays.
func TestHalfHandshakes(t *testing.T) {
	pair := certificate(t)
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		var ends []net.Conn
		defer func() {
			for _, nc := range ends {
				nc.Close()
			}
		}()
		dialTLS := func() net.Conn {
			here, there := net.Pipe()
			ends = append(ends, here)
			s.accept(tls.Server(there, &tls.Config{Certificates: []tls.Certificate{pair}}))
			return here
		}
		record := helloOf(t, &tls.Config{InsecureSkipVerify: true})
		var half []net.Conn
		for i := range 100 {
			nc := dialTLS()
			go nc.Write(record[:i*len(record)/100])
			half = append(half, nc)
		}
		secure := func() *peer {
			client := tls.Client(dialTLS(), &tls.Config{InsecureSkipVerify: true})
			if err := client.HandshakeContext(context.Background()); err != nil {
				t.Fatal(err)
			}
			return newPeer(t, client)
		}
		good, silent := secure(), secure()
		good.want("PING", "PONG")
		if n := strings.Count(good.do("CLIENT LIST"), "id="); n != 102 {
			t.Errorf("%d clients are listed", n)
		}
		time.Sleep(handshakeTime + time.Second)
		synctest.Wait()
		for i, nc := range half {
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("handshake %d: %v", i, err)
			}
		}
		if n := strings.Count(good.do("CLIENT LIST"), "id="); n != 2 {
			t.Errorf("%d clients are left", n)
		}
		time.Sleep(time.Hour)
		silent.want("PING", "PONG")
		good.want("PING", "PONG")

		waiting := dialTLS() // does not hold up the end of the server
		began := time.Now()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > handshakeTime {
			t.Errorf("the end took %v", took)
		}
		waiting.Close()
	})
}
