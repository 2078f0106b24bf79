package serving

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi"
)

// helloOf returns the first record that a client of TLS sends.
func helloOf(t *testing.T) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	go tls.Client(there, &tls.Config{InsecureSkipVerify: true, ServerName: "copal"}).Handshake()
	record := make([]byte, 16<<10)
	n, err := here.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	return record[:n]
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Handshakes that do not end are bounded by the time for headers and by the places for strangers,
// and block no other client. Neither does a client that is silent after its handshake, or in the
// middle of a body.
func TestHalfHandshakesOfHTTPS(t *testing.T) {
	const connections = 40 // 10 of them for strangers
	like := httptest.NewTLSServer(nil)
	config := &tls.Config{Certificates: like.TLS.Certificates}
	like.Close()
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := newWeb(&redisapi.Server{DB: db}, &Settings{maxRequest: 1 << 20, http: "127.0.0.1:0"}, "", slog.New(slog.DiscardHandler))
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error)
		go func() { served <- w.serve(tls.NewListener(newLimited(l, connections, w.logger), config)) }()
		var all []net.Conn
		defer func() {
			for _, nc := range all {
				nc.Close()
			}
			if err := w.shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-served; err != http.ErrServerClosed {
				t.Error(err)
			}
		}()
		dial := func() net.Conn {
			here, there := net.Pipe()
			all = append(all, here)
			l.conns <- there
			return here
		}
		request := func(nc net.Conn, text string) string {
			io.WriteString(nc, text)
			a, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				return err.Error()
			}
			defer a.Body.Close()
			io.Copy(io.Discard, a.Body)
			return a.Status
		}
		const list = "GET /v1/maps HTTP/1.1\r\nHost: localhost\r\n\r\n"
		good := func() net.Conn {
			t.Helper()
			nc := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true})
			if got := request(nc, list); got != "200 OK" {
				t.Error(got)
			}
			return nc
		}
		before := good()
		hello := helloOf(t)
		var half []net.Conn
		for i := range 3 * connections {
			nc := dial()
			go nc.Write(hello[:i*len(hello)/(3*connections)])
			half = append(half, nc)
		}
		after := good()
		silent, slow := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true}), tls.Client(dial(), &tls.Config{InsecureSkipVerify: true})
		if err := silent.Handshake(); err != nil {
			t.Error(err)
		}
		io.WriteString(slow, "PUT /v1/maps/m/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n12345")
		synctest.Wait()
		open := 0
		for _, nc := range half {
			nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := nc.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open++
			}
			nc.SetReadDeadline(time.Time{})
		}
		if open == 0 || open > connections/4 {
			t.Errorf("%d handshakes are open", open)
		}
		time.Sleep(headerPatience)
		for i, nc := range append(half, silent) {
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("connection %d: %v", i, err)
			}
		}
		if got := request(before, list) + ", " + request(after, list); got != "200 OK, 200 OK" {
			t.Error(got)
		}
		began := time.Now()
		text, err := io.ReadAll(slow)
		if took := time.Since(began); took > bodyPatience || !strings.HasPrefix(string(text), "HTTP/1.1 400 ") {
			t.Errorf("a body that stops: after %v %q, %v", took, text, err)
		}
		for i, nc := range []net.Conn{before, after} {
			if got := request(nc, fmt.Sprintf("PUT /v1/maps/m/%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1", i)); got != "201 Created" {
				t.Error(got)
			}
		}
	})
}
