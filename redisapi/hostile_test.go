package redisapi

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
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
