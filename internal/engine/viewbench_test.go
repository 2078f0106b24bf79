package engine

import (
	"fmt"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// BenchmarkOpenView opens a view and closes it, with none and with many others open.
func BenchmarkOpenView(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint("others=", others), func(b *testing.B) {
			s := mustOpen(b, vfs.NewMem())
			mustSet(b, s, "k", "v")
			for range others {
				defer mustView(b, s).Close()
			}
			for b.Loop() {
				mustView(b, s).Close()
			}
		})
	}
}

// BenchmarkSetBesideViews overwrites one of 10,000 keys, with no view open, with one that has seen all of them,
// and with a new one for each write.
func BenchmarkSetBesideViews(b *testing.B) {
	for _, views := range []string{"none", "one", "each"} {
		b.Run("views="+views, func(b *testing.B) {
			s := mustOpen(b, vfs.NewMem(), func(o *Options) { o.NoCompaction, o.RingBytes = true, 0 })
			var keys [10_000][]byte
			value := make([]byte, 100)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key %d", i)
				if err := s.Set(nil, keys[i], value, 0, Process); err != nil {
					b.Fatal(err)
				}
			}
			if views != "none" {
				defer mustView(b, s).Close()
			}
			i := 0
			for b.Loop() {
				if views == "each" {
					mustView(b, s).Close()
				}
				if err := s.Set(nil, keys[i*7919%len(keys)], value, 0, Process); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
