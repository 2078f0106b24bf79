package memory

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/test/kit"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/vfs"
)

// entry is a value that names the write it comes from.
type entry struct {
	Write int64 // unique, from 1
	Pad   string
}

// deed is a write or read of one key, and when it began and ended on the test's own
// clock, which ticks with every deed.
type deed struct {
	began, ended int64
	write        int64 // the write done or read; 0 is a deletion, or that nothing was found
	read         bool
}

// TestConcurrent lets many goroutines write and read the same few keys. Each value read,
// and each left at the end and after reopening, must come from a write that no other
// write had replaced for certain: none began after it had ended, and had ended before
// the read began.
//
// Trap: an older write lands after a newer one and wins after restart; updates are lost.
func TestConcurrent(t *testing.T) {
	for seed := range uint64(3) {
		fsys := vfs.NewMem()
		db := kit.OpenOn(t, fsys, kit.WithSegmentBytes(20_000))
		m := kit.MapOf[int, entry](t, db, "m")
		c := &concurrent{m: m, deeds: make([][][]deed, 12)}
		var all sync.WaitGroup
		for g := range c.deeds {
			c.deeds[g] = make([][]deed, sharedKeys)
			all.Go(func() { c.run(t, g, rand.New(rand.NewPCG(seed, uint64(g)))) })
		}
		all.Wait()
		final := maps.Collect(m.All())
		if len(final) != m.Len() {
			t.Errorf("All yields %d entries, Len is %d", len(final), m.Len())
		}
		for key := range sharedKeys {
			c.check(t, key, final[key].Write)
		}
		crashed := fsys.ProcessCrash()
		kit.MustClose(t, db)
		for _, life := range []*vfs.Mem{crashed, fsys} {
			m := kit.MapOf[int, entry](t, kit.OpenOn(t, life), "m")
			if got := maps.Collect(m.All()); !maps.Equal(got, final) || m.Len() != len(final) {
				t.Errorf("reopened, the map has %v, want %v", got, final)
			}
			if report, err := kit.CheckFS(kit.StoreDir, life); err != nil || report.Keys != int64(len(final)) {
				t.Errorf("Check = %v, %v", report, err)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

const sharedKeys = 16

type concurrent struct {
	m      *copal.Map[int, entry]
	deeds  [][][]deed // by goroutine and key
	clock  atomic.Int64
	writes atomic.Int64
}

func (c *concurrent) run(t *testing.T, g int, rng *rand.Rand) {
	steps := 400
	if testing.Short() {
		steps = 200
	}
	pad := string(kit.Pattern(64))[:0]
	for range steps {
		key := rng.IntN(sharedKeys)
		d := deed{began: c.clock.Add(1)}
		switch n := rng.IntN(100); {
		case n < 40:
			d.write = c.writes.Add(1)
			if err := c.m.Set(key, entry{d.write, pad}); err != nil {
				t.Error(err)
			}
		case n < 43:
			d.write = c.writes.Add(1)
			if err := c.m.SetFSync(key, entry{d.write, pad}); err != nil {
				t.Error(err)
			}
		case n < 53:
			if _, err := c.m.Delete(key); err != nil {
				t.Error(err)
			}
		case n < 55:
			if err := c.m.Sync(); err != nil {
				t.Error(err)
			}
			continue
		case n < 57:
			c.iterate(t)
			continue
		case n < 59:
			if l := c.m.Len(); l < 0 || l > sharedKeys {
				t.Errorf("Len = %d", l)
			}
			continue
		default:
			v, _ := c.m.Get(key)
			d.write, d.read = v.Write, true
		}
		d.ended = c.clock.Add(1)
		c.deeds[g][key] = append(c.deeds[g][key], d)
	}
}

func (c *concurrent) iterate(t *testing.T) {
	var seen [sharedKeys]bool
	for k := range c.m.All() {
		if seen[k] {
			t.Errorf("All yields %d twice", k)
		}
		seen[k] = true
	}
}

// check compares the deeds of a key with its entry.
func (c *concurrent) check(t *testing.T, key int, left int64) {
	var writes, reads []deed
	for _, byKey := range c.deeds {
		for _, d := range byKey[key] {
			if d.read {
				reads = append(reads, d)
			} else {
				writes = append(writes, d)
			}
		}
	}
	writes = append(writes, deed{}) // in the beginning there was nothing
	end := c.clock.Add(1)
	reads = append(reads, deed{began: end, ended: end, write: left, read: true})
	for _, r := range reads {
		if !explained(r, writes) {
			t.Errorf("key %d: a read from %d to %d found write %d, which nothing explains", key, r.began, r.ended, r.write)
		}
	}
}

// explained reports whether r may have read one of the writes.
func explained(r deed, writes []deed) bool {
	for _, w := range writes {
		if w.write != r.write || w.began > r.ended {
			continue
		}
		replaced := false
		for _, o := range writes {
			replaced = replaced || o.began > w.ended && o.ended < r.began
		}
		if !replaced {
			return true
		}
	}
	return false
}

// Many maps, opened and closed while they are used, and raw keys among them.
func TestConcurrentMaps(t *testing.T) {
	fsys := vfs.NewMem()
	db := kit.OpenOn(t, fsys)
	var all sync.WaitGroup
	names := []string{"a", "b", "a:b", "ab"}
	var sets atomic.Int64
	for g := range 8 {
		all.Go(func() {
			for i := range 60 {
				m, err := copal.OpenMap[int, int](db, names[(g+i)%len(names)])
				if err != nil {
					t.Error(err)
					return
				}
				if err := m.Set(g*1000+i, i); err != nil {
					t.Error(err)
				}
				sets.Add(1)
				if err := copal.Set(db, "single", i); err != nil {
					t.Error(err)
				}
				if v, err := m.Load(g*1000 + i); err != nil || v != i {
					t.Errorf("Load = %d, %v, want %d", v, err, i)
				}
				for k := range kit.KeysWith(db.Raw(), "ab:") {
					if string(k[:3]) != "ab:" {
						t.Errorf("ScanKeys yields %q", k)
					}
				}
			}
		})
	}
	all.Wait()
	check := func(db *copal.DB) {
		t.Helper()
		n := 0
		for _, name := range names {
			m := kit.MapOf[int, int](t, db, name)
			n += m.Len()
			for k, v := range m.All() {
				if k%1000 != v {
					t.Errorf("map %q yields %d: %d", name, k, v)
				}
			}
		}
		if int64(n) != sets.Load() {
			t.Errorf("%d entries, want %d", n, sets.Load())
		}
	}
	check(db)
	kit.MustClose(t, db)
	check(kit.OpenOn(t, fsys))
}

// Values too large to be written in one piece are read whole, while others replace them.
func TestConcurrentLargeValues(t *testing.T) {
	db := kit.Memory(t)
	m := kit.MapOf[int, []byte](t, db, "m", copal.WithCodec(codec.Bytes))
	uniform := func(v []byte) bool {
		return len(v) > 1<<20 && len(v) == 1<<20+int(v[0])<<12 && bytes.Count(v, v[:1]) == len(v)
	}
	var all sync.WaitGroup
	for g := range byte(4) {
		all.Go(func() {
			for i := range byte(3) {
				b := 1 + g*50 + i
				if err := m.Set(int(i)%2, bytes.Repeat([]byte{b}, 1<<20+int(b)<<12)); err != nil {
					t.Error(err)
				}
				if v, err := m.Load(int(i) % 2); err != nil || !uniform(v) {
					t.Errorf("Load finds %d bytes in pieces: %v", len(v), err)
				}
			}
		})
	}
	all.Wait()
	n := 0
	for _, v := range m.All() {
		if n++; !uniform(v) {
			t.Errorf("All yields %d bytes in pieces", len(v))
		}
	}
	if n != 2 || m.Len() != 2 {
		t.Errorf("All yields %d entries, Len is %d", n, m.Len())
	}
}

// heldKey is a key whose encoding waits until it is let go.
type heldKey string

var held atomic.Pointer[chan struct{}]

func (k heldKey) MarshalText() ([]byte, error) {
	if c := held.Load(); c != nil {
		*c <- struct{}{} // it is here
		<-*c
	}
	return []byte(k), nil
}

func (k *heldKey) UnmarshalText(b []byte) error { *k = heldKey(b); return nil }

// A map is closed and opened again with values of another type, while a write through the
// old one is under way: that gets ErrClosed, and no read meets a value of the other type.
func TestReopenedWithAnotherType(t *testing.T) {
	for name, write := range map[string]func(m *copal.Map[heldKey, [4]int64]) error{
		"Set":      func(m *copal.Map[heldKey, [4]int64]) error { return m.Set("k", [4]int64{1, 2, 3, 4}) },
		"SetAsync": func(m *copal.Map[heldKey, [4]int64]) error { return m.SetAsync("k", [4]int64{1, 2, 3, 4}) },
		"SetInMemory": func(m *copal.Map[heldKey, [4]int64]) error {
			return m.SetInMemory("k", [4]int64{1, 2, 3, 4})
		},
		"Update": func(m *copal.Map[heldKey, [4]int64]) error {
			_, _, err := m.Update("k", func(u *copal.Entry[[4]int64]) error {
				if u.Exists {
					t.Errorf("Update finds %v", u.Value)
				}

				return nil
			})
			return err
		},
		"Load": func(m *copal.Map[heldKey, [4]int64]) error {
			v, err := m.Load("k")
			if err == nil {
				return fmt.Errorf("it returns %v", v)
			}
			return err
		},
	} {
		db := kit.Memory(t)
		old := kit.MapOf[heldKey, [4]int64](t, db, "m")
		gate, done := make(chan struct{}), make(chan error)
		held.Store(&gate)
		go func() { done <- write(old) }()
		<-gate
		held.Store(nil)
		kit.MustClose(t, old)
		other := kit.MapOf[heldKey, string](t, db, "m")
		kit.MustSet(t, other, "k", "text")
		gate <- struct{}{}
		if err := <-done; !errors.Is(err, copal.ErrClosed) && !(name == "Load" && errors.Is(err, copal.ErrType)) {
			t.Errorf("%s through the closed map: %v", name, err)
		}
		kit.WantLoad(t, other, "k", "text")
		for _, v := range other.All() {
			if v != "text" {
				t.Errorf("after %s, All yields %q", name, v)
			}
		}
	}
}
