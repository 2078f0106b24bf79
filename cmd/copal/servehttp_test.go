package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// fetch sends a request, and returns the status and the body.
func fetch(t *testing.T, c *http.Client, method, url, body string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	a, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%s %d %s", a.Proto, a.StatusCode, text)
}

func TestServeHTTP(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := serve(t, dir, "--redis", "", "--http", "127.0.0.1:0")
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	for proto, client := range map[string]*http.Client{"HTTP/1.1": {}, "HTTP/2.0": {Transport: &http.Transport{Protocols: h2c}}} {
		url := "http://" + s.addr + "/v1/maps/users/" + proto[5:]
		if got := fetch(t, client, "PUT", url, `{"Age":7}`); got != proto+" 201 " {
			t.Error(got)
		}
		if got := fetch(t, client, "GET", url, ""); got != proto+` 200 {"Age":7}` {
			t.Error(got)
		}
		if got := fetch(t, client, "GET", url, "", "Host", "example.com"); !strings.Contains(got, " 403 ") {
			t.Errorf("a request for another host: %s", got)
		}
		if got := fetch(t, client, "DELETE", url, "", "Origin", "http://example.com"); !strings.Contains(got, " 403 ") {
			t.Errorf("a write of another origin: %s", got)
		}
		changes, err := client.Get("http://" + s.addr + "/v1/changes?since=0") // which does not hold up the end
		if err != nil {
			t.Fatal(err)
		}
		defer changes.Body.Close()
		if line, err := bufio.NewReader(changes.Body).ReadString('\n'); line != "retry: 1000\n" {
			t.Error(line, err)
		}
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d: %q", code, <-s.log)
	}
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if value, ok := db.Raw().Get([]byte("users:1.1")); string(value) != `{"Age":7}` || !ok {
		t.Errorf("%q, %v", value, ok)
	}
}

func TestServeHTTPWithPassword(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--password-file", secret)
	url := "http://" + s.addr + "/"
	for header, status := range map[string]string{"": "401", "Bearer wrong": "401", "Bearer sesame": "200", "Basic OnNlc2FtZQ==": "200", "Basic OnNlcw==": "401"} {
		if got := fetch(t, http.DefaultClient, "GET", url, "", "Authorization", header, "Host", "example.com"); !strings.HasPrefix(got, "HTTP/1.1 "+status) {
			t.Errorf("%q: %s", header, got)
		}
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Connections over the limit get an answer that says so, and those within it are served.
func TestServeHTTPHasALimit(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "store"), "--redis", "", "--http", "127.0.0.1:0", "--max-clients", "3") // one is for strangers
	for range 2 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
			t.Error(line, err)
		}
	}
	got := ask(t, "tcp", s.addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
	if err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	var problem struct{ Type, Title, Detail string }
	if err := json.NewDecoder(r.Body).Decode(&problem); err != nil || r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" ||
		r.Header.Get("Content-Type") != "application/problem+json" || !strings.HasSuffix(problem.Type, "#unavailable") || problem.Detail == "" {
		t.Errorf("two connections are held, and one more gets %q", got)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
