//go:build 386 || arm || mips || mipsle

package seglog

// Three copies of a value may exist while it is written, in an address space of 2 to 4 GiB.
const MaxValueBytes int64 = 256 << 20
