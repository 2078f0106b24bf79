package redisapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// piped runs f in a synctest bubble, with a server whose connections are pipes. dial connects a
// client.
func piped(t *testing.T, f func(t *testing.T, s *Server, dial func() *peer)) {
	synctest.Test(t, func(t *testing.T) {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{DB: db, Debug: true}
		s.init()
		var ends []net.Conn
		defer func() {
			for _, end := range ends {
				end.Close()
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, s, func() *peer {
			here, there := net.Pipe()
			ends = append(ends, here)
			s.accept(there)
			return newPeer(t, here)
		})
	})
}

// begin sends a request that waits, and returns when it does.
func (p *peer) begin(words string) {
	p.t.Helper()
	p.send(words)
	synctest.Wait()
}

func TestFirstToComeIsServedFirst(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b, c, d := dial(), dial(), dial(), dial()
		a.begin("BLPOP k 0")
		b.begin("BRPOP other k 0")
		c.begin("BLPOP k 0")
		d.want("RPUSH k 1 2", "2")
		a.wantNext(`["k" "1"]`)
		b.wantNext(`["k" "2"]`)
		d.want("EXISTS k", "0")
		d.want("RPUSH k 3 4 5", "3")
		c.wantNext(`["k" "3"]`)
		d.want("LRANGE k 0 -1", `["4" "5"]`)
		a.want("BLPOP k 0", `["k" "4"]`)
		a.want("PING", "PONG")
	})
}

func TestBlockingReplies(t *testing.T) {
	for _, c := range []struct{ request, then, reply, left string }{
		{"BLPOP a b 0", "RPUSH b 1 2", `["b" "1"]`, "LRANGE b 0 -1: [\"2\"]"},
		{"BLPOP b a b 0", "RPUSH b 1 2", `["b" "1"]`, "LRANGE b 0 -1: [\"2\"]"},
		{"BRPOP a b 0", "RPUSH b 1 2", `["b" "2"]`, "LRANGE b 0 -1: [\"1\"]"},
		{"BLMOVE a b RIGHT LEFT 0", "RPUSH a 1 2", `"2"`, "LRANGE b 0 -1: [\"2\"]"},
		{"BRPOPLPUSH a b 0", "LPUSHX a 9 | RPUSH a 1 2", `"2"`, "LRANGE b 0 -1: [\"2\"]"},
		{"BLMOVE a a LEFT RIGHT 0", "RPUSH a 1 2", `"1"`, "LRANGE a 0 -1: [\"2\" \"1\"]"},
		{"BLMPOP 0 2 a b LEFT", "RPUSH b 1 2", `["b" ["1"]]`, "LRANGE b 0 -1: [\"2\"]"},
		{"BLMPOP 0 2 a b RIGHT COUNT 5", "RPUSH b 1 2", `["b" ["2" "1"]]`, "EXISTS b: 0"},
		{"BLPOP k 0", "SET k s | DEL k | RPUSH k 1", `["k" "1"]`, "EXISTS k: 0"},
		{"BLPOP k 0", "RPUSH x 1 | RENAME x k", `["k" "1"]`, "EXISTS k: 0"},
		{"BLPOP k 0", "RPUSH x 1 | COPY x k", `["k" "1"]`, "EXISTS k: 0"},
		{"BLPOP k 0", "RPUSH x 1 | LMOVE x k LEFT LEFT", `["k" "1"]`, "EXISTS k: 0"},
		{"BLPOP k 0", "MULTI | RPUSH k 1 | LPOP k | EXEC | MULTI | RPUSH k 1 | LPUSH k 0 | EXEC", `["k" "0"]`, "LRANGE k 0 -1: [\"1\"]"},
		{"BLMOVE a s LEFT LEFT 0", "SET s x | RPUSH a 1", "(error) " + string(command.ErrWrongType), "LRANGE a 0 -1: [\"1\"]"},
	} {
		for _, version := range []string{"2", "3"} {
			piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
				a, b := dial(), dial()
				a.do("HELLO " + version)
				a.begin(c.request)
				for _, words := range strings.Split(c.then, " | ") {
					b.do(words)
				}
				if got := a.read(); got != c.reply {
					t.Errorf("%s, then %s: %s, want %s", c.request, c.then, got, c.reply)
				}
				request, reply, _ := strings.Cut(c.left, ": ")
				b.want(request, reply)
			})
		}
	}
}

func TestSortedSetsBlock(t *testing.T) {
	for _, c := range []struct{ request, reply, reply3 string }{
		{"BZPOPMIN y z 0", `["z" "a" "1"]`, `["z" "a" ,1]`},
		{"BZPOPMAX y z 0", `["z" "c" "2.5"]`, `["z" "c" ,2.5]`},
		{"BZMPOP 0 2 y z MIN", `["z" [["a" "1"]]]`, `["z" [["a" ,1]]]`},
		{"BZMPOP 0 2 y z MAX COUNT 2", `["z" [["c" "2.5"] ["d" "2.25"]]]`, `["z" [["c" ,2.5] ["d" ,2.25]]]`},
	} {
		for _, version := range []string{"2", "3"} {
			piped(t, func(t *testing.T, s *Server, dial func() *peer) {
				a, b := dial(), dial()
				a.do("HELLO " + version)
				a.begin(c.request)
				b.begin("BLPOP z 0") // waits for another type, and delays no other client
				a2 := dial()
				a2.begin("BZPOPMIN z 0")
				if err := s.DB.Raw().SortedSet([]byte("z")).SetAll(map[string]float64{"a": 1, "b": 2, "c": 2.5, "d": 2.25}); err != nil {
					t.Fatal(err)
				}
				want := c.reply
				if version == "3" {
					want = c.reply3
				}
				if got := a.read(); got != want {
					t.Errorf("%s: %s, want %s", c.request, got, want)
				}
				a2.read()
			})
		}
	}
}

// A client that another one serves may serve a third.
func TestMovesGoOn(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		const n = 20
		var movers []*peer
		for i := range n {
			p := dial()
			p.begin(fmt.Sprintf("BLMOVE k%d k%d LEFT RIGHT 0", i, i+1))
			movers = append(movers, p)
		}
		last, pusher := dial(), dial()
		last.begin(fmt.Sprintf("BLPOP k%d 0", n))
		pusher.want("LPUSH k0 v", "1")
		for _, p := range movers {
			p.wantNext(`"v"`)
		}
		last.wantNext(fmt.Sprintf(`["k%d" "v"]`, n))
		pusher.want("DBSIZE", "0")
		// Round and round: each is served once.
		a, b := dial(), dial()
		a.begin("BRPOPLPUSH x y 0")
		b.begin("BRPOPLPUSH y x 0")
		pusher.want("LPUSH x 1", "1")
		a.wantNext(`"1"`)
		b.wantNext(`"1"`)
		pusher.want("LRANGE x 0 -1", `["1"]`)
	})
}

// Clients that wait for a key are served in the order in which they came, even if a later one asks
// when an element is there already.
func TestNoneIsOvertaken(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.begin("BLPOP k 0")
		s.waiting.mu.Lock() // so that no client is served yet
		if err := s.DB.Raw().List([]byte("k")).PushBack([]byte("1")); err != nil {
			t.Fatal(err)
		}
		b.send("BLPOP k 0")
		s.waiting.mu.Unlock()
		a.wantNext(`["k" "1"]`)
		synctest.Wait()
		dial().want("RPUSH k 2", "1")
		b.wantNext(`["k" "2"]`)
	})
}

// A client that begins to wait does not miss an element that arrives between its first look and its
// place in the queue.
func TestLooksAgainInTheQueue(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a := dial()
		s.waiting.mu.Lock()
		a.send("BLPOP k 0")
		for s.feed.needs.Load() == 0 { // it has looked
			runtime.Gosched()
		}
		err := s.DB.Raw().List([]byte("k")).PushBack([]byte("1"))
		for range 1000 { // the feed reports it while no client waits yet
			runtime.Gosched()
		}
		s.waiting.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		a.wantNext(`["k" "1"]`)
	})
}

func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		request string
		after   time.Duration
	}{
		{"BLPOP k 1", time.Second},
		{"BRPOP k l 0.25", 250 * time.Millisecond},
		{"BLMOVE k l LEFT LEFT 0.0001", time.Millisecond},
		{"BRPOPLPUSH k l 3600", time.Hour},
		{"BLMPOP 2.5 1 k LEFT", 2500 * time.Millisecond},
		{"BZPOPMIN k 1", time.Second},
		{"BZPOPMAX k 1", time.Second},
		{"BZMPOP 1 1 k MIN", time.Second},
	} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			p := dial()
			begun := time.Now()
			p.want(c.request, "nil[]")
			if took := time.Since(begun); took != c.after {
				t.Errorf("%s took %v", c.request, took)
			}
			if s.waiting.count.Load() != 0 || len(s.waiting.of) != 0 {
				t.Errorf("%s: the client is in a queue", c.request)
			}
			dial().want("RPUSH k 1", "1")
			p.want("LPOP k", `"1"`)
		})
	}
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.begin("BLPOP k 0")
		b.begin("BLPOP k 1000000")
		time.Sleep(999_999 * time.Second)
		synctest.Wait()
		c := dial()
		c.want("RPUSH k 1", "1")
		a.wantNext(`["k" "1"]`)
		b.wantNext("nil[]")
	})
}

func TestArgumentsOfBlockingCommands(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	p.do("SET s x")
	for request, reply := range map[string]string{
		"BLPOP k -1":                 "(error) ERR timeout is negative",
		"BLPOP k x":                  "(error) ERR timeout is not a float or out of range",
		"BLPOP k inf":                "(error) ERR timeout is out of range",
		"BLPOP k 1e300":              "(error) ERR timeout is out of range",
		"BLPOP k":                    "(error) ERR wrong number of arguments for 'blpop' command",
		"BLPOP k s 0":                "(error) " + string(command.ErrWrongType),
		"BLMOVE a b LEFT UP 1":       "(error) ERR syntax error",
		"BLMOVE a b LEFT LEFT x":     "(error) ERR timeout is not a float or out of range",
		"BLMOVE s b LEFT LEFT 0":     "(error) " + string(command.ErrWrongType),
		"BLMPOP 1 0 k LEFT":          "(error) ERR numkeys should be greater than 0",
		"BLMPOP x 0 k LEFT":          "(error) ERR timeout is not a float or out of range",
		"BLMPOP 1 1 k UP":            "(error) ERR syntax error",
		"BLMPOP 1 1 k LEFT COUNT 0":  "(error) ERR count should be greater than 0",
		"BLMPOP 1 2 k LEFT":          "(error) ERR syntax error",
		"BZPOPMIN s 1":               "(error) " + string(command.ErrWrongType),
		"BZMPOP 1 1 k UP":            "(error) ERR syntax error",
		"BZMPOP -1 1 k MIN":          "(error) ERR timeout is negative",
		"CLIENT UNBLOCK x":           "(error) ERR value is not an integer or out of range",
		"CLIENT UNBLOCK 99999":       "0",
		"CLIENT UNBLOCK 1 FOO":       "(error) ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
		"CLIENT UNBLOCK 1 TIMEOUT":   "0",
		"CLIENT UNBLOCK 1 ERROR bad": "(error) ERR syntax error",
	} {
		p.want(request, reply)
	}
	for _, request := range []string{"MULTI", "BLPOP k 0", "BLMOVE a b LEFT LEFT 0", "BRPOPLPUSH a b 0", "BZPOPMIN a 0", "BLMPOP 0 1 a LEFT", "BZMPOP 0 1 a MIN", "RPUSH k 1 2", "BLPOP k 0"} {
		p.do(request)
	}
	p.want("EXEC", `[nil[] nil nil nil[] nil[] nil[] 2 ["k" "1"]]`)
}

func TestUnblock(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		id := a.do("CLIENT ID")
		for kind, reply := range map[string]string{"": "nil[]", " TIMEOUT": "nil[]", " error": "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"} {
			a.begin("BLPOP k 0")
			if kind == " error" {
				kind = " ERROR"
			}
			b.want("CLIENT UNBLOCK "+id+kind, "1")
			b.want("CLIENT UNBLOCK "+id+kind, "0")
			a.wantNext(reply)
		}
		b.want("RPUSH k 1", "1")
		a.want("BLPOP k 0", `["k" "1"]`)
	})
}

// Requests that a client sends while it waits are carried out after it has been served.
func TestPipelineWhileWaiting(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.send("BLPOP k 0")
		a.send("PING 1")
		long := make([]byte, 3*readBytes)
		for i := range long {
			long[i] = 'x'
		}
		a.send("ECHO " + string(long))
		b.want("RPUSH k 1 2", "2")
		go io.WriteString(a.nc, "LPOP k\r\n") // the replies of the server are not read yet
		a.wantNext(`["k" "1"]`)
		a.wantNext(`"1"`)
		a.wantNext(`"` + string(long) + `"`)
		a.wantNext(`"2"`)
	})
}

// A client that has gone away pops nothing.
func TestClientsThatGo(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		gone, pipelined, killed, b := dial(), dial(), dial(), dial()
		id := killed.do("CLIENT ID")
		gone.begin("BLPOP k 0")
		pipelined.send("BLPOP k 0")
		pipelined.begin("PING")
		killed.begin("BLPOP k 0")
		gone.nc.Close()
		pipelined.nc.Close()
		synctest.Wait()
		if n := s.waiting.count.Load(); n != 1 {
			t.Errorf("%d clients wait", n)
		}
		b.want("CLIENT KILL ID "+id, "1")
		b.want("RPUSH k 1", "1")
		b.want("LRANGE k 0 -1", `["1"]`)
	})
}

// The server notices that a waiting client has closed its socket, with or without another request
// in the pipeline.
func TestSocketsThatClose(t *testing.T) {
	s, address := newServer(t)
	for _, pipeline := range []bool{false, true} {
		p, b := dial(t, address), dial(t, address)
		p.send("BLPOP k 0")
		if pipeline {
			p.send("PING")
		}
		for s.waiting.count.Load() == 0 {
			runtime.Gosched()
		}
		p.nc.Close()
		for s.waiting.count.Load() > 0 {
			runtime.Gosched()
		}
		b.want("RPUSH k 1", "1")
		b.want("LPOP k", `"1"`)
	}
}

func TestShutdownWakesThoseWhoWait(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		p.begin("BLPOP k 0")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text, err := commandtest.ReadReply(p.r); err == nil {
			t.Errorf("%s came", text)
		}
	})
}

func TestOtherDoorsWakeWaiters(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		for i := range 3 {
			p.begin("BLPOP k 0")
			l := s.DB.Raw().List([]byte("k"))
			switch i {
			case 0:
				if err := l.PushBack([]byte("1")); err != nil {
					t.Fatal(err)
				}
			case 1:
				err := s.DB.Update(func(tx *copal.Tx) error {
					if err := tx.Raw().List([]byte("x")).PushBack([]byte("1")); err != nil {
						return err
					}
					return tx.Raw().List([]byte("x")).Rename("k")
				})
				if err != nil {
					t.Fatal(err)
				}
			default:
				jobs, err := copal.OpenList[string](s.DB, "k")
				if err == nil {
					err = jobs.PushBack("1")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := p.read(); got != `["k" "1"]` && got != `["k" "\"1\""]` {
				t.Errorf("%d: %s", i, got)
			}
		}
		if n := s.feed.needs.Load(); n != 0 {
			t.Errorf("the feed is needed by %d", n)
		}
		if err := s.DB.Raw().Set([]byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.feed.running {
			t.Error("the feed runs, and nobody needs it")
		}
	})
}

// Each element reaches one client, whatever else they do.
func TestNothingIsLost(t *testing.T) {
	const clients, each = 8, 200
	s, address := newServer(t)
	got := make(chan string, clients*each)
	for i := range clients {
		p := dial(t, address)
		go func() {
			for n := 0; ; n++ {
				request := "BLPOP k 0.001"
				if (n+i)%3 == 0 {
					request = "BLMPOP 0 1 k LEFT COUNT 2"
				}
				fmt.Fprintf(p.nc, "%s\r\n", request)
				text, err := commandtest.ReadReply(p.r)
				if err != nil {
					return
				}
				if text != "nil[]" {
					got <- text
				}
			}
		}()
	}
	pushers := make(chan error, 2)
	go func() {
		p := dial(t, address)
		for i := range each * clients / 2 {
			p.do(fmt.Sprintf("RPUSH k <%d>", i))
		}
		pushers <- nil
	}()
	go func() {
		var err error
		for i := range each * clients / 2 {
			if err == nil {
				err = s.DB.Raw().List([]byte("k")).PushBack(fmt.Appendf(nil, "<%d>", each*clients/2+i))
			}
		}
		pushers <- err
	}()
	for range 2 {
		if err := <-pushers; err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for len(seen) < clients*each {
		for _, element := range bracketed(<-got) {
			if seen[element] {
				t.Fatalf("%s came twice", element)
			}
			seen[element] = true
		}
	}
}
