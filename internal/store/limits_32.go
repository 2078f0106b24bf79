//go:build 386 || arm || mips || mipsle

package store

// Three copies of a value may exist while it is written, in an address space of 2 to 4 GiB.
const maxValueBytes int64 = 256 << 20
