package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/redisserver"
)

// wantCommand runs a command line that must succeed, and wants these outputs.
func wantCommand(t *testing.T, stdout, stderr string, args ...string) {
	t.Helper()
	code, out, told := command(nil, args...)
	if code != 0 || out != stdout || told != stderr {
		t.Errorf("copal %q: exit code %d, %q, %q; want %q, %q", args, code, out, told, stdout, stderr)
	}
}

func needSockets(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a store has no socket here")
	}
}

// TestOwnSocket looks at the socket that a server makes in the directory of its store: at its
// rights, and that it asks for no password, which another listener does.
func TestOwnSocket(t *testing.T) {
	needSockets(t)
	t.Setenv("COPAL_PASSWORD", "secret")
	dir := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := cli.SocketOf(dir)
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false) // as a server that was killed leaves it
	left.Close()
	if err := os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o666); err != nil { // that it is a store
		t.Fatal(err)
	}
	s := serve(t, dir, "--redis", "127.0.0.1:0")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode.Perm() != 0o600 || mode.Type() != os.ModeSocket {
		t.Errorf("the socket has the mode %v", mode)
	}
	if got := ask(t, "tcp", s.addr, "GET k\r\nQUIT\r\n"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("the other door says %q", got)
	}
	if got := ask(t, "unix", path, "SET k v\r\nGET k\r\nQUIT\r\n"); got != "+OK\r\n$1\r\nv\r\n+OK\r\n" {
		t.Errorf("the socket says %q", got)
	}
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	names, err := filepath.Glob(filepath.Join(dir, "SOCKET*"))
	if err != nil || len(names) > 0 {
		t.Errorf("%q is left, %v", names, err)
	}
	s = serve(t, dir, "--redis", "127.0.0.1:0", "--no-socket")
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a socket in spite of --no-socket")
	}
	s.end()
}

// TestSecondProcess writes to a store that a server has open, and to one that another program has
// open.
func TestSecondProcess(t *testing.T) {
	needSockets(t)
	dir := filepath.Join(t.TempDir(), "s")
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := copal.OpenMap[string, user](db, "typed")
	if err = errors.Join(err, typed.Set("alice", user{"Alice", 28}), db.Close()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, "--redis", "127.0.0.1:0")
	note := "copal: " + dir + " is open in a copal serve, and is changed by that, through " + cli.SocketOf(dir) + "\n"
	wantCommand(t, "", note, "set", dir, "users:alice", "1", "--until", "2099-01-01T00:00:00.125Z")
	wantCommand(t, "8\n", note, "incr", dir, "users:alice", "7")
	wantCommand(t, "8", "", "get", dir, "users:alice")
	wantCommand(t, `{"key":"users:alice","expires":"2099-01-01T00:00:00.125Z","value":8}`+"\n", "", "get", dir, "users:alice", "--json")
	wantCommand(t, "", note, "ttl", dir, "users:alice", "none")
	wantCommand(t, "none\n", "", "ttl", dir, "users:alice")
	wantCommand(t, "1 key deleted\n", note, "del", dir, "--prefix", "users:", "--yes")
	if code, _, _ := command(nil, "has", dir, "users:alice"); code != cli.ExitNotFound {
		t.Errorf("the entry is there: exit code %d", code)
	}
	if code, _, told := command(nil, "set", dir, "typed:carol", `{"Name":1}`); code != cli.ExitError || !strings.Contains(told, "typed:carol") {
		t.Errorf("a value that is none of its map: exit code %d, %q", code, told)
	}
	wantCommand(t, "", note, "set", dir, "typed:carol", `{"Name":"Carol","Age":1}`)
	if code, _, told := command(nil, "compact", dir); code != cli.ExitLocked || !strings.Contains(told, "is locked by") {
		t.Errorf("compact: exit code %d, %q", code, told)
	}
	s.end()
	s = serve(t, dir, "--redis", "127.0.0.1:0", "--no-socket")
	if code, _, told := command(nil, "set", dir, "k", "v"); code != cli.ExitLocked || !strings.Contains(told, "is locked by") {
		t.Errorf("set without a socket: exit code %d, %q", code, told)
	}
	s.end()
}

// TestStoresOnServers uses a store by its address.
func TestStoresOnServers(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "s"), "--redis", "127.0.0.1:0")
	at := "redis://" + s.addr
	wantCommand(t, "", "", "set", at, "users:bob", "2")
	wantCommand(t, "", "", "set", at, "users:alice", "1")
	wantCommand(t, "", "", "set", at, "other", "3")
	wantCommand(t, "1", "", "get", at, "users:alice")
	wantCommand(t, "", "", "has", at, "users:alice", "other")
	wantCommand(t, "users:alice\nusers:bob\n", "", "ls", at, "users:")
	wantCommand(t, "users:bob\t2\nusers:alice\t1\n", "", "range", at, "users:", "--reverse")
	wantCommand(t, "other\t3\nusers:alice\t1\nusers:bob\t2\n", "", "scan", at)
	wantCommand(t, "2\n", "", "count", at, "users:")
	wantCommand(t, "3\n", "", "count", at)
	wantCommand(t, "", "", "del", at, "users:bob")
	wantCommand(t, "other\n", "", "ls", at, "--match", "o*")
	for _, args := range [][]string{{"compact", at}, {"export", at, "--at", "1h"}, {"undo", at, "--since", "1h"}, {"backup", "x", at}, {"get", at, "other", "--at", "1h"}} {
		code, _, told := command(nil, args...)
		if code != cli.ExitUsage || !strings.Contains(told, "needs a directory") {
			t.Errorf("copal %q: exit code %d, %q", args, code, told)
		}
	}
	if code, _, told := command(nil, "check", "redis://me:secret@host:1/2"); code != cli.ExitUsage || !strings.Contains(told, "redis://me:***@host:1/2 is a server") {
		t.Errorf("exit code %d, %q", code, told)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	code, out, told := command(strings.NewReader("\n"), "copy", at, copied, "--cutover")
	if code != 0 || !strings.HasPrefix(out, copied+" is equal to "+at+": 2 entries, 2 set and 0 deleted by this run") {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	wantCommand(t, "1", "", "get", copied, "users:alice")
	code, out, told = command(nil, "copy", copied, at, "--replace")
	if code != 0 || !strings.Contains(out, ": 2 entries, 0 set and 0 deleted by this run") {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
	s.end()
	if code, _, told := command(nil, "get", at, "other"); code != cli.ExitError || told == "" {
		t.Errorf("nobody answers: exit code %d, %q", code, told)
	}
}

// TestCopyFromARedis prints that nothing was compared.
func TestCopyFromARedis(t *testing.T) {
	_, address := redisserver.Start(t)
	at, to := "redis://"+address, filepath.Join(t.TempDir(), "to")
	mustCommand(t, nil, "set", at, "k", "v")
	if out := mustCommand(t, nil, "copy", at, to); out != to+": copied, not compared: 1 set and 0 deleted by this run\n" {
		t.Errorf("%q", out)
	}
	mustCommand(t, nil, "set", at, "a", "v")
	if out := mustCommand(t, nil, "copy", at, to, "--json"); !strings.Contains(out, `"entries":null,"written":1,`) || !strings.Contains(out, `"sum":null,"equal":false,"contentTypesLeftOut":null}`) {
		t.Errorf("%q", out)
	}
	for _, in := range []string{"", "y"} { // which is no line
		if code, out, told := command(strings.NewReader(in), "copy", at, to, "--cutover"); code != cli.ExitError || out != "" || !strings.Contains(told, "standard input has ended") {
			t.Errorf("%q: exit code %d: %q, %q", in, code, out, told)
		}
	}
	code, out, told := command(strings.NewReader("\n"), "copy", at, to, "--cutover")
	if code != 0 || !strings.Contains(out, " is equal to "+at+": 2 entries, 0 set") || !strings.Contains(told, "copal: copied, and going on.") {
		t.Errorf("exit code %d: %q, %q", code, out, told)
	}
}

// TestCopyTellsContentTypes: a copy to a Redis, which does not keep content types, warns, and one
// to a copal serve keeps them.
func TestCopyTellsContentTypes(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	db, err := copal.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(admin.Put(db, &admin.Entry{Key: []byte("k"), Value: []byte("<p>"), Content: "text/html"}), db.Close()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(t.TempDir(), "s"), "--redis", "127.0.0.1:0")
	defer s.end()
	at, to := "redis://"+s.addr, filepath.Join(t.TempDir(), "to")
	for _, pair := range [][2]string{{from, at}, {at, to}} {
		if code, out, told := command(nil, "copy", pair[0], pair[1], "--json"); code != 0 || !strings.Contains(out, `"contentTypesLeftOut":0}`) || told != "" {
			t.Errorf("%q: exit code %d: %q, %q", pair, code, out, told)
		}
	}
	_, address := redisserver.Start(t)
	redis := "redis://" + address
	code, out, told := command(nil, "copy", to, redis, "--replace", "--json")
	if code != 0 || !strings.Contains(out, `"contentTypesLeftOut":1}`) || told != "copal: the content types of 1 entry were not copied: "+redis+" keeps none\n" {
		t.Errorf("to a Redis: exit code %d: %q, %q", code, out, told)
	}
}

// TestCopyHidesPasswords has no password in its output and its notes.
func TestCopyHidesPasswords(t *testing.T) {
	_, address := redisserver.Start(t)
	dialRedis(t, address).do("ACL", "SETUSER", "me", "on", ">secret", "+@all", "~*", "&*")
	at, dir, other := "redis://me:secret@"+address, filepath.Join(t.TempDir(), "dir"), filepath.Join(t.TempDir(), "other")
	for _, d := range []string{dir, other} {
		db := openForTest(t, d)
		if err := errors.Join(admin.Put(db, &admin.Entry{Key: []byte("k"), Value: []byte(d), Content: "text/plain"}), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{dir, at}, 0, "1 entry were not copied: redis://me:***@"},
		{[]string{dir, at, "--json"}, 0, `"to":"redis://me:***@`},
		{[]string{dir, at, "--cutover"}, 0, "is equal to"},
		{[]string{other, at}, cli.ExitError, "has entries"},
		{[]string{at, other}, cli.ExitError, "has entries"},
		{[]string{at, other, "--replace"}, 0, "copied, not compared"},
		{[]string{at, other, "--cutover"}, 0, "is equal to"},
	} {
		code, out, told := command(strings.NewReader("\n"), append([]string{"copy"}, c.args...)...)
		if all := out + told; code != c.code || strings.Contains(all, "secret") || !strings.Contains(all, c.says) {
			t.Errorf("%q: exit code %d: %s", c.args, code, all)
		}
	}
}

// TestCopyStreams takes streams with groups from a Redis to a server, a directory and another
// Redis: each says the same of them.
func TestCopyStreams(t *testing.T) {
	_, first := redisserver.Start(t, "--stream-node-max-entries", "7")
	_, second := redisserver.Start(t)
	s := serve(t, filepath.Join(t.TempDir(), "s"), "--redis", "127.0.0.1:0")
	defer s.end()
	keys := fillStreams(dialRedis(t, first), rand.New(rand.NewPCG(7, 0)))
	want := streamsOf(dialRedis(t, first), keys)
	dir := filepath.Join(t.TempDir(), "dir")
	for _, pair := range [][2]string{{"redis://" + first, "redis://" + s.addr}, {"redis://" + s.addr, dir}, {dir, "redis://" + second}} {
		code, out, told := command(strings.NewReader("\n"), "copy", pair[0], pair[1], "--cutover")
		if code != 0 || !strings.Contains(out, fmt.Sprintf(" is equal to %s: %d entries, %[2]d set", pair[0], len(keys))) {
			t.Fatalf("%q: exit code %d: %q, %q", pair, code, out, told)
		}
	}
	for _, address := range []string{s.addr, second} {
		for i, got := range streamsOf(dialRedis(t, address), keys) {
			if got != want[i] {
				t.Errorf("%q\n%.500s\nwant %.500s", keys[i], got, want[i])
			}
		}
	}
}
