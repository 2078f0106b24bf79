package redisapi

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal"
)

// When CLIENT PAUSE is answered no write is under way, and none is carried out before its end. Then
// all that have waited are carried out.
func TestPauseHoldsWriters(t *testing.T) {
	for name, server := range map[string]func(*testing.T) string{
		"copal": func(t *testing.T) string { _, address := newServer(t); return address },
		"redis": redisServer,
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t)
			const writers, each = 8, 300
			done := make(chan string, writers)
			for i := range writers {
				p := dial(t, address)
				go func() {
					for n := range each {
						io.WriteString(p.nc, []string{"INCR n\r\n", "MULTI\r\nINCR n\r\nEXEC\r\n", "LPUSH l x\r\nINCR n\r\nBRPOPLPUSH l m 0\r\n"}[(i+n)%3])
						for range []int{1, 3, 3}[(i+n)%3] {
							if text, err := commandtest.ReadReply(p.r); err != nil || strings.HasPrefix(text, "(error)") {
								done <- fmt.Sprint(text, err)
								return
							}
						}
					}
					done <- ""
				}()
			}
			control := dial(t, address)
			ended := 0
			for ended < writers {
				control.want("CLIENT PAUSE 1000000 WRITE", "OK")
				n, m := control.do("GET n"), control.do("LLEN m")
				for ended < writers && !strings.Contains(control.do("INFO clients"), fmt.Sprintf(`blocked_clients:%d\r`, writers-ended)) {
					select {
					case failed := <-done:
						if ended++; failed != "" {
							t.Fatal(failed)
						}
					default:
					}
				}
				control.want("GET n", n)
				control.want("LLEN m", m)
				control.want("CLIENT UNPAUSE", "OK")
			}
			control.want("GET n", fmt.Sprintf(`"%d"`, writers*each))
		})
	}
}

// A pause ends when it says. One that comes later makes it longer, never shorter, and never holds less.
func TestPauseEnds(t *testing.T) {
	for _, c := range []struct {
		pauses, held string
		after        time.Duration
	}{
		{"100 WRITE", "SET k 1", 100 * time.Millisecond},
		{"100", "GET k", 100 * time.Millisecond},
		{"100 WRITE|3600000 WRITE", "SET k 1", time.Hour},
		{"3600000 WRITE|100 WRITE", "SET k 1", time.Hour},
		{"3600000 WRITE|100 ALL", "GET k", time.Hour},
		{"3600000 WRITE|0 ALL", "PING", time.Hour},
		{"3600000 ALL", "CLIENT UNPAUSE", time.Hour},
		{"3600000 ALL", "QUIT", time.Hour},
		{"9223372036854775807", "PING", 0},
		{"9000000000000000000 WRITE", "PING", 0},
	} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			s.IdleTimeout = time.Minute // of those that send nothing: clients that are held have sent
			a, b := dial(), dial()
			a.do("PING")
			begun := time.Now()
			for _, pause := range strings.Split(c.pauses, "|") {
				b.do("CLIENT PAUSE " + pause)
			}
			a.do(c.held)
			if took := time.Since(begun); took != c.after {
				t.Errorf("%s: %s took %v", c.pauses, c.held, took)
			}
		})
	}
}

// A client that a pause holds is shown as one that waits.
func TestHeldClients(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		gone, killed, listens, control := dial(), dial(), dial(), dial()
		id := killed.do("CLIENT ID")
		listens.do("HELLO 3")
		listens.do("SUBSCRIBE c")
		control.want("CLIENT PAUSE 1000000 WRITE", "OK")
		gone.begin("SET gone 1")
		killed.begin("SET killed 1")
		listens.begin("SET k 1")
		listens.begin("GET k")
		if list := control.do("CLIENT LIST"); strings.Count(list, " flags=b ") != 2 || strings.Count(list, " flags=Pb ") != 1 {
			t.Error(list)
		}
		control.want("CLIENT UNBLOCK "+id, "0")
		control.want("CLIENT KILL ID "+id, "1")
		gone.nc.Close()
		synctest.Wait()
		if n := s.waiting.count.Load(); n != 1 || len(s.waiting.held) != 1 {
			t.Error(n, s.waiting.held)
		}
		s.audience.publish(false, []byte("c"), []byte("hello"), nil)
		listens.wantNext(`>["message" "c" "hello"]`)
		control.want("CLIENT UNPAUSE", "OK")
		listens.wantNext("OK")
		listens.wantNext(`"1"`)
		control.want("EXISTS gone killed", "0")
		control.want("SLOWLOG LEN", "0") // the pause is no time of theirs
	})
}

// Clients that wait for a key take nothing while a pause holds their command. They are served at
// its end.
func TestPauseHoldsThoseThatAreServed(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		pops, reads, late, control := dial(), dial(), dial(), dial()
		pops.begin("BLPOP k 0")
		reads.begin("XREAD BLOCK 0 STREAMS s $")
		late.begin("BLPOP k 1")
		control.want("CLIENT PAUSE 5000 WRITE", "OK")
		raw := s.DB.Raw()
		if err := raw.List([]byte("k")).PushBack([]byte("1")); err != nil {
			t.Fatal(err)
		}
		late.wantNext("nil[]") // its time is over before the pause
		control.want("LRANGE k 0 -1", `["1"]`)
		pops.wantNext(`["k" "1"]`)
		control.want("CLIENT PAUSE 5000 WRITE", "OK")
		if err := raw.Stream([]byte("s")).SetAll(map[string][]byte{"m": make([]byte, 34), "e" + strings.Repeat("\x01", 16): []byte("\x01f\x01v")}); err != nil {
			t.Fatal(err)
		}
		reads.wantNext(`[["s" [["72340172838076673-72340172838076673" ["f" "v"]]]]]`)
		if s.pausing.now.Load() == nil {
			t.Error("a command that does not write was served after the pause")
		}
		// A transaction serves before the pause that it has in it.
		control.want("CLIENT UNPAUSE", "OK")
		pops.begin("BLPOP k 0")
		for _, words := range []string{"MULTI", "CLIENT PAUSE 5000 WRITE", "RPUSH k 2", "EXEC"} {
			control.do(words)
		}
		pops.wantNext(`["k" "2"]`)
	})
}

// Commands that a pause holds are not carried out when the server shuts down.
func TestShutdownInAPause(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b, control := dial(), dial(), dial()
		control.want("CLIENT PAUSE 1000000 WRITE", "OK")
		a.begin("SET a 1")
		fmt.Fprint(b.nc, "GET b\r\nSET b 1\r\nGET b\r\n")
		b.wantNext("nil")
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, p := range []*peer{a, b} {
			if text, err := commandtest.ReadReply(p.r); err != io.EOF {
				t.Error(text, err)
			}
		}
		for _, key := range []string{"a", "b"} {
			if s.DB.Raw().Has([]byte(key)) {
				t.Error(key, "was written")
			}
		}
	})
}

// A client whose replies are off may disconnect after its last request: all requests are carried
// out, and synced if it asks for that.
func TestEndsWithItsRepliesOff(t *testing.T) {
	const skip = "CLIENT REPLY SKIP\r\n"
	for _, sent := range []string{
		"CLIENT REPLY OFF\r\nSET a 1\r\nMULTI\r\nINCR a\r\nEXEC\r\nINCR a\r\n",
		skip + "SET a 1\r\n" + skip + "INCR a\r\n" + skip + "INCR a\r\n",
	} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			s.Durability = copal.FSync
			p := dial()
			fmt.Fprint(p.nc, sent)
			synctest.Wait()
			for _, c := range s.all() {
				if c.unsynced {
					t.Error("it has not been synced")
				}
			}
			p.nc.Close()
			synctest.Wait()
			dial().want("GET a", `"3"`)
		})
	}
}

// Protocol errors are replies, too.
func TestNoErrorWhereRepliesAreOff(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		p := dial()
		fmt.Fprint(p.nc, "CLIENT REPLY OFF\r\n*1\r\nx\r\n")
		if text, err := commandtest.ReadReply(p.r); err != io.EOF {
			t.Error(text, err)
		}
		p = dial()
		fmt.Fprint(p.nc, "CLIENT REPLY OFF\r\nGET a\r\nQUIT\r\n")
		if text, err := commandtest.ReadReply(p.r); err != io.EOF {
			t.Error(text, err)
		}
	})
}

// A command that has waited has no reply either, whatever was sent before.
func TestWaitsWithItsReplyOff(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		p, other := dial(), dial()
		fmt.Fprint(p.nc, "PING\r\nCLIENT REPLY SKIP\r\nBLPOP k 0\r\nECHO x\r\n")
		p.wantNext("PONG")
		other.want("RPUSH k 1", "1")
		p.wantNext(`"x"`)
	})
}
