package resp

import (
	"math"
	"math/big"
	"testing"
)

func TestReply(t *testing.T) {
	for _, c := range []struct {
		name   string
		write  func(r *Reply)
		v2, v3 string
	}{
		{"OK", (*Reply).OK, "+OK\r\n", "+OK\r\n"},
		{"simple", func(r *Reply) { r.Simple("PONG") }, "+PONG\r\n", "+PONG\r\n"},
		{"error", func(r *Reply) { r.Error("ERR a\r\nb") }, "-ERR a  b\r\n", "-ERR a  b\r\n"},
		{"int", func(r *Reply) { r.Int(-7) }, ":-7\r\n", ":-7\r\n"},
		{"flag", func(r *Reply) { r.Flag(true); r.Flag(false) }, ":1\r\n:0\r\n", ":1\r\n:0\r\n"},
		{"bool", func(r *Reply) { r.Bool(true); r.Bool(false) }, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
		{"bulk", func(r *Reply) { r.Bulk([]byte("a\r\nb")) }, "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"},
		{"number", func(r *Reply) { r.BulkInt(10) }, "$2\r\n10\r\n", "$2\r\n10\r\n"},
		{"text", func(r *Reply) { r.Verbatim("hi") }, "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"},
		{"null", (*Reply).Null, "$-1\r\n", "_\r\n"},
		{"no array", (*Reply).NullArray, "*-1\r\n", "_\r\n"},
		{"double", func(r *Reply) { r.Double(1.5) }, "$3\r\n1.5\r\n", ",1.5\r\n"},
		{"big", func(r *Reply) { r.Big(big.NewInt(5)) }, "$1\r\n5\r\n", "(5\r\n"},
		{"array", func(r *Reply) { r.Array(2) }, "*2\r\n", "*2\r\n"},
		{"map", func(r *Reply) { r.Map(2) }, "*4\r\n", "%2\r\n"},
		{"set", func(r *Reply) { r.Set(2) }, "*2\r\n", "~2\r\n"},
		{"push", func(r *Reply) { r.Push(2) }, "*2\r\n", ">2\r\n"},
	} {
		v2, v3 := Reply{}, Reply{V3: true}
		c.write(&v2)
		c.write(&v3)
		if string(v2.Buf) != c.v2 || string(v3.Buf) != c.v3 {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, v2.Buf, v3.Buf, c.v2, c.v3)
		}
	}
}

// As Redis 7.2 writes scores.
func TestAppendFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "-0", 1: "1", -1: "-1", 3.1: "3.1", 0.1: "0.1", 1.0 / 3: "0.3333333333333333", 1e15: "1000000000000000",
		1 << 52: "4503599627370496", 1e16: "1e+16", 1.5e16: "1.5e+16", 12345678901234567890: "12345678901234567000", 1e20: "1e+20", 1e21: "1e+21", 123e-7: "1.23e-5", 123e-6: "0.000123",
		1e-6: "0.000001", 1e-7: "1e-7", 1.5e-10: "1.5e-10", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308",
		math.Inf(1): "inf", math.Inf(-1): "-inf", -2.5e-7: "-2.5e-7", 123456.789: "123456.789",
	} {
		if got := string(AppendFloat(nil, f)); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}
