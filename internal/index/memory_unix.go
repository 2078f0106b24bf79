//go:build unix && !race

package index

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Large arrays are mapped, outside the heap that the garbage collector counts: an index on the heap
// would make it wait for as much garbage again before it collects.

// offHeap is the length in bytes from which on an array is mapped.
const offHeap = 64 << 10

func allocate(n int) []slot {
	if n*SlotBytes >= offHeap {
		b, err := unix.Mmap(-1, 0, n*SlotBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(b))), n)
		}
	}
	return make([]slot, n)
}

// release gives an array back. One that could not be mapped is on the heap: then
// unmapping fails, which is as well.
func release(s []slot) {
	if n := len(s) * SlotBytes; n >= offHeap {
		unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n))
	}
}
