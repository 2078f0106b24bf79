package resp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var limits = Limits{Args: 1000, Bulk: 1 << 20}

// parse reads requests from text, which arrives in pieces of n bytes. It returns them as text, and the error at the
// end.
func parse(t testing.TB, text string, n int) (list []string, err error) {
	p := Parser{Limits: limits}
	var buf []byte
	for {
		args, used, err := p.Next(buf)
		if err != nil {
			return list, err
		}
		if used > 0 {
			if used > len(buf) {
				t.Fatalf("a request takes %d of %d bytes", used, len(buf))
			}
			list = append(list, fmt.Sprintf("%q", args))
			buf = slices.Clone(buf[used:])
			continue
		}
		if text == "" {
			if len(buf) > 0 {
				return list, errUnfinished
			}
			return list, nil
		}
		if wants := p.Wants(len(buf)); wants <= len(buf) {
			t.Fatalf("it wants %d bytes, and has %d", wants, len(buf))
		}
		piece := text[:min(n, len(text))]
		buf, text = append(buf, piece...), text[len(piece):]
	}
}

var errUnfinished = errors.New("unfinished")

func TestParser(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		err  string
	}{
		{"*1\r\n$4\r\nPING\r\n", []string{`["PING"]`}, ""},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$1\r\nx\r\n", []string{`["GET" ""]`, `["x"]`}, ""},
		{"*2\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n", []string{`["a" "\r\n\r\n"]`}, ""},
		{"*0\r\n*-1\r\n*1\r\n$1\r\nx\r\n", []string{`[]`, `[]`, `["x"]`}, ""},
		{"PING\r\n", []string{`["PING"]`}, ""},
		{"PING\n", []string{`["PING"]`}, ""},
		{"\r\n\n  \r\n", []string{`[]`, `[]`, `[]`}, ""},
		{"  SET  a \t b \r\n", []string{`["SET" "a" "b"]`}, ""},
		{`SET a "b c\n\x41\"\q"` + "\n", []string{`["SET" "a" "b c\nA\"q"]`}, ""},
		{`SET a 'b c\n\'"'` + "\n", []string{`["SET" "a" "b c\\n'\""]`}, ""},
		{`SET a ""` + "\n", []string{`["SET" "a" ""]`}, ""},
		{`SET a"b c"` + "\n", []string{`["SET" "ab c"]`}, ""},
		{`SET "a` + "\n", nil, "unbalanced quotes in request"},
		{`SET "a"b` + "\n", nil, "unbalanced quotes in request"},
		{`SET 'a` + "\n", nil, "unbalanced quotes in request"},
		{"*x\r\n", nil, "invalid multibulk length"},
		{"*1001\r\n", nil, "invalid multibulk length"},
		{"*01\r\n", nil, "invalid multibulk length"},
		{"*99999999999999999999\r\n", nil, "invalid multibulk length"},
		{"*1\r\n:1\r\n", nil, "expected '$', got ':'"},
		{"*1\r\n\x01\r\n", nil, `expected '$', got '\x1'`},
		{"*1\r\n$-1\r\n", nil, "invalid bulk length"},
		{"*1\r\n$1048577\r\n", nil, "invalid bulk length"},
		{"*1\r\n$x\r\n", nil, "invalid bulk length"},
		{"*1" + strings.Repeat("0", MaxInline), nil, "too big mbulk count string"},
		{"*1\r\n$1" + strings.Repeat("0", MaxInline), nil, "too big bulk count string"},
		{strings.Repeat("x", MaxInline), nil, "too big inline request"},
		{"*1\r\n$4\r\nPIN", nil, errUnfinished.Error()},
		{"PING", nil, errUnfinished.Error()},
	} {
		for _, n := range []int{1, 2, 7, 1 << 20} {
			got, err := parse(t, c.text, n)
			text := ""
			if err != nil {
				text = strings.TrimPrefix(err.Error(), "Protocol error: ")
			}
			if !slices.Equal(got, c.want) || text != c.err {
				t.Errorf("%.60q by %d bytes: %q, %q; want %q, %q", c.text, n, got, text, c.want, c.err)
			}
		}
	}
}

// A long argument of a client takes no more room than it announces, and no less.
func TestParserWants(t *testing.T) {
	p := Parser{Limits: limits}
	head := "*2\r\n$1\r\na\r\n$1000\r\n"
	if _, n, err := p.Next([]byte(head)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if got, want := p.Wants(len(head)), len(head)+1000+2; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "-7": -7, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		if got, ok := ParseInt([]byte(text)); got != want || !ok {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "9223372036854775808", "-9223372036854775809", "99999999999999999999", "0x1"} {
		if got, ok := ParseInt([]byte(text)); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// However a stream of bytes arrives, it is the same requests; and a request is read again from the
// bytes that a client would send for it.
func FuzzParser(f *testing.F) {
	for _, s := range []string{"*1\r\n$4\r\nPING\r\n", "PING\r\n", "SET a \"\\x41\"\n*2\r\n$1\r\na\r\n$0\r\n\r\n", "*1\r\n$x", "*3\r\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		whole, err := parse(t, string(text), len(text)+1)
		pieces, err2 := parse(t, string(text), max(1, n%100))
		if !slices.Equal(whole, pieces) || (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %q, %v; in pieces: %q, %v", whole, err, pieces, err2)
		}
		p := Parser{Limits: limits}
		args, used, err := p.Next(text)
		if err != nil || used == 0 || args == nil {
			return
		}
		again := fmt.Appendf(nil, "*%d\r\n", len(args))
		for _, a := range args {
			again = fmt.Appendf(again, "$%d\r\n%s\r\n", len(a), a)
		}
		q := Parser{Limits: limits}
		same, n, err := q.Next(again)
		if n != len(again) || err != nil || !slices.EqualFunc(args, same, bytes.Equal) {
			t.Fatalf("%q, sent as %q, is read as %q, %d, %v", args, again, same, n, err)
		}
	})
}
