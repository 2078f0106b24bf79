package engine

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/vfs"
)

// TestMapTakesLittleMemory: a map of one entry takes little of the heap, and that is counted.
func TestMapTakesLittleMemory(t *testing.T) {
	const maps = 500
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range maps {
		name := fmt.Sprint("map ", i)
		attached(t, s, name)
		mustSet(t, s, string(keycodec.AppendName(nil, name))+":k", "1")
	}
	took := (heap() - before) / maps
	st := s.Stats()
	if counted := (st.IndexBytes + st.CacheBytes) / maps; took > 4<<10 || counted < took/2 {
		t.Errorf("a map of one entry takes %d bytes of the heap, of which %d are counted", took, counted)
	}
}
