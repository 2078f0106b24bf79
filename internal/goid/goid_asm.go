//go:build amd64 || arm64

package goid

// Get returns the number of the goroutine that calls it. Once it has ended another may get it.
func Get() uint64 { return uint64(current()) }

// current is the address of the runtime's descriptor of this goroutine, which does not move.
func current() uintptr
