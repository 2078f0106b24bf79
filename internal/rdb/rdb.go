package rdb

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"math"
)

// Value is the value of a key.
type Value struct {
	Type     string    // "value", "list", "set", "zset", "hash" or "stream"
	Text     []byte    // of a value
	Elements [][]byte  // of a list, a set or a sorted set; of a hash each field, followed by its value; so internal/redisstream's
	Scores   []float64 // of a sorted set
}

var (
	// ErrChecksum is the error of bytes that are not those of a dump, or of one of a newer version.
	ErrChecksum = errors.New("rdb: version or checksum are wrong")
	// ErrFormat is the error of a dump that holds no value of a known type.
	ErrFormat = errors.New("rdb: bad format")
)

// Foreign is the error of a whole value of a type that is not read. It names the type, such as
// "value of module graphdata". It is an ErrFormat.
type Foreign string

func (f Foreign) Error() string { return "rdb: a " + string(f) + " is not read" }

// Is reports whether target is ErrFormat.
func (f Foreign) Is(target error) bool { return target == ErrFormat }

// The versions that are written and read.
const (
	written       = 9
	writtenStream = 10
	newest        = 12
)

const footerBytes = 10 // two of the version, eight of the checksum, both lowest byte first

// The types of values. Those with a word after them are kept in one string, in the form of that
// name.
const (
	typeString       = 0
	typeList         = 1
	typeSet          = 2
	typeZset         = 3 // scores as text
	typeHash         = 4
	typeZset2        = 5
	typeModule2      = 7
	typeHashZipmap   = 9
	typeListZiplist  = 10
	typeSetIntset    = 11
	typeZsetZiplist  = 12
	typeHashZiplist  = 13
	typeQuicklist    = 14 // of ziplists
	typeStream       = 15
	typeHashListpack = 16
	typeZsetListpack = 17
	typeQuicklist2   = 18 // of elements and listpacks
	typeStream2      = 19
	typeSetListpack  = 20
	typeStream3      = 21
	typeDatedHash    = 24 // the fields of which may expire
	typeDatedPack    = 25 // a typeDatedHash as a listpack
)

var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

// checksum is CRC-64/Jones from 0 on, which crc64 begins and ends with all bits inverted.
func checksum(b []byte) uint64 { return addChecksum(0, b) }

func addChecksum(sum uint64, b []byte) uint64 { return ^crc64.Update(^sum, jones, b) }

// mostOf returns the most bytes of a value that takes n bytes in a dump or a file.
func mostOf(n int64) int64 { return 64<<20 + 256*n }

// Append appends the dump of a value. The error is ErrFormat for elements that make no stream.
func Append(dst []byte, v *Value) ([]byte, error) {
	from, version := len(dst), uint16(written)
	switch v.Type {
	case "value":
		dst = appendString(append(dst, typeString), v.Text)
	case "list":
		dst = appendStrings(append(dst, typeList), len(v.Elements), v.Elements)
	case "set":
		dst = appendStrings(append(dst, typeSet), len(v.Elements), v.Elements)
	case "hash":
		dst = appendStrings(append(dst, typeHash), len(v.Elements)/2, v.Elements)
	case "stream":
		var err error
		if dst, err = appendStream(append(dst, typeStream2), v.Elements); err != nil {
			return nil, err
		}
		version = writtenStream
	default:
		dst = appendLength(append(dst, typeZset2), uint64(len(v.Elements)))
		for i, m := range v.Elements {
			dst = appendString(dst, m)
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Scores[i]))
		}
	}
	dst = binary.LittleEndian.AppendUint16(dst, version)
	return binary.LittleEndian.AppendUint64(dst, checksum(dst[from:])), nil
}

func appendStrings(dst []byte, n int, list [][]byte) []byte {
	dst = appendLength(dst, uint64(n))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendString(dst, s []byte) []byte { return append(appendLength(dst, uint64(len(s))), s...) }

func appendLength(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, 0x40|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81), n)
}

// Parse reads a dump. The result may share its bytes.
func Parse(dump []byte) (*Value, error) { return ParseWithin(dump, nil) }

// ParseWithin is Parse that asks takes before it takes more memory, of so many bytes. After a false it ends with
// ErrFormat.
func ParseWithin(dump []byte, takes func(bytes int) bool) (*Value, error) {
	at := len(dump) - footerBytes
	if at < 1 || binary.LittleEndian.Uint16(dump[at:]) > newest || binary.LittleEndian.Uint64(dump[at+2:]) != checksum(dump[:at+2]) {
		return nil, ErrChecksum
	}
	v := &collector{most: mostOf(int64(len(dump))), takes: takes}
	r := reader{b: dump[1:at], to: v}
	r.value(dump[0])
	switch {
	case r.bad || len(r.b) > 0:
		return nil, ErrFormat
	case v.foreign != "":
		return nil, Foreign(v.foreign)
	case !v.whole() || v.Type != "value" && len(v.Elements) == 0:
		return nil, ErrFormat
	}
	return &v.Value, nil
}
