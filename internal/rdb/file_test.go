package rdb

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/copaldb/copal/internal/redisstream"
)

// golden is a file that redis-server 7.0.15 has written.
func golden(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/redis70.rdb.base64")
	if err != nil {
		t.Fatal(err)
	}
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contents reads a file, and shows its keys, in the order of database and name. Parts of a collection are put together.
func contents(in io.Reader) (list []string, err error) {
	keys := map[string]*Entry{}
	err = Read(in, func(e *Entry) error {
		name := fmt.Sprintf("%d %s", e.DB, e.Key)
		if was := keys[name]; was != nil && !e.Begins {
			was.Elements, was.Scores = append(was.Elements, e.Elements...), append(was.Scores, e.Scores...)
			return nil
		}
		one := *e
		keys[name] = &one
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		e := keys[name]
		what := e.Foreign
		if what == "" {
			what = text(&e.Value)
		}
		if !e.Expires.IsZero() {
			what += " until " + e.Expires.UTC().Format(time.RFC3339Nano)
		}
		list = append(list, name+": "+what)
	}
	return list, err
}

var goldenContents = []string{
	`0 : library of functions`,
	`0 bighash: hash ["d" "4" "b" "2" "a" "1" "c" "3" "e" "5"]`,
	`0 bigzset: zset ["c" "e" "d" "a" "b"] [1e+300 17 3 0.1 -Inf] until 2100-01-01T00:00:00.999Z`,
	`0 binary: value "\x00\xff\r\n"`,
	`0 empty: value ""`,
	`0 forever: value "v" until 2100-01-01T00:00:00.123Z`,
	`0 gone: value "v" until 2026-11-25T14:58:23.3Z`,
	`0 hash: hash ["f" "v" "g" "1"]`,
	`0 int16: value "300"`,
	`0 int32: value "-100000"`,
	`0 int64: value "12345678901"`,
	`0 int8: value "-5"`,
	`0 intset: set ["1" "2" "300"]`,
	`0 intset64: set ["-7000000000" "1"]`,
	`0 list: list ["a" "1" "300"]`,
	`0 lzf: value "` + strings.Repeat("abc", 60) + `"`,
	`0 plainnode: list ["` + strings.Repeat("y", 9000) + `" "z"]`,
	`0 quick: list ["a" "1" "300" "70000" "-3" "1234567890123" "-9000000" "` + strings.Repeat("x", 70) + `" ""]`,
	`0 set: set ["1" "a" "b"] until 2100-01-01T00:00:00Z`,
	`0 stream: stream c "g c1" {1795618703992 1795618703993 1795618703993}, d "g" c1 1-1, e "1-1" ["f" "v"], e "1-2" ["f" "w"], g "g" {{1 1} 1 0}, m "" {{1 2} {0 0} 0 0}, p "g" {{1 1} 1795618703993 1 c1}`,
	`0 text: value "hello"`,
	`0 zset: zset ["c" "a" "b" "d"] [-3 1 2.5 +Inf]`,
	`3 h: hash ["f" "v"]`,
	`3 text: value "other"`,
}

func TestReadWhatRedisSaves(t *testing.T) {
	file := golden(t)
	for name, in := range map[string]io.Reader{"at once": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file))} {
		got, err := contents(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, want := range goldenContents {
			if i >= len(got) || got[i] != want {
				t.Fatalf("%s: %.200q, want %.200s", name, got[min(i, len(got)):], want)
			}
		}
	}
}

// A file that is cut anywhere is an error, and the keys before the cut are passed on.
func TestReadCut(t *testing.T) {
	file := golden(t)
	for n := range file {
		got, err := contents(bytes.NewReader(file[:n]))
		var bad *FileError
		if !errors.As(err, &bad) || bad.Offset > int64(n) {
			t.Fatalf("of %d bytes the error is %v", n, err)
		}
		if n >= 9 && !strings.Contains(bad.Reason, "the file ends in it") {
			t.Errorf("of %d bytes the error is %v", n, err)
		}
		if len(got) > len(goldenContents) {
			t.Errorf("%d bytes have %d keys", n, len(got))
		}
	}
	if _, err := contents(bytes.NewReader(append(golden(t), "*1"...))); err == nil || !strings.Contains(err.Error(), "bytes follow the end") {
		t.Errorf("with more after the end the error is %v", err)
	}
}

// Whatever bit is turned, the reading ends in an error.
func TestReadFlipped(t *testing.T) {
	file := golden(t)
	for bit := 0; bit < 8*len(file); bit += 3 {
		file[bit/8] ^= 1 << (bit % 8)
		_, err := contents(bytes.NewReader(file))
		if !errors.As(err, new(*FileError)) {
			t.Errorf("with bit %d of byte %d turned the error is %v", bit%8, bit/8, err)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
}

// fileOf is a file of some version with these operations, and its checksum.
func fileOf(version int, operations ...string) []byte {
	b := fmt.Appendf(nil, "REDIS%04d%s\xff", version, strings.Join(operations, ""))
	if version < 5 {
		return b
	}
	return binary.LittleEndian.AppendUint64(b, checksum(b))
}

func keyOf(of byte, name, value string) string {
	return string(of) + string(appendString(nil, []byte(name))) + value
}

func stringOf(s string) string { return string(appendString(nil, []byte(s))) }

// Forms that redis-server 7.0 does not write, by their description.
func TestReadOtherOperations(t *testing.T) {
	module := "\x81\x00\x00\x00\x00\x00\x00\x04\x00" // the name AAAAAAAAB
	for name, c := range map[string]struct {
		file []byte
		want []string
	}{
		"nothing":        {fileOf(11), nil},
		"an old version": {fileOf(2, "\xfd\x00\x00\x00\x7f"+keyOf(typeHashZipmap, "k", stringOf("\x02\x01f\x01\x02v__\x01g\xfe\x01\x00\x00\x00\x00w\xff"))), []string{`0 k: hash ["f" "v" "g" "w"] until 2037-07-08T22:53:52Z`}},
		"idle and frequent": {fileOf(12, "\xf8\x7f\xff", keyOf(0, "a", "\x01x"), "\xf9\xff", keyOf(0, "b", "\x01y"), "\xf4\x01\x02\x03", keyOf(0, "c", "\x01z")),
			[]string{`0 a: value "x"`, `0 b: value "y"`, `0 c: value "z"`}},
		"no checksum": {append(bytes.Clone([]byte("REDIS0011\x00\x01k\x01v\xff")), make([]byte, 8)...), []string{`0 k: value "v"`}},
		"a deadline is of the next key": {fileOf(11, "\xfc\xff\xff\xff\xff\xff\xff\xff\xff", keyOf(0, "a", "\x01x"), keyOf(0, "b", "\x01y")),
			[]string{`0 a: value "x" until 1969-12-31T23:59:59.999Z`, `0 b: value "y"`}},
		"a database":       {fileOf(11, "\xfe\x80\x7f\xff\xff\xff", keyOf(0, "a", "\x01x")), []string{`2147483647 a: value "x"`}},
		"an empty name":    {fileOf(11, keyOf(0, "", "\x01x")), []string{`0 : value "x"`}},
		"a quicklist":      {fileOf(9, keyOf(typeQuicklist, "k", "\x02"+stringOf(ziplistOf("\x01a", "\xf1"))+stringOf(ziplistOf("\x01b")))), []string{`0 k: list ["a" "0" "b"]`}},
		"no elements":      {fileOf(11, keyOf(typeHash, "k", "\x00"), keyOf(0, "b", "\x01y")), []string{`0 b: value "y"`, `0 k: hash without elements`}},
		"a module's value": {fileOf(11, keyOf(typeModule2, "k", module+"\x01\x05\x02\x40\xff\x03abcd\x0412345678\x05\x01s\x00"), keyOf(0, "l", "\x01v")), []string{`0 k: value of module AAAAAAAAB`, `0 l: value "v"`}},
		"a module's data":  {fileOf(11, "\xf7", module, "\x02\x01\x00", keyOf(0, "l", "\x01v")), []string{`0 : data of module AAAAAAAAB`, `0 l: value "v"`}},
		"a stream": {fileOf(10, keyOf(typeStream2, "k", streamOf(0, nodeOf(2), "\x02\x02\x00\x01\x00\x00\x00\x02")[1:]), keyOf(0, "l", "\x01v")),
			[]string{`0 k: stream e "1-0" ["f" "v"], e "2-0" ["f" "v"], m "" {{2 0} {0 0} 0 0}`, `0 l: value "v"`}},
		"a hash with dates": {fileOf(12, keyOf(typeDatedHash, "k", "12345678\x02\x00\x01f\x01v\x01\x01g\x01w"), keyOf(typeDatedPack, "l", "12345678\x03abc"), keyOf(0, "m", "\x01v")), []string{`0 k: hash whose fields have deadlines`, `0 l: hash whose fields have deadlines`, `0 m: value "v"`}},
	} {
		got, err := contents(bytes.NewReader(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file, want string
	}{
		"another file":     {"PK\x03\x04.........", "it is no file of Redis"},
		"a newer version":  {string(fileOf(13)), "version 13: it was written by a newer version"},
		"a newer Valkey":   {"VALKEY080\xff", "it was written by a newer version of Valkey"},
		"no version":       {"REDISabcd\xff", "it is no file of Redis"},
		"an unknown type":  {string(fileOf(11, keyOf(99, "k", "\x01v"))), `at byte 9, in key "k": it is damaged, or of an unknown type (99)`},
		"a bad value":      {string(fileOf(11, keyOf(0, "a", "\x01v"), keyOf(typeHashListpack, "b", stringOf("\x0a\x00\x00\x00\x01\x00\x81a\x02\xff")))), `at byte 14, in key "b": it is damaged`},
		"a bad score":      {string(fileOf(11, keyOf(typeZsetListpack, "b", stringOf("123456\x81a\x02\x81x\x02\xff")))), `at byte 9, in key "b": it is damaged`},
		"a bad name":       {string(fileOf(11, "\x00\xc4")), `at byte 9: it is damaged`},
		"a large database": {string(fileOf(11, "\xfe\x80\xff\xff\xff\xff")), `at byte 9: it is damaged`},
		"a long string":    {string(fileOf(11, keyOf(0, "k", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff"))), `at byte 9, in key "k": the file ends in it`},
		"many elements":    {string(fileOf(11, keyOf(typeList, "k", "\x81\xff\xff\xff\xff\xff\xff\xff\xff"))), `at byte 9, in key "k": `},
		"a wrong checksum": {string(fileOf(11)[:10]) + "12345678", "at byte 10: the checksum is wrong"},
	} {
		_, err := contents(strings.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// An error of either side ends the reading, also within a value in one string.
func TestReadEndsWithAnError(t *testing.T) {
	no := errors.New("no")
	many := "123456" + strings.Repeat("\x01\x01", 3*partElements) + "\xff"
	for _, value := range []string{keyOf(typeSetListpack, "k", stringOf(many)), keyOf(typeSet, "k", "\x50\x00"+strings.Repeat("\x01a", 3*partElements)), keyOf(0, "k", "\x00")} {
		calls := 0
		err := Read(bytes.NewReader(fileOf(11, value, keyOf(0, "l", "\x00"))), func(*Entry) error { calls++; return no })
		if err != no || calls != 1 {
			t.Errorf("after %d calls the error is %v", calls, err)
		}
	}
	broken := io.MultiReader(bytes.NewReader(golden(t)[:500]), iotest.ErrReader(no))
	if _, err := contents(broken); err != no {
		t.Errorf("of a reader that fails the error is %v", err)
	}
}

// Values that are longer than a read, and those that lie across its ends, are whole.
func TestReadLongFile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var operations, want []string
	for i := range 200 {
		value := make([]byte, []int{10, 3000, 100_000, 300_000}[min(rnd.IntN(2)+i/100*rnd.IntN(3), 3)])
		for j := range value {
			value[j] = "abc"[rnd.IntN(3)]
		}
		name := fmt.Sprintf("%03d", i)
		operations = append(operations, keyOf(0, name, stringOf(string(value))))
		want = append(want, fmt.Sprintf("0 %s: value %q", name, value))
	}
	got, err := contents(bytes.NewReader(fileOf(11, operations...)))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d keys, want %d, and the error is %v", len(got), len(want), err)
	}
}

// repeat is a file of values without end, or with so many.
type repeat struct {
	head, each []byte
	n          int
	node       int // of a stream, each with an id of its own; 0 for none
}

func (r *repeat) Read(p []byte) (n int, err error) {
	if len(r.head) == 0 {
		if r.n == 0 {
			return 0, io.EOF
		}
		r.head = r.each
		if r.node > 0 {
			var n node
			n.add(redisstream.ID{MS: uint64(r.node)}, [][]byte{r.each, r.each})
			r.head = n.appendTo(nil)
			r.node++
		}
		r.n--
	}
	n = copy(p, r.head)
	r.head = r.head[n:]
	return n, nil
}

// Neither many values, nor a large collection, nor a length that lies takes memory.
func TestReadTakesLittleMemory(t *testing.T) {
	const limit = 16 << 20
	pair := []byte(stringOf(strings.Repeat("f", 40)) + stringOf(strings.Repeat("v", 1000)))
	for name, c := range map[string]struct {
		head string
		each []byte
	}{
		"many keys":        {"REDIS0011", []byte(keyOf(0, "key", stringOf(strings.Repeat("v", 1000))))},
		"a large hash":     {"REDIS0011" + keyOf(typeHash, "k", "\x81\x00\x00\x00\xff\x00\x00\x00\x00"), pair},
		"a long string":    {"REDIS0011" + keyOf(0, "k", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff"), nil},
		"a long list":      {"REDIS0011" + keyOf(typeList, "k", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff"), nil},
		"a large quick":    {"REDIS0011" + keyOf(typeQuicklist2, "k", "\x81\x00\x00\x00\xff\x00\x00\x00\x00"), []byte("\x01" + stringOf(strings.Repeat("v", 1000)))},
		"much compressed":  {"REDIS0011" + keyOf(0, "k", "\xc3\x05\x81\x00\x00\x00\x00\x1f\x00\x00\x00\x00aaaa"), nil},
		"a long packed":    {"REDIS0011" + keyOf(typeHashListpack, "k", "\x81\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00"), nil},
		"a long name":      {"REDIS0011\x00\x81\x00\x00\x00\xff\x00\x00\x00\x00", nil},
		"a large stream":   {"REDIS0011" + keyOf(typeStream, "k", "\x81\x00\x00\x00\xff\x00\x00\x00\x00"), pair},
		"a module's parts": {"REDIS0011" + keyOf(typeModule2, "k", "\x00"), []byte("\x05" + stringOf(strings.Repeat("v", 1000)))},
	} {
		in := &repeat{head: []byte(c.head), each: c.each, n: 40_000}
		if name == "a large stream" {
			in.node = 1
		}
		if c.each == nil {
			in.each, in.n = bytes.Repeat([]byte("x"), 100_000), 1
		}
		most, entries := uint64(0), 0
		look := func() {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
		look()
		before := most
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		allocated := m.TotalAlloc
		err := Read(in, func(e *Entry) error {
			if entries++; entries%20 == 0 && (e.Type != "value" || entries%8_000 == 0) {
				look()
			}
			return nil
		})
		runtime.ReadMemStats(&m)
		if c.each == nil && m.TotalAlloc-allocated > 8<<20 {
			t.Errorf("%s: it allocates %d bytes", name, m.TotalAlloc-allocated)
		}
		look()
		if !errors.As(err, new(*FileError)) {
			t.Errorf("%s: %v", name, err)
		}
		if c.each != nil && in.n > 0 {
			t.Errorf("%s: it was not read to its end", name)
		}
		if most-before > limit {
			t.Errorf("%s: it takes %d bytes", name, most-before)
		}
	}
}

// FuzzRead: whatever the file is, it is read, or an error says where it cannot be; and a value in a
// file comes out as from Parse.
func FuzzRead(f *testing.F) {
	f.Add(golden(f)[9:])
	for _, c := range dumped {
		dump := []byte{}
		fmt.Sscanf(c.dump, "%x", &dump)
		f.Add([]byte(keyOf(dump[0], "k", string(dump[1:len(dump)-footerBytes]))))
	}
	f.Add([]byte(keyOf(typeHashZipmap, "k", stringOf("\x02\x01f\x01\x02v__\x01g\xfe\x01\x00\x00\x00\x00w\xff"))))
	f.Fuzz(func(t *testing.T, operations []byte) {
		got, err := contents(iotest.HalfReader(bytes.NewReader(fileOf(11, string(operations)))))
		if err != nil && !errors.As(err, new(*FileError)) {
			t.Fatal(err)
		}
		if len(got) > len(operations) {
			t.Errorf("%d keys of %d bytes", len(got), len(operations))
		}
		if len(operations) < 3 || operations[1] != 1 || operations[0] >= opSlotInfo { // a key with a name of one byte
			return
		}
		want, wrong := Parse(signed(append(operations[:1:1], operations[3:]...)))
		if wrong == nil && (err != nil || len(got) != 1 || !strings.HasSuffix(got[0], ": "+text(want))) {
			t.Errorf("%q, %v, want %s", got, err, text(want))
		}
	})
}
