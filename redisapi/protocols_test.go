package redisapi

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/sparing"
)

func TestProtocolOf(t *testing.T) {
	for line, want := range map[string]string{
		"POST / HTTP/1.1": "HTTP", "post": "HTTP", "PUT /a HTTP/1.1": "HTTP", "GET / HTTP/1.1": "HTTP", "GET /a?b=c HTTP/1.0": "HTTP", "HEAD / HTTP/1.1": "HTTP",
		"DELETE /v1/maps/a/b HTTP/1.1": "HTTP", "OPTIONS * HTTP/1.1": "HTTP", "PATCH / HTTP/1.1": "HTTP", "CONNECT example.com:443 HTTP/1.1": "HTTP", "TRACE / HTTP/1.1": "HTTP",
		"PRI * HTTP/2.0": "HTTP", "PROPFIND / HTTP/1.1": "HTTP", "Host: 127.0.0.1:6379": "HTTP", "host:": "HTTP", "Content-Type: text/plain": "HTTP",
		"SET /a HTTP/1.1": "HTTP", "DEL http://evil.example/a HTTP/1.1": "HTTP", "COPY /a HTTP/1.1": "HTTP", "RENAME /a HTTP/1.1": "HTTP", "FLUSHALL / HTTP/1.1": "HTTP",
		"DESCRIBE rtsp://a/b RTSP/1.0": "HTTP", "INVITE sip:bob@a SIP/2.0": "HTTP", "set k 0 0 5": "memcached", "set k 0 60 5 noreply": "memcached", "append k 0 0 5": "memcached",
		"add k 0 0 5": "memcached", "cas k 0 0 5 7": "memcached", "ms k 5": "memcached", "EHLO me": "SMTP", "MAIL FROM:<a@b>": "SMTP", "DATA": "SMTP",
		"SSH-2.0-OpenSSH_9.6": "SSH", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2": "PROXY", "NICK a": "IRC", "\x80 a": "binary", "a\x01 b": "binary",
		"GET k": "", "GET HTTP/1.1": "", "SET k v": "", "SET k HTTP/1.1": "", "SET k /a": "", "COPY a HTTP/1.1": "", "SET k 0 EX 5": "", "SET k 0 PX 5 NX": "", "PING": "", "": "",
		"SET k\x01 \xff": "", "QUIT": "", "HELLO 3 AUTH a b": "", "AUTH a b": "", "OBJECT ENCODING k": "", "COPAL.BEGIN": "", "HOST": "", "EXISTS /a /b": "",
	} {
		var words [][]byte
		for word := range strings.FieldsSeq(line) {
			words = append(words, []byte(word))
		}
		if line == "" {
			words = [][]byte{{}}
		}
		if got := protocolOf(words); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, cmd := range table.ByName {
		if got := protocolOf([][]byte{[]byte(cmd.Name)}); got != "" {
			t.Errorf("the command %s is taken for %s", cmd.Name, got)
		}
	}
}

// hello are the first bytes of a client of TLS, with a session identifier of the attacker's choice.
const hello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\x20"

// A client of another protocol is closed before the server carries out anything after its first
// line. The reply is empty or an error.
func TestOtherProtocols(t *testing.T) {
	_, tcp := newServer(t)
	s, _ := newServer(t)
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("there are no unix sockets: ", err)
	}
	go s.Serve(unix)
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{certificate(t)}}))
	const write = "SET pwned by-a-page\r\nRPUSH pwned2 a\r\n"
	const array = "*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\n1\r\n"
	const headers = "Host: 127.0.0.1:6379\r\nConnection: keep-alive\r\nContent-Type: text/plain\r\n\r\n"
	for name, text := range map[string]string{
		"a form":                      "POST / HTTP/1.1\r\n" + headers + write,
		"a form, in pieces of arrays": "POST / HTTP/1.1\r\n" + headers + array,
		"a method of the page's":      "SET /pwned HTTP/1.1\r\n" + headers + write,
		"a link":                      "GET /pwned HTTP/1.1\r\n" + headers + write,
		"a long link":                 "GET / a b c HTTP/1.1\r\n" + headers + write, // the first line is an error
		"a preflight":                 "OPTIONS / HTTP/1.1\r\n" + headers + write,
		"a websocket":                 "GET / HTTP/1.1\r\nUpgrade: websocket\r\n" + headers + write,
		"HTTP/2":                      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + write,
		"a header first":              "Origin: http://a\r\n" + headers + write,
		"a proxy's":                   "CONNECT a:1 HTTP/1.1\r\n" + headers + write,
		"POST in an array":            "*1\r\n$4\r\nPOST\r\n" + array,
		"TLS":                         hello + "\r\n" + write,
		"STUN":                        "\x00\x01\x00\x08\x21\x12\xa4\x42\n" + write,
		"memcached":                   "set k 0 0 21\r\n" + write,
		"memcached, binary":           "\x80\x01\x00\x01\n" + write,
		"SMTP":                        "EHLO a\r\nMAIL FROM:<a>\r\nDATA\r\n" + write,
		"SSH":                         "SSH-2.0-a\r\n" + write,
	} {
		for _, at := range []struct{ network, address string }{{"tcp", tcp}, {"unix", path}, {"tls", secure.Addr().String()}, {"plain on tls", secure.Addr().String()}} {
			var nc net.Conn
			switch at.network {
			case "tls":
				nc, err = tls.Dial("tcp", at.address, &tls.Config{InsecureSkipVerify: true})
			case "plain on tls":
				if name == "TLS" {
					continue // the port expects TLS, and waits for the rest
				}
				nc, err = net.Dial("tcp", at.address)
			default:
				nc, err = net.Dial(at.network, at.address)
			}
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(nc, text)
			got, _ := io.ReadAll(nc) // until it is closed; unread bytes reset it
			nc.Close()
			if text := string(got); at.network != "plain on tls" && text != "" && !strings.HasPrefix(text, "-ERR") {
				t.Errorf("%s by %s is answered: %q", name, at.network, text)
			}
		}
	}
	for _, address := range []string{tcp, path} {
		p := dial(t, tcp)
		if address == path {
			nc, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			p = newPeer(t, nc)
		}
		p.want("DBSIZE", "0")
		p.want("KEYS *", "[]")
	}
}

// Clients of another protocol are logged once a minute, whatever their number.
func TestOtherProtocolsAreLogged(t *testing.T) {
	var log bytes.Buffer
	s, address := newServer(t, func(s *Server) { s.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	visit := func(text string) {
		nc := dialled(t, address)
		fmt.Fprint(nc, text)
		io.ReadAll(nc)
		nc.Close()
	}
	for range 10 {
		visit("POST / HTTP/1.1\r\n\r\n")
	}
	visit(hello)
	s.foreign.Now = func() time.Time { return time.Now().Add(sparing.Every) }
	visit(hello)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(log.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "protocol=HTTP") || !strings.Contains(lines[0], "more=0") || !strings.Contains(lines[1], "protocol=binary") || !strings.Contains(lines[1], "more=10") {
		t.Errorf("%q", lines)
	}
}
