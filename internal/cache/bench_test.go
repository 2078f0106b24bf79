package cache

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
)

// filled is a table with n cells, and their hashes and keys in random order.
func filled(n int) (*Table, []uint64, []string) {
	b := &Budget{}
	b.SetLimit(1 << 40)
	seed := maphash.MakeSeed()
	t := New(b, func(key string) uint64 { return maphash.String(seed, key) }, nil)
	hashes, keys := make([]uint64, n), make([]string, n)
	for i, place := range rand.Perm(n) {
		key := "user:" + strconv.Itoa(i)
		c := &Cell{Address: 1, Holds: true}
		c.SetKey(key, 100)
		hash := maphash.String(seed, key)
		put(t, hash, nil, c)
		hashes[place], keys[place] = hash, key
	}
	return t, hashes, keys
}

// BenchmarkFind is a hit, without the hash of the key.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			t, hashes, keys := filled(n)
			i := 0
			for b.Loop() {
				if c := t.Find(hashes[i], keys[i]); c == nil {
					b.Fatal("a cell is missing")
				} else {
					c.Touch()
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

// BenchmarkReplace measures a write of a known key, without its lock.
func BenchmarkReplace(b *testing.B) {
	const n = 100_000
	t, hashes, keys := filled(n)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		c := &Cell{Address: 1, Holds: true}
		c.SetKey(keys[i], 100)
		put(t, hashes[i], t.Find(hashes[i], keys[i]), c)
		if i++; i == n {
			i = 0
		}
	}
}
