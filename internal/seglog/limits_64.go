//go:build !(386 || arm || mips || mipsle)

package seglog

const MaxValueBytes int64 = 1 << 30
