package rdb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/redisstream"
)

// text shows a value.
func text(v *Value) string {
	switch v.Type {
	case "value":
		return fmt.Sprintf("value %q", v.Text)
	case "zset":
		return fmt.Sprintf("zset %q %v", v.Elements, v.Scores)
	}
	if v.Type == "stream" {
		return "stream " + strings.Join(streamText(v.Elements), ", ")
	}
	return fmt.Sprintf("%s %q", v.Type, v.Elements)
}

// streamText shows the elements of a stream, in the order of their names.
func streamText(elements [][]byte) (list []string) {
	values := map[string][]byte{}
	for i := 0; i < len(elements); i += 2 {
		values[string(elements[i])] = elements[i+1]
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		of, rest, _ := redisstream.Split(name[1:])
		id, _ := redisstream.IDOf(name)
		var what any
		switch value := values[name]; name[0] {
		case 'e':
			fields, _ := redisstream.FieldsOf(value)
			what = fmt.Sprintf("%q", fields)
			of = string(id.Append(nil))
		case 'm':
			what, _ = redisstream.ParseHead(value)
		case 'g':
			what, _ = redisstream.ParseGroup(value)
			of = name[1:]
		case 'c':
			what, _ = redisstream.ParseConsumer(value)
			of += " " + rest
		case 'p':
			what, _ = redisstream.ParsePending(name, value)
		case 'd':
			to, _, _ := redisstream.Split(rest)
			what = to + " " + string(id.Append(nil))
		}
		list = append(list, fmt.Sprintf("%c %q %v", name[0], of, what))
	}
	return list
}

// appended is the dump of a value.
func appended(t testing.TB, v *Value) []byte {
	t.Helper()
	dump, err := Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return dump
}

// dumped are dumps of redis-server 7.0.15, and one of version 6 of the form.
var dumped = []struct{ dump, want string }{
	{"000568656c6c6f0a006372df766534200a", `value "hello"`},
	{"00c0fb0a0049c4c6f4d7263f68", `value "-5"`},
	{"00c12c010a00954261f265825c10", `value "300"`},
	{"00c26079feff0a00a1ca8470cc216d9d", `value "-100000"`},
	{"000b31323334353637383930310a00304e52d727176510", `value "12345678901"`},
	{"00c30b40b40361626361e0a5020162630a002b5b6bac6c26c36d", `value "` + strings.Repeat("abc", 60) + `"`},
	{"00000a005d9b5c400f7fa2da", `value ""`},
	{"000176060007e5a632ec6db65d", `value "v"`},
	{"120102c33140701f7000000008008161020101c12c02f270110104dffd02f4cb04fb711f0100000902e04678e03c000748f3c0ab76ff05ff0a00788ada7e10b47021",
		`list ["a" "1" "300" "70000" "-3" "1234567890123" "` + strings.Repeat("x", 70) + `" "-9000000"]`},
	{"1203020a0a0000000100816102ff020a0a0000000100816202ff020a0a0000000100816302ff0a0092b1534c390d2d60", `list ["a" "b" "c"]`},
	{"120201c30615016161e00a00020a0a0000000100816202ff0a001558561eb563cac0", `list ["aaaaaaaaaaaaaaaaaaaaa" "b"]`},
	{"10121200000004008166028176028167020101ff0a0023c1a5e35dfae81c", `hash ["f" "v" "g" "1"]`},
	{"0401016601760a00adf24356b1860efc", `hash ["f" "v"]`},
	{"0b0e0200000003000000010002002c010a00e510b28e7b9529aa", `set ["1" "2" "300"]`},
	{"0b10040000000200000001000000701101000a002735436efd6656c4", `set ["1" "70000"]`},
	{"0b180800000002000000007ac45efeffffff01000000000000000a00cc89fdc7814c1738", `set ["-7000000000" "1"]`},
	{"0202016201610a0075d99d835ef85f65", `set ["b" "a"]`},
	{"1122220000000800816302dffd02816102010181620283322e350481640283696e6604ff0a00c54a2b13accba97f", `zset ["c" "a" "b" "d"] [-3 1 2.5 +Inf]`},
	{"0503016200000000000004400161000000000000f03f0163000000000000f0ff0a009a24ca8fdcb1d08c", `zset ["b" "a" "c"] [2.5 1 -Inf]`},
	{"13011000000000000000050000000000000001406a6a00000025000301020102018166028167020001020100010001817602f2701101040501030100010201817702dffb02050100010101dfff020101856f74686572068001060102010201dfff02f4351cdcdf0200000009817802050103010301000181760201010501ff0308010501080105020167060081ffffffffffffffff02000000000000000500000000000000010068e5cf8b01000007000000000000000600000000000000000168e5cf8b01000002020161a0e9a814a201000001000000000000000500000000000000010162a0e9a814a201000001000000000000000600000000000000000168080181ffffffffffffffff00010469646c65a0e9a814a2010000000a003e40e19e215bac54",
		`stream c "g a" {1795642943903 1795642943904 1795642943904}, c "g b" {1795642943903 1795642943904 1795642943904}, c "h idle" {1795642943903 1795642943904 1795642943904}, ` +
			`d "g" a 5-1, d "g" b 6-0, e "5-1" ["f" "v" "g" "70000"], e "6-0" ["other" ""], e "7-0" ["f" "12345678901" "g" "x"], ` +
			`g "g" {{6 0} -1 0}, g "h" {{8 1} -1 0}, m "" {{8 1} {8 1} 2 0}, p "g" {{5 1} 1700000000000 7 a}, p "g" {{6 0} 1700000000001 2 b}`},
	{"13000000000000000000010167000081ffffffffffffffff00000a00a01a953dfb9cddde", `stream g "g" {{0 0} -1 0}, m "" {{0 0} {0 0} 0 0}`},
}

func TestParseWhatRedisDumps(t *testing.T) {
	for _, c := range dumped {
		dump, err := hex.DecodeString(c.dump)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Parse(dump)
		if err != nil {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		if got := text(v); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		again, err := Parse(appended(t, v))
		if err != nil || text(again) != c.want {
			t.Errorf("%s: again it is %v, %v", c.want, again, err)
		}
		for bit := range 8 * len(dump) {
			dump[bit/8] ^= 1 << (bit % 8)
			if _, err := Parse(dump); !errors.Is(err, ErrChecksum) {
				t.Errorf("%s: with bit %d turned the error is %v", c.want, bit, err)
			}
			dump[bit/8] ^= 1 << (bit % 8)
		}
		for n := range dump {
			if _, err := Parse(dump[:n]); !errors.Is(err, ErrChecksum) {
				t.Errorf("%s: of %d bytes the error is %v", c.want, n, err)
			}
		}
	}
}

// signed is the body of a dump with its footer.
func signed(body []byte) []byte {
	body = binary.LittleEndian.AppendUint16(append([]byte{}, body...), newest)
	return binary.LittleEndian.AppendUint64(body, checksum(body))
}

// ziplistOf returns elements, each the bytes of its form, as Redis before version 7 wrote them.
func ziplistOf(elements ...string) string {
	body := strings.Repeat("\x00", 10)
	for _, e := range elements {
		body += "\x05" + e
	}
	return body + "\xff"
}

// Forms that redis-server 7.0 does not write, by their description.
func TestParseOtherForms(t *testing.T) {
	packed := func(of byte, text string) []byte { return appendString([]byte{of}, []byte(text)) }
	long := strings.Repeat("y", 100)
	zl := ziplistOf("\x01a", "\x40\x64"+long, "\x80\x00\x00\x00\x01b", "\xc0\xfe\xff", "\xf0\x01\x00\x80", "\xd0\x01\x00\x00\x00",
		"\xe0\x02\x00\x00\x00\x00\x00\x00\x00", "\xfe\xfb", "\xf1", "\xfd")
	elements := fmt.Sprintf(`["a" %q "b" "-2" "-8388607" "1" "2" "-5" "0" "12"]`, long)
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"list of a ziplist":     {packed(typeListZiplist, zl), "list " + elements},
		"quicklist":             {append([]byte{typeQuicklist, 1}, appendString(nil, []byte(zl))...), "list " + elements},
		"hash of a ziplist":     {packed(typeHashZiplist, zl), "hash " + elements},
		"zset of a ziplist":     {packed(typeZsetZiplist, ziplistOf("\x01m", "\xf3", "\x01n", "\x031.5")), `zset ["m" "n"] [2 1.5]`},
		"far element":           {packed(typeListZiplist, strings.Repeat("\x00", 10)+"\xfe\x00\x01\x00\x00\x01a\xff"), `list ["a"]`},
		"set of a listpack":     {packed(typeSetListpack, "\x00\x00\x00\x00\x02\x00\x81a\x02\x05\x01\xff"), `set ["a" "5"]`},
		"large listpack string": {packed(typeSetListpack, "123456\xe0\x01a\x03\xf0\x01\x00\x00\x00b\x06\xf3\x01\x00\x00\x80\x05\xff"), `set ["a" "b" "-2147483647"]`},
		"old zset":              {[]byte("\x03\x04\x01a\xfe\x01b\xff\x01c\x031.5\x01d\x02-1"), `zset ["a" "b" "c" "d"] [+Inf -Inf 1.5 -1]`},
		"list":                  {[]byte("\x01\x02\x01a\x00"), `list ["a" ""]`},
		"long lengths":          {[]byte("\x00\x81\x00\x00\x00\x00\x00\x00\x00\x01a"), `value "a"`},
		"longer lengths":        {[]byte("\x00\x80\x00\x00\x00\x01a"), `value "a"`},
		"stream of Redis 5":     {[]byte(streamOf(typeStream, nodeOf(2), "\x02\x02\x00", "\x01g\x01\x00"+pendingOf("\x01")+"\x01\x01c"+eight+"\x01"+idOf(1))), readStream(8, `1`)},
		"stream of Redis 7.2":   {[]byte(streamOf(typeStream3, nodeOf(2), "\x02\x02\x00\x01\x00\x00\x00\x03", "\x01g\x01\x00\x02"+pendingOf("\x01")+"\x01\x01c"+eight+"\x09\x00\x00\x00\x00\x00\x00\x00\x01"+idOf(1))), strings.Replace(readStream(9, `2`), "{0 0} 0 0}", "{0 0} 1 0}", 1)},
	} {
		v, err := Parse(signed(c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := text(v); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Parts of streams: an id, a node with entries from id 1-0 on, pending entries, and a whole.

const (
	eight    = "\x08\x00\x00\x00\x00\x00\x00\x00"
	oneEntry = "\x01\x01\x00\x01\x00\x00\x00\x01"
)

func idOf(ms byte) string {
	return "\x00\x00\x00\x00\x00\x00\x00" + string(ms) + "\x00\x00\x00\x00\x00\x00\x00\x00"
}

func nodeOf(entries int) string {
	var n node
	for i := range entries {
		n.add(redisstream.ID{MS: uint64(i + 1)}, [][]byte{[]byte("f"), []byte("v")})
	}
	return string(n.appendTo(nil))
}

func pendingOf(count string) string { return count + idOf(1) + eight + "\x07" }

func streamOf(of byte, node, whole string, groups ...string) string {
	return string(of) + "\x01" + node + whole + string(rune(len(groups))) + strings.Join(groups, "")
}

// readStream returns the text of the stream that TestParseOtherForms reads.
func readStream(active int, read string) string {
	return fmt.Sprintf(`stream c "g c" {7 8 %d}, d "g" c 1-0, e "1-0" ["f" "v"], e "2-0" ["f" "v"], g "g" {{1 0} %s 0}, m "" {{2 0} {0 0} 0 0}, p "g" {{1 0} 8 7 c}`, active, read)
}

// A dump in which long names occur once, and many times in the store, does not take memory without
// bound.
func TestParseTakesLittleMemory(t *testing.T) {
	long := bytes.Repeat([]byte("n"), 60_000)
	var n node
	for i := range 2_000 {
		n.add(redisstream.ID{MS: uint64(i + 1)}, [][]byte{long, nil})
	}
	entries := "\x13\x01" + string(n.appendTo(nil))
	pending, ids := "", ""
	for i := range 2_000 {
		id := string(redisstream.ID{MS: uint64(i + 1)}.Bytes())
		pending += id + eight + "\x01"
		ids += id
	}
	group := streamOf(typeStream2, nodeOf(1), oneEntry, stringOf(string(long))+"\x01\x00\x01"+"\x47\xd0"+pending+"\x01\x01c"+eight+"\x47\xd0"+ids)
	for _, body := range []string{entries, group} {
		if _, err := Parse(signed([]byte(body))); err != ErrFormat {
			t.Errorf("of a dump of %d bytes that would take much more the error is %v", len(body), err)
		}
	}
}

// Elements that are none of a stream, or parts of a missing one, are an error.
func TestAppendNoStream(t *testing.T) {
	id := redisstream.ID{MS: 1}
	group, consumer, pending := (&redisstream.Group{}).Value(), (&redisstream.Consumer{}).Value(), (&redisstream.Pending{Consumer: "c"}).Value()
	for name, elements := range map[string][]string{
		"no name": {"", ""}, "another name": {"x", ""}, "no id": {"e1", ""}, "no fields": {redisstream.EntryName(id), "\x05"}, "no head": {"m", ""}, "no group": {"gg", ""},
		"no consumer": {"gg", string(group), redisstream.ConsumerName("g", "c"), ""}, "a name without its length": {"c\x05a", string(consumer)},
		"no pending": {redisstream.PendingName("g", id), ""}, "a consumer of no group": {redisstream.ConsumerName("g", "c"), string(consumer)},
		"pending for nobody": {"gg", string(group), redisstream.PendingName("g", id), string(pending)},
	} {
		v := &Value{Type: "stream"}
		for _, e := range elements {
			v.Elements = append(v.Elements, []byte(e))
		}
		if dump, err := Append(nil, v); err != ErrFormat || dump != nil {
			t.Errorf("%s: %q, %v", name, dump, err)
		}
	}
}

func TestParseNonsense(t *testing.T) {
	for name, body := range map[string]string{
		"unknown type": "\x63\x00", "empty list": "\x01\x00", "empty hash": "\x04\x00", "empty set": "\x0b\x08\x02\x00\x00\x00\x00\x00\x00\x00",
		"more than the value": "\x00\x01aa", "less than the value": "\x00\x02a",
		"huge count": "\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff", "huge length": "\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff",
		"odd hash": "\x10\x0a\x00\x00\x00\x00\x01\x00\x81a\x02\xff", "NaN": "\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f", "old NaN": "\x03\x01\x01a\xfd",
		"no number": "\x03\x01\x01a\x01x", "LZF that looks back too far": "\x00\xc3\x03\x05\x20\x10\x00",
		"LZF that is too long": "\x00\xc3\x02\x80\x1f\xff\xff\xff\x00a", "LZF that ends": "\x00\xc3\x02\x03\x05a",
		"listpack without end": "\x14\x08123456\x05\x01", "ziplist without end": "\x0a\x0b1234567890\x00",
		"intset of three bytes": "\x0b\x0b\x03\x00\x00\x00\x01\x00\x00\x00abc", "special count": "\x01\xc0\x01",
		"unknown string": "\x00\xc4", "unknown length": "\x00\x82", "unknown node": "\x12\x01\x03\x00",
		"stream of nodes without ids":               "\x13\x01\x01k" + nodeOf(1)[17:] + "\x01\x01\x00\x01\x00\x00\x00\x01\x00",
		"stream of another length":                  streamOf(typeStream2, nodeOf(2), "\x03\x02\x00\x01\x00\x00\x00\x02"),
		"stream out of order":                       "\x13\x02" + nodeOf(1) + nodeOf(1) + "\x02\x01\x00\x01\x00\x00\x00\x02\x00",
		"stream whose node ends early":              streamOf(typeStream2, stringOf(idOf(0))+stringOf("123456\x01\x01\x00\x01\xff"), "\x01\x01\x00\x01\x00\x00\x00\x01"),
		"stream whose node has many fields":         streamOf(typeStream2, stringOf(idOf(0))+stringOf("123456\x01\x01\x00\x01\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09\xff"), "\x00\x01\x00\x01\x00\x00\x00\x01"),
		"stream whose entry is no number":           streamOf(typeStream2, stringOf(idOf(0))+stringOf("123456\x01\x01\x00\x01\x00\x01\x00\x01\x81x\x02\xff"), "\x00\x01\x00\x01\x00\x00\x00\x01"),
		"stream with a group twice":                 streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01\x00\x00", "\x01g\x01\x00\x01\x00\x00"),
		"stream with a consumer twice":              streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01\x00\x02\x01c"+eight+"\x00\x01c"+eight+"\x00"),
		"stream with what is pending twice":         streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01"+pendingOf("\x02")+pendingOf("")+"\x01\x01c"+eight+"\x01"+idOf(1)),
		"stream with what is pending for nobody":    streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01"+pendingOf("\x01")+"\x00"),
		"stream with what is nowhere pending":       streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01\x00\x01\x01c"+eight+"\x01"+idOf(1)),
		"stream with what is pending for two":       streamOf(typeStream2, nodeOf(1), oneEntry, "\x01g\x01\x00\x01"+pendingOf("\x01")+"\x02\x01c"+eight+"\x01"+idOf(1)+"\x01d"+eight+"\x01"+idOf(1)),
		"stream with more groups than there are":    streamOf(typeStream2, nodeOf(1), oneEntry)[:len(streamOf(typeStream2, nodeOf(1), oneEntry))-1] + "\x01",
		"stream with a huge count of what is there": "\x13\x81\xff\xff\xff\xff\xff\xff\xff\xff",
		"unknown listpack element":                  "\x14\x09123456\xf5\x01\xff", "unknown ziplist element": "\x0a\x0d1234567890\x00\x81\xff",
	} {
		if v, err := Parse(signed([]byte(body))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	later := binary.LittleEndian.AppendUint16([]byte("\x00\x01a"), newest+1)
	later = binary.LittleEndian.AppendUint64(later, checksum(later))
	for name, dump := range map[string][]byte{"nothing": nil, "no type": signed(nil), "a newer version": later} {
		if _, err := Parse(dump); !errors.Is(err, ErrChecksum) {
			t.Errorf("of %s the error is %v", name, err)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, n := range []int{0, 63, 64, 16383, 16384, 70000} {
		v, err := Parse(appended(t, &Value{Type: "value", Text: make([]byte, n)}))
		if err != nil || len(v.Text) != n {
			t.Errorf("of %d bytes it has %d, %v", n, len(v.Text), err)
		}
	}
	for n, want := range map[int]uint64{1: 1, 127: 1, 128: 2, 16382: 2, 16383: 3, 2097150: 3, 2097151: 4, 268435454: 4, 268435455: 5} {
		if got := backBytes(n); got != want {
			t.Errorf("the length %d takes %d bytes, want %d", n, got, want)
		}
	}
}

// FuzzParse: whatever the body is, it is a value that comes back, or an error.
func FuzzParse(f *testing.F) {
	for _, c := range dumped {
		dump, _ := hex.DecodeString(c.dump)
		f.Add(dump[:len(dump)-footerBytes])
	}
	f.Add([]byte("\x0a\x0d1234567890\x00\x81\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := Parse(signed(body))
		if err != nil {
			return
		}
		again, err := Parse(appended(t, v))
		if err == nil && body[0] == typeStream3 { // a stream with more is not written
			v = again
			again, err = Parse(appended(t, v))
		}
		if err != nil || text(again) != text(v) {
			t.Errorf("%s is %v again, %v", text(v), again, err)
		}
	})
}

// TestStreamsThatMakeNoSense are refused: an element may be anything, unless a command of streams has written it.
func TestStreamsThatMakeNoSense(t *testing.T) {
	name := []byte("e" + strings.Repeat("\x00", 15) + "\x01")
	for _, element := range [][2]string{{string(name), "\x01a"}, {string(name), "\x01a\x01b\x01c"}, {"e", "\x01a\x01b"}, {"x", ""}, {"", ""}} {
		v := &Value{Type: "stream", Elements: [][]byte{[]byte(element[0]), []byte(element[1])}}
		if dump, err := Append(nil, v); err == nil {
			t.Errorf("%q is dumped as %q", element, dump)
		}
	}
}
