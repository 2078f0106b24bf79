package vfs

import (
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"
	"unsafe"
)

// Touching a page of a mapped file may be a signal: one that lies beyond the end of a file which was cut,
// cannot be read, or has no room on the disk. Catch and Caught make an error of it:
//
//	defer vfs.Caught(vfs.Catch(), mapped, &err)

// Catch lets a fault of this goroutine be a panic, until Caught.
func Catch() (before bool) { return debug.SetPanicOnFault(true) }

// Caught is deferred, with the result of Catch. A panic that is a fault within mapped, or with nil
// a fault anywhere, becomes *err; any other goes on.
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
	*err = faultAt(fault.Addr())
}

// place is the file and the offset of a mapped region.
type place struct {
	name   string // of the file, when it was mapped
	offset int64
	bytes  []byte
}

// places are all regions that are mapped, by their first address. Only a fault asks for them: it knows an address, and
// an operator needs a file.
var places sync.Map

func notePlace(name string, offset int64, b []byte) {
	places.Store(unsafe.SliceData(b), place{name, offset, b})
}

func forgetPlace(b []byte) { places.Delete(unsafe.SliceData(b)) }

// faultAt is the error of a fault at an address.
func faultAt(addr uintptr) error {
	err := fmt.Errorf("fault at address %x of a mapped file: %w", addr, syscall.EIO)
	places.Range(func(first, at any) bool {
		p := at.(place)
		if !within(p.bytes, addr) {
			return true
		}
		offset := p.offset + int64(addr-uintptr(unsafe.Pointer(first.(*byte))))
		err = fmt.Errorf("%s cannot be read or written through its mapping at offset %d: %w", p.name, offset, syscall.EIO)
		return false
	})
	return err
}

func within(b []byte, addr uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= first && addr-first < uintptr(len(b))
}
