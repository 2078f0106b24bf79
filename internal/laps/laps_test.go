package laps_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/laps"
	"github.com/copaldb/copal/internal/vfs"
)

func newRing(t *testing.T, size int64) *laps.Ring[string] {
	t.Helper()
	t.Setenv("COPAL_NO_MMAP", "")
	f, err := vfs.NewMem().Open("ring", vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	region, err := f.Map(0, int(size))
	if err != nil {
		t.Fatal(err)
	}
	return laps.New[string](region, size)
}

// A load returns the bytes stored at that offset by that owner, or none.
func TestLaps(t *testing.T) {
	const size = 16 * 64
	r := newRing(t, size)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, owner := range []string{"a", "b"} {
		var all []byte
		for range 500 {
			p := bytes.Repeat([]byte{byte(rng.IntN(256))}, 1+rng.IntN(size/4))
			end := int64(len(all))
			if err := r.Populate(end, int64(len(p))); err != nil {
				t.Fatal(err)
			}
			if err := r.Store(owner, p, end); err != nil {
				t.Fatal(err)
			}
			all = append(all, p...)
			overwritten := max(r.Needs(end, int64(len(p))), 0)
			for range 5 {
				from := rng.Int64N(int64(len(all)))
				got := make([]byte, rng.IntN(min(size, len(all)-int(from)))+1)
				ok, err := r.Load(owner, got, from)
				if err != nil || ok != (from >= overwritten) || ok && !bytes.Equal(got, all[from:from+int64(len(got))]) {
					t.Fatalf("%d bytes at %d of %d, from %d on there: %v, %v", len(got), from, len(all), overwritten, ok, err)
				}
			}
			if ok, _ := r.Load("c", make([]byte, 1), int64(len(all))-1); ok {
				t.Fatal("what one has stored is loaded as another's")
			}
		}
	}
}

// stopping is a region that stops in the middle of each copy into it.
type stopping struct {
	vfs.Region
	stop func()
}

func (r *stopping) Store(off int, p []byte) error {
	half := len(p) / 2
	if err := r.Region.Store(off, p[:half]); err != nil {
		return err
	}
	r.stop()
	return r.Region.Store(off+half, p[half:])
}

// While a copy is under way, the bytes that it is about to overwrite are not loaded any more, and
// all others are as stored.
func TestLapsDuringACopy(t *testing.T) {
	const size = 16 * 64
	r := newRing(t, size)
	rng := rand.New(rand.NewPCG(3, 4))
	var all []byte
	overwritten := int64(0) // before that nothing needs to be there
	r.Region = &stopping{r.Region, func() {
		got := make([]byte, 32)
		loaded := 0
		for from := max(int64(len(all))-size, 0); from+int64(len(got)) <= int64(len(all)); from++ {
			ok, err := r.Load("a", got, from)
			if err != nil || ok && !bytes.Equal(got, all[from:from+int64(len(got))]) || !ok && from >= overwritten {
				t.Fatalf("at %d of %d, from %d on there: % x, %v, %v", from, len(all), overwritten, got, ok, err)
			}
			if ok {
				loaded++
			}
		}
		if loaded == 0 && len(all) > size/2 {
			t.Fatal("nothing was loaded")
		}
	}}
	for range 300 {
		p := make([]byte, 1+rng.IntN(size/4))
		for i := range p {
			p[i] = byte(rng.IntN(256))
		}
		end := int64(len(all))
		overwritten = max(r.Needs(end, int64(len(p))), 0)
		if err := r.Store("a", p, end); err != nil {
			t.Fatal(err)
		}
		all = append(all, p...)
	}
}

// Readers meet the appender on every block; the race detector looks on.
func TestLapsConcurrent(t *testing.T) {
	const size = 16 * 16
	r := newRing(t, size)
	var end atomic.Int64
	var all sync.WaitGroup
	const n = 20_000
	for range 3 {
		all.Go(func() {
			p := make([]byte, 8)
			for at := end.Load(); at < n; at = end.Load() {
				from := max(at-100, 0)
				if at-from < int64(len(p)) {
					runtime.Gosched() // bytes beyond the end are the appender's
					continue
				}
				if ok, _ := r.Load("", p, from); ok && !bytes.Equal(p, place(from)) {
					t.Errorf("at %d: % x", from, p)
					return
				}
			}
		})
	}
	for at := int64(0); at < n; at += 4 {
		if err := r.Store("", place(at)[:4], at); err != nil {
			t.Fatal(err)
		}
		end.Store(at + 4)
	}
	all.Wait()
}

// place returns the eight bytes at an offset.
func place(at int64) []byte {
	p := make([]byte, 8)
	for i := range p {
		x := at + int64(i)
		p[i] = byte(x ^ x>>8)
	}
	return p
}
