package rdb

import (
	"math"
	"strconv"
)

// collector takes the elements of a value during reading.
type collector struct {
	Value
	foreign string // the type of a value that is passed over; "" for one that is read

	paired  bool   // the added elements are a field and its value by turns, or a member and the text of its score
	waiting bool   // one of a pair was added
	member  []byte // that waits for the text of its score
	wrong   bool   // a score is no number

	held  int64                // bytes of Elements
	most  int64                // of them, in a stream; 0 for a file, of which parts are handed on
	takes func(bytes int) bool // is asked for memory; nil allows all

	part func() // called after each element, or pair, of a file; nil for a dump
}

// elementBytes is the memory of an element in addition to its bytes.
const elementBytes = 48

// allows reports whether the value may take so many bytes more.
func (r *reader) allows(bytes int) bool {
	r.bad = r.bad || r.to != nil && r.to.takes != nil && !r.to.takes(bytes)
	return !r.bad
}

func (c *collector) add(e []byte) {
	c.held += int64(len(e))
	c.waiting = c.paired && !c.waiting
	switch {
	case c.Type != "zset":
		c.Elements = append(c.Elements, e)
	case c.waiting:
		c.member = e
	default:
		score, err := strconv.ParseFloat(string(e), 64)
		c.wrong = c.wrong || err != nil || math.IsNaN(score)
		c.Elements, c.Scores = append(c.Elements, c.member), append(c.Scores, score)
	}
	if !c.waiting && c.part != nil {
		c.part()
	}
}

func (c *collector) addScored(member []byte, score float64) {
	c.held += int64(len(member))
	c.Elements, c.Scores = append(c.Elements, member), append(c.Scores, score)
	if c.part != nil {
		c.part()
	}
}

// whole reports whether the added elements make a value.
func (c *collector) whole() bool { return !c.waiting && !c.wrong }

// value reads a value of a type.
func (r *reader) value(of byte) {
	switch of {
	case typeString:
		r.to.Type = "value"
		r.to.Text = r.string()
	case typeList:
		r.to.Type = "list"
		r.strings(1)
	case typeListZiplist:
		r.to.Type = "list"
		r.packed((*reader).ziplist)
	case typeQuicklist:
		r.to.Type = "list"
		r.quicklist()
	case typeQuicklist2:
		r.to.Type = "list"
		r.quicklist2()
	case typeSet:
		r.to.Type = "set"
		r.strings(1)
	case typeSetIntset:
		r.to.Type = "set"
		r.packed((*reader).intset)
	case typeSetListpack:
		r.to.Type = "set"
		r.packed((*reader).listpack)
	case typeHash:
		r.pairs("hash")
		r.strings(2)
	case typeHashZipmap:
		r.pairs("hash")
		r.packed((*reader).zipmap)
	case typeHashZiplist:
		r.pairs("hash")
		r.packed((*reader).ziplist)
	case typeHashListpack:
		r.pairs("hash")
		r.packed((*reader).listpack)
	case typeZset:
		r.to.Type = "zset"
		r.zset((*reader).oldScore)
	case typeZset2:
		r.to.Type = "zset"
		r.zset((*reader).score)
	case typeZsetZiplist:
		r.pairs("zset")
		r.packed((*reader).ziplist)
	case typeZsetListpack:
		r.pairs("zset")
		r.packed((*reader).listpack)
	case typeStream, typeStream2, typeStream3:
		r.stream(of)
	default:
		r.skip(of)
	}
}

func (r *reader) pairs(of string) { r.to.Type, r.to.paired = of, true }

// skip skips a value of a type that is not read, and notes its kind.
func (r *reader) skip(of byte) {
	switch of {
	case typeModule2:
		r.to.foreign = "value of module " + moduleName(r.plain())
		r.skipModule()
	case typeDatedHash:
		r.to.foreign = "hash whose fields have deadlines"
		r.take(8)
		for range r.count(3) {
			r.plain()
			r.string()
			if r.string(); r.bad {
				return
			}
		}
	case typeDatedPack:
		r.to.foreign = "hash whose fields have deadlines"
		r.take(8)
		r.string()
	default:
		r.bad = true
	}
}

// times reads a number, and calls f so many times, which reads at least some bytes.
func (r *reader) times(bytes int, f func()) {
	for range r.count(bytes) {
		if f(); r.bad {
			return
		}
	}
}

func (r *reader) skipLengths(n int) {
	for range n {
		r.plain()
	}
}

// skipModule skips the data of a module: parts, each with a mark of its kind.
func (r *reader) skipModule() {
	for !r.bad {
		switch r.plain() {
		case 0:
			return
		case 1, 2: // whole numbers
			r.plain()
		case 3: // a float32
			r.take(4)
		case 4:
			r.take(8)
		case 5:
			r.string()
		default:
			r.bad = true
		}
	}
}

// moduleName is the name of a module's type, nine characters of six bits. Ten bits of its version
// follow.
func moduleName(id uint64) string {
	const of = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var name [9]byte
	for i := range name {
		name[i] = of[id>>(64-6*(i+1))&63]
	}
	return string(name[:])
}
