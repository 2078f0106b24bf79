package keyhash

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPublishedVectors: it is wyhash, whose author gives these.
func TestPublishedVectors(t *testing.T) {
	for seed, v := range []struct {
		text string
		hash uint64
	}{
		{"", 0x93228a4de0eec5a2},
		{"a", 0xc5bac3db178713c4},
		{"abc", 0xa97f2f7b1d9b3314},
		{"message digest", 0x786d1f1df3801df4},
		{"abcdefghijklmnopqrstuvwxyz", 0xdca5a8138ad37c87},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 0xb9e734f117cfaf70},
		{strings.Repeat("1234567890", 8), 0x6cc5eab49a92d617},
	} {
		if got := New(uint64(seed)).String(v.text); got != v.hash {
			t.Errorf("%q under seed %d is %#x, want %#x", v.text, seed, got, v.hash)
		}
	}
}

// TestGolden: hashes are in files, so these never change. One of each length up to 100.
func TestGolden(t *testing.T) {
	text, fold := strings.Repeat("the quick brown fox jumps over the lazy dog. ", 3), uint64(0)
	for n := range 100 {
		fold = bits.RotateLeft64(fold, 7) ^ New(0x5f3a91c2d4e5f607).String(text[:n])
	}
	if fold != golden {
		t.Errorf("the hashes fold to %#x", fold)
	}
	if got := New(0x5f3a91c2d4e5f607).String("alice"); got != goldenAlice {
		t.Errorf("alice is %#x", got)
	}
}

const (
	golden      = 0x7bd788d74ff55db0
	goldenAlice = 0xc8eda1c3a602ebcc
)

func TestStringAndBytesAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 200 {
		b := make([]byte, n+8)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		want := New(7).Bytes(b[:n])
		for shift := range 8 { // at each alignment in memory
			moved := append(make([]byte, shift, shift+n), b[:n]...)[shift:]
			if got := New(7).String(string(moved)); got != want || New(7).Bytes(moved) != want {
				t.Fatalf("%d bytes: %#x and %#x", n, got, want)
			}
		}
	}
}

// TestAvalanche flips each bit of keys of many lengths: each bit of the hash follows in half of the cases.
func TestAvalanche(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const rounds = 2000
	for _, n := range []int{1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 48, 49, 70} {
		key := make([]byte, n)
		for bit := range n * 8 {
			var flips [64]int
			for range rounds {
				for i := range key {
					key[i] = byte(rng.Uint32())
				}
				seed := New(rng.Uint64()) // of one byte there are few
				before := seed.Bytes(key)
				key[bit/8] ^= 1 << (bit % 8)
				for d := before ^ seed.Bytes(key); d != 0; d &= d - 1 {
					flips[bits.TrailingZeros64(d)]++
				}
			}
			for i, f := range flips {
				if off := math.Abs(float64(f)/rounds - 0.5); off > 0.08 { // seven standard deviations
					t.Fatalf("%d bytes: bit %d of the key changes bit %d of the hash in %d of %d cases", n, bit, i, f, rounds)
				}
			}
		}
	}
}

// TestSpread counts collisions of keys as people make them, in each part of the hash that is used by itself.
func TestSpread(t *testing.T) {
	const n = 200_000
	for name, key := range map[string]func(i int) string{
		"decimal":  func(i int) string { return fmt.Sprint(i) },
		"padded":   func(i int) string { return fmt.Sprintf("user:%020d", i) },
		"shifted":  func(i int) string { return fmt.Sprintf("%b", i) },
		"sparse":   func(i int) string { return strings.Repeat("\x00", i%97) + fmt.Sprint(i/97) },
		"ends":     func(i int) string { return fmt.Sprintf("%d/%s/%d", i&511, strings.Repeat("x", 40), i>>9) },
		"integers": func(i int) string { return string([]byte{byte(i), byte(i >> 8), byte(i >> 16), 0, 0, 0, 0, 0}) },
	} {
		seen, low, high := map[uint64]bool{}, map[uint32]bool{}, map[uint32]bool{}
		var shards [64]int
		for i := range n {
			h := New(1).String(key(i))
			seen[h], low[uint32(h)], high[uint32(h>>32)] = true, true, true
			shards[h>>58]++
		}
		if len(seen) != n {
			t.Errorf("%s: %d of %d hashes are different", name, len(seen), n)
		}
		for part, m := range map[string]int{"low": len(low), "high": len(high)} { // 4.7 expected
			if n-m > 20 {
				t.Errorf("%s: %d collisions in the %s half", name, n-m, part)
			}
		}
		for i, m := range shards {
			if m < n/64*9/10 || m > n/64*11/10 {
				t.Errorf("%s: %d of %d keys in part %d of 64", name, m, n, i)
			}
		}
	}
}

// TestSeedsDiffer: keys that collide under one seed have nothing in common under another.
func TestSeedsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(10_000) {
		seen[New(seed).String("alice")] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d hashes under 10000 seeds", len(seen))
	}
}

func BenchmarkString(b *testing.B) {
	for _, n := range []int{5, 12, 20, 36, 50} {
		key := strings.Repeat("abcdefghij", 5)[:n]
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			seed := New(1)
			for b.Loop() {
				seed.String(key)
			}
		})
		b.Run(fmt.Sprint(n, " maphash"), func(b *testing.B) {
			seed := maphash.MakeSeed()
			for b.Loop() {
				maphash.String(seed, key)
			}
		})
	}
}
