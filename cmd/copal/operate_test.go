package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// ran runs the command, and returns its output and its exit code.
func ran(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out strings.Builder
	code := carryOut(cli.NewApp(strings.NewReader(""), &out, io.Discard), args)
	return out.String(), code
}

// The server of operators has profiles, metrics and probes, asks for no password, and has no
// contents of the store. No other machine reaches it, and no page in a browser.
func TestServeAdmin(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "admin.sock")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--http", "127.0.0.1:0", "--admin", socket, "--password-file", secret)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for path, want := range map[string]string{
		"/readyz": `HTTP/1.1 200 {"status":"OK"}`, "/livez": `HTTP/1.1 200 {"status":"OK"}`, "/metrics": "\nprocess_start_time_seconds ", "/version": `"format":`,
		"/debug/pprof/goroutine?debug=1": "goroutine profile", "/v1/maps": " 404 ", "/": " 404 ",
	} {
		if got := fetch(t, client, "GET", "http://x"+path, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %.200s", path, got)
		}
	}
	if got := fetch(t, client, "GET", "http://x/metrics", ""); !strings.Contains(got, "\ncopal_redis_clients 0\n") || !strings.Contains(got, "\ncopal_keys 0\n") {
		t.Error(got)
	}
	for _, header := range []string{"Origin", "Sec-Fetch-Site"} {
		if got := fetch(t, client, "GET", "http://x/metrics", "", header, "null"); !strings.Contains(got, " 403 ") {
			t.Error(header, got)
		}
	}
	if got := fetch(t, http.DefaultClient, "GET", "http://"+s.addr+"/metrics", ""); !strings.Contains(got, " 401 ") {
		t.Errorf("without a password: %s", got)
	}
	if got := fetch(t, http.DefaultClient, "GET", "http://"+s.addr+"/debug/pprof/", "", "Authorization", "Bearer s3cret"); !strings.Contains(got, " 404 ") {
		t.Errorf("profiles at the other door: %s", got)
	}
	for _, address := range []string{socket, s.addr} {
		if out, code := ran(t, "health", address); code != 0 || out != "ready\n" {
			t.Errorf("%s: %d %q", address, code, out)
		}
	}
	if code := s.end(); code != 0 {
		t.Error(code)
	}
	if _, code := ran(t, "health", socket); code != 1 {
		t.Errorf("the health of a server that has ended: %d", code)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s = serve(t, filepath.Join(dir, "store"), "--redis", "127.0.0.1:0", "--admin", address) // without a password
	if got := fetch(t, http.DefaultClient, "GET", "http://"+address+"/metrics", ""); !strings.Contains(got, " 200 ") {
		t.Errorf("%.200s", got)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/cmdline"} {
		if got := fetch(t, http.DefaultClient, "GET", "http://"+address+path, "", "Host", "example.com"); !strings.Contains(got, " 403 ") {
			t.Errorf("%s for another host: %.200s", path, got)
		}
	}
	s.end()
	s = serve(t, filepath.Join(dir, "store"), "--redis", "127.0.0.1:0", "--admin", socket)
	if got := fetch(t, client, "GET", "http://x/readyz", ""); !strings.Contains(got, " 200 ") {
		t.Errorf("a socket without a password: %s", got)
	}
	t.Setenv("COPAL_TLS_CERT", "cert.pem")
	if out, code := ran(t, "health", socket); code != 0 || out != "ready\n" {
		t.Errorf("the health of a socket beside TLS: %d %q", code, out)
	}
	t.Setenv("COPAL_TLS_CERT", "")
	s.end()
	for _, address := range []string{"0.0.0.0:9533", "example.com:9533", "9533"} {
		if _, code := ran(t, "serve", filepath.Join(dir, "store"), "--admin", address); code != 2 {
			t.Errorf("--admin %s: %d", address, code)
		}
	}
}

// The variables of an image: other machines reach the addresses, so there must be a password, or
// the setting for none.
func TestServeByVariables(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COPAL_REDIS", "0.0.0.0:0")
	t.Setenv("COPAL_HTTP", "0.0.0.0:0")
	told := &strings.Builder{}
	a := cli.NewApp(strings.NewReader(""), io.Discard, told)
	if code := carryOut(a, []string{"serve", filepath.Join(dir, "store")}); code != 2 || !strings.Contains(told.String(), "COPAL_PASSWORD") || !strings.Contains(told.String(), "COPAL_NO_PASSWORD=true") {
		t.Errorf("%d %s", code, told)
	}
	t.Setenv("COPAL_PASSWORD", "s3cret")
	s := serve(t, filepath.Join(dir, "store"))
	_, port, _ := net.SplitHostPort(s.addr)
	if got := ask(t, "tcp", "127.0.0.1:"+port, "GET k\r\nAUTH s3cret\r\nQUIT\r\n"); got != "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	s.end()
	t.Setenv("COPAL_PASSWORD", "")
	t.Setenv("COPAL_NO_PASSWORD", "true")
	s = serve(t, filepath.Join(dir, "store"))
	_, port, _ = net.SplitHostPort(s.addr)
	if got := ask(t, "tcp", "127.0.0.1:"+port, "PING\r\nQUIT\r\n"); got != "+PONG\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	s.end()
}

// A service manager gets a message when the listeners are open, and when they close.
func TestServeNotifies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no such service manager")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	s := serve(t, filepath.Join(dir, "store"), "--redis", "127.0.0.1:0")
	buf := make([]byte, 100)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Errorf("%q, %v, want %q", buf[:n], err, want)
		}
		s.stop()
	}
	s.end()
}

// TestCommandsOfTheOperationsPage runs each command of the page literally, on directories of the
// test.
func TestCommandsOfTheOperationsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(cli.NewApp(nil, io.Discard, io.Discard))
	for _, m := range regexp.MustCompile("`copal ([a-z]+)").FindAllSubmatch(page, -1) {
		if cmd, _, err := root.Find([]string{string(m[1])}); err != nil || cmd == root {
			t.Errorf("the page names copal %s: %v", m[1], err)
		}
	}
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	db, err := copal.Open(store)
	if err == nil {
		err = errors.Join(fillStore(db, 10), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		for line := range strings.Lines(string(block[1])) {
			line, _, _ = strings.Cut(line, "#")
			words := strings.Fields(strings.NewReplacer("/var/lib/copal/store", store, "/backups/copal", filepath.Join(dir, "backup")).Replace(line))
			if len(words) < 2 || words[0] != "copal" {
				continue
			}
			if words[1] == "restore" { // the store is lost
				if err := os.RemoveAll(store); err != nil {
					t.Fatal(err)
				}
			}
			var out, wrong bytes.Buffer
			if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), words[1:]); code != cli.ExitOK || wrong.Len() > 0 {
				t.Errorf("%s ends with %d: %s", line, code, wrong.String())
			}
			run++
		}
	}
	if run < 3 {
		t.Errorf("only %d commands were found", run)
	}
}
