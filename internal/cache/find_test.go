package cache

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
)

func BenchmarkFind(b *testing.B) {
	const n = 100_000
	seed := maphash.MakeSeed()
	type cell struct {
		Cell
		v [4]uint64
	}
	bud := &Budget{}
	bud.SetLimit(1 << 40)
	t := New(bud)
	var sm sync.Map
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
		c := &cell{}
		h := maphash.String(seed, keys[i])
		c.Holds = true
		c.SetKey(h, keys[i], 100)
		t.Swap(nil, &c.Cell)
		sm.Store(keys[i], c.v)
	}
	rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	b.Run("cells", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			k := keys[i%n]
			c := t.Find(maphash.String(seed, k), k)
			if c == nil {
				b.Fatal()
			}
			c.Touch()
		}
	})
	b.Run("syncmap", func(b *testing.B) {
		s := uint64(0)
		for i := 0; i < b.N; i++ {
			v, _ := sm.Load(keys[i%n])
			s += v.([4]uint64)[0]
		}
	})
	b.Run("syncmapstore", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			sm.Store(keys[i%n], [4]uint64{uint64(i)})
		}
	})
}
