package goid

import (
	"bytes"
	"runtime"
	"strconv"
)

// traced returns the number in a stack trace: "goroutine 7 [running]: …". It takes microseconds.
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
