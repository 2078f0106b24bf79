package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const testSalt Salt = 0x5f3a91c2d4e5f607

// examples are one record of every sort, each with the text that it must have
// from the end of its checksum on.
var examples = []struct {
	name       string
	head       Head
	key, value string
	text       string
}{
	{"typed value", Head{Op: Set, Kind: Value, Schema: 1, Seq: 0x2f, Time: 1000}, "users:alice", `{"Name":"Alice","Age":28}`,
		` Sv 0 1 2f 3e8 b 19 users:alice {"Name":"Alice","Age":28}`},
	{"raw bytes", Head{Op: Set, Kind: Value, Seq: 0x30, Time: 1001}, "blob", "\x00\n\xff", " Sv 0 0 30 3e9 4 3 blob \x00\n\xff"},
	{"empty key and value", Head{Op: Set, Kind: Value, Seq: 0x31}, "", "", " Sv 0 0 31 0 0 0  "},
	{"delete", Head{Op: Delete, Kind: Value, Seq: 0x32, Time: 1002}, "users:alice", "", " Dv 0 0 32 3ea b 0 users:alice "},
	{"expiry and content type", Head{Op: Set, Kind: Value, Seq: 0x33, Time: 1003, Expiry: 0x19a8c3d2e10, Type: "text/html"}, "page", "<p>",
		" Sv 0 0 33 3eb X19a8c3d2e10 ttext/html 4 3 page <p>"},
	{"key space", Head{Op: Set, Kind: Value, Space: 15, Seq: 0x34, Time: 1003}, "k", "v", " Sv f 0 34 3eb 1 1 k v"},
	{"member of a group", Head{Op: Set, Kind: Value, Seq: 0x35, Time: 1004, Group: 0x35}, "a", "1", " Sv 0 0 35 3ec G35 1 1 a 1"},
	{"commit of a group", Head{Op: Commit, Kind: System, Seq: 0x36, Time: 1004, Group: 0x35}, "", "1", " Cs 0 0 36 3ec G35 0 1  1"},
	{"part of a large value", Head{Op: Part, Kind: Value, Seq: 0x37, Time: 1005, Owner: 0x37}, "big", "first", " Pv 0 0 37 3ed I0 V37 3 5 big first"},
	{"another part", Head{Op: Part, Kind: Value, Seq: 0x38, Time: 1005, Owner: 0x37, Index: 1}, "big", "se", " Pv 0 0 38 3ed I1 V37 3 2 big se"},
	{"large value", Head{Op: Set, Kind: Value, Seq: 0x39, Time: 1005, Large: 7}, "big", "5 1.400 1.42a", " Sv 0 0 39 3ed L7 3 d big 5 1.400 1.42a"},
	{"collection", Head{Op: Set, Kind: Meta, Seq: 0x3a, Time: 1006}, "cart:7", "hash 3a", " Sm 0 0 3a 3ee 6 7 cart:7 hash 3a"},
	{"element", Head{Op: Set, Kind: Element, Seq: 0x3b, Time: 1006}, "3a:apples", "3", " Se 0 0 3b 3ee 9 1 3a:apples 3"},
	{"schema", Head{Op: Set, Kind: Schema, Seq: 0x3c, Time: 1007}, "2", "json map[string]int", " St 0 0 3c 3ef 1 13 2 json map[string]int"},
	{"declared map", Head{Op: Set, Kind: System, Seq: 0x3d, Time: 1007}, "map:users", "{}", " Ss 0 0 3d 3ef 9 2 map:users {}"},
	{"prefix deleted", Head{Op: Range, Kind: Value, Seq: 0x3e, Time: 1008}, "users:", "", " Rv 0 0 3e 3f0 6 0 users: "},
	{"end of an entry", Head{Op: Expire, Kind: Value, Seq: 0x3f, Time: 1009, Expiry: 0x19a8c3d2e10}, "page", "", " Ev 0 0 3f 3f1 X19a8c3d2e10 4 0 page "},
	{"attribute of a later version", Head{Op: Set, Kind: Value, Seq: 0x40, Time: 1009, Type: "a", Other: " hnew zlater"}, "k", "v", " Sv 0 0 40 3f1 hnew ta zlater 1 1 k v"},
	{"largest numbers", Head{Op: Set, Kind: Value, Space: ^uint64(0), Schema: ^uint64(0), Seq: ^uint64(0), Time: ^uint64(0)}, "k", "v",
		" Sv ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff 1 1 k v"},
}

// read parses and verifies b, which must be one whole record.
func read(b []byte, salt Salt, offset int64) (Head, []byte, []byte, error) {
	h, n, err := Parse(b)
	if err != nil {
		return h, nil, nil, err
	}
	if len(b) < h.Length(n) {
		return h, nil, nil, ErrShort
	}
	key, value, err := salt.Verify(b[:h.Length(n)], offset, &h, n)
	return h, key, value, err
}

func TestAppendAndParse(t *testing.T) {
	for _, x := range examples {
		t.Run(x.name, func(t *testing.T) {
			b := testSalt.Append([]byte("before"), 4096, &x.head, []byte(x.key), []byte(x.value))[len("before"):]
			if got := string(b[8 : len(b)-1]); got != x.text || b[len(b)-1] != '\n' {
				t.Errorf("the text is %q, want %q", got, x.text)
			}
			h, key, value, err := read(b, testSalt, 4096)
			if err != nil {
				t.Fatal(err)
			}
			want := x.head
			want.KeyBytes, want.ValueBytes = len(x.key), len(x.value)
			if h != want || string(key) != x.key || string(value) != x.value {
				t.Errorf("read back %+v %q %q", h, key, value)
			}
		})
	}
}

// TestGolden compares one record of every sort with the released bytes.
func TestGolden(t *testing.T) {
	header := SegmentHeader{ID: NewSegmentID(1, 0), Salt: testSalt, Start: 0x19a8c3d2e10, Store: 0x77aa00000000beef}
	text := header.Append(nil)
	for _, x := range examples {
		text = testSalt.Append(text, int64(len(text)), &x.head, []byte(x.key), []byte(x.value))
	}
	path := filepath.Join("..", "..", "testdata", "golden", "v1", "records.log")
	if *update {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Fatalf("the format has changed:\n%s\nwas\n%s", text, want)
	}
	h, n, err := ParseSegmentHeader(want)
	if err != nil || h != header {
		t.Fatalf("header %+v, %v", h, err)
	}
	for _, x := range examples {
		got, key, value, err := read(want[n:], h.Salt, int64(n))
		if err != nil || string(key) != x.key || string(value) != x.value {
			t.Fatalf("%s: %+v %q %q %v", x.name, got, key, value, err)
		}
		_, head, _ := Parse(want[n:])
		n += got.Length(head)
	}
}

// TestEveryBitShows flips every bit of every example.
func TestEveryBitShows(t *testing.T) {
	for _, x := range examples {
		b := testSalt.Append(nil, 77, &x.head, []byte(x.key), []byte(x.value))
		for bit := range len(b) * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			if h, key, value, err := read(b, testSalt, 77); err == nil {
				t.Fatalf("%s: bit %d of byte %d flipped, and it reads %+v %q %q", x.name, bit%8, bit/8, h, key, value)
			} else if errors.Is(err, ErrNewer) {
				t.Fatalf("%s: bit %d of byte %d flipped is taken for a newer version", x.name, bit%8, bit/8)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestEveryPrefixIsShort cuts every example at every length.
func TestEveryPrefixIsShort(t *testing.T) {
	for _, x := range examples {
		b := testSalt.Append(nil, 77, &x.head, []byte(x.key), []byte(x.value))
		for n := range b {
			if _, _, _, err := read(b[:n], testSalt, 77); err != ErrShort {
				t.Fatalf("%s: the first %d of %d bytes: %v, want ErrShort", x.name, n, len(b), err)
			}
		}
	}
}

// TestElsewhereIsNoRecord moves a record to another offset, and to another segment.
func TestElsewhereIsNoRecord(t *testing.T) {
	x := examples[0]
	b := testSalt.Append(nil, 77, &x.head, []byte(x.key), []byte(x.value))
	if _, _, _, err := read(b, testSalt, 78); err != ErrChecksum {
		t.Errorf("at another offset: %v", err)
	}
	if _, _, _, err := read(b, testSalt+1, 77); err != ErrChecksum {
		t.Errorf("under another salt: %v", err)
	}
}

// seal gives text the checksum that it should have, so that only its form is at issue.
func seal(text string, offset int64) []byte {
	b := []byte("00000000" + text + "\n")
	putCRC(b, testSalt.checksum(b, offset))
	return b
}

// TestChecksum: it covers sixteen bytes of salt and offset, and the record after its digits.
func TestChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		salt, offset, h := Salt(rng.Uint64()), int64(rng.Uint64()>>1>>rng.IntN(63)), Head{Op: Set, Kind: Value}
		b := salt.Append(nil, offset, &h, []byte("key"), make([]byte, rng.IntN(100)))
		text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(salt)), uint64(offset))
		crc := crc32.Checksum(append(text, b[8:]...), castagnoli)
		if want := fmt.Sprintf("%08x", crc); string(b[:8]) != want || salt.checksum(b, offset) != crc {
			t.Fatalf("salt %x, offset %x: %q, want %s", salt, offset, b, want)
		}
	}
}

// TestLongestNumbers: a record whose every number is the largest fits into the room that Append
// makes.
func TestLongestNumbers(t *testing.T) {
	all := ^uint64(0)
	h := Head{Op: Part, Kind: Value, Space: all, Schema: all, Seq: all, Time: all,
		Group: all, Index: all, Large: all, Owner: all, Expiry: all, Type: "a", Other: " z1"}
	key, value := make([]byte, MaxKeyBytes), make([]byte, MaxInlineBytes)
	b := testSalt.Append(nil, 77, &h, key, value)
	if got, most := len(b)-len(h.Type)-len(h.Other)-len(key)-len(value)+maxHex, maxNumbers; got > most {
		t.Errorf("%d bytes beside the texts, room for %d", got, most)
	}
	got, _, _, err := read(b, testSalt, 77)
	h.KeyBytes, h.ValueBytes = len(key), len(value)
	if err != nil || got != h {
		t.Errorf("read back %+v, %v", got, err)
	}
}

// TestHex writes every number of digits as the standard library does.
func TestHex(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{1 << shift, 1<<shift - 1, 0x123456789abcdef0 >> shift, 0xfedcba9876543210 >> shift} {
			if got, want := appendHex(make([]byte, 0, maxHex), v), strconv.FormatUint(v, 16); string(got) != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// TestOnlyOneSpelling gives records with a valid checksum that no writer makes.
func TestOnlyOneSpelling(t *testing.T) {
	for text, want := range map[string]error{
		" Sv 0 1 2f 3e8 1 1 k v":                                   nil,
		" Sv 0 1 2F 3e8 1 1 k v":                                   ErrSyntax,
		" Sv 0 01 2f 3e8 1 1 k v":                                  ErrSyntax,
		" Sv 0 1 2f 3e8 01 1 k v":                                  ErrSyntax,
		"  Sv 0 1 2f 3e8 1 1 k v":                                  ErrSyntax,
		" Sv  0 1 2f 3e8 1 1 k v":                                  ErrSyntax,
		" sv 0 1 2f 3e8 1 1 k v":                                   ErrSyntax,
		" SV 0 1 2f 3e8 1 1 k v":                                   ErrSyntax,
		" Sv 0 1 2f 3e8 X5 1 1 k v":                                nil,
		" Sv 0 1 2f 3e8 X0 1 1 k v":                                ErrSyntax, // absent has one spelling
		" Sv 0 1 2f 3e8 X5 X6 1 1 k v":                             ErrSyntax,
		" Sv 0 1 2f 3e8 X5 G6 1 1 k v":                             ErrSyntax, // out of order
		" Sv 0 1 2f 3e8 X05 1 1 k v":                               ErrSyntax,
		" Sv 0 1 2f 3e8 I0 1 1 k v":                                ErrSyntax, // only on parts
		" Sv 0 1 2f 3e8 V1 1 1 k v":                                ErrSyntax,
		" Pv 0 1 2f 3e8 1 1 k v":                                   ErrSyntax, // parts need them
		" Pv 0 1 2f 3e8 V1 1 1 k v":                                ErrSyntax,
		" Pv 0 1 2f 3e8 I0 1 1 k v":                                ErrSyntax,
		" Sv 0 1 2f 3e8 t 1 1 k v":                                 ErrSyntax,
		" Sv 0 1 2f 3e8 t\x80 1 1 k v":                             ErrSyntax,
		" Sv 0 1 2f 3e8 A1 1 1 k v":                                ErrNewer, // upper case: not to be skipped
		" Sv 0 1 2f 3e8 R7 1 1 k v":                                ErrNewer,
		" Sv 0 1 2f 3e8 hx y9 1 1 k v":                             nil,
		" Zv 0 1 2f 3e8 1 1 k v":                                   ErrNewer,
		" Sz 0 1 2f 3e8 1 1 k v":                                   ErrNewer,
		" Sv 0 1 2f 3e8 1 1 k-v":                                   ErrSyntax,
		" Sv 0 1 2f 11112222333344445 1 1 k v":                     ErrSyntax,
		" Sv 0 1 2f 3e8 10001 1 k v":                               ErrSyntax, // longer than any key
		" Sv 0 1 2f 3e8 1 1000001 k v":                             ErrSyntax, // longer than any value
		" Sv 0 1 2f 3e8 t" + strings.Repeat("x", 129) + " 1 1 k v": ErrSyntax,
	} {
		_, _, _, err := read(seal(text, 9), testSalt, 9)
		if !errors.Is(err, want) || err != nil && want == nil {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func TestAppendRefusesWhatCannotBeRead(t *testing.T) {
	for name, f := range map[string]func(){
		"key":   func() { testSalt.Append(nil, 0, &Head{Op: Set, Kind: Value}, make([]byte, MaxKeyBytes+1), nil) },
		"value": func() { testSalt.Append(nil, 0, &Head{Op: Set, Kind: Value}, nil, make([]byte, MaxInlineBytes+1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a %s that is too long was encoded", name)
				}
			}()
			f()
		}()
	}
}

// FuzzParse: whatever the bytes, Parse and Verify return; and Append makes the same bits of a
// record that they accept.
func FuzzParse(f *testing.F) {
	for _, x := range examples {
		f.Add(testSalt.Append(nil, 77, &x.head, []byte(x.key), []byte(x.value)))
	}
	f.Add([]byte("00000000 Sv 0 0 0 0 ffff ffffff "))
	f.Fuzz(func(t *testing.T, b []byte) {
		for range 2 {
			h, key, value, err := read(b, testSalt, 77)
			if err == nil {
				_, n, _ := Parse(b)
				if again := testSalt.Append(nil, 77, &h, key, value); !bytes.Equal(again, b[:h.Length(n)]) {
					t.Fatalf("%q is accepted and would be written %q", b, again)
				}
			}
			if len(b) < 8 {
				return
			}
			b = bytes.Clone(b) // once more, with the checksum that its form calls for
			if h, n, err := Parse(b); err == nil && h.Length(n) <= len(b) {
				b = b[:h.Length(n)]
			}
			putCRC(b, testSalt.checksum(b, 77))
		}
	})
}

func TestSegmentHeader(t *testing.T) {
	h := SegmentHeader{ID: NewSegmentID(0x1a, 2), Salt: 1, Start: 0, Store: ^uint64(0)}
	line := h.Append(nil)
	if got, n, err := ParseSegmentHeader(append(line, "rest"...)); err != nil || n != len(line) || got != h {
		t.Fatalf("%q reads %+v %d %v", line, got, n, err)
	}
	for n := range line {
		if _, _, err := ParseSegmentHeader(line[:n]); err != ErrShort {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for bit := range len(line) * 8 {
		line[bit/8] ^= 1 << (bit % 8)
		if got, _, err := ParseSegmentHeader(line); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("bit %d of byte %d flipped: %+v, %v", bit%8, bit/8, got, err)
		}
		line[bit/8] ^= 1 << (bit % 8)
	}
}

// TestNewerVersion: an intact file of the next version is not taken for a damaged one.
// TestCompactedSegmentHeader has the text that a compacted segment begins with, and those that are refused.
func TestCompactedSegmentHeader(t *testing.T) {
	h := SegmentHeader{ID: NewSegmentID(0x1a, 2), Salt: testSalt, Start: 0x19a8c3d2e10, Store: 0x77aa00000000beef, Through: 0x1f}
	const want = "copal log 1 segment 1a-2 salt 5f3a91c2d4e5f607 start 19a8c3d2e10 store 77aa00000000beef through 1f "
	line := h.Append(nil)
	if text := string(line[:len(line)-9]); text != want {
		t.Errorf("the line is %q", text)
	}
	if got, n, err := ParseSegmentHeader(line); err != nil || got != h || n != len(line) {
		t.Errorf("read back %+v, %v", got, err)
	}
	for _, through := range []string{"19", "0", "100000000", "1F", ""} {
		if got, _, err := ParseSegmentHeader(Seal([]byte(want[:len(want)-3] + through))); err == nil {
			t.Errorf("through %q: %+v", through, got)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	line := Seal([]byte("copal log 2 something else entirely"))
	if _, _, err := ParseSegmentHeader(line); !errors.Is(err, ErrVersion) {
		t.Errorf("%q: %v, want ErrVersion", line, err)
	}
}

func FuzzSegmentHeader(f *testing.F) {
	f.Add((&SegmentHeader{ID: NewSegmentID(1, 0), Salt: 7, Start: 9, Store: 3}).Append(nil))
	f.Add((&SegmentHeader{ID: NewSegmentID(5, 2), Salt: 7, Start: 9, Store: 3, Through: 0x1f}).Append(nil))
	f.Add(Seal([]byte("copal log 2 something else")))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := ParseSegmentHeader(b)
		if err == nil && !bytes.Equal(h.Append(nil), b[:n]) {
			t.Fatalf("%q is accepted and would be written %q", b[:n], h.Append(nil))
		}
	})
}

func TestSegmentID(t *testing.T) {
	ids := []SegmentID{NewSegmentID(1, 0), NewSegmentID(1, 1), NewSegmentID(1, 0x10), NewSegmentID(2, 0), NewSegmentID(0x10, 0), NewSegmentID(0xffffffff, 0xffffffff)}
	for i, id := range ids {
		if got, err := ParseSegmentID(id.String()); err != nil || got != id {
			t.Errorf("%v reads %v, %v", id, got, err)
		}
		if got, ok := ParseFileName(id.FileName()); !ok || got != id {
			t.Errorf("%s reads %v, %v", id.FileName(), got, ok)
		}
		if i > 0 && (ids[i-1] >= id || ids[i-1].Order() != id.Order() && ids[i-1].FileName() >= id.FileName()) {
			t.Errorf("%v and %v do not sort", ids[i-1], id)
		}
	}
	for _, s := range []string{"", "0", "1-0", "01", "1-", "-1", "1-01", "100000000", "g", "1-1-1"} {
		if id, err := ParseSegmentID(s); err == nil {
			t.Errorf("%q reads %v", s, id)
		}
	}
	for _, s := range []string{"1.log", "00000000.log", "00000001.log.bak", "0000000A.log", "00000001-00000000.log", "x00000001.log", "00000001", " 0000001.log", "+0000001.log"} {
		if id, ok := ParseFileName(s); ok {
			t.Errorf("%q reads %v", s, id)
		}
	}
}

// TestRandomRecords reads back records of random heads, keys and values.
func TestRandomRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() uint64 { return rng.Uint64() >> rng.IntN(65) }
	for i := range 20000 {
		h := Head{Op: []Op{Set, Delete, Part, Commit, Range}[rng.IntN(5)], Kind: []Kind{Value, Meta, Element, Schema, System}[rng.IntN(5)],
			Space: number(), Schema: number(), Seq: number(), Time: number(), Group: number(), Large: number(), Expiry: number()}
		if h.Op == Part {
			h.Index, h.Owner = number(), number()|1
		}
		key, value := make([]byte, rng.IntN(40)), make([]byte, rng.IntN(200))
		for _, b := range [][]byte{key, value} {
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
		}
		offset := int64(number() >> 1)
		b := testSalt.Append(nil, offset, &h, key, value)
		got, k, v, err := read(b, testSalt, offset)
		h.KeyBytes, h.ValueBytes = len(key), len(value)
		if err != nil || got != h || !bytes.Equal(k, key) || !bytes.Equal(v, value) {
			t.Fatalf("record %d: %q reads %+v, %v", i, b, got, err)
		}
	}
}

// benchmarked is a record as most maps have them: late in a long log, the value short.
var benchmarked = struct {
	head       Head
	key, value []byte
}{Head{Op: Set, Kind: Value, Schema: 3, Seq: 0x1c9a3e, Time: 0x5a38d2e}, []byte("users:alice@example.org"), []byte(`{"Name":"Alice","Age":28,"x":1}`)}

const benchmarkedOffset = 0x2f3a91c

func BenchmarkAppend(b *testing.B) {
	x := &benchmarked
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = testSalt.Append(buf[:0], benchmarkedOffset, &x.head, x.key, x.value)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkParseVerify(b *testing.B) {
	x := &benchmarked
	buf := testSalt.Append(nil, benchmarkedOffset, &x.head, x.key, x.value)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		h, n, _ := Parse(buf)
		if _, _, err := testSalt.Verify(buf, benchmarkedOffset, &h, n); err != nil {
			b.Fatal(err)
		}
	}
}
