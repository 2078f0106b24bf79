package hybridlog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func benchDir(b *testing.B) string {
	dir := b.TempDir()
	return filepath.Join(dir, "log")
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{128, 512, 1024, 4096, 128 << 10, 1 << 20} {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rand.Int())
		}
		b.Run(fmt.Sprint("log/", size), func(b *testing.B) {
			l, err := Open(benchDir(b))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				if _, err := l.Append(p); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
		})
		b.Run(fmt.Sprint("file/", size), func(b *testing.B) {
			f, err := os.Create(benchDir(b))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				if _, err := f.Write(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadAt(b *testing.B) {
	for _, size := range []int{128, 512, 1024, 4096, 128 << 10} {
		p := make([]byte, size)
		l, err := Open(benchDir(b))
		if err != nil {
			b.Fatal(err)
		}
		n := 256 << 20 / size
		for range n {
			l.Append(p)
		}
		l.Sync()
		buf := make([]byte, size)
		for off := int64(0); off < l.Size(); off += int64(size) {
			l.ReadAt(buf, off)
		}
		b.Run(fmt.Sprint("random/", size), func(b *testing.B) {
			for range b.N {
				if _, err := l.ReadAt(buf, rand.Int64N(l.Size()-int64(size))); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("hot/", size), func(b *testing.B) {
			for range b.N {
				if _, err := l.ReadAt(buf, 5000); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("view/", size), func(b *testing.B) {
			for range b.N {
				if err := l.View(5000, size, func(p []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		l.Close()
	}
}
