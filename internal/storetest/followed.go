package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/engine"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Followed is a store that is written to, and one that follows it.
type Followed struct {
	T        *testing.T
	Rng      *rand.Rand
	Mem      *vfs.Mem
	Clock    *logtest.Clock // of both. Each step takes a millisecond
	Writer   *engine.Store
	Reader   *engine.Store
	Content  map[string]string // the written entries
	Segments int64
	Window   int64 // of history that the writers keep, in milliseconds
	Leaves   bool  // the writers leave their rings, at some record
}

// NewFollowed opens both, the reader before the first write or after it.
func NewFollowed(t *testing.T, seed uint64) *Followed {
	f := &Followed{T: t, Rng: rand.New(rand.NewPCG(seed, 31)), Mem: vfs.NewMem(), Clock: logtest.NewClock(), Content: map[string]string{}, Segments: 3000}
	if seed%3 == 0 {
		f.Window = 1
	}
	f.Open()
	read := func() {
		f.Reader = Open(t, f.Mem, func(o *engine.Options) { o.ReadOnly, o.MaxMemory, o.Clock = true, 1<<20, f.Clock })
	}
	if seed%2 == 0 {
		read()
	}
	Set(t, f.Writer, "first", "1")
	f.Content["first"] = "1"
	if seed%2 == 1 {
		read()
	}
	t.Cleanup(func() { f.Reader.Close(); f.Writer.Close() })
	return f
}

// Open opens a writer. One that is there is taken for dead: it leaves the ring and the tail as kill
// -9 does.
func (f *Followed) Open() {
	f.Writer = Open(f.T, Unlocked{FS: f.Mem}, func(o *engine.Options) {
		o.SegmentBytes, o.MaxMemory, o.Window, o.Clock = f.Segments, 1<<20, f.Window, f.Clock
		if f.Leaves {
			o.FS = Unlocked{FS: vfs.Inject(f.Mem, &vfs.Fault{Kinds: vfs.OpPopulate, N: 1 + f.Rng.IntN(6)})}
		}
	})
}

// Step is one action of the writer, the n-th.
func (f *Followed) Step(n int) {
	t, s, rng := f.T, f.Writer, f.Rng
	f.Clock.Advance(time.Millisecond)
	key := []string{"m:", "n:", ""}[rng.IntN(3)] + fmt.Sprint(rng.IntN(40))
	value := fmt.Sprint("value ", n, strings.Repeat("x", rng.IntN(100)))
	if rng.IntN(8) == 0 { // some pass the ring by
		value += strings.Repeat("y", rng.IntN(logtest.TestRing))
	}
	switch rng.IntN(24) {
	case 0, 1, 2, 3:
		if _, err := s.Delete(nil, []byte(key), engine.Process); err != nil {
			t.Fatal(err)
		}
		delete(f.Content, key)
		return
	case 4:
		if rng.IntN(5) == 0 {
			value = strings.Repeat(fmt.Sprintf("large %d ", n), (seglog.PartBytes+rng.IntN(2*seglog.PartBytes))/8)
		}
	case 5:
		if rng.IntN(3) == 0 {
			Close(t, s)
			f.Open()
		}
		return
	case 6:
		if rng.IntN(3) == 0 {
			f.Open() // it dies
		}
		return
	case 7:
		if rng.IntN(20) == 0 {
			table, err := s.Map("n")
			if err == nil {
				err = s.Set(table, []byte("n:declared"), []byte("1"), 0, engine.Process)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Content["n:declared"] = "1"
		}
		return
	case 8, 9:
		CompactSome(t, s, rng)
		return
	case 10:
		if rng.IntN(20) == 0 {
			if err := Compact(s); err != nil {
				t.Fatal(err)
			}
		}
		return
	case 11:
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		return
	}
	Set(t, s, key, value)
	f.Content[key] = value
}

// Refresh lets the reader catch up, and compares its entries with the written ones.
func (f *Followed) Refresh() {
	f.T.Helper()
	if err := f.Reader.Refresh(); err != nil {
		f.T.Fatalf("Refresh: %v", err)
	}
	WantSame(f.T, f.Reader, f.Content)
}
