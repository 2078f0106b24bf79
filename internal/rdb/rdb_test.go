package rdb

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// text shows a value.
func text(v *Value) string {
	switch v.Type {
	case "value":
		return fmt.Sprintf("value %q", v.Text)
	case "zset":
		return fmt.Sprintf("zset %q %v", v.Elements, v.Scores)
	}
	return fmt.Sprintf("%s %q", v.Type, v.Elements)
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
		again, err := Parse(Append(nil, v))
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

// ziplistOf is what Redis before version 7 made of elements, each the bytes of its form.
func ziplistOf(elements ...string) string {
	body := strings.Repeat("\x00", 10)
	for _, e := range elements {
		body += "\x05" + e
	}
	return body + "\xff"
}

// What redis-server 7.0 does not write, by its description.
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
		"unknown listpack element": "\x14\x09123456\xf5\x01\xff", "unknown ziplist element": "\x0a\x0d1234567890\x00\x81\xff",
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
		v, err := Parse(Append(nil, &Value{Type: "value", Text: make([]byte, n)}))
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
		again, err := Parse(Append(nil, v))
		if err != nil || text(again) != text(v) {
			t.Errorf("%s is %v again, %v", text(v), again, err)
		}
	})
}
