package redisapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/redisapi/internal/command"
)

// next reads changes until there are n of some, each without its time and number.
func (p *peer) next(n int) string {
	p.t.Helper()
	reply := p.do(fmt.Sprint("COPAL.FEED NEXT COUNT ", n, " BLOCK 0"))
	var out []string
	words := strings.Fields(reply)
	for i := 0; i < len(words); i++ {
		if name := strings.Trim(words[i], `["`); name == "time" || name == "seq" {
			i++
			if rest := strings.TrimLeft(words[i], "-0123456789"); rest != "" && len(out) > 0 {
				out[len(out)-1] += rest
			}
			continue
		}
		out = append(out, words[i])
	}
	return strings.Join(out, " ")
}

// A feed returns each change since OPEN once and in order, and waits for changes.
func TestFeedOfChanges(t *testing.T) {
	s, address := newServer(t)
	p, q := dial(t, address), dial(t, address)
	q.want("SET before 1", "OK")
	now, err := s.DB.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	p.want("COPAL.FEED OPEN OLD", fmt.Sprint(now.Seq()))
	now.Close()
	p.want("COPAL.FEED OPEN", "(error) ERR COPAL.FEED is open already")
	q.want("SET before 2", "OK")
	if got, want := p.next(1), `[["key" "before" "value" "2" "old" "1"]]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, c := range [][2]string{
		{"SET k v PXAT 9999999999999", `[["key" "k" "deadline" 9999999999999 "value" "v"]]`},
		{`SET k ""`, `[["key" "k" "value" "" "old" "v"]]`},
		{"DEL k", `[["key" "k" "deleted" 1 "old" ""]]`},
		{`COPAL.DELRANGE a "bytes c"`, `[["key" "a" "to" "c" "deleted" 1 "range" 1 "rest" "bytes c"]]`},
	} {
		q.do(c[0])
		if got := p.next(1); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	q.want("HSET h f v", "1")
	if got, want := p.next(9), `[["key" "h" "more" 1 "collection" "hash" "created" 1] ["key" "h" "collection" "hash" "element" "f" "value" "v"]]`; got != want {
		if got += p.next(9); strings.ReplaceAll(got, "]][[", "] [") != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	p.want("COPAL.FEED NEXT", "[]")
	p.want("COPAL.FEED CLOSE", "OK")
	p.want("COPAL.FEED CLOSE", "OK")
	p.want("COPAL.FEED NEXT", "(error) ERR COPAL.FEED is not open")
}

// AFTER and UNTIL bound a feed by sequence numbers. PREFIX and KEY restrict it to some keys.
func TestFeedBounds(t *testing.T) {
	s, address := newServer(t)
	p, q := dial(t, address), dial(t, address)
	for i := range 5 {
		q.do(fmt.Sprint("SET a:", i, " x"))
		q.do(fmt.Sprint("SET b:", i, " x"))
	}
	now, err := s.DB.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	last := now.Seq()
	now.Close()
	keys := func(open string) (keys []string) {
		t.Helper()
		p.do("COPAL.FEED OPEN " + open)
		defer p.want("COPAL.FEED CLOSE", "OK")
		for {
			reply := p.do("COPAL.FEED NEXT COUNT 3 BLOCK 0")
			if reply == "nil[]" {
				p.want("COPAL.FEED NEXT", "nil[]")
				return keys
			}
			if !strings.HasPrefix(reply, "[[") {
				t.Fatal(reply)
			}
			for _, each := range strings.Split(reply, `"key" "`)[1:] {
				key, _, _ := strings.Cut(each, `"`)
				keys = append(keys, key)
			}
		}
	}
	until := fmt.Sprint(" UNTIL ", last)
	for open, want := range map[string]string{
		"AFTER 0 PREFIX a:":                     "[a:0 a:1 a:2 a:3 a:4]",
		"AFTER 0 KEY b:3":                       "[b:3]",
		"AFTER 0 KEY none":                      "[]",
		fmt.Sprint("AFTER ", last-1):            "[b:4]",
		"PREFIX a:":                             "[]",
		fmt.Sprint("PREFIX a: AFTER ", last-4):  "[a:3 a:4]",
		fmt.Sprint("AFTER ", last, " IDLE 500"): "[]",
	} {
		if got := fmt.Sprint(keys(open + until)); strings.ReplaceAll(got, "b:2 ", "") != want {
			t.Errorf("%s: %s, want %s", open, got, want)
		}
	}
	for range 100 {
		q.want("SET a:0 y", "OK")
	}
	if err := s.DB.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p.do("COPAL.FEED OPEN AFTER 1")
	if got := p.do("COPAL.FEED NEXT BLOCK 0"); !strings.HasPrefix(got, "(error) HISTORYLOST ") {
		t.Error(got)
	}
	p.do("COPAL.FEED CLOSE")
	for words, reply := range map[string]string{
		"COPAL.FEED OPEN WRONG":                     string(command.ErrSyntax),
		"COPAL.FEED OPEN WRONG x":                   string(command.ErrSyntax),
		"COPAL.FEED OPEN AFTER":                     string(command.ErrSyntax),
		"COPAL.FEED OPEN AFTER -1":                  string(command.ErrPositive),
		"COPAL.FEED OPEN UNTIL x":                   string(command.ErrPositive),
		"COPAL.FEED OPEN KEY a KEY b":               string(command.ErrSyntax),
		"COPAL.FEED OPEN IDLE 99999999999999999999": string(command.ErrPositive),
	} {
		p.want(words, "(error) "+reply)
	}
	p.do("COPAL.FEED OPEN")
	for words, reply := range map[string]string{
		"COPAL.FEED NEXT COUNT 0":   string(command.ErrSyntax),
		"COPAL.FEED NEXT COUNT":     string(command.ErrSyntax),
		"COPAL.FEED NEXT BLOCK -1":  string(command.ErrPositive),
		"COPAL.FEED NEXT BLOCK x":   string(command.ErrPositive),
		"COPAL.FEED NEXT COUNT 1 x": string(command.ErrSyntax),
	} {
		p.want(words, "(error) "+reply)
	}
	p.want("COPAL.FEED NEXT COUNT 9223372036854775807 BLOCK 1", "[]")
}

// The server keeps about a MiB of changes for a client that does not read. The client gets all
// changes in the end.
func TestFeedOfSlowClient(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		p := dial()
		p.do("COPAL.FEED OPEN")
		const n = 20
		for i := range n {
			if err := s.DB.Raw().Set(fmt.Append(nil, i), make([]byte, 300<<10)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := 0; i < n; {
			reply := p.do("COPAL.FEED NEXT BLOCK 0")
			got := strings.Count(reply, `"key"`)
			if len(reply) < 100 || got > 3 {
				t.Fatalf("%d changes are kept: %.100s", got, reply)
			}
			for range got {
				if !strings.Contains(reply, fmt.Sprintf(`"key" "%d"`, i)) {
					t.Fatalf("change %d is missing", i)
				}
				i++
			}
		}
	})
}

// A client that waits for changes waits as one that waits for a key does: until its time has passed, and until it goes
// away, is killed, or the server shuts down. Nothing is left of it.
func TestFeedWaits(t *testing.T) {
	ends := map[string]func(s *Server, p, other *peer){
		"a change": func(_ *Server, p, other *peer) {
			other.want("SET k v", "OK")
			if reply := p.read(); !strings.Contains(reply, `"key" "k"`) {
				p.t.Error(reply)
			}
		},
		"the client is gone": func(_ *Server, p, _ *peer) { p.nc.Close() },
		"CLIENT KILL":        func(_ *Server, _, other *peer) { other.want("CLIENT KILL ID 1", "1") },
		"Shutdown": func(s *Server, _, _ *peer) {
			if err := s.Shutdown(context.Background()); err != nil {
				panic(err)
			}
		},
		"BLOCK": func(_ *Server, p, _ *peer) {
			time.Sleep(time.Minute) // of the bubble's clock
			p.wantNext("[]")
		},
		"the store is closed": func(s *Server, p, _ *peer) {
			if err := s.DB.Close(); err != nil {
				panic(err)
			}
			p.wantNext("(error) ERR the store is closed")
		},
		"a pause": func(_ *Server, p, other *peer) {
			other.want("CLIENT PAUSE 1000 ALL", "OK")
			time.Sleep(time.Second)
			synctest.Wait()
			other.want("SET k v", "OK")
			if reply := p.read(); !strings.Contains(reply, `"key" "k"`) {
				p.t.Error(reply)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			piped(t, func(t *testing.T, s *Server, dial func() *peer) {
				p, other := dial(), dial()
				p.do("COPAL.FEED OPEN")
				p.begin("COPAL.FEED NEXT COUNT 1 BLOCK 60000")
				end(s, p, other)
				synctest.Wait()
				if n := s.waiting.count.Load(); n != 0 {
					t.Errorf("%d clients wait", n)
				}
			})
		})
	}
}

// A feed shows a value that a program has stored in a typed map as JSON.
func TestFeedOfTypedMap(t *testing.T) {
	s, address := newServer(t)
	people, err := copal.OpenMap[string, person](s.DB, "people")
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, address)
	p.do("COPAL.FEED OPEN PREFIX people:")
	if err := people.Set("ada", ada); err != nil {
		t.Fatal(err)
	}
	if got, want := p.next(1), `[["key" "people:ada" "value" "{\"Name\":\"Ada\",\"Age\":36}"]]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
