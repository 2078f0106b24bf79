package killtest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// value is the value found under a key.
type value interface {
	is(o op) bool               // is it exactly the value of o?
	stamp() (o op, intact bool) // which operation does it say it is of, without its kind and size?
}

// blob is a value of bytes: a CRC-32 of the rest, shelf, writer, key, count, and filling. One that
// is shorter than these is the beginning of them.
type blob []byte

const blobHead = 16

func newBlob(o op) blob {
	b := make([]byte, 4, max(int(o.Size), blobHead))
	b = append(b, o.Shelf, o.Writer)
	b = binary.LittleEndian.AppendUint16(b, o.Key)
	b = binary.LittleEndian.AppendUint64(b, o.Count)
	b = appendFilling(b, o, cap(b)-len(b))
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b[:o.Size]
}

func (b blob) is(o op) bool { return bytes.Equal(b, newBlob(o)) }

func (b blob) stamp() (o op, intact bool) {
	if len(b) < blobHead || binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return op{}, false
	}
	return op{slot: slot{Shelf: b[4], Writer: b[5], Key: binary.LittleEndian.Uint16(b[6:])}, Count: binary.LittleEndian.Uint64(b[8:])}, true
}

func (b blob) String() string { return describe(b, string(b)) }

// appendFilling appends n bytes that depend on all of o: noise, or lines that look like records of
// the log.
func appendFilling(b []byte, o op, n int) []byte {
	end := len(b) + n
	if o.Count%3 == 0 {
		line := fmt.Sprintf("\n%08x Sv 0 1 %x 3e8 b 1c notes:%d {\"Count\":%d}\n", uint32(o.Count*2654435761), o.Count, o.Key, o.Count)
		for len(b) < end {
			b = append(b, line[:min(len(line), end-len(b))]...)
		}
		return b
	}
	at := int((o.Count*0x9e3779b97f4a7c15 ^ uint64(o.Shelf)<<32 ^ uint64(o.Writer)<<16 ^ uint64(o.Key)) * 0xbf58476d1ce4e5b9 >> 40 % uint64(len(noise)))
	for len(b) < end {
		b = append(b, noise[at:min(len(noise), at+end-len(b))]...)
		at = 0
	}
	return b
}

// noise is where values take theirs from: a child that makes values for most of its time is killed
// while it does.
var noise = func() []byte {
	b := make([]byte, 64<<10)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// Note is a value of a struct.
type Note struct {
	Shelf, Writer uint8
	Key           uint16
	Count         uint64
	At            time.Time
	Tags          []string `json:",omitempty"`
	Text          string
	Sum           uint32 // of Count, Tags and Text
}

func newNote(o op) Note {
	n := Note{Shelf: o.Shelf, Writer: o.Writer, Key: o.Key, Count: o.Count, At: time.Unix(0, int64(o.Count)).UTC()}
	for i := range o.Count % 4 {
		n.Tags = append(n.Tags, fmt.Sprintf("tag %d of %d", i, o.Count%4))
	}
	n.Text = hex.EncodeToString(appendFilling(nil, o, int(o.Size+1)/2))[:o.Size]
	n.Sum = n.sum()
	return n
}

func (n Note) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %q %s", n.Count, n.Tags, n.Text))
}

func (n Note) is(o op) bool {
	want := newNote(o)
	tags := slices.Equal(n.Tags, want.Tags)
	at := n.At.Equal(want.At)
	n.Tags, n.At, want.Tags, want.At = nil, time.Time{}, nil, time.Time{}
	return tags && at && n.Shelf == want.Shelf && n.Writer == want.Writer && n.Key == want.Key &&
		n.Count == want.Count && n.Text == want.Text && n.Sum == want.Sum
}

func (n Note) stamp() (o op, intact bool) {
	return op{slot: slot{Shelf: n.Shelf, Writer: n.Writer, Key: n.Key}, Count: n.Count}, n.Sum == n.sum()
}

func (n Note) String() string { return describe(n, n.Text) }

// describe says in a line which value it is.
func describe(v value, text string) string {
	if o, intact := v.stamp(); intact {
		return fmt.Sprintf("the value of %v count %d.%d", o.slot, o.Count>>32, o.Count&(1<<32-1))
	}
	return fmt.Sprintf("%d bytes that carry no valid stamp, %.40q…", len(text), text)
}

func TestValues(t *testing.T) {
	p := newPlanner(1, 1, 1)
	var before op
	for range 500 {
		o := p.next()
		o.Size = min(o.Size, 64<<10)
		for _, v := range []value{newBlob(o), newNote(o)} {
			if !v.is(o) {
				t.Fatalf("%T is not the value of %v", v, o)
			}
			if got, intact := v.stamp(); (intact || o.Size >= blobHead) && (got.slot != o.slot || got.Count != o.Count) {
				t.Fatalf("%T of %v carries the stamp %v", v, o, got)
			}
			if o.Size >= blobHead && v.is(before) {
				t.Fatalf("the values of %v and %v are the same", o, before)
			}
		}
		before = o
	}
	damaged := newBlob(op{Count: 7, Size: 100})
	damaged[50] ^= 1
	if _, intact := damaged.stamp(); intact || !strings.Contains(damaged.String(), "no valid stamp") {
		t.Errorf("a flipped bit in a blob does not show: %v", damaged)
	}
}
