package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// A file is a line of nine bytes, REDIS and the version; then operations, each a byte and its
// arguments; and at last the mark of the end and a checksum of everything before. A key is the byte
// of its type, its name and the value. Facts about it, such as its deadline, are operations of
// their own before it.
//
// The file is read once, from front to back, so the checksum is known when all keys have been
// passed on.

// Entry is a key in a file, or a part of a large collection.
type Entry struct {
	Value             // of a collection the elements of this part; more may follow, for which Begins is false
	DB      int       // the number of the database
	Key     []byte    // the name in it
	Expires time.Time // the deadline, to the millisecond; the zero Time for none
	Begins  bool

	// Foreign describes a skipped part, such as "value of module graphdata"; then there is no
	// value. Without a Key it is no part of a database, such as "library of functions".
	Foreign string
}

// FileError is the error of a file that is damaged, or none.
type FileError struct {
	Offset int64  // of the part that cannot be read, such as a key with its value
	Key    []byte // nil if it is none
	Reason string
}

func (e *FileError) Error() string {
	if e.Key != nil {
		return fmt.Sprintf("at byte %d, in key %.100q: %s", e.Offset, e.Key, e.Reason)
	}
	return fmt.Sprintf("at byte %d: %s", e.Offset, e.Reason)
}

// The operations.
const (
	opSlotInfo  = 244 // of a cluster: the slot of the keys that follow, and how many they are
	opFunction2 = 245
	opModuleAux = 247 // data of a module outside keys
	opIdle      = 248
	opFreq      = 249
	opAux       = 250 // a name and a value, of the server that has written it
	opResize    = 251 // how many keys follow, and how many with deadlines
	opExpireMS  = 252
	opExpire    = 253
	opSelect    = 254
	opEnd       = 255
)

const (
	magic      = "REDIS"
	chunkBytes = 64 << 10

	// A collection is handed on in parts of about as many elements, or bytes.
	partElements = 4096
	partBytes    = 1 << 20
)

// file reads a file.
type file struct {
	reader
	in   io.Reader
	err  error // of in, io.EOF at the end; or of emit
	cut  bool  // there were fewer bytes than were to be read
	emit func(*Entry) error

	chunk  []byte // the bytes that were read and may not have been used, of which reader.b is the end
	base   int64  // its offset
	summed int    // how much of it is in sum
	sum    uint64

	at      int64 // the offset of the key that is read, or of the operation
	db      int
	expires time.Time
	entry   Entry
	got     collector
	handed  int64 // bytes of the elements of the key that were handed on
}

// Read reads a file and calls f with each key, in its order. The Entry is valid until f returns,
// except the bytes of keys, values and elements, which f may keep. Read keeps one value in memory,
// or one part of a collection and one of the strings in which small collections are kept, whatever
// lengths the file names.
//
// The error is the error of in or of f, or a *FileError, also for a file that is cut, or whose
// checksum is wrong; by then all readable keys have been passed to f.
func Read(in io.Reader, f func(*Entry) error) error {
	r := &file{in: in, emit: f}
	r.fill = r.more
	version, err := r.version()
	if err != nil {
		return err
	}
	for {
		r.at = r.offset()
		op := r.take(1)[0]
		if !r.bad && op == opEnd {
			return r.end(version)
		}
		if r.operation(op); r.bad {
			return r.fault(fmt.Sprintf("it is damaged, or of an unknown type (%d)", op))
		}
		if op < opSlotInfo {
			r.expires, r.entry = time.Time{}, Entry{}
		}
	}
}

// version reads the first line.
func (r *file) version() (n int, err error) {
	line := r.run(uint64(len(magic) + 4))
	digits, ok := bytes.CutPrefix(line, []byte(magic))
	for _, d := range digits {
		ok = ok && d >= '0' && d <= '9'
		n = 10*n + int(d-'0')
	}
	switch {
	case r.err != nil && r.err != io.EOF:
		return 0, r.err
	case bytes.HasPrefix(line, []byte("VALKEY")):
		return 0, &FileError{Reason: fmt.Sprintf("%q: it was written by a newer version of Valkey", line)}
	case !ok || n < 1:
		return 0, &FileError{Reason: "it is no file of Redis"}
	case n > newest:
		return 0, &FileError{Reason: fmt.Sprintf("version %d: it was written by a newer version of Redis", n)}
	}
	return n, nil
}

// fault is the error for which the reading ends.
func (r *file) fault(reason string) error {
	switch {
	case r.err != nil && r.err != io.EOF:
		return r.err
	case r.cut:
		reason = "the file ends in it: it was cut, or changed"
	}
	return &FileError{r.at, r.entry.Key, reason}
}

// operation reads the arguments of an operation.
func (r *file) operation(op byte) {
	switch op {
	case opAux:
		r.string()
		r.string()
	case opSelect:
		n := r.plain()
		r.bad = r.bad || n > math.MaxInt32
		r.db = int(n)
	case opResize:
		r.skipLengths(2)
	case opSlotInfo:
		r.skipLengths(3)
	case opIdle:
		r.plain()
	case opFreq:
		r.take(1)
	case opExpireMS:
		r.expires = time.UnixMilli(r.whole(8))
	case opExpire:
		r.expires = time.Unix(r.whole(4), 0)
	case opFunction2:
		r.string()
		r.passOver("library of functions")
	case opModuleAux:
		name := moduleName(r.plain())
		r.skipModule()
		r.passOver("data of module " + name)
	default:
		r.key(op)
	}
}

// passOver reports a part that is no key.
func (r *file) passOver(what string) {
	if !r.bad {
		r.hand(&Entry{Foreign: what})
	}
}

// key reads a key and its value.
func (r *file) key(of byte) {
	r.entry = Entry{DB: r.db, Key: r.string(), Expires: r.expires, Begins: true}
	if r.bad {
		r.entry.Key = nil
		return
	}
	if r.entry.Key == nil {
		r.entry.Key = []byte{}
	}
	r.got, r.handed = collector{part: r.part}, 0
	r.to = &r.got
	r.value(of)
	switch {
	case r.bad:
	case r.got.foreign != "":
		r.entry.Foreign = r.got.foreign
		r.hand(&r.entry)
	case !r.got.whole():
		r.bad = true
	case r.got.Type == "value" || len(r.got.Elements) > 0:
		r.handOn()
	case r.entry.Begins:
		r.entry.Foreign = r.got.Type + " without elements"
		r.hand(&r.entry)
	}
}

// part hands on the elements that were read, if they are enough. Those of a key are bounded by its bytes in the file,
// as those of a dump are: a stream has the names of its fields once in a file, and with each entry here.
func (r *file) part() {
	v := &r.got
	if len(v.Elements) < partElements && v.held < partBytes {
		return
	}
	if r.handed += v.held; r.handed > mostOf(r.offset()-r.at) {
		r.bad = true
		return
	}
	r.handOn()
}

func (r *file) handOn() {
	v := &r.got
	if r.err == nil || r.err == io.EOF {
		r.entry.Value = v.Value
		r.hand(&r.entry)
		r.entry.Begins = false
	}
	v.Elements, v.Scores, v.held = nil, nil, 0
}

// hand calls f. After an error of f, reading goes on without f, to the place where the error is
// noticed.
func (r *file) hand(e *Entry) {
	if err := r.emit(e); err != nil {
		r.err, r.bad = err, true
	}
}

func (r *file) offset() int64 { return r.base + int64(len(r.chunk)-len(r.b)) }

// more makes b longer. The bytes that were read do not move, because values are parts of them; and
// there is never more room than twice the bytes that have arrived, whatever n is.
func (r *file) more(n uint64) {
	for uint64(len(r.b)) < n && r.err == nil {
		if len(r.b) == cap(r.b) {
			r.addUsed()
			have := len(r.b)
			r.base = r.offset()
			grown := make([]byte, have, max(chunkBytes, have+int(min(n-uint64(have), uint64(max(have, chunkBytes))))))
			copy(grown, r.b)
			r.chunk, r.b, r.summed = grown, grown, 0
		}
		m, err := r.in.Read(r.b[len(r.b):cap(r.b)])
		r.b = r.b[:len(r.b)+m]
		r.chunk = r.chunk[:len(r.chunk)+m]
		if err != nil {
			r.err = err
		}
	}
	r.cut = r.cut || uint64(len(r.b)) < n
}

// addUsed adds the used bytes to the checksum.
func (r *file) addUsed() {
	used := len(r.chunk) - len(r.b)
	r.sum = addChecksum(r.sum, r.chunk[r.summed:used])
	r.summed = used
}

// end reads the checksum, which files before version 5 do not have, and which is 0 if the server is
// configured to make none.
func (r *file) end(version int) error {
	r.addUsed()
	if version >= 5 {
		at := r.offset()
		want := binary.LittleEndian.Uint64(r.take(8))
		switch {
		case r.bad:
			return r.fault("")
		case want != 0 && want != r.sum:
			return &FileError{Offset: at, Reason: "the checksum is wrong: the part before it has changed"}
		}
	}
	at := r.offset()
	if r.more(1); len(r.b) > 0 { // it sees the end, if there is one
		return &FileError{Offset: at, Reason: "bytes follow the end: the log of an append-only file is not read"}
	}
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}
