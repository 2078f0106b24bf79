package remote

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
)

// TestOpenAnotherServer: the error of Open says that a server which speaks another protocol is there, and its answer.
func TestOpenAnotherServer(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(nc net.Conn)
		says  string
	}{
		"HTTP": {func(nc net.Conn) {
			_, _ = bufio.NewReader(nc).ReadString('\n')
			fmt.Fprint(nc, "HTTP/1.1 400 Bad Request\r\n\r\nno")
		}, `it answers "HTTP/1.1 400 Bad Request"`},
		"a greeting":   {func(nc net.Conn) { fmt.Fprint(nc, "SSH-2.0-x\r\n") }, `it answers "SSH-2.0-x"`},
		"TLS":          {func(nc net.Conn) { _ = tls.Server(nc, &tls.Config{}).Handshake() }, "perhaps it expects TLS"},
		"without word": {func(nc net.Conn) { _, _ = bufio.NewReader(nc).ReadString('\n') }, "it ends the connection without an answer"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					c.serve(nc)
					nc.Close()
				}()
			}
		}()
		db, err := Open(t.Context(), "redis://:secret@"+l.Addr().String())
		if err == nil {
			t.Errorf("%s: it is open", name)
			db.Close()
		} else if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, l.Addr().String()) || strings.Contains(text, "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsOfReplies: a program can test why a server has refused a call, or Open.
func TestErrorsOfReplies(t *testing.T) {
	_, address := redisserver.Start(t)
	server := &redisserver.Process{Address: address}
	do := func(words ...string) {
		t.Helper()
		if reply, err := server.Do(words...); err != nil {
			t.Fatal(words, reply, err)
		}
	}
	each := func(do func(m *copal.Map[string, int]) error, want error) {
		t.Helper()
		db, err := Open(t.Context(), "redis://"+address)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		m, err := copal.OpenMap[string, int](db, "m")
		if err != nil {
			t.Fatal(err)
		}
		if err := do(m); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	set := func(m *copal.Map[string, int]) error { return m.Set("a", 1) }
	load := func(m *copal.Map[string, int]) error { _, err := m.Load("a"); return err }
	update := func(m *copal.Map[string, int]) error {
		_, _, err := m.Update("a", func(e *copal.Entry[int]) error { e.Value++; return nil })
		return err
	}
	each(set, nil)
	do("CONFIG", "SET", "maxmemory", "1")
	each(set, copal.ErrNoSpace)
	each(update, copal.ErrNoSpace)
	do("CONFIG", "SET", "maxmemory", "0")
	do("CONFIG", "SET", "min-replicas-to-write", "1")
	each(set, copal.ErrDurability)
	do("CONFIG", "SET", "min-replicas-to-write", "0")
	do("ACL", "SETUSER", "default", "resetkeys", "~x*", "~copal:*")
	each(load, fs.ErrPermission)
	do("ACL", "SETUSER", "default", "~*", ">secret", "resetpass", ">secret")
	if db, err := Open(t.Context(), "redis://"+address); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without the password: %v, %v", db, err)
	}
}

// TestCodes: an error reply begins with its code, and one of a script may have it within.
func TestCodes(t *testing.T) {
	for text, want := range map[string]error{
		"OOM command not allowed when used memory > 'maxmemory'.":                                           copal.ErrNoSpace,
		"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: -OOM command not allowed": copal.ErrNoSpace,
		"NOREPLICAS Not enough good replicas to write.":                                                     copal.ErrDurability,
		"READONLY You can't write against a read only replica.":                                             copal.ErrReadOnly,
		"MISCONF Redis is configured to save RDB snapshots":                                                 copal.ErrReadOnly,
		"LOADING Redis is loading the dataset in memory":                                                    copal.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down":                                                               copal.ErrUnavailable,
		"CLUSTERDOWN The cluster is down":                                                                   copal.ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                           copal.ErrUnavailable,
		"BUSY Redis is busy running a script.":                                                              copal.ErrUnavailable,
		"NOPERM this user has no permissions":                                                               fs.ErrPermission,
		"NOAUTH Authentication required.":                                                                   fs.ErrPermission,
		"WRONGPASS invalid username-password pair":                                                          fs.ErrPermission,
	} {
		if err := meaning(codeOf(text), errors.New(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}
