package resp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadReply(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	var w Reply
	w.OK()
	w.Error("ERR no")
	w.Int(-5)
	w.BulkString("")
	w.BulkString("a\r\nb")
	w.BulkString(long)
	w.Null()
	w.NullArray()
	w.Array(3)
	w.Int(1)
	w.Array(0)
	w.BulkString("b")
	want := []string{`[]uint8 "OK"`, `resp.ErrorReply "ERR no"`, `int64 -5`, `[]uint8 ""`, `[]uint8 "a\r\nb"`, fmt.Sprintf("[]uint8 %q", long), "<nil> <nil>", "<nil> <nil>",
		"[]interface {} [1 [] [98]]"}
	show := func(v any) string {
		switch v.(type) {
		case []byte, ErrorReply:
			return fmt.Sprintf("%T %q", v, v)
		}
		return fmt.Sprintf("%T %v", v, v)
	}
	r := bufio.NewReader(iotest.HalfReader(bytes.NewReader(w.Buf)))
	for _, want := range want {
		v, err := ReadReply(r)
		if got := show(v); err != nil || got != want {
			t.Fatalf("%.100s, %v, want %.100s", got, err, want)
		}
	}
	if _, err := ReadReply(r); err != io.EOF {
		t.Errorf("after the last the error is %v", err)
	}
	for n := 1; n < 60; n++ {
		r := bufio.NewReader(bytes.NewReader(w.Buf[:n]))
		err := error(nil)
		for err == nil {
			_, err = ReadReply(r)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("of %d bytes the error is %v", n, err)
		}
	}
}

func TestReadReplyRefuses(t *testing.T) {
	long := strings.Repeat("*1\r\n", 1000)
	line := "+" + strings.Repeat("a", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, in := range []string{"$9223372036854775807\r\nabc", "*9223372036854775807\r\n:1\r\n", "$3\r\nabcde", "+OK\n", "%1\r\n+a\r\n+b\r\n", "$x\r\n", "$-2\r\n", "*1\n\r", "\r\n",
		long, line} {
		v, err := ReadReply(bufio.NewReader(strings.NewReader(in)))
		if err == nil || err == io.EOF {
			t.Errorf("%.40q: %v, %v", in, v, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("it allocates %d bytes", n)
	}
}

func TestAppendRequest(t *testing.T) {
	p := Parser{Limits: Limits{Args: 10, Bulk: 1 << 20}}
	request := AppendRequest(nil, "SET", "k\r\n", "", strings.Repeat("v", 1000))
	args, n, err := p.Next(request)
	if err != nil || n != len(request) || len(args) != 4 || string(args[1]) != "k\r\n" || len(args[2]) != 0 || len(args[3]) != 1000 {
		t.Errorf("%d arguments of %d bytes, %v", len(args), n, err)
	}
}
