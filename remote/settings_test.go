package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/redisserver"
)

// TestTrace: the function of Config.Trace gets the names of the commands, the context of the handle,
// and the error of a call without an answer.
func TestTrace(t *testing.T) {
	type key struct{}
	var names []string
	var errs []error
	c := Config{Trace: func(ctx context.Context, commands []string) func(error) {
		if ctx.Value(key{}) == nil {
			return nil
		}
		names = append(names, strings.Join(commands, " "))
		return func(err error) { errs = append(errs, err) }
	}}
	inBubble(t, target{name: "copal"}, c, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		x := openThings(t, db).with(context.WithValue(t.Context(), key{}, 1))
		if err := x.m.Set("a", 1); err != nil {
			t.Fatal(err)
		}
		goOn := l.hang(0)
		_, err := x.m.Load("a")
		goOn()
		if !slices.Equal(names, []string{"SET", "GET"}) || len(errs) != 2 || errs[0] != nil || errs[1] != err || err == nil {
			t.Errorf("%q, %v", names, errs)
		}
	})
}

// TestPing: a server that answers, and one that does not.
func TestPing(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		if err := Ping(t.Context(), db); err != nil {
			t.Error(err)
		}
		if err := Ping(t.Context(), l.own); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		goOn := l.hang(0)
		defer goOn()
		if err := Ping(t.Context(), db); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestDialTimeout: a connection is made within the limit for that, also if a call may take longer.
func TestDialTimeout(t *testing.T) {
	inBubble(t, target{name: "copal"}, Config{DialTimeout: time.Second, Timeout: time.Hour}, func(t *testing.T, l *line, db *copal.DB, _ func() []error) {
		x := openThings(t, db)
		l.conns.end()
		goOn := l.hang(0)
		defer goOn()
		began := time.Now()
		if _, err := x.m.Load("a"); err == nil || time.Since(began) > 2*mostSends*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestSentinel: a store is opened by the name of its master, and found after another server has
// become the master.
func TestSentinel(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	_, first := redisserver.Start(t)
	_, second := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(first)
	other := base(inCluster.driverOf(t, second))
	if _, err := other.get(t.Context(), plain("REPLICAOF", host, port)); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sentinel := l.Addr().String()
	_, sentinelPort, _ := net.SplitHostPort(sentinel)
	l.Close()
	text := "port " + sentinelPort + "\nbind 127.0.0.1\nsentinel monitor main " + host + " " + port + " 1\nsentinel down-after-milliseconds main 60000\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, conf, "--sentinel")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	var db *copal.DB
	for {
		if db, err = Open(t.Context(), "redis://"+sentinel+"?timeout=1m&master=main"); err == nil {
			break
		}
	}
	defer db.Close()
	raw := db.Raw()
	if err := raw.Set([]byte("k"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	asked := base(inCluster.driverOf(t, sentinel))
	for { // until the sentinel knows the replica
		if _, err := asked.get(t.Context(), plain("SENTINEL", "FAILOVER", "main")); err == nil {
			break
		}
	}
	for { // until the other server is the master, and found
		if err := raw.Set([]byte("k"), []byte("2")); err == nil {
			if value, err := other.Get(t.Context(), []byte("k"), false); err == nil && string(value.Value) == "2" {
				if m, err := other.get(t.Context(), ask("ROLE")); err == nil {
					if role, _ := m.ToArray(); len(role) > 0 {
						if name, _ := role[0].ToString(); name == "master" {
							return
						}
					}
				}
			}
		}
	}
}
