package goid

import (
	"runtime"
	"sync"
	"testing"
)

// deep makes the stack grow, which moves it.
func deep(n int) (uint64, byte) {
	var room [1 << 10]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		return Get(), room[0]
	}
	id, b := deep(n - 1)
	return id, b + room[n%len(room)]
}

// A goroutine keeps its number, however deep it goes, and whatever runs in between; and those that
// run at the same time have numbers of their own, which their traces confirm.
func TestNumbers(t *testing.T) {
	const n = 64
	ids, traces := make([]uint64, n), make([]uint64, n)
	var here, done sync.WaitGroup
	here.Add(n)
	for i := range n {
		done.Go(func() {
			ids[i], traces[i] = Get(), traced()
			here.Done()
			here.Wait() // all are there
			runtime.Gosched()
			if id, _ := deep(200); id != ids[i] || Get() != ids[i] || traced() != traces[i] {
				t.Errorf("goroutine %d has become another", i)
			}
		})
	}
	done.Wait()
	seen, traced := map[uint64]int{}, map[uint64]int{}
	for i := range n {
		seen[ids[i]]++
		traced[traces[i]]++
	}
	if len(seen) != n || len(traced) != n || seen[0] != 0 {
		t.Errorf("%d goroutines had %d numbers and %d traces", n, len(seen), len(traced))
	}
}

func BenchmarkGet(b *testing.B) {
	for b.Loop() {
		Get()
	}
}
