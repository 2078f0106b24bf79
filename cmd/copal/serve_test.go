package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// server is a run of copal serve.
type server struct {
	stop context.CancelFunc
	addr string
	code chan int
	log  chan []string // lines on standard error
}

// serve runs copal serve until the server says where it listens.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	r, w := io.Pipe()
	a := cli.NewApp(strings.NewReader(""), io.Discard, w)
	s := &server{code: make(chan int, 1), log: make(chan []string, 1)}
	a.Ctx, s.stop = context.WithCancel(context.Background())
	go func() {
		s.code <- carryOut(a, append([]string{"serve", "--log", "json", "--http", ""}, args...))
		w.Close()
	}()
	listening := make(chan string, 8) // more than the listeners
	go func() {
		var told []string
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				listening <- line.Address
			}
			told = append(told, lines.Text())
		}
		close(listening)
		s.log <- told
	}()
	var ok bool
	if s.addr, ok = <-listening; !ok {
		t.Fatalf("exit code %d: %q", <-s.code, <-s.log)
	}
	t.Cleanup(s.stop)
	return s
}

// end stops the server and returns its exit code.
func (s *server) end() int {
	s.stop()
	return <-s.code
}

// ask sends lines to an address, and returns the answer up to the end of the connection.
func ask(t *testing.T, network, addr, lines string) string {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, lines); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := serve(t, dir, "--redis", "127.0.0.1:0")
	got := ask(t, "tcp", s.addr, "SET foo bar\r\nGET foo\r\nDEL foo\r\nGET foo\r\nPING\r\nSET users:alice '{\"Age\":7}'\r\nQUIT\r\n")
	if want := "+OK\r\n$3\r\nbar\r\n:1\r\n$-1\r\n+PONG\r\n+OK\r\n+OK\r\n"; got != want {
		t.Errorf("%q, and not %q", got, want)
	}
	idle, err := net.Dial("tcp", s.addr) // which does not hold up the end
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d: %q", code, <-s.log)
	}
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if value, ok := db.Raw().Get([]byte("users:alice")); string(value) != `{"Age":7}` || !ok {
		t.Errorf("%q, %v", value, ok)
	}
}

func TestServeAtASocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Skip("no unix sockets here: ", err)
	}
	left.SetUnlinkOnClose(false) // as a process that was killed leaves it
	left.Close()
	s := serve(t, filepath.Join(dir, "store"), "--redis", "", "--unix", path)
	if got := ask(t, "unix", path, "PING\r\nQUIT\r\n"); got != "+PONG\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	var told strings.Builder
	if code := carryOut(cli.NewApp(nil, io.Discard, &told), []string{"serve", filepath.Join(dir, "other"), "--redis", "", "--http", "", "--unix", path}); code != cli.ExitError {
		t.Errorf("a second server at one socket: exit code %d: %s", code, told.String())
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("secret", "open sesame\n")
	config := file("copal.toml", fmt.Sprintf("redis = \"127.0.0.1:0\"\ndurability = \"fsync\"\nmax-clients = 3\npassword-file = %q\nmax-memory = \"64MiB\"\n", secret))
	t.Setenv("COPAL_DURABILITY", "async")
	t.Setenv("COPAL_MAX_CLIENTS", "5")
	s := serve(t, filepath.Join(dir, "store"), "--config", config, "--max-clients", "2")
	// The flag goes before the variable, and that before the file.
	first, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	fmt.Fprint(first, "PING\r\n")
	if line, err := bufio.NewReader(first).ReadString('\n'); line != "-NOAUTH Authentication required.\r\n" {
		t.Errorf("%q, %v", line, err)
	}
	got := ask(t, "tcp", s.addr, "AUTH 'open sesame'\r\nCLIENT DURABILITY\r\nQUIT\r\n")
	if got != "+OK\r\n$5\r\nasync\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeAsACluster(t *testing.T) {
	none := serve(t, t.TempDir(), "--redis", "127.0.0.1:0")
	if got := ask(t, "tcp", none.addr, "CLUSTER SLOTS\r\nQUIT\r\n"); got != "-ERR This instance has cluster support disabled\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	one := serve(t, t.TempDir(), "--redis", "127.0.0.1:0", "--cluster-mode", "one-shard")
	_, port, _ := net.SplitHostPort(one.addr)
	if got := ask(t, "tcp", one.addr, "CLUSTER SLOTS\r\nQUIT\r\n"); !strings.Contains(got, "\r\n127.0.0.1\r\n:"+port+"\r\n") {
		t.Errorf("%q", got)
	}
	announced := serve(t, t.TempDir(), "--redis", "0.0.0.0:0", "--no-password", "--cluster-mode", "one-shard", "--cluster-announce", "db.example:7000")
	_, port, _ = net.SplitHostPort(announced.addr)
	if got := ask(t, "tcp", "127.0.0.1:"+port, "CLUSTER SLOTS\r\nQUIT\r\n"); !strings.Contains(got, "\r\ndb.example\r\n:7000\r\n") {
		t.Errorf("%q", got)
	}
	for _, s := range []*server{none, one, announced} {
		if code := s.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	bad := filepath.Join(dir, "bad.toml")
	for path, text := range map[string]string{empty: "\n", bad: "max_memory = 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--redis", "0.0.0.0:0"}, cli.ExitUsage, "needs a password"},
		{[]string{"--redis", ":0"}, cli.ExitUsage, "needs a password"},
		{[]string{"--redis", "example.com:1"}, cli.ExitUsage, "needs a password"},
		{[]string{"--redis", "nonsense"}, cli.ExitUsage, "--redis"},
		{[]string{"--http", "0.0.0.0:0"}, cli.ExitUsage, "needs a password"},
		{[]string{"--http", "nonsense"}, cli.ExitUsage, "--http"},
		{[]string{"--cors", "https://app.example,*"}, cli.ExitUsage, "--cors"},
		{[]string{"--redis", ""}, cli.ExitUsage, "nothing to serve"},
		{[]string{"--durability", "maybe"}, cli.ExitUsage, "--durability"},
		{[]string{"--max-memory", "lots"}, cli.ExitUsage, "a size"},
		{[]string{"--log", "xml"}, cli.ExitUsage, "--log"},
		{[]string{"--log-level", "loud"}, cli.ExitUsage, "--log-level"},
		{[]string{"--max-clients", "-1"}, cli.ExitUsage, "positive"},
		{[]string{"--max-request", "0"}, cli.ExitUsage, "positive"},
		{[]string{"--idle-timeout", "-1s"}, cli.ExitUsage, "negative"},
		{[]string{"--auth-timeout", "-1s"}, cli.ExitUsage, "negative"},
		{[]string{"--sync-interval", "0s"}, cli.ExitUsage, "positive"},
		{[]string{"--cluster-mode", "on"}, cli.ExitUsage, "one-shard"},
		{[]string{"--cluster-announce", "host:1"}, cli.ExitUsage, "one-shard"},
		{[]string{"--cluster-mode", "one-shard", "--cluster-announce", "host"}, cli.ExitUsage, "HOST:PORT"},
		{[]string{"--cluster-mode", "one-shard", "--cluster-announce", ":1"}, cli.ExitUsage, "HOST:PORT"},
		{[]string{"--cluster-mode", "one-shard", "--redis", "0.0.0.0:0", "--no-password"}, cli.ExitUsage, "HOST:PORT"},
		{[]string{"--tls-cert", "x"}, cli.ExitUsage, "TLS needs"},
		{[]string{"--history", "long"}, cli.ExitUsage, "history"},
		{[]string{"--password-file", empty}, cli.ExitError, "empty"},
		{[]string{"--max-clients", "some"}, cli.ExitUsage, "a whole number"},
		{[]string{"--grace", "soon"}, cli.ExitUsage, "a time"},
		{[]string{"--config", bad}, cli.ExitUsage, `no setting "max_memory"`},
		{[]string{"--config", filepath.Join(dir, "none")}, cli.ExitError, "none"},
	} {
		var told strings.Builder
		store := filepath.Join(dir, "store")
		code := carryOut(cli.NewApp(nil, io.Discard, &told), append([]string{"serve", store, "--redis", "127.0.0.1:0", "--http", ""}, c.args...))
		if code != c.code || !strings.Contains(told.String(), c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, told.String())
		}
		if _, err := os.Stat(store); err == nil {
			t.Errorf("%q made a store", c.args)
		}
	}
}
