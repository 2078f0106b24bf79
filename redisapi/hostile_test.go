package redisapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
)

// Clients that mean harm, or are broken: they send garbage, do not read, go away without a word, or want what is very
// large. Each test shows that the server's memory stays within a bound, and that another client is served meanwhile.
// COPAL_LONG=1 takes the full sizes, of which the tests tell the figures with -v.

// sized is short, and full with COPAL_LONG=1.
func sized(short, full int) int {
	if os.Getenv("COPAL_LONG") == "1" {
		return full
	}
	return short
}

// watchMemory returns a function that tells by how many bytes at most the memory has grown that Go has from the system,
// since then. It looks each millisecond; what is freed stays with Go for longer.
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

// goMemory is what Go has from the system and has not given back: objects, stacks, and its own tables.
func goMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// wantMemory compares what watchMemory has seen with a bound.
func wantMemory(t *testing.T, what string, most func() int64, bound int64) {
	t.Helper()
	t.Logf("%s: %.1f MiB more memory at most; the bound is %.1f", what, mib(most()), mib(bound))
	if most() > bound {
		t.Errorf("%s: %d bytes more memory, want at most %d", what, most(), bound)
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// leastRounds is how often another client is served while a hostile one is at work.
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

// round does what an ordinary client does.
func (p *peer) round(i int) {
	p.t.Helper()
	p.want("SET mine "+strconv.Itoa(i), "OK")
	p.want("GET mine", strconv.Quote(strconv.Itoa(i)))
	p.want("PING", "PONG")
}

// until waits for what another goroutine does.
func until(f func() bool) {
	for !f() {
		runtime.Gosched()
	}
}

// A request that comes in small pieces is copied as often as its buffer is full and doubles, and not with each piece.
func TestHostilePieces(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		size := sized(1<<20, 64<<20)
		p, piece := dial(), make([]byte, 1<<10)
		before := allocated()
		fmt.Fprintf(p.nc, "*2\r\n$4\r\nPING\r\n$%d\r\n", size)
		for sent := 0; sent < size; sent += len(piece) {
			p.nc.Write(piece)
		}
		synctest.Wait()
		if taken := allocated() - before; taken > int64(3*size+1<<20) {
			t.Errorf("%d bytes were taken for %d", taken, size)
		}
	})
}

// A transaction that is queued takes no more memory than MaxRequest says, however short its requests are.
//
// The bound: what is queued, the list of it before it has grown, and garbage.
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
			reply, err := readReply(p.r)
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
