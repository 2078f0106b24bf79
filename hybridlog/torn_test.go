package hybridlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// A copy into the ring is not made from front to back: Go's copy of more than 256 bytes stores the
// first 32 bytes last. A process that is killed within one leaves any part of it. An append then
// leaves whole entries, and one broken place after them: data go before frames, and of several
// frames the one that makes the others count goes last, alone.

// tearing is a disk on which a store to a mapped file can be interrupted: then only some of the
// bytes have been stored, and the state that the process leaves is kept.
type tearing struct {
	*vfs.Mem
	at   int                // the store that is interrupted, counted from 1
	keep func(n int) []bool // which of its n bytes have been stored
	seen int
	left *vfs.Mem // the state that the process has left
}

func (d *tearing) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := d.Mem.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &tearingFile{f, d}, nil
}

type tearingFile struct {
	vfs.File
	disk *tearing
}

func (f *tearingFile) Map(off int64, n int) (vfs.Region, error) {
	r, err := f.File.Map(off, n)
	if err != nil {
		return nil, err
	}
	return &tearingRegion{r, f.disk}, nil
}

type tearingRegion struct {
	vfs.Region
	disk *tearing
}

func (r *tearingRegion) Store(off int, p []byte) error {
	d := r.disk
	if d.seen++; d.seen != d.at {
		return r.Region.Store(off, p)
	}
	was := slices.Clone(r.Bytes()[off : off+len(p)])
	some := slices.Clone(was)
	keep := d.keep(len(p))
	for i, stored := range keep {
		if len(p) == tail.AckedSize { // one store of a word, done or not done
			stored = keep[0]
		}
		if stored {
			some[i] = p[i]
		}
	}
	if err := r.Region.Store(off, some); err != nil {
		return err
	}
	d.left = d.ProcessCrash()
	return r.Region.Store(off, p)
}

// parts are the ways in which a copy of n bytes may be interrupted.
func parts(rng *rand.Rand) map[string]func(n int) []bool {
	from := func(stored func(i, n int) bool) func(n int) []bool {
		return func(n int) []bool {
			list := make([]bool, n)
			for i := range list {
				list[i] = stored(i, n)
			}
			return list
		}
	}
	return map[string]func(n int) []bool{
		"nothing":                from(func(i, n int) bool { return false }),
		"all":                    from(func(i, n int) bool { return true }),
		"all but the first 32":   from(func(i, n int) bool { return i >= 32 }),
		"all but the last 32":    from(func(i, n int) bool { return i < n-32 }),
		"all but the first half": from(func(i, n int) bool { return i >= n/2 }),
		"the first half":         from(func(i, n int) bool { return i < n/2 }),
		"all but one":            from(func(i, n int) bool { return i != n/3 }),
		"words here and there":   from(func(i, n int) bool { return i/8%2 == 0 }),
		"bytes here and there":   from(func(i, n int) bool { return rng.IntN(3) > 0 }),
	}
}

func TestTornStores(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 41))
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		conf := func(o *options) {
			o.policy, o.segmentBytes, o.segmentSlots, o.dataRing, o.frameRing, o.bypass = policy, 60_000, 400, 64<<10, 4096, 14_000
		}
		script := func(d *tearing) (acked [][]byte, unfinished []byte) {
			l, err := open("log", testOptions(d, conf))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				p := text(i, []int{1, 30, 300, 5000, 13_000}[i*i%7%5])
				mustAppend(t, l, p)
				if d.left != nil {
					return acked, p // this one was interrupted
				}
				acked = append(acked, p)
			}
			mustClose(t, l)
			return acked, nil
		}
		all := &tearing{Mem: vfs.NewMem()}
		script(all)
		stores := all.seen
		for at := 1; at <= stores; at++ {
			for name, keep := range parts(rng) {
				d := &tearing{Mem: vfs.NewMem(), at: at, keep: keep}
				acked, unfinished := script(d)
				where := fmt.Sprintf("policy %d, store %d of %d, %s", policy, at, stores, name)
				l, err := open("log", testOptions(d.left, conf))
				if err != nil {
					t.Fatalf("%s: Open: %v", where, err)
				}
				if problem(l, acked, 0) != nil {
					if err := problem(l, append(acked, unfinished), 0); err != nil {
						t.Fatalf("%s: %v; %d entries were acknowledged", where, err, len(acked))
					}
				}
			}
		}
		t.Logf("policy %d: %d stores", policy, stores)
	}
}
