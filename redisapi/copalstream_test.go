package redisapi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/commandtest"

	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/redisstream"
)

// COPAL.STREAM GET and SET copy all elements of a stream. SET wakes clients that wait for entries.
func TestStreamElements(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	for _, words := range []string{"XADD from 1-1 f v", "XADD from 1-2 f v", "XGROUP CREATE from g 0", "XREADGROUP GROUP g c COUNT 1 STREAMS from >"} {
		p.do(words)
	}
	names := 0
	after := ""
	for more := true; more; {
		reply := p.do("COPAL.STREAM GET from COUNT 2" + after)
		var list string
		list, more = strings.CutPrefix(reply, "[1 [")
		if !more {
			list = strings.TrimPrefix(reply, "[0 [")
		}
		words := commandtest.Split(t, strings.TrimSuffix(list, "]]"))
		if len(words) > 4 || len(words)%2 != 0 {
			t.Fatalf("a page is %s", reply)
		}
		for i := 0; i < len(words); i += 2 {
			p.want(fmt.Sprintf("COPAL.STREAM SET to %q %q", words[i], words[i+1]), "OK")
			after = fmt.Sprintf(" AFTER %q", words[i])
			names++
		}
	}
	if names != 7 { // two entries, the head, the group, the consumer, and the pending entry twice
		t.Errorf("there were %d elements", names)
	}
	snapshot, err := s.DB.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	n := 0
	for element, err := range copaladmin.Elements(snapshot, []byte("from")) {
		if value, missing := snapshot.Raw().Stream([]byte("to")).Load(string(element.Name)); err != nil || missing != nil || string(value) != string(element.Value) {
			t.Errorf("element %q: %v, %v", element.Name, err, missing)
		}
		n++
	}
	if n != names {
		t.Errorf("%d elements of %d came", names, n)
	}
	p.want("XPENDING to g", p.do("XPENDING from g"))
	waits := dial(t, address)
	waits.send("XREAD BLOCK 0 STREAMS to $")
	until(func() bool { return strings.Contains(p.do("INFO clients"), `blocked_clients:1\r`) })
	p.want(fmt.Sprintf("COPAL.STREAM SET to %q %q", redisstream.EntryName(redisstream.ID{MS: 2}), "\x01f\x01w"), "OK")
	waits.wantNext(`[["to" [["2-0" ["f" "w"]]]]]`)

	// A reply ends after a MiB, and reports that the stream has more.
	for i := range 4 {
		p.do(fmt.Sprintf("COPAL.STREAM SET long %d %s", i, strings.Repeat("x", 600_000)))
	}
	for after, want := range map[string]string{"": "[1 ", " AFTER 0": "[1 ", " AFTER 1": "[0 "} {
		if reply := p.do("COPAL.STREAM GET long" + after); !strings.HasPrefix(reply, want) || len(reply) > 1_300_000 {
			t.Errorf("behind %q: %d bytes, %.3s", after, len(reply), reply)
		}
	}
	p.do("SET value v")
	p.do("HSET people:hash f v")
	if _, err := copal.OpenMap[string, person](s.DB, "typed"); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"COPAL.STREAM GET none", "[0 []]"},
		{"COPAL.STREAM GET value", "(error) " + string(command.ErrWrongType)},
		{"COPAL.STREAM GET people:hash", "(error) " + string(command.ErrWrongType)},
		{"COPAL.STREAM SET value n v", "(error) " + string(command.ErrWrongType)},
		{"COPAL.STREAM SET typed:a n v", `(error) ERR key "typed:a" belongs to a typed map, which holds no collections`},
		{"COPAL.STREAM SET to n", "(error) ERR wrong number of arguments for 'copal.stream|set' command"},
		{"COPAL.STREAM SET to n v n", "(error) ERR wrong number of arguments for 'copal.stream|set' command"},
		{"COPAL.STREAM GET to COUNT 0", "(error) " + string(command.ErrPositive)},
		{"COPAL.STREAM GET to COUNT", "(error) " + string(command.ErrSyntax)},
		{"COPAL.STREAM GET to BEFORE x", "(error) " + string(command.ErrSyntax)},
		{"COPAL.STREAM GET to AFTER z", "[0 []]"},
		{`COPAL.STREAM SET rubbish rubbish ""`, "OK"},
		{`COPAL.STREAM GET rubbish`, `[0 ["rubbish" ""]]`},
		{`COPAL.STREAM GET rubbish COUNT 999999`, `[0 ["rubbish" ""]]`},
	} {
		p.want(c[0], c[1])
	}
}

// SET in the typed form takes a content type with all that it takes besides, and COPAL.RANGE returns it.
func TestContentTypes(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	const none = `\x00\x00\x00\x00\x00\x00\x00\x00`
	content := func(key, deadline, want string) {
		t.Helper()
		p.want("COPAL.RANGE "+key+` "" NOVALUES`, `[0 [["`+key+`" "" "" `+deadline+` "`+want+`"]]]`)
	}
	p.want(`COPAL.TYPED SET k "`+none+`v" CONTENT image/png`, "OK")
	content("k", "0", "image/png")
	p.want("GET k", `"v"`)
	p.want(`COPAL.TYPED SET k "`+none+`w" CONTENT text/html PXAT 9999999999999`, "OK")
	content("k", "9999999999999", "text/html")
	p.want(`COPAL.TYPED SET k "`+none+`x" IFEQ "`+none+`w" KEEPTTL CONTENT text/css`, "OK")
	content("k", "9999999999999", "text/css")
	p.want(`COPAL.TYPED SET k "`+none+`y" IFEQ "`+none+`w" CONTENT a/b`, "nil")
	content("k", "9999999999999", "text/css")
	p.want(`COPAL.TYPED SET k "`+none+`x"`, "OK")
	content("k", "0", "")
	p.want(`COPAL.TYPED SET k "`+none+`x" CONTENT ""`, "OK")
	content("k", "0", "")
	p.do("MULTI")
	p.want(`COPAL.TYPED SET k "`+none+`x" CONTENT a/b`, "QUEUED")
	p.do("EXEC")
	content("k", "0", "a/b")
	p.want(`COPAL.TYPED SET k "`+none+`x" PXAT 1 CONTENT a/b`, "OK")
	p.want("EXISTS k", "0")
	p.want(`COPAL.TYPED SET k "`+none+`x" XX CONTENT a/b`, "nil")
	people, err := copal.OpenMap[string, person](s.DB, "people")
	if err == nil {
		err = people.Set("ada", ada)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.want("COPAL.TYPED SET people:bob "+p.do("COPAL.TYPED GET people:ada")+" CONTENT application/json", "OK")
	content("people:bob", "0", "application/json")
	if got, err := people.Load("bob"); got != ada || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for words, reply := range map[string]string{
		`SET k v CONTENT a/b`:                                                       string(command.ErrSyntax),
		`COPAL.TYPED SET k "` + none + `" CONTENT`:                                  string(command.ErrSyntax),
		`COPAL.TYPED SET k v CONTENT a/b`:                                           string(command.ErrHeader),
		`COPAL.TYPED SET k unknown1 CONTENT a/b`:                                    string(command.ErrNoSchema),
		`COPAL.TYPED SET k "` + none + `" CONTENT "a b"`:                            "ERR copal: the type does not fit",
		`COPAL.TYPED SET k "` + none + `" CONTENT ` + strings.Repeat("x", 129) + "": "ERR copal: the type does not fit",
	} {
		if got := p.do(words); !strings.HasPrefix(got, "(error) "+reply) {
			t.Errorf("%s: %s", words, got)
		}
	}
}

// COPAL.MAP makes maps known, as DeclareMap does.
func TestMapsByName(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.want("COPAL.MAP LIST", "[]")
	p.want("COPAL.MAP DECLARE b:c", "OK")
	p.want("COPAL.MAP DECLARE a", "OK")
	p.want("COPAL.MAP DECLARE a", "OK")
	p.want("COPAL.MAP LIST", `["a" "b:c"]`)
	p.want("COPAL.MAP ORDERS", "[]")
	if _, err := copal.OpenMap[int, string](s.DB, "b:c"); err != nil {
		t.Fatal(err)
	}
	p.want("COPAL.MAP ORDERS", `["b:c" "int"]`)
	p.want(`COPAL.MAP DECLARE ""`, "(error) ERR copal: DeclareMap needs the name of a map")
	if got := p.do("COPAL.MAP DECLARE " + strings.Repeat("x", copal.MaxKeyBytes)); !strings.HasPrefix(got, "(error) ERR copal: too large") {
		t.Error(got)
	}
	for name := range s.DB.Maps() {
		if name != "a" && name != "b:c" {
			t.Errorf("there is a map %q", name)
		}
	}
}

// A page has the stored elements unchanged, and fails at one that cannot be read, so no copy
// loses it.
func TestStreamPagesOfOddElements(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, address := newServer(t, func(s *Server) { s.DB.Close(); s.DB = db })
	p := dial(t, address)

	typed := copaladmin.Element{Name: []byte("m"), Value: []byte("\x02"), Codec: "binary", Schema: "int"}
	if err := copaladmin.PutElements(s.DB, &copaladmin.Entry{Key: []byte("typed"), Collection: "stream"}, []copaladmin.Element{typed}, true); err != nil {
		t.Fatal(err)
	}
	p.want("COPAL.STREAM GET typed", `[0 ["m" "\x02"]]`)

	p.do("XADD damaged 1-1 f needle1-1")
	p.do("XADD damaged 1-2 f needle1-2")
	p.do("XADD damaged 1-3 f needle1-3")
	if err := s.DB.Sync(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(logs[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("N"), int64(bytes.Index(text, []byte("needle1-2")))); err != nil {
		t.Fatal(err)
	}
	for _, begin := range []string{"", "COPAL.BEGIN SNAPSHOT", "COPAL.BEGIN"} {
		if begin != "" {
			p.do(begin)
		}
		if reply := p.do("COPAL.STREAM GET damaged"); !strings.Contains(reply, "checksum") {
			t.Errorf("%q: %s", begin, reply)
		}
		if begin != "" {
			p.want("COPAL.ROLLBACK", "OK")
		}
	}
}
