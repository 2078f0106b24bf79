// Package goid tells goroutines apart: a goroutine's number is its own while it runs. The language
// has no such thing, and state of a goroutine should be handed on as an argument. But a function
// that has to find out that its own goroutine is inside it already has nothing else. The number is
// the address of the runtime's record of the goroutine, where that can be had, and otherwise read
// off a stack trace.
package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// traced is the number that stands in a stack trace: "goroutine 7 [running]: …". It takes microseconds.
func traced() uint64 {
	var buf [64]byte
	b := buf[:runtime.Stack(buf[:], false)]
	b = bytes.TrimPrefix(b, []byte("goroutine "))
	n, err := strconv.ParseUint(string(b[:max(bytes.IndexByte(b, ' '), 0)]), 10, 64)
	if err != nil {
		panic("goid: the runtime has changed the text of its stack traces")
	}
	return n
}
