package redisapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// A transaction of a connection reads one moment and its own writes, which others see when it has committed, all at
// once.
func TestSessionIsIsolated(t *testing.T) {
	s, address := newServer(t)
	p, other := dial(t, address), dial(t, address)
	other.want("MSET a 1 b 2", "OK")
	reply := p.do("COPAL.BEGIN")
	now, err := s.DB.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("[%d ", now.Seq()); !strings.HasPrefix(reply, want) {
		t.Errorf("COPAL.BEGIN: %s, want %s…", reply, want)
	}
	now.Close()
	p.want("SET a 10", "OK")
	p.want("RPUSH l x y", "2")
	p.want("INCR n", "1")
	p.want("HSET b f v", "(error) "+string(command.ErrWrongType))
	p.want("NOSUCH", "(error) ERR unknown command 'NOSUCH', with args beginning with: ")
	p.want("MGET a b n", `["10" "2" "1"]`)
	p.want("LRANGE l 0 -1", `["x" "y"]`)
	other.want("MGET a b n", `["1" "2" nil]`)
	other.want("EXISTS l", "0")
	other.want("SET c 3", "OK")
	p.want("EXISTS c", "0")
	p.want("DBSIZE", "4")
	p.want("COPAL.COMMIT", "(error) "+string(errConflict)) // DBSIZE has walked
	other.want("MGET a b n", `["1" "2" nil]`)

	p.do("COPAL.BEGIN")
	p.want("MSET a 10 d 4", "OK")
	p.want("DEL b", "1")
	other.want("SET c 4", "OK")
	p.want("COPAL.COMMIT", "OK")
	other.want("MGET a b c d", `["10" nil "4" "4"]`)
	p.want("GET c", `"4"`)
	p.want("COPAL.COMMIT", "(error) ERR COPAL.COMMIT without COPAL.BEGIN")
	p.want("COPAL.ROLLBACK", "(error) ERR COPAL.ROLLBACK without COPAL.BEGIN")

	p.do("COPAL.BEGIN")
	p.want("SET a 11", "OK")
	p.want("COPAL.ROLLBACK", "OK")
	p.want("GET a", `"10"`)

	p.do("COPAL.BEGIN")
	p.want("SET a 12", "OK")
	p.want("COPAL.COMMIT WRONG", "(error) ERR syntax error")
	p.want("COPAL.COMMIT FSYNC", "OK")
	other.want("GET a", `"12"`)
	p.want("COPAL.BEGIN WRONG", "(error) ERR syntax error")
	s.wantNoSessions(t)
}

// wantNoSessions is an error if the store keeps a view.
func (s *Server) wantNoSessions(t *testing.T) {
	t.Helper()
	if open := s.DB.Stats().Snapshots; open != 0 {
		t.Errorf("%d views are open", open)
	}
}

// If two transactions each read a key that the other writes, one loses, and none of its writes
// counts. All increments of concurrent clients count in the end.
func TestSessionConflicts(t *testing.T) {
	s, address := newServer(t)
	a, b := dial(t, address), dial(t, address)
	a.want("MSET x 1 y 1", "OK")
	a.do("COPAL.BEGIN")
	b.do("COPAL.BEGIN")
	a.want("GET x", `"1"`)
	b.want("GET y", `"1"`)
	a.want("MSET y 2 a 1", "OK")
	b.want("MSET x 2 b 1", "OK")
	a.want("COPAL.COMMIT", "OK")
	b.want("COPAL.COMMIT", "(error) "+string(errConflict))
	b.want("MGET x y a b", `["1" "2" "1" nil]`)
	b.do("COPAL.BEGIN") // a key that is only written is no conflict
	b.want("SET x 3", "OK")
	a.want("SET x 4", "OK")
	b.want("COPAL.COMMIT", "OK")
	a.want("GET x", `"3"`)

	const clients, each = 4, 20
	var all sync.WaitGroup
	for range clients {
		p := dial(t, address)
		all.Go(func() {
			for done := 0; done < each; {
				p.do("COPAL.BEGIN")
				p.do("INCR sum")
				switch reply := p.do("COPAL.COMMIT"); reply {
				case "OK":
					done++
				case "(error) " + string(errConflict):
				default:
					t.Error(reply)
					return
				}
			}
		})
	}
	all.Wait()
	a.want("GET sum", fmt.Sprintf("%q", fmt.Sprint(clients*each)))
	s.wantNoSessions(t)
}

// A snapshot does not change while others write, delete and compact, and refuses writes.
func TestSessionSnapshot(t *testing.T) {
	s, address := newServer(t)
	p, other := dial(t, address), dial(t, address)
	other.want("MSET a 1 b 2", "OK")
	other.want("HSET h f 1", "1")
	p.do("COPAL.BEGIN SNAPSHOT")
	other.want("SET a 10", "OK")
	other.want("FLUSHALL", "OK")
	other.want("SET c 3", "OK")
	if err := s.DB.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.want("MGET a b c", `["1" "2" nil]`)
		p.want("HGETALL h", `["f" "1"]`)
		p.want("KEYS *", `["a" "b" "h"]`)
		p.want("DBSIZE", "3")
		p.want(`COPAL.LEN ""`, "3")
	}
	for _, words := range []string{"SET a 1", "DEL a", "COPAL.DELRANGE a \"\"", "COPAL.TYPED DELEX a", "FLUSHALL", "RPUSH l x"} {
		p.want(words, "(error) READONLY You can't write in a snapshot.")
	}
	p.want("COPAL.COMMIT", "OK")
	p.want("MGET a b c", `[nil nil "3"]`)
	s.wantNoSessions(t)
}

// Commands that are not allowed in a transaction return errors, and the transaction goes on
// unchanged. Commands that are not about data work as usual.
func TestSessionRefuses(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.want("WATCH a", "OK")
	p.want("COPAL.BEGIN", "(error) ERR COPAL.BEGIN while keys are watched")
	p.want("UNWATCH", "OK")
	p.want("MULTI", "OK")
	p.want("COPAL.BEGIN", "(error) ERR Command not allowed inside a transaction")
	p.want("DISCARD", "OK")
	p.do("COPAL.BEGIN")
	p.want("SET a 1", "OK")
	for words, name := range map[string]string{"MULTI": "multi", "WATCH a": "watch", "BLPOP l 0": "blpop", "XREAD STREAMS s 0": "xread", "SUBSCRIBE c": "subscribe", "PUBLISH c m": "publish",
		"SAVE": "save", "CONFIG GET *": "config|get", "MONITOR": "monitor", "COPAL.BEGIN": "copal.begin", "COPAL.BEGIN SNAPSHOT": "copal.begin", "COPAL.FEED OPEN": "copal.feed|open", "HELLO 3": "hello",
		"COPAL.TYPED BLPOP l 0": "blpop", "CLIENT LIST": "client|list", "BGREWRITEAOF": "bgrewriteaof"} {
		p.want(words, fmt.Sprintf("(error) ERR '%s' is not possible in a transaction of COPAL.BEGIN", name))
	}
	p.want("EXEC", "(error) ERR EXEC without MULTI")
	p.want("PING", "PONG")
	p.want("SELECT 1", "OK")
	p.want("GET a", "nil")
	p.want("SELECT 0", "OK")
	p.want("GET a", `"1"`)
	if reply := p.do("CLIENT INFO"); !strings.Contains(reply, " flags=x ") {
		t.Error(reply)
	}
	p.want("COPAL.COMMIT", "OK")
	p.want("GET a", `"1"`)
}

// A transaction may take as much memory as a request.
func TestSessionIsBounded(t *testing.T) {
	s, address := newServer(t, func(s *Server) { s.MaxRequest = 1 << 20 })
	p := dial(t, address)
	p.do("COPAL.BEGIN")
	value := strings.Repeat("x", 200<<10)
	var last string
	for n := 0; n < 10 && last == ""; n++ {
		if got := p.do(fmt.Sprint("SET k", n, " ", value)); got != "OK" {
			last = got
		}
	}
	if last != "(error) ERR the transaction is too long" {
		t.Error(last)
	}
	p.want("COPAL.ROLLBACK", "OK")
	p.want("DBSIZE", "0")
	s.wantNoSessions(t)
}

// A transaction ends with its connection, however that ends, and with RESET. Nothing of it is written, and no goroutine
// is left.
func TestSessionEnds(t *testing.T) {
	ends := map[string]func(s *Server, p, other *peer){
		"the client is gone": func(_ *Server, p, _ *peer) { p.nc.Close() },
		"QUIT":               func(_ *Server, p, _ *peer) { p.want("QUIT", "OK") },
		"RESET":              func(_ *Server, p, _ *peer) { p.want("RESET", "RESET") },
		"CLIENT KILL":        func(_ *Server, _, other *peer) { other.want("CLIENT KILL ID 1", "1") },
		"rubbish": func(_ *Server, p, _ *peer) {
			p.nc.Write([]byte("*1\r\n:1\r\n"))
			p.read()
		},
		"Shutdown": func(s *Server, _, _ *peer) {
			if err := s.Shutdown(context.Background()); err != nil {
				panic(err)
			}
		},
		"SessionTimeout": func(s *Server, _, _ *peer) { time.Sleep(s.SessionTimeout) }, // of the bubble's clock
	}
	for name, end := range ends {
		for _, begin := range []string{"COPAL.BEGIN", "COPAL.BEGIN SNAPSHOT"} {
			t.Run(name+" "+begin, func(t *testing.T) {
				piped(t, func(t *testing.T, s *Server, dial func() *peer) {
					p, other := dial(), dial()
					other.want("SET a 0", "OK")
					p.do(begin)
					p.do("SET a 1")
					p.want("GET a", map[bool]string{true: `"1"`, false: `"0"`}[begin == "COPAL.BEGIN"])
					end(s, p, other)
					synctest.Wait()
					s.wantNoSessions(t)
					if a, _ := s.DB.Raw().Get([]byte("a")); string(a) != "0" {
						t.Errorf("a is %q", a)
					}
				})
			})
		}
	}
}

// A client that is idle without a transaction stays, also when it has had one.
func TestSessionTimeoutEndsWithIt(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		p.do("COPAL.BEGIN")
		time.Sleep(s.SessionTimeout - time.Second)
		p.want("PING", "PONG")
		time.Sleep(s.SessionTimeout - time.Second)
		p.want("COPAL.COMMIT", "OK")
		time.Sleep(10 * s.SessionTimeout)
		p.want("PING", "PONG")
	})
}

// A client that waits for a key is served when a transaction that has written it commits.
func TestSessionWakes(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		p, waits := dial(), dial()
		waits.begin("BLPOP l 0")
		p.do("COPAL.BEGIN")
		p.want("RPUSH l x", "1")
		p.want("GET l", "(error) "+string(command.ErrWrongType))
		p.send("COPAL.COMMIT")
		waits.wantNext(`["l" "x"]`)
		p.wantNext("OK")
		p.want("EXISTS l", "0")
	})
}

// A pause of writes holds a commit, also on a connection with durability fsync.
func TestSessionPauses(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p, control := dial(), dial()
		p.want("CLIENT DURABILITY FSYNC", "OK")
		p.do("COPAL.BEGIN")
		p.want("SET a 1", "OK")
		control.want("CLIENT PAUSE 1000 WRITE", "OK")
		p.begin("COPAL.COMMIT")
		if s.DB.Raw().Has([]byte("a")) {
			t.Error("a pause holds no commit")
		}
		control.want("CLIENT UNPAUSE", "OK")
		p.wantNext("OK")
		control.want("GET a", `"1"`)
	})
}

// Programs of the same store and transactions of connections see each other as transactions do.
func TestSessionAndProgram(t *testing.T) {
	s := newTypedStore(t, codec.JSON)
	s.do("COPAL.BEGIN")
	s.want("COPAL.TYPED GET people:ada", s.ada)
	if err := s.people.Set("ada", bob); err != nil {
		t.Fatal(err)
	}
	s.want("COPAL.TYPED GET people:ada", s.ada)
	s.want("COPAL.TYPED SET people:eve "+s.ada, "OK")
	s.want("COPAL.COMMIT", "(error) "+string(errConflict))
	if _, err := s.people.Load("eve"); !errors.Is(err, copal.ErrNotFound) {
		t.Error(err)
	}
}

// A store that a program closes does not wait for the transactions of connections, which end then.
func TestSessionOfClosedStore(t *testing.T) {
	for _, begin := range []string{"COPAL.BEGIN", "COPAL.BEGIN SNAPSHOT"} {
		s, address := newServer(t)
		p := dial(t, address)
		p.want("SET a 1", "OK")
		p.do(begin)
		if err := s.DB.Close(); err != nil {
			t.Fatal(err)
		}
		p.want("GET a", "(error) ERR the store is closed")
		p.want("COPAL.ROLLBACK", "OK")
		p.want("PING", "PONG")
	}
}
