//go:build unix

package main

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// Other protocols are refused at the ports of HTTP, and nothing of them is carried out.
func TestOtherProtocolsAtHTTP(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin := l.Addr().String()
	l.Close()
	cert, key := writeCertificate(t, dir, 1)
	for _, secure := range []bool{false, true} {
		args := []string{filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--admin", admin}
		if secure {
			args = append(args, "--tls-cert", cert, "--tls-key", key)
		}
		s := serve(t, args...)
		for name, text := range map[string]string{
			"RESP":                  "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
			"a line of RESP":        "SET k v\r\nHost: localhost\r\n\r\n",
			"memcached":             "set k 0 0 1\r\nv\r\n\r\n",
			"SMTP":                  "EHLO a\r\nMAIL FROM:<a@b>\r\n\r\n",
			"TLS":                   "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\n\r\n\r\n",
			"HTTP/0.9":              "PUT /v1/maps/m/k\r\n\r\nv",
			"a method of Redis":     "SET /v1/maps/m/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			"another host":          "PUT /v1/maps/m/k HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1\r\nConnection: close\r\n\r\nv",
			"a whole address":       "PUT http://evil.example/v1/maps/m/k HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nConnection: close\r\n\r\nv",
			"two hosts":             "PUT /v1/maps/m/k HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nContent-Length: 1\r\nConnection: close\r\n\r\nv",
			"a name of two lengths": "PUT /v1/maps/m/k HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nvv",
			"a proxy's":             "CONNECT 127.0.0.1:6379 HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nConnection: close\r\n\r\n",
		} {
			for _, address := range []string{s.addr, admin} {
				ways := []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", address) }}
				if secure && address == s.addr {
					if name == "TLS" {
						continue // this is the protocol of the port, and waits for the rest
					}
					ways = append(ways, func() (net.Conn, error) { return tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) })
				}
				for _, way := range ways {
					nc, err := way()
					if err != nil {
						t.Fatal(err)
					}
					io.WriteString(nc, text)
					got, _ := io.ReadAll(nc) // until it is closed
					nc.Close()
					if text := string(got); text != "" && !strings.HasPrefix(text, "HTTP/1.1 4") && !strings.HasPrefix(text, "HTTP/1.0 4") && !strings.HasPrefix(text, "HTTP/1.1 505") {
						t.Errorf("%s at %s: %q", name, address, text)
					}
				}
			}
		}
		if code := s.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	db, err := copal.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key := range db.Raw().Keys() {
		t.Errorf("%q is there", key)
	}
}
