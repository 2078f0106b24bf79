package vfs

import (
	"fmt"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Touching a page of a mapped file may be a signal: one that lies beyond the end of a file which was cut,
// cannot be read, or has no room on the disk. Catch and Caught make an error of it:
//
//	defer vfs.Caught(vfs.Catch(), mapped, &err)

// Catch lets a fault of this goroutine be a panic, until Caught.
func Catch() (before bool) { return debug.SetPanicOnFault(true) }

// Caught is deferred, with what Catch has returned. A panic that is a fault within mapped, or
// with nil a fault anywhere, becomes *err; any other goes on.
func Caught(before bool, mapped []byte, err *error) {
	debug.SetPanicOnFault(before)
	cause := recover()
	if cause == nil {
		return
	}
	fault, ok := cause.(interface{ Addr() uintptr })
	if !ok || mapped != nil && !within(mapped, fault.Addr()) {
		panic(cause)
	}
	*err = fmt.Errorf("fault at address %x of a mapped file: %w", fault.Addr(), syscall.EIO)
}

func within(b []byte, addr uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= first && addr-first < uintptr(len(b))
}
