package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// reader reads the parts of a dump. What is not there is zero, and makes it bad.
type reader struct {
	b   []byte
	bad bool
}

var zeros [16]byte

// take returns the next n bytes, of which there are few: if they are not there, zeros.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return zeros[:]
	}
	part := r.b[:n:n]
	r.b = r.b[n:]
	return part
}

// run returns the next n bytes, or nothing if they are not there.
func (r *reader) run(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	return r.take(n)
}

// length reads a length, or if special is true the number of a form of strings.
func (r *reader) length() (n uint64, special bool) {
	first := r.take(1)[0]
	switch first >> 6 {
	case 0:
		return uint64(first & 0x3f), false
	case 1:
		return uint64(first&0x3f)<<8 | uint64(r.take(1)[0]), false
	case 3:
		return uint64(first & 0x3f), true
	}
	switch first {
	case 0x80:
		return uint64(binary.BigEndian.Uint32(r.take(4))), false
	case 0x81:
		return binary.BigEndian.Uint64(r.take(8)), false
	}
	r.bad = true
	return 0, false
}

// count reads how many elements follow, of at least so many bytes each.
func (r *reader) count(bytes int) uint64 {
	n, special := r.length()
	if special || n > uint64(len(r.b)/bytes) {
		r.bad = true
		return 0
	}
	return n
}

// The forms of strings that are special.
const (
	formInt8  = 0
	formInt16 = 1
	formInt32 = 2
	formLZF   = 3
)

func (r *reader) string() []byte {
	n, special := r.length()
	if !special {
		return r.run(n)
	}
	switch n {
	case formInt8:
		return number(r.whole(1))
	case formInt16:
		return number(r.whole(2))
	case formInt32:
		return number(r.whole(4))
	case formLZF:
		packed, _ := r.length()
		length, _ := r.length()
		return r.unpack(r.run(packed), length)
	}
	r.bad = true
	return nil
}

// strings reads a number, and so many times each strings.
func (r *reader) strings(each uint64) (list [][]byte) {
	for range r.count(int(each)) * each {
		list = append(list, r.string())
		if r.bad {
			return nil
		}
	}
	return list
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func (r *reader) score(text []byte) float64 {
	f, err := strconv.ParseFloat(string(text), 64)
	r.bad = r.bad || err != nil || math.IsNaN(f)
	return f
}

// unpack is LZF: runs of bytes, and copies of what stands up to 8 KiB before.
func (r *reader) unpack(b []byte, length uint64) (out []byte) {
	if length > 512<<20 || length > 256*uint64(len(b)) { // three bytes make 264 at most
		r.bad = true
		return nil
	}
	in := reader{b: b}
	for len(in.b) > 0 && !in.bad && uint64(len(out)) <= length {
		c := in.take(1)[0]
		if c < 32 {
			out = append(out, in.run(uint64(c)+1)...)
			continue
		}
		n := int(c>>5) + 2
		if n == 9 {
			n += int(in.take(1)[0])
		}
		from := len(out) - 1 - int(c&0x1f)<<8 - int(in.take(1)[0])
		if from < 0 {
			in.bad = true
			break
		}
		for range n {
			out = append(out, out[from])
			from++
		}
	}
	r.bad = r.bad || in.bad || uint64(len(out)) != length
	return out
}

// packed reads a string, and the elements in it.
func (r *reader) packed(elements func(*reader) [][]byte) [][]byte {
	in := reader{b: r.string()}
	list := elements(&in)
	if r.bad = r.bad || in.bad; r.bad {
		return nil
	}
	return list
}

func (r *reader) quicklist() (list [][]byte) {
	for range r.count(1) {
		list = append(list, r.packed((*reader).ziplist)...)
		if r.bad {
			return nil
		}
	}
	return list
}

func (r *reader) quicklist2() (list [][]byte) {
	for range r.count(2) {
		switch container, _ := r.length(); container {
		case 1:
			list = append(list, r.string())
		case 2:
			list = append(list, r.packed((*reader).listpack)...)
		default:
			r.bad = true
		}
		if r.bad {
			return nil
		}
	}
	return list
}

// intset reads whole numbers of one width.
func (r *reader) intset() (list [][]byte) {
	width := binary.LittleEndian.Uint32(r.take(4))
	n := uint64(binary.LittleEndian.Uint32(r.take(4)))
	if width != 2 && width != 4 && width != 8 || n*uint64(width) != uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	for range n {
		list = append(list, number(r.whole(int(width))))
	}
	return list
}

// whole reads a whole number of some bytes, the lowest first.
func (r *reader) whole(bytes int) int64 {
	var u uint64
	for i, b := range r.take(uint64(bytes))[:bytes] {
		u |= uint64(b) << (8 * i)
	}
	shift := 64 - 8*bytes
	return int64(u<<shift) >> shift
}

// listpack reads elements up to the mark of the end. Behind each stands its length, for readers that go backward.
func (r *reader) listpack() (list [][]byte) {
	r.take(6) // how many bytes and elements there are
	for !r.bad {
		from := len(r.b)
		switch c := r.take(1)[0]; {
		case c == 0xff:
			r.bad = r.bad || len(r.b) > 0
			return list
		case c < 0x80:
			list = append(list, number(int64(c)))
		case c < 0xc0:
			list = append(list, r.run(uint64(c&0x3f)))
		case c < 0xe0:
			u := int64(c&0x1f)<<8 | int64(r.take(1)[0])
			list = append(list, number(u<<51>>51))
		case c < 0xf0:
			n := uint64(c&0x0f)<<8 | uint64(r.take(1)[0])
			list = append(list, r.run(n))
		case c == 0xf0:
			list = append(list, r.run(uint64(binary.LittleEndian.Uint32(r.take(4)))))
		case c <= 0xf4:
			list = append(list, number(r.whole([]int{2, 3, 4, 8}[c-0xf1])))
		default:
			r.bad = true
		}
		r.take(backBytes(from - len(r.b)))
	}
	return nil
}

// backBytes is how many bytes the length of an element takes behind it.
func backBytes(n int) uint64 {
	switch {
	case n <= 127:
		return 1
	case n < 1<<14-1:
		return 2
	case n < 1<<21-1:
		return 3
	case n < 1<<28-1:
		return 4
	}
	return 5
}

// ziplist reads elements up to the mark of the end. In front of each stands the length of the one before.
func (r *reader) ziplist() (list [][]byte) {
	r.take(10) // how many bytes there are, where the last element stands, and how many there are
	for !r.bad {
		switch before := r.take(1)[0]; before {
		case 0xff:
			r.bad = r.bad || len(r.b) > 0
			return list
		case 0xfe:
			r.take(4)
		}
		switch c := r.take(1)[0]; {
		case c < 0x40:
			list = append(list, r.run(uint64(c)))
		case c < 0x80:
			n := uint64(c&0x3f)<<8 | uint64(r.take(1)[0])
			list = append(list, r.run(n))
		case c == 0x80:
			list = append(list, r.run(uint64(binary.BigEndian.Uint32(r.take(4)))))
		case c == 0xc0:
			list = append(list, number(r.whole(2)))
		case c == 0xd0:
			list = append(list, number(r.whole(4)))
		case c == 0xe0:
			list = append(list, number(r.whole(8)))
		case c == 0xf0:
			list = append(list, number(r.whole(3)))
		case c == 0xfe:
			list = append(list, number(r.whole(1)))
		case c > 0xf0 && c < 0xfe:
			list = append(list, number(int64(c&0x0f)-1))
		default:
			r.bad = true
		}
	}
	return nil
}
