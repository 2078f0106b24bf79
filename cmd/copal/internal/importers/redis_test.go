package importers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/ndjson"
	"github.com/copaldb/copal/internal/rdb"
	"github.com/copaldb/copal/internal/resp"
)

func TestParseServer(t *testing.T) {
	t.Setenv("REDISCLI_AUTH", "")
	for text, want := range map[string]string{
		"redis://":                         "{tcp 127.0.0.1:6379 false   -1}",
		"redis://localhost/":               "{tcp localhost:6379 false   -1}",
		"redis://u:p%40@[::1]:7000/3":      "{tcp [::1]:7000 false u p@ 3}",
		"rediss://:p@h":                    "{tcp h:6379 true  p -1}",
		"redis+unix://u:p@/run/redis.sock": "{unix /run/redis.sock false u p -1}",
		"unix://u:p@/run/redis.sock":       "{unix /run/redis.sock false u p -1}",
	} {
		got, err := parseServer(text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"redis://h/x", "redis://h/-1", "redis://h:port", "redis://%zz"} {
		if got, err := parseServer(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !IsServer("unix:///run/redis.sock") {
		t.Error("a socket is a file")
	}
	if got := Redacted("redis://u:secret@h/1"); got != "redis://u:xxxxx@h/1" {
		t.Error(got)
	}
}

func TestDetectRedis(t *testing.T) {
	for _, head := range []string{"REDIS0011\xfa", "VALKEY080"} {
		if f, err := Detect("any", []byte(head)); err != nil || f.Name != "rdb" {
			t.Errorf("%q: %v, %v", head, f.Name, err)
		}
	}
}

// answering starts a server that has one answer to each command, and returns its URL.
func answering(t *testing.T, answers map[string]func(r *resp.Reply)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					request, err := resp.ReadReply(in) // a request is an array, as a reply may be one
					if err != nil {
						return
					}
					var r resp.Reply
					if answer := answers[string(request.([]any)[0].([]byte))]; answer != nil {
						answer(&r)
					} else {
						r.OK()
					}
					conn.Write(r.Buf)
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String() + "/0"
}

// The answers of a server are not trusted.
func TestServerThatAnswersNonsense(t *testing.T) {
	text := func(s string) func(*resp.Reply) { return func(r *resp.Reply) { r.BulkString(s) } }
	page := func(keys ...string) func(*resp.Reply) {
		return func(r *resp.Reply) {
			r.Array(2)
			r.BulkString("0")
			r.Array(len(keys))
			for _, k := range keys {
				r.BulkString(k)
			}
		}
	}
	now := func(r *resp.Reply) { r.Array(2); r.BulkString("1"); r.BulkString("2") }
	number := func(n int64) func(*resp.Reply) { return func(r *resp.Reply) { r.Int(n) } }
	dumped, err := rdb.Append(nil, &rdb.Value{Type: "value", Text: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	dump := text(string(dumped))
	for name, c := range map[string]struct {
		answers map[string]func(*resp.Reply)
		items   int
		want    string // of the error; "" for none
	}{
		"what it should":        {map[string]func(*resp.Reply){"SCAN": page("k", "l"), "TIME": now, "DUMP": dump, "PEXPIRETIME": number(-1)}, 2, ""},
		"no page":               {map[string]func(*resp.Reply){"SCAN": text("0")}, 0, "SCAN: the reply is none"},
		"an error":              {map[string]func(*resp.Reply){"SELECT": func(r *resp.Reply) { r.Error("ERR no") }}, 0, "SELECT: ERR no"},
		"no time":               {map[string]func(*resp.Reply){"SCAN": page("k"), "TIME": text("x"), "PEXPIRETIME": number(-1)}, 0, "TIME: the reply is none"},
		"no dump":               {map[string]func(*resp.Reply){"SCAN": page("k"), "TIME": now, "DUMP": text("nonsense"), "PEXPIRETIME": number(-1)}, 0, `DUMP of key "k" in database 0: rdb: version or checksum are wrong`},
		"a dump is not allowed": {map[string]func(*resp.Reply){"SCAN": page("k"), "TIME": now, "DUMP": func(r *resp.Reply) { r.Error("NOPERM") }}, 0, `DUMP of key "k" in database 0: NOPERM`},
		"a key that is gone":    {map[string]func(*resp.Reply){"SCAN": page("k"), "TIME": now, "DUMP": func(r *resp.Reply) { r.Null() }, "PEXPIRETIME": number(-2)}, 0, ""},
		"no protocol":           {map[string]func(*resp.Reply){"SCAN": func(r *resp.Reply) { r.Buf = append(r.Buf, "HTTP/1.1 400\r\n"...) }}, 0, "Protocol error: "},
	} {
		items := 0
		source := Source{Ctx: context.Background(), Path: answering(t, c.answers), Bad: func(e *ndjson.LineError) error { return errors.New(e.Reason) }}
		err := readServer(&source, func(*Item) error { items++; return nil })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if items != c.items {
			t.Errorf("%s: %d items, want %d", name, items, c.items)
		}
	}
}

// An import that is interrupted does not wait for a server that says nothing.
func TestServerThatIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	silent := make(chan struct{})
	defer close(silent)
	source := Source{Ctx: ctx, Path: answering(t, map[string]func(*resp.Reply){"SCAN": func(*resp.Reply) { cancel(); <-silent }})}
	if err := readServer(&source, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
