package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/access"
)

// talk dials an address, sends text, and returns the connection and the first line of the answer.
func talk(t *testing.T, address, text string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, text)
	line, _ := bufio.NewReader(c).ReadString('\n')
	return c, strings.TrimSpace(line)
}

// Strangers keep no probe and no user out, with any requests; nor do the connections of one user
// those of another.
func TestConnectionsAreShared(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users.toml")
	text := ""
	for _, name := range []string{"alice", "bob"} {
		text += fmt.Sprintf("[%s]\ntokens = [%q]\nwrite = [%q]\n", name, access.Hash(name), name)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--users", file, "--max-clients", "20")
	as := func(name string) string {
		return "GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + name + "\r\n\r\n"
	}
	const ok, probe = "HTTP/1.1 200 OK", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
	try := func(when string) {
		t.Helper()
		if _, line := talk(t, s.addr, probe); line != ok {
			t.Errorf("%s, a probe: %q", when, line)
		}
		c, line := talk(t, s.addr, as("bob"))
		if line != ok {
			t.Errorf("%s, another user: %q", when, line)
		}
		c.Close()
	}
	for _, sent := range []string{"", "GET", "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nx", "PUT /v1/maps/a/k HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nx"} {
		for range 50 {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, sent)
		}
		try(fmt.Sprintf("beside strangers that send %.20q", sent))
	}
	for i := range 15 {
		if _, line := talk(t, s.addr, as("alice")); line != ok {
			t.Errorf("connection %d: %q", i, line)
		}
	}
	if _, line := talk(t, s.addr, as("alice")); line != "HTTP/1.1 503 Service Unavailable" {
		t.Errorf("one more: %q", line)
	}
	try("beside another user's connections")
	s.stop()
	<-s.code
	warned := 0
	for _, line := range <-s.log {
		if strings.Contains(line, "a connection was closed for another") {
			warned++
		}
	}
	if warned < 1 || warned > 2 {
		t.Errorf("%d lines about connections that were closed", warned)
	}
}
