package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/redisstream"
)

// compressed is a string of LZF: a unit of at most 32 bytes, and n copies of 264 bytes of it.
func compressed(unit string, n int) string {
	packed := append([]byte{byte(len(unit) - 1)}, unit...)
	for range n {
		packed = append(packed, 7<<5, 255, byte(len(unit)-1))
	}
	b := appendLength(append([]byte{0xc0 | formLZF}, appendLength(nil, uint64(len(packed)))...), uint64(len(unit)+264*n))
	return string(append(b, packed...))
}

// A small file that names or makes long values is read within memory of 256 times its length, or is an error.
func TestReadBombs(t *testing.T) {
	var names node
	wide := bytes.Repeat([]byte("n"), 100_000)
	for i := range 5_000 {
		names.add(redisstream.ID{MS: uint64(i + 1)}, [][]byte{wide, []byte("v")})
	}
	stream := keyOf(typeStream, "k", "\x01"+string(names.appendTo(nil)))
	const mib = 1 << 20
	for name, c := range map[string]struct {
		file   string
		most   int  // MiB of memory
		handed int  // MiB of values
		bad    bool // it is an error
	}{
		"a compressed value":        {keyOf(0, "k", compressed("x", 200_000)), 60, 51, false},
		"a compressed name":         {"\x00" + compressed("x", 200_000) + "\x01v" + "\x63", 120, 1, true},
		"a bad value of that name":  {"\x00" + compressed("x", 200_000) + "\xc4", 120, 1, true},
		"a compressed list":         {keyOf(typeListZiplist, "k", compressed("\x00\xf1", 40_000)), 600, 11, true},
		"more than it says":         {keyOf(0, "k", strings.Replace(compressed("x", 200_000), "\x80\x03\x25", "\x80\x03\x24", 1)), 150, 0, true},
		"fields of a stream":        {stream, 300, 130, true},
		"LZF of a length that lies": {keyOf(0, "k", "\xc3\x05\x81\x00\x00\x00\x00\x1f\x00\x00\x00\x00aaaa"), 1, 0, true},
		"an intset that lies":       {keyOf(typeSetIntset, "k", stringOf("\x08\x00\x00\x00\xff\xff\xff\xff12345678")), 1, 0, true},
		"zipmap of a length":        {keyOf(typeHashZipmap, "k", stringOf("\x01\xfe\xff\xff\xff\xffabc")), 1, 0, true},
		"listpack of a length":      {keyOf(typeSetListpack, "k", stringOf("123456\xf0\xff\xff\xff\x7fabc")), 1, 0, true},
		"a module's string":         {keyOf(typeModule2, "k", "\x00\x05\x80\x7f\xff\xff\xff"), 1, 0, true},
		"an aux string":             {"\xfa\x80\x7f\xff\xff\xff", 1, 0, true},
		"a library":                 {"\xf5\x81\x7f\xff\xff\xff\xff\xff\xff\xff", 1, 0, true},
		"groups of a stream":        {keyOf(typeStream, "k", "\x00\x00\x00\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xff"), 1, 0, true},
		"consumers of a group":      {keyOf(typeStream, "k", "\x00\x00\x00\x00\x01\x01g\x00\x00\x00\x80\xff\xff\xff\xff"), 1, 0, true},
		"pending entries":           {keyOf(typeStream, "k", "\x00\x00\x00\x00\x01\x01g\x00\x00\x80\xff\xff\xff\xff"), 1, 0, true},
		"fields with deadlines":     {keyOf(typeDatedHash, "k", "12345678\x81\x7f\xff\xff\xff\xff\xff\xff\xff"), 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			handed := 0
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := Read(bytes.NewReader(fileOf(11, c.file)), func(e *Entry) error {
				handed += len(e.Text)
				for _, one := range e.Elements {
					handed += len(one)
				}
				return nil
			})
			text := fmt.Sprint(err)
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) / mib; took > uint64(c.most) {
				t.Errorf("it allocates %d MiB for %d bytes, and the most is %d", took, len(c.file), c.most)
			}
			if handed/mib > c.handed {
				t.Errorf("%d MiB of values came of %d bytes", handed/mib, len(c.file))
			}
			if c.bad != errors.As(err, new(*FileError)) {
				t.Errorf("the error is %.300s", text)
			}
			if len(text) > 1000 {
				t.Errorf("the error has %d bytes", len(text))
			}
		})
	}
}

// The elements of a stream are bounded by the length of the dump, also where an int has 32 bits.
func TestBoundOfLongDumps(t *testing.T) {
	const dump = 16 << 20
	if mostOf(dump) <= math.MaxUint32 {
		t.Fatal("the bound fits 32 bits")
	}
	for _, over := range []int64{0, 1} {
		r := reader{to: &collector{most: mostOf(dump), held: mostOf(dump) + over}}
		if r.element("name", nil); r.bad != (over > 0) {
			t.Errorf("%d bytes over the bound: %v", over, r.bad)
		}
	}
}
