package redisapi

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
