package store

import (
	"math"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// endlessDisk says that it has as much room as can be said.
type endlessDisk struct{ vfs.FS }

func (endlessDisk) Free(string) (bytes int64, known bool) { return math.MaxInt64, true }

// A disk that has more room than can be counted has segments of the usual length.
func TestSegmentsOnAnEndlessDisk(t *testing.T) {
	s := mustOpen(t, endlessDisk{vfs.NewMem()})
	defer mustClose(t, s)
	mustSet(t, s, "key", "value")
	s.size()
	if got := s.log.nominal(); got != leastSegment {
		t.Errorf("segments become %d bytes long, want %d", got, leastSegment)
	}
}
