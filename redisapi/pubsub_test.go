package redisapi

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal/redisapi/internal/command"
)

func TestMessages(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.send("SUBSCRIBE x y x")
		for i, reply := range []string{`["subscribe" "x" 1]`, `["subscribe" "y" 2]`, `["subscribe" "x" 2]`} {
			if got := a.read(); got != reply {
				t.Errorf("%d: %s", i, got)
			}
		}
		a.want("PSUBSCRIBE x*", `["psubscribe" "x*" 3]`)
		a.want("SSUBSCRIBE x", `["ssubscribe" "x" 1]`)
		b.want("PUBLISH x hello", "2")
		a.wantNext(`["message" "x" "hello"]`)
		a.wantNext(`["pmessage" "x*" "x" "hello"]`)
		b.want("PUBLISH xy 1", "1")
		a.wantNext(`["pmessage" "x*" "xy" "1"]`)
		b.want("SPUBLISH x 2", "1")
		a.wantNext(`["smessage" "x" "2"]`)
		b.want("PUBLISH z 2", "0")
		b.want("PUBSUB CHANNELS", `["x" "y"]`)
		b.want("PUBSUB CHANNELS x*", `["x"]`)
		b.want("PUBSUB CHANNELS a b", "(error) ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.")
		b.want("PUBSUB NUMSUB", "[]")
		b.want("PUBSUB NUMSUB x z", `["x" 1 "z" 0]`)
		b.want("PUBSUB NUMPAT", "1")
		b.want("PUBSUB SHARDCHANNELS", `["x"]`)
		b.want("PUBSUB SHARDCHANNELS y*", "[]")
		b.want("PUBSUB SHARDNUMSUB x", `["x" 1]`)
		a.want("PING", `["pong" ""]`)
		a.want("PING x", `["pong" "x"]`)
		a.want("GET x", "(error) ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		a.want("CLIENT ID", "(error) ERR Can't execute 'client|id': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		if list := b.do("CLIENT LIST TYPE PUBSUB"); !strings.Contains(list, "sub=2 psub=1 ssub=1") || !strings.Contains(list, "flags=P ") || strings.Count(list, "id=") != 1 {
			t.Error(list)
		}
		if list := b.do("CLIENT LIST TYPE normal"); !strings.Contains(list, "sub=0 psub=0 ssub=0") || strings.Count(list, "id=") != 1 {
			t.Error(list)
		}
		a.want("UNSUBSCRIBE x q", `["unsubscribe" "x" 2]`)
		a.wantNext(`["unsubscribe" "q" 2]`)
		a.want("UNSUBSCRIBE", `["unsubscribe" "y" 1]`)
		a.want("UNSUBSCRIBE", `["unsubscribe" nil 1]`)
		a.want("PUNSUBSCRIBE", `["punsubscribe" "x*" 0]`)
		a.want("SUNSUBSCRIBE", `["sunsubscribe" "x" 0]`)
		a.want("GET x", "nil")
		b.want("PUBLISH x 1", "0")
		b.want("PUBSUB CHANNELS", "[]")
		a.want("SUBSCRIBE x", `["subscribe" "x" 1]`)
		a.want("RESET", "RESET")
		b.want("PUBLISH x 1", "0")
		a.want("SUBSCRIBE x", `["subscribe" "x" 1]`)
		a.nc.Close()
		synctest.Wait()
		b.want("PUBLISH x 1", "0")
	})
}

func TestMessagesOfRESP3(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a := dial()
		a.do("HELLO 3")
		a.want("SUBSCRIBE x", `>["subscribe" "x" 1]`)
		a.want("SET k v", "OK")
		a.want("PING", "PONG")
		a.want("PUBLISH x 1", "1") // the message comes after the reply
		a.wantNext(`>["message" "x" "1"]`)
		a.want("UNSUBSCRIBE", `>["unsubscribe" "x" 0]`)
		a.want("MULTI", "OK")
		a.want("SUBSCRIBE y", "QUEUED")
		a.want("PUBLISH y 2", "QUEUED")
		a.want("EXEC", `[>["subscribe" "y" 1] 1]`)
		a.wantNext(`>["message" "y" "2"]`)
		b := dial()
		b.do("WATCH k")
		a.do("SET k w")
		b.do("MULTI")
		b.do("PUBLISH y 3")
		b.want("EXEC", "nil[]")
		b.want("PUBLISH y 4", "1")
		a.wantNext(`>["message" "y" "4"]`) // not 3, for that transaction did not count
		a.want("BLPOP k2 0.5", "nil")
	})
}

// A client that waits for a key gets messages meanwhile.
func TestMessagesWhileWaiting(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		a, b := dial(), dial()
		a.do("HELLO 3")
		a.want("SUBSCRIBE x", `>["subscribe" "x" 1]`)
		a.begin("BLPOP k 0")
		b.want("PUBLISH x 1", "1")
		a.wantNext(`>["message" "x" "1"]`)
		b.want("RPUSH k v", "1")
		a.wantNext(`["k" "v"]`)
	})
}

// A message comes after the replies to the requests before it.
func TestMessagesComeBehindReplies(t *testing.T) {
	piped(t, func(t *testing.T, _ *Server, dial func() *peer) {
		goOn := make(chan struct{})
		table.ByName["zz"] = &command.Row{Name: "zz", Arity: 1, Run: func(c *command.Call) error {
			<-goOn
			c.OK()
			return nil
		}}
		defer delete(table.ByName, "zz")
		a, b := dial(), dial()
		a.do("HELLO 3")
		for _, first := range []struct{ request, reply string }{{"SUBSCRIBE x", `>["subscribe" "x" 1]`}, {"PING", "PONG"}} {
			if _, err := a.nc.Write([]byte(first.request + "\r\nZZ\r\n")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			b.want("PUBLISH x 1", "1")
			synctest.Wait()
			goOn <- struct{}{}
			a.wantNext(first.reply)
			a.wantNext("OK")
			a.wantNext(`>["message" "x" "1"]`)
		}
	})
}

// All listeners get all messages in one order, after the reply to their subscription.
func TestMessagesHaveOneOrder(t *testing.T) {
	const publishers, each = 3, 200
	_, address := newServer(t)
	var listeners []*peer
	for range 3 {
		p := dial(t, address)
		p.want("SUBSCRIBE a b", `["subscribe" "a" 1]`)
		p.wantNext(`["subscribe" "b" 2]`)
		listeners = append(listeners, p)
	}
	for i := range publishers {
		p := dial(t, address)
		go func() {
			for n := range each {
				fmt.Fprintf(p.nc, "PUBLISH %c %d.%d\r\n", 'a'+n%2, i, n)
				if _, err := commandtest.ReadReply(p.r); err != nil {
					return
				}
			}
		}()
	}
	last := map[string]int{}
	for range publishers * each {
		first := listeners[0].read()
		for _, p := range listeners[1:] {
			p.wantNext(first)
		}
		var channel, from string
		var n int
		fmt.Sscanf(strings.NewReplacer(`"`, "", "]", "", ".", " ").Replace(first), "[message %s %s %d", &channel, &from, &n)
		if n != last[from] {
			t.Fatalf("%s came behind %d", first, last[from])
		}
		last[from]++
	}
}

// A client that does not read its messages is closed when too many of them wait, and delays no
// other client.
func TestSlowListenerIsClosed(t *testing.T) {
	s, address := newServer(t)
	slow, other, b := dial(t, address), dial(t, address), dial(t, address)
	slow.want("SUBSCRIBE x", `["subscribe" "x" 1]`)
	other.want("SUBSCRIBE x", `["subscribe" "x" 1]`)
	message := strings.Repeat("m", 1<<20)
	got := 0
	for n := "2"; n == "2"; got++ {
		if got > 200 {
			t.Fatal("the slow client is still there")
		}
		n = b.do("PUBLISH x " + message)
		if n == "2" || n == "1" {
			size := len("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1048576\r\n\r\n") + len(message)
			if _, err := io.CopyN(io.Discard, other.r, int64(size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got < mostPending>>20 {
		t.Errorf("it was closed after %d MiB", got)
	}
	for len(s.all()) != 2 {
		runtime.Gosched()
	}
}

// A message that is too long to wait closes the clients that would get it, and is not made for each
// of them.
func TestMessageThatIsTooLong(t *testing.T) {
	var log logs
	s, address := newServer(t, func(s *Server) { s.Logger = slog.New(&log) })
	p := dial(t, address)
	message := strings.Repeat("\x00", mostPending+1)
	for _, words := range []string{"SUBSCRIBE x", "MONITOR"} {
		const listeners = 4
		for range listeners {
			dial(t, address).do(words)
		}
		before := allocated()
		fmt.Fprintf(p.nc, "*3\r\n$7\r\nPUBLISH\r\n$1\r\nx\r\n$%d\r\n%s\r\n", len(message), message)
		p.read()
		until(func() bool { return len(s.all()) == 1 })
		if n := allocated() - before; n > 48*mostPending {
			t.Errorf("%s: %.1f MiB are allocated", words, mib(n))
		}
	}
	if n := log.count("a connection that does not read its messages is closed"); n != 8 {
		t.Errorf("%d connections are closed", n)
	}
}

// Patterns that take long to match delay no other client, and patterns that are too long are
// refused.
func TestLongPatternsOfChannels(t *testing.T) {
	_, address := newServer(t)
	listener, p := dial(t, address), dial(t, address)
	a := func(n int) string { return strings.Repeat("a", n) }
	listener.want("PSUBSCRIBE *"+a(65_536), "(error) ERR a channel or pattern is longer than 65536 bytes")
	for _, pattern := range []string{"*" + a(32_000) + "b", "*" + a(32_000) + "b*", "*" + strings.Repeat("?", 32_000) + "b*"} {
		listener.send("PSUBSCRIBE " + pattern)
		listener.read()
	}
	p.want("PUBLISH "+a(100_000)+" x", "0")
	p.want("PUBLISH "+a(32_000)+"b x", "3")
	p.want("PUBSUB CHANNELS *"+a(65_536), "(error) ERR a channel or pattern is longer than 65536 bytes")
	listener.send("PUNSUBSCRIBE")
	for range 3 {
		if got := listener.read(); !strings.HasPrefix(got, `["pmessage"`) {
			t.Errorf("%.100s", got)
		}
	}
	for range 3 {
		listener.read()
	}
	p.want("PUBLISH "+a(32_000)+"b x", "0")
}
