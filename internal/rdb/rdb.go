// Package rdb is the form in which Redis dumps one value, as DUMP returns it and RESTORE takes it: a type, the value,
// the version of the form, and a checksum.
//
// It writes the plain types, which every Redis from version 5 on reads, and reads what Redis 4 to 7.2 writes of
// strings, lists, sets, sorted sets and hashes.
package rdb

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"math"
)

// Value is what a key holds.
type Value struct {
	Type     string    // "value", "list", "set", "zset" or "hash"
	Text     []byte    // of a value
	Elements [][]byte  // of a list, a set or a sorted set; of a hash each field and behind it its value
	Scores   []float64 // of a sorted set
}

var (
	// ErrChecksum is the error of bytes that are not those of a dump, or of one of a newer version.
	ErrChecksum = errors.New("rdb: version or checksum are wrong")
	// ErrFormat is the error of a dump that holds no value of a known type.
	ErrFormat = errors.New("rdb: bad format")
)

// The versions that are written and read.
const (
	written = 9
	newest  = 12
)

const footerBytes = 10 // two of the version, eight of the checksum, both lowest byte first

// The types of values. Those with a word behind them are kept in one string, in the form of that name.
const (
	typeString       = 0
	typeList         = 1
	typeSet          = 2
	typeZset         = 3 // scores as text
	typeHash         = 4
	typeZset2        = 5
	typeListZiplist  = 10
	typeSetIntset    = 11
	typeZsetZiplist  = 12
	typeHashZiplist  = 13
	typeQuicklist    = 14 // of ziplists
	typeHashListpack = 16
	typeZsetListpack = 17
	typeQuicklist2   = 18 // of elements and listpacks
	typeSetListpack  = 20
)

var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum is CRC-64/Jones from 0 on, which crc64 begins and ends with all bits inverted.
func checksum(b []byte) uint64 { return ^crc64.Update(math.MaxUint64, jones, b) }

// Append appends the dump of a value.
func Append(dst []byte, v *Value) []byte {
	from := len(dst)
	switch v.Type {
	case "value":
		dst = appendString(append(dst, typeString), v.Text)
	case "list":
		dst = appendStrings(append(dst, typeList), len(v.Elements), v.Elements)
	case "set":
		dst = appendStrings(append(dst, typeSet), len(v.Elements), v.Elements)
	case "hash":
		dst = appendStrings(append(dst, typeHash), len(v.Elements)/2, v.Elements)
	default:
		dst = appendLength(append(dst, typeZset2), len(v.Elements))
		for i, m := range v.Elements {
			dst = appendString(dst, m)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Scores[i]))
		}
	}
	dst = binary.LittleEndian.AppendUint16(dst, written)
	return binary.LittleEndian.AppendUint64(dst, checksum(dst[from:]))
}

func appendStrings(dst []byte, n int, list [][]byte) []byte {
	dst = appendLength(dst, n)
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendString(dst, s []byte) []byte { return append(appendLength(dst, len(s)), s...) }

func appendLength(dst []byte, n int) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, 0x40|byte(n>>8), byte(n))
	case uint64(n) <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81), uint64(n))
}

// Parse reads a dump. What it returns may be parts of it.
func Parse(dump []byte) (*Value, error) {
	at := len(dump) - footerBytes
	if at < 1 || binary.LittleEndian.Uint16(dump[at:]) > newest || binary.LittleEndian.Uint64(dump[at+2:]) != checksum(dump[:at+2]) {
		return nil, ErrChecksum
	}
	r := reader{b: dump[1:at]}
	v := r.value(dump[0])
	if r.bad || len(r.b) > 0 || v.Type != "value" && len(v.Elements) == 0 {
		return nil, ErrFormat
	}
	return v, nil
}

// value reads a value of a type.
func (r *reader) value(of byte) *Value {
	switch of {
	case typeString:
		return &Value{Type: "value", Text: r.string()}
	case typeList:
		return &Value{Type: "list", Elements: r.strings(1)}
	case typeListZiplist:
		return &Value{Type: "list", Elements: r.packed((*reader).ziplist)}
	case typeQuicklist:
		return &Value{Type: "list", Elements: r.quicklist()}
	case typeQuicklist2:
		return &Value{Type: "list", Elements: r.quicklist2()}
	case typeSet:
		return &Value{Type: "set", Elements: r.strings(1)}
	case typeSetIntset:
		return &Value{Type: "set", Elements: r.packed((*reader).intset)}
	case typeSetListpack:
		return &Value{Type: "set", Elements: r.packed((*reader).listpack)}
	case typeHash:
		return &Value{Type: "hash", Elements: r.strings(2)}
	case typeHashZiplist:
		return r.even("hash", r.packed((*reader).ziplist))
	case typeHashListpack:
		return r.even("hash", r.packed((*reader).listpack))
	case typeZset, typeZset2:
		return r.zset(of)
	case typeZsetZiplist:
		return r.scored(r.packed((*reader).ziplist))
	case typeZsetListpack:
		return r.scored(r.packed((*reader).listpack))
	}
	r.bad = true
	return &Value{}
}

// even is a value whose elements come in pairs.
func (r *reader) even(kind string, list [][]byte) *Value {
	r.bad = r.bad || len(list)%2 != 0
	return &Value{Type: kind, Elements: list}
}

// scored is a sorted set whose scores stand behind the members, as text.
func (r *reader) scored(list [][]byte) *Value {
	pairs := r.even("zset", list).Elements
	v := &Value{Type: "zset"}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Elements = append(v.Elements, pairs[i])
		v.Scores = append(v.Scores, r.score(pairs[i+1]))
	}
	return v
}

func (r *reader) zset(of byte) *Value {
	v := &Value{Type: "zset"}
	for range r.count(2) {
		v.Elements = append(v.Elements, r.string())
		var score float64
		if of == typeZset2 {
			score = math.Float64frombits(binary.LittleEndian.Uint64(r.take(8)))
			r.bad = r.bad || math.IsNaN(score)
		} else {
			score = r.oldScore()
		}
		v.Scores = append(v.Scores, score)
		if r.bad {
			break
		}
	}
	return v
}

// oldScore reads a score of the form of Redis 3: its length or a mark, and its text.
func (r *reader) oldScore() float64 {
	switch n := r.take(1)[0]; n {
	case 253: // NaN
		r.bad = true
		return 0
	case 254:
		return math.Inf(1)
	case 255:
		return math.Inf(-1)
	default:
		return r.score(r.run(uint64(n)))
	}
}
