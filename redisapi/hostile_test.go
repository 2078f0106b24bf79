package redisapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/redisapi/internal/commandtest"

	"github.com/copaldb/copal"
)

// Hostile and broken clients send garbage, do not read, disappear without closing, or ask for very
// large values. Each test shows that the server's memory stays within a bound, and that another
// client is served meanwhile. With COPAL_LONG=1 the tests have their full size, and with -v they
// print their figures.

// sized is short, and full with COPAL_LONG=1.
func sized(short, full int) int {
	if os.Getenv("COPAL_LONG") == "1" {
		return full
	}
	return short
}

// onDisk has the server serve a store in a directory, so that the values do not count as the server's memory.
func onDisk(t *testing.T, options ...copal.Option) func(*Server) {
	db, err := copal.Open(t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after newServer has shut the server down
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(s *Server) { s.DB = db }
}

// watchMemory returns a function that reports the largest growth, in bytes, of the memory that Go
// has from the system. It looks each millisecond, which is enough because Go keeps freed memory for
// longer.
func watchMemory() (most func() int64) {
	debug.FreeOSMemory()
	before := goMemory()
	var highest atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	look := func() { highest.Store(max(highest.Load(), goMemory()-before)) }
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return sync.OnceValue(func() int64 {
		close(stop)
		<-stopped
		look()
		return highest.Load()
	})
}

// goMemory returns the bytes that Go has from the system and has not given back: objects, stacks,
// and its own tables.
func goMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// wantMemory compares the growth that watchMemory reports with a bound.
func wantMemory(t *testing.T, what string, most func() int64, bound int64) {
	t.Helper()
	t.Logf("%s: %.1f MiB more memory at most; the bound is %.1f", what, mib(most()), mib(bound))
	if most() > bound {
		t.Errorf("%s: %d bytes more memory, want at most %d", what, most(), bound)
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// leastRounds is the number of times that another client is served during an attack.
const leastRounds = 50

// meanwhile runs attack, and serves another client until that has ended. attack goes on until enough, so the other
// client is known to be served during it. Without that the test does not end.
func meanwhile(t *testing.T, other *peer, attack func(enough func() bool) error) {
	t.Helper()
	var rounds atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- attack(func() bool { return rounds.Load() >= leastRounds }) }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d rounds of another client meanwhile", rounds.Load())
			return
		default:
			other.round(int(rounds.Add(1)))
		}
	}
}

// round sends requests of an ordinary client, and checks the replies.
func (p *peer) round(i int) {
	p.t.Helper()
	p.want("SET mine "+strconv.Itoa(i), "OK")
	p.want("GET mine", strconv.Quote(strconv.Itoa(i)))
	p.want("PING", "PONG")
}

// until waits for a condition that another goroutine makes true.
func until(f func() bool) {
	for !f() {
		runtime.Gosched()
	}
}

// flood is a request that is sent again and again, and its reply.
type flood struct{ name, request, reply string }

// floods are well-formed requests that the server does not carry out.
func floods() []flood {
	many := sized(1<<14, 1<<20)
	arguments := strings.Repeat("$1\r\na\r\n", many-1)
	return []flood{
		{"unknown commands", "*2\r\n$7\r\nNOTHING\r\n$3\r\nabc\r\n", "-ERR unknown command 'NOTHING', with args beginning with: 'abc' \r\n"},
		{"unknown commands of many arguments", fmt.Sprintf("*%d\r\n$7\r\nNOTHING\r\n%s", many, arguments),
			"-ERR unknown command 'NOTHING', with args beginning with: " + strings.Repeat("'a' ", 32) + "\r\n"},
		{"too many arguments", fmt.Sprintf("*%d\r\n$3\r\nGET\r\n%s", many, arguments), "-ERR wrong number of arguments for 'get' command\r\n"},
		{"long lines", strings.Repeat("x", 60_000) + "\n", "-ERR unknown command '" + strings.Repeat("x", 128) + "', with args beginning with: \r\n"},
		{"empty requests", "\r\n*0\r\n*-1\r\n", ""},
	}
}

// send repeats the request until size bytes are sent and enough reports true. It checks each reply,
// and that to a PING at the end.
func (f *flood) send(p *peer, size int, enough func() bool) error {
	n := max(1<<16/len(f.request), 1)
	piece, replies := []byte(strings.Repeat(f.request, n)), strings.Repeat(f.reply, n)
	pieces, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(pieces)
		for n := 0; n < size || !enough(); n += len(piece) {
			pieces <- struct{}{}
			if _, err := p.nc.Write(piece); err != nil {
				sent <- err
				return
			}
		}
		_, err := io.WriteString(p.nc, "PING\r\n")
		sent <- err
	}()
	defer func() { // after an error
		p.nc.Close()
		for range pieces {
		}
	}()
	got := make([]byte, len(replies))
	for range pieces {
		if _, err := io.ReadFull(p.r, got); err != nil || string(got) != replies {
			return fmt.Errorf("%s: the reply is %.200q, %v", f.name, got, err)
		}
	}
	reply, err := commandtest.ReadReply(p.r)
	if err = errors.Join(<-sent, err); err != nil || reply != "PONG" {
		return fmt.Errorf("%s: the reply to PING is %.200q, %v", f.name, reply, err)
	}
	return nil
}

// A client may send well-formed requests without end that the server does not carry out. It gets an
// error for each that is not empty.
//
// The bound: the longest request has 1,048,576 arguments. It takes 7 MiB, the positions of its
// arguments 16 MiB and their slices 24 MiB. All but the slices grow in steps, and with garbage they
// take about five times as much.
func TestHostilePipeline(t *testing.T) {
	_, address := newServer(t, onDisk(t))
	for _, f := range floods() {
		t.Run(f.name, func(t *testing.T) {
			other, hostile := dial(t, address), dial(t, address)
			most := watchMemory()
			meanwhile(t, other, func(enough func() bool) error { return f.send(hostile, sized(1<<20, 1<<30), enough) })
			wantMemory(t, f.name, most, int64(sized(32<<20, 384<<20)))
		})
	}
}

// rubbish returns invalid requests, by the names of their faults.
func rubbish() map[string][]byte {
	random := make([]byte, 1<<16)
	for i, r := 0, rand.New(rand.NewPCG(1, 1)); i < len(random); i++ {
		random[i] = byte(r.Uint32())
	}
	return map[string][]byte{
		"bytes at random":         random,
		"a line without an end":   bytes.ReplaceAll(random, []byte("\n"), []byte("x")),
		"a count without an end":  bytes.Repeat([]byte("*1"), 1<<15),
		"a length without an end": append([]byte("*1\r\n$"), bytes.Repeat([]byte("1"), 1<<16)...),
		"a negative length":       []byte("*2\r\n$3\r\nGET\r\n$-1\r\n"),
		"a length too long":       []byte("*2\r\n$3\r\nGET\r\n$536870913\r\n"),
		"a count too high":        []byte("*1048577\r\n"),
		"a reply":                 []byte("*1\r\n:1\r\n"),
	}
}

// An invalid request closes its connection, whatever bytes follow it, and no other connection.
//
// The bound: one connection at a time has buffers of at most 256 KiB, and the test has some of 64
// KiB.
func TestHostileRubbish(t *testing.T) {
	_, address := newServer(t)
	other := dial(t, address)
	most := watchMemory()
	for name, text := range rubbish() {
		size := sized(1<<20, 1<<30) / len(rubbish())
		meanwhile(t, other, func(enough func() bool) error {
			for sent := 0; sent < size || !enough(); {
				n, err := sendRubbish(address, text)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				sent += n
			}
			return nil
		})
	}
	wantMemory(t, "rubbish", most, 32<<20)
}

// sendRubbish sends text and zeros until the server closes the connection, and returns how many bytes it has sent.
func sendRubbish(address string, text []byte) (sent int, err error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	replied := make(chan error, 1)
	go func() {
		reply, err := io.ReadAll(io.LimitReader(nc, 1<<20))
		if err == nil && !bytes.Contains(reply, []byte("-ERR Protocol error: ")) { // else the unread bytes have reset it
			err = fmt.Errorf("the reply is %.200q", reply)
			replied <- err
			return
		}
		replied <- nil
	}()
	zeros := make([]byte, 1<<16)
	for next := text; ; next = zeros {
		n, err := nc.Write(next)
		if sent += n; err != nil {
			return sent, <-replied
		}
		if sent > 64<<20 {
			return sent, errors.New("the connection takes more and more")
		}
	}
}

// A false length or count takes memory only for the bytes that arrive: at most six times as much,
// for the buffer and the one before it, the positions of arguments, and garbage.
func TestHostileLengths(t *testing.T) {
	s, address := newServer(t)
	other := dial(t, address)
	clients, arrives := sized(50, 1000), 100_000
	most := watchMemory()
	before := s.counts.in.Load()
	for i := range clients {
		head, body := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n", "x"
		if i%2 == 0 {
			head, body = "*2147483647\r\n", "$1\r\nx\r\n"
		}
		text := (head + strings.Repeat(body, arrives))[:arrives]
		if _, err := io.WriteString(dial(t, address).nc, text); err != nil {
			t.Fatal(err)
		}
	}
	until(func() bool { return s.counts.in.Load()-before == int64(clients*arrives) })
	for i := range leastRounds {
		other.round(i)
	}
	wantMemory(t, "lengths that lie", most, int64(clients*6*arrives)+16<<20)
}

// A request that comes in small pieces is copied as often as its buffer is full and doubles, and not with each piece.
func TestHostilePieces(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		size := sized(1<<20, 64<<20)
		p, piece := dial(), make([]byte, 1<<10)
		before := allocated()
		_, err := fmt.Fprintf(p.nc, "*2\r\n$4\r\nPING\r\n$%d\r\n", size)
		for sent := 0; sent < size && err == nil; sent += len(piece) {
			_, err = p.nc.Write(piece)
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if taken := allocated() - before; taken > int64(3*size+1<<20) {
			t.Errorf("%d bytes were taken for %d", taken, size)
		}
	})
}

// A queued transaction takes no more memory than MaxRequest, however short its requests are.
//
// The bound: the queued requests, their list before it has grown, and garbage.
func TestHostileQueue(t *testing.T) {
	limit := sized(8<<20, 1<<30)
	_, address := newServer(t, func(s *Server) { s.MaxRequest = int64(limit) })
	p := dial(t, address)
	most := watchMemory()
	p.want("MULTI", "OK")
	piece, replies := []byte(strings.Repeat("PING\r\n", 1000)), bytes.Repeat([]byte("+QUEUED\r\n"), 1000)
	for got := make([]byte, len(replies)); ; {
		if _, err := p.nc.Write(piece); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p.r, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, replies) {
			break
		}
	}
	wantMemory(t, "a queue", most, int64(3*limit+16<<20))
}

// A request of many arguments takes time for each of them, and not for each pair: also WATCH, which compares its keys.
func TestHostileWatch(t *testing.T) {
	_, address := newServer(t)
	keys := sized(1<<15, 1<<20-1)
	out := fmt.Appendf(nil, "*%d\r\n$5\r\nWATCH\r\n", keys+1)
	for i := range keys {
		out = fmt.Appendf(out, "$8\r\n%08d\r\n", i)
	}
	p := dial(t, address)
	for range 2 {
		meanwhile(t, dial(t, address), func(enough func() bool) error {
			if _, err := p.nc.Write(out); err != nil {
				return err
			}
			reply, err := commandtest.ReadReply(p.r)
			if err == nil && reply != "OK" {
				err = errors.New(reply)
			}
			until(enough)
			return err
		})
	}
	p.want("MULTI", "OK")
	dial(t, address).want("SET 00000001 x", "OK")
	p.want("EXEC", "nil[]")
}

// A client that sends requests and does not read is closed when OutputBuffer bytes of replies wait.
// Until then it can hold memory for them. The log has the reason.
func TestHostileReader(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789abcdef"), sized(1<<20, 16<<20)/16)
	var log logs
	limit := sized(8<<20, 64<<20)
	s, address := newServer(t, func(s *Server) { s.OutputBuffer, s.Logger = int64(limit), slog.New(&log) })
	if err := s.DB.Raw().Set([]byte("k"), value); err != nil {
		t.Fatal(err)
	}
	clients := sized(4, 16)
	most := watchMemory()
	var deaf []*peer
	meanwhile(t, dial(t, address), func(enough func() bool) error {
		for range clients {
			p := dial(t, address)
			deaf = append(deaf, p)
			if _, err := io.WriteString(p.nc, strings.Repeat("GET k\r\n", sized(100, 2000))); err != nil {
				return err
			}
		}
		until(enough)
		return nil
	})
	for log.count("a connection that does not read its replies is closed") < clients {
		runtime.Gosched()
	}
	for _, p := range deaf {
		if n, err := io.Copy(io.Discard, p.r); n == 0 || n > int64(limit)+32<<20 {
			t.Errorf("a client has got %d bytes, %v", n, err)
		}
	}
	wantMemory(t, "clients that do not read", most, int64(clients)*2*int64(limit+len(value))+16<<20)
	for len(s.all()) > 1 { // a client that is closed may be making a reply yet
		runtime.Gosched()
	}
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes are charged when nothing waits", n)
	}
}

// The same to the last byte, by pipes, which take in nothing that is not read.
func TestHostileReaderIsHeldBack(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.OutputBuffer = 10 * replyBytes
		other := dial()
		other.want("SET k "+strings.Repeat("x", 2*replyBytes), "OK")
		before := s.counts.commands.Load()
		const clients = 10
		for range clients {
			deaf := dial()
			go io.WriteString(deaf.nc, strings.Repeat("GET k\r\n", 100_000)) // more than freeBytes
		}
		synctest.Wait()
		if n := s.counts.commands.Load() - before; n != 5*clients {
			t.Errorf("%d commands are carried out, want five for each of %d clients", n, clients)
		}
		for _, c := range s.all() {
			if m := c.memory(); m.qbuf > 0 || m.omem > 12*replyBytes {
				t.Errorf("a client has %+v", m)
			}
		}
		other.round(1)
		time.Sleep(2 * stalled)
		synctest.Wait()
		if n := len(s.all()); n != 1 {
			t.Errorf("%d clients are there", n)
		}
		for range clients {
			dial().send("GET k") // and does not read
		}
		synctest.Wait()
		began := time.Now()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != farewellTime {
			t.Errorf("Shutdown took %v, want %v", took, farewellTime)
		}
	})
}

// A client that reads now and then does not keep the server from ending either, whatever it has asked for before.
func TestHostileReaderAtTheEnd(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Minute, time.Second} {
		piped(t, func(t *testing.T, s *Server, dial func() *peer) {
			s.IdleTimeout = idle
			slow := dial()
			slow.want("SET k "+strings.Repeat("x", writeBytes), "OK")
			go io.WriteString(slow.nc, strings.Repeat("GET k\r\n", 100))
			var reader sync.WaitGroup
			reader.Go(func() {
				for b := make([]byte, writeBytes); ; time.Sleep(farewellTime * 9 / 10) {
					if _, err := io.ReadFull(slow.r, b); err != nil {
						return
					}
				}
			})
			synctest.Wait()
			began := time.Now()
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > farewellTime {
				t.Errorf("with IdleTimeout %v Shutdown took %v, want at most %v", idle, took, farewellTime)
			}
			reader.Wait()
		})
	}
}

// IdleTimeout releases the resources of a client that has disappeared, wherever it has stopped. As
// in Redis, a client that waits for a key or for messages need not send anything: TCP keepalive
// detects its end.
func TestHostileSilence(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		s.IdleTimeout = time.Minute
		s.MaxClients = 10
		dial().want("SET k "+strings.Repeat("x", 2*replyBytes), "OK")
		for _, text := range []string{"", "*", "*2\r\n$3\r\nGE", "GET", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nabc", "GET k\r\n"} {
			p := dial()
			io.WriteString(p.nc, text)
		}
		queues, watches := dial(), dial()
		queues.want("MULTI", "OK")
		queues.want("SET a 1", "QUEUED")
		watches.want("WATCH k", "OK")
		waits := dial()
		waits.begin("BLPOP list 0")
		refused := dial()
		refused.wantNext("(error) ERR max number of clients reached")
		time.Sleep(time.Hour)
		synctest.Wait()
		if list := s.all(); len(list) != 1 || list[0].waits.Load() == nil {
			t.Errorf("there are %d clients", len(list))
		}
		if n := s.DB.Stats().Snapshots; n != 0 {
			t.Errorf("%d snapshots are open", n)
		}
		dial().want("RPUSH list x", "1")
		waits.wantNext(`["list" "x"]`)
	})
}

// A client that has half closed its connection, for it has nothing to ask any more, gets all replies.
func TestHostileHalfClose(t *testing.T) {
	s, address := newServer(t)
	if err := s.DB.Raw().Set([]byte("k"), bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	n := sized(20, 1000)
	reply := "$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n"
	for _, cut := range []string{"", "PIN", "*2\r\n$3\r\nGET\r\n$1"} {
		p := dial(t, address)
		if _, err := io.WriteString(p.nc, strings.Repeat("GET k\r\n", n)+"INCR n\r\n"+cut); err != nil {
			t.Fatal(err)
		}
		if err := p.nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(reply))
		for range n {
			if _, err := io.ReadFull(p.r, got); err != nil || string(got) != reply {
				t.Fatalf("%.40q, %v", got, err)
			}
		}
		if rest, err := io.ReadAll(p.r); err != nil || !bytes.HasPrefix(rest, []byte(":")) || bytes.Count(rest, []byte("\n")) != 1 {
			t.Errorf("%q, %v", rest, err)
		}
	}
}
