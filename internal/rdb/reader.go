package rdb

import (
	"encoding/binary"
	"math"
	"strconv"
)

// reader reads the parts of a dump or a file. A missing part is zero, and makes the reader bad.
type reader struct {
	b    []byte
	bad  bool
	fill func(n uint64) // makes b longer, to n bytes if there are so many; nil when b is all there is
	to   *collector     // takes the value that is read
}

var zeros [16]byte

// has reports whether there are n bytes more.
func (r *reader) has(n uint64) bool {
	if n > uint64(len(r.b)) && r.fill != nil && !r.bad {
		r.fill(n)
	}
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return false
	}
	return true
}

// take returns the next n bytes, of which there are few: if they are not there, zeros.
func (r *reader) take(n uint64) []byte {
	if !r.has(n) {
		return zeros[:]
	}
	part := r.b[:n:n]
	r.b = r.b[n:]
	return part
}

// run returns the next n bytes, or nothing if they are not there.
func (r *reader) run(n uint64) []byte {
	if !r.has(n) {
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

// plain reads a length that is not special.
func (r *reader) plain() uint64 {
	n, special := r.length()
	r.bad = r.bad || special
	return n
}

// count reads how many elements follow, of at least so many bytes each. In a file their bytes have not arrived.
func (r *reader) count(bytes int) uint64 {
	n := r.plain()
	if r.bad || r.fill == nil && n > uint64(len(r.b)/bytes) {
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
		packed := r.plain()
		length := r.plain()
		return r.unpack(r.run(packed), length)
	}
	r.bad = true
	return nil
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// unpack decompresses LZF: runs of bytes, and copies of bytes up to 8 KiB before.
func (r *reader) unpack(b []byte, length uint64) (out []byte) {
	if length > 512<<20 || length > 256*uint64(len(b)) { // three bytes make 264 at most
		r.bad = true
		return nil
	}
	if !r.allows(int(length)) {
		return nil
	}
	out = make([]byte, 0, length)
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

// strings reads a number, and so many times each elements.
func (r *reader) strings(each uint64) {
	for range r.count(int(each)) {
		for range each {
			r.add(r.string())
		}
		if r.bad {
			return
		}
	}
}

// add adds an element to the value, unless it was missing.
func (r *reader) add(element []byte) {
	if r.allows(elementBytes) {
		r.to.add(element)
	}
}

// packed reads a string, and the elements in it.
func (r *reader) packed(elements func(*reader)) {
	in := reader{b: r.string(), to: r.to}
	if !r.bad {
		elements(&in)
		r.bad = r.bad || in.bad
	}
}

func (r *reader) quicklist() {
	for range r.count(1) {
		r.packed((*reader).ziplist)
		if r.bad {
			return
		}
	}
}

func (r *reader) quicklist2() {
	for range r.count(2) {
		switch container := r.plain(); container {
		case 1:
			r.add(r.string())
		case 2:
			r.packed((*reader).listpack)
		default:
			r.bad = true
		}
		if r.bad {
			return
		}
	}
}

// zset reads members, each followed by its score.
func (r *reader) zset(score func(*reader) float64) {
	for range r.count(2) {
		member := r.string()
		f := score(r)
		if r.bad || math.IsNaN(f) {
			r.bad = true
			return
		}
		r.to.addScored(member, f)
	}
}

func (r *reader) score() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(r.take(8))) }

// oldScore reads a score of the form of Redis 3: its length or a mark, and its text.
func (r *reader) oldScore() float64 {
	switch n := r.take(1)[0]; n {
	case 253:
		return math.NaN()
	case 254:
		return math.Inf(1)
	case 255:
		return math.Inf(-1)
	default:
		f, err := strconv.ParseFloat(string(r.run(uint64(n))), 64)
		r.bad = r.bad || err != nil
		return f
	}
}

// intset reads whole numbers of one width.
func (r *reader) intset() {
	width := binary.LittleEndian.Uint32(r.take(4))
	n := uint64(binary.LittleEndian.Uint32(r.take(4)))
	if width != 2 && width != 4 && width != 8 || n*uint64(width) != uint64(len(r.b)) {
		r.bad = true
		return
	}
	for range n {
		r.add(number(r.whole(int(width))))
	}
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

// listpack reads elements up to the mark of the end.
func (r *reader) listpack() {
	r.take(6) // how many bytes and elements there are
	for !r.packEnds() {
		r.add(r.packElement())
	}
}

// packEnds reports whether there are no more elements of a listpack.
func (r *reader) packEnds() bool {
	if r.bad || !r.has(1) {
		return true
	}
	ends := r.b[0] == 0xff
	r.bad = r.bad || ends && len(r.b) > 1
	return ends
}

// packElement reads an element of a listpack. Its length follows it, for readers that go backward.
func (r *reader) packElement() (e []byte) {
	from := len(r.b)
	switch c := r.take(1)[0]; {
	case c < 0x80:
		e = number(int64(c))
	case c < 0xc0:
		e = r.run(uint64(c & 0x3f))
	case c < 0xe0:
		u := int64(c&0x1f)<<8 | int64(r.take(1)[0])
		e = number(u << 51 >> 51)
	case c < 0xf0:
		e = r.run(uint64(c&0x0f)<<8 | uint64(r.take(1)[0]))
	case c == 0xf0:
		e = r.run(uint64(binary.LittleEndian.Uint32(r.take(4))))
	case c <= 0xf4:
		e = number(r.whole([]int{2, 3, 4, 8}[c-0xf1]))
	default:
		r.bad = true
	}
	r.take(backBytes(from - len(r.b)))
	return e
}

// backBytes returns the number of bytes of the length after an element.
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

// ziplist reads elements up to the mark of the end. Before each is the length of the previous one.
func (r *reader) ziplist() {
	r.take(10) // the number of bytes, the place of the last element, and the number of elements
	for !r.bad {
		switch before := r.take(1)[0]; before {
		case 0xff:
			r.bad = r.bad || len(r.b) > 0
			return
		case 0xfe:
			r.take(4)
		}
		var e []byte
		switch c := r.take(1)[0]; {
		case c < 0x40:
			e = r.run(uint64(c))
		case c < 0x80:
			e = r.run(uint64(c&0x3f)<<8 | uint64(r.take(1)[0]))
		case c == 0x80:
			e = r.run(uint64(binary.BigEndian.Uint32(r.take(4))))
		case c == 0xc0:
			e = number(r.whole(2))
		case c == 0xd0:
			e = number(r.whole(4))
		case c == 0xe0:
			e = number(r.whole(8))
		case c == 0xf0:
			e = number(r.whole(3))
		case c == 0xfe:
			e = number(r.whole(1))
		case c > 0xf0 && c < 0xfe:
			e = number(int64(c&0x0f) - 1)
		default:
			r.bad = true
		}
		r.add(e)
	}
}

// zipmap reads fields and values up to the mark of the end. The length of a value is followed by
// the number of unused bytes after the value.
func (r *reader) zipmap() {
	r.take(1) // the number of fields, if they are few
	for !r.bad {
		n, ok := r.zipmapLength()
		if !ok {
			r.bad = r.bad || len(r.b) > 0
			return
		}
		r.add(r.run(n))
		n, ok = r.zipmapLength()
		r.bad = r.bad || !ok
		free := r.take(1)[0]
		r.add(r.run(n))
		r.take(uint64(free))
	}
}

// zipmapLength reads a length; ok is false for the mark of the end.
func (r *reader) zipmapLength() (n uint64, ok bool) {
	switch c := r.take(1)[0]; c {
	case 0xff:
		return 0, false
	case 0xfe:
		return uint64(binary.LittleEndian.Uint32(r.take(4))), true
	default:
		return uint64(c), true
	}
}
