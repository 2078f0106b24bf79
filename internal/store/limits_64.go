//go:build !(386 || arm || mips || mipsle)

package store

const maxValueBytes int64 = 1 << 30
