package warm

import (
	"testing"
	"unsafe"
)

// Nothing is read and nothing is changed, whatever the addresses: also those of no memory.
func TestAnyAddress(t *testing.T) {
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte(i)
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	Each([]uintptr{at, 0, 1, ^uintptr(0), 1 << 20, at + 1000})
	Each(nil)
	Range(at, 16)
	Range(at, 0)
	Range(at, -1)
	Range(^uintptr(0)-100, 4)
	for i := range b {
		if b[i] != byte(i) {
			t.Fatalf("byte %d has become %d", i, b[i])
		}
	}
}
