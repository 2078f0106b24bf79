package redisapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logs counts the messages of a log by their text.
type logs struct {
	mu   sync.Mutex
	list map[string]int
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = map[string]int{}
	}
	l.list[r.Message]++
	return nil
}

func (l *logs) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[message]
}

// ways returns functions that connect a client by TCP, a unix socket, and TLS.
func ways(t *testing.T, s *Server, address string) map[string]func() *peer {
	pair := certificate(t)
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	secure := listen("tcp", "127.0.0.1:0")
	go s.Serve(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{pair}}))
	list := map[string]func() *peer{
		"tcp": func() *peer { return dial(t, address) },
		"tls": func() *peer {
			nc, err := tls.Dial("tcp", secure.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			return newPeer(t, nc)
		},
	}
	if runtime.GOOS != "windows" {
		path := filepath.Join(t.TempDir(), "s")
		go s.Serve(listen("unix", path))
		list["unix"] = func() *peer {
			nc, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			return newPeer(t, nc)
		}
	}
	return list
}

// A client may write all of its requests before it reads a reply. Replies and messages come in their order then.
func TestPipelineIsWrittenBeforeItIsRead(t *testing.T) {
	s, address := newServer(t)
	n := sized(20_000, 100_000)
	value := strings.Repeat("y", 200)
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, "*4\r\n$3\r\nSET\r\n$11\r\nkey:%07d\r\n$200\r\n%s\r\n$3\r\nGET\r\n", i, value)
	}
	for name, connect := range ways(t, s, address) {
		for _, hello := range []string{"HELLO 2", "HELLO 3"} {
			t.Run(name+" "+hello, func(t *testing.T) {
				t.Cleanup(func() { until(func() bool { return len(s.all()) == 0 }) })
				p, other := connect(), dial(t, address)
				defer p.nc.Close()
				other.want("FLUSHALL", "OK")
				p.do(hello)
				v3 := hello == "HELLO 3"
				if v3 {
					p.do("SUBSCRIBE c")
				}
				for range 2 {
					if _, err := p.nc.Write(out.Bytes()); err != nil {
						t.Fatal(err)
					}
				}
				published := 0
				for ; v3 && published < 100; published++ {
					other.do(fmt.Sprintf("PUBLISH c %d", published))
				}
				messages, replies := 0, 0
				for replies < 2*n || messages < published {
					got := p.read()
					switch want := fmt.Sprintf(`>["message" "c" "%d"]`, messages); {
					case got == want:
						messages++
						continue
					case replies < n && (got == "nil" || got == "nil[]"), replies >= n && len(got) == 202:
						replies++
						continue
					}
					t.Fatalf("reply %d: %.60s", replies, got)
				}
			})
		}
	}
	for s.memory.Used() != 0 { // the last part is given back when it has been written
		runtime.Gosched()
	}
}

// A client that reads is held back, and never closed, however much more than may wait it asks for.
func TestReaderIsHeldBack(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.OutputBuffer = 1 << 20
		p := dial()
		p.want("SET k "+strings.Repeat("x", 100<<10), "OK")
		const n = 1000
		go io.WriteString(p.nc, strings.Repeat("GET k\r\n", n))
		for range n {
			time.Sleep(stalled / 2)
			if got := p.read(); len(got) != 100<<10+2 {
				t.Fatalf("%.60s", got)
			}
			if m := s.all()[0].memory(); m.omem > 3<<20 {
				t.Fatalf("%+v", m)
			}
		}
		synctest.Wait()
		if m := s.all()[0].memory(); m.omem != 0 || m.oll != 0 || m.total != 0 {
			t.Errorf("%+v", m)
		}
	})
}

// A single reply may be longer than OutputBuffer if no other reply waits.
func TestOneReplyIsLongerThanMayWait(t *testing.T) {
	_, address := newServer(t, func(s *Server) { s.OutputBuffer = 1 << 20 })
	p := dial(t, address)
	p.want("SETRANGE k 20000000 x", "20000001")
	if got := p.do("GETRANGE k 0 -1"); len(got) < 20000001 {
		t.Errorf("%d bytes", len(got))
	}
}

// When the memory of all clients is used up, the user with the most loses the largest connection,
// and others go on.
func TestMemoryOfClients(t *testing.T) {
	var log logs
	s, address := newServer(t, func(s *Server) { s.ClientMemory, s.Logger = 8<<20, slog.New(&log) })
	other := dial(t, address)
	other.want("SETRANGE k 1000000 x", "1000001")
	deaf := dial(t, address)
	deaf.do("GET k")
	if _, err := io.WriteString(deaf.nc, strings.Repeat("GET k\r\n", 100)); err != nil {
		t.Fatal(err)
	}
	until(func() bool { return s.memory.Used() > 6<<20 })
	other.want("SETRANGE k 4000000 x", "4000001")
	until(func() bool { return len(s.all()) == 1 })
	if n := log.count("a connection is closed: the memory for requests and replies is used up, and it has the most"); n != 1 {
		t.Errorf("%d connections were closed", n)
	}
	other.want("SETRANGE k2 3000000 x", "3000001")
	other.want("SETRANGE k2 9000000 x", "(error) ERR the memory for requests and replies of clients is used up")
	other.want("STRLEN k2", "3000001")
	if got := other.do("GET k2"); len(got) < 3000001 { // it has memory for the value and for the reply
		t.Errorf("%.100s", got)
	}
	other.want("PING", "PONG")
}
