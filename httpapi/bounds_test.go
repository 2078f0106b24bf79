package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/internal/turns"
)

// A value is parsed once for each level of names, however many conditions there are, and the work can be ended there.
func TestFiltersAreBounded(t *testing.T) {
	where := func(n int, text string) string { return strings.Repeat("&where="+text, n)[1:] }
	p := newPeer(t)
	p.want(`PUT /v1/maps/m/a`+"\n\n"+`{"a":{"b":{"c":1,"d":"x"}}}`, "201")
	names := strings.Repeat("a.", mostFilterNames)
	for query, answer := range map[string]string{
		where(mostFilters+1, "z=1"):                     `400 bad-request "101 filters; the limit is 100"`,
		"where=z=" + strings.Repeat("x", 2*heldBytes):   `400 bad-request "where has 2097154 bytes; the limit is 8192"`,
		"where=" + names + "b=1":                        `400 bad-request "where=` + names + `b=1 has 17 names of fields; the limit is 16"`,
		where(mostFilters, "a.b.c=1") + "&reverse=true": "200 1",
		where(mostFilters-1, "z!=1") + "&where=a.b.d>w": "200 1",
	} {
		got := p.do("GET /v1/maps/m?" + query)
		if got[:3] != "200" {
			p.want("GET /v1/maps/m?"+query, answer)
		} else if n := strings.Count(got, `"key"`); fmt.Sprint("200 ", n) != answer {
			t.Errorf("%.80s: %s", query, got)
		}
	}
	var list []string
	for i := range mostFilters {
		list = append(list, fmt.Sprintf("a.b.c!=%d", i))
	}
	f, err := parseFilters(list)
	if err != nil {
		t.Fatal(err)
	}
	calls, ended := 0, errors.New("ended")
	value := []byte(`{"a":{"b":{"c":true}}}`)
	if has, err := f.selects(func() error { calls++; return nil }, value); !has || err != nil || calls != 4 {
		t.Errorf("%v, %v, and it was parsed %d times", has, err, calls)
	}
	if _, err := f.selects(func() error { return ended }, value); err != ended {
		t.Error(err)
	}
}

// Numbers in different spellings, strings with escapes, and other JSON with blanks are compared by their values.
func TestOperands(t *testing.T) {
	for _, c := range []struct {
		value, where string
		holds        bool
	}{
		{`{"a":1e2}`, `a=100`, true}, {`{"a":"1e2"}`, `a="100"`, false}, {`{"a":"\u0078"}`, `a=x`, true},
		{`{"a":[1, 2]}`, `a=[1,2]`, true}, {`{"a":[1, 2]}`, `a<[1,3]`, false}, {`{"a":""}`, `a=`, true}, {`{"a":""}`, `a!=`, false},
		{`{"a":null}`, `a=null`, true}, {`{}`, `a=null`, false}, {`{}`, `a!=null`, true}, {`[1]`, `a!=1`, true}, {`{"a":1}`, `a.b!=1`, true},
		{`{"a":1,"a":2}`, `a=2`, true}, {`{"a":"1"}`, `a=1`, false}, {`{"a":1e99999}`, `a=1e99999`, true}, {`{"a":1e99999}`, `a>1`, false}, {`no JSON`, `a!=1`, false},
	} {
		f, err := parseFilters([]string{c.where})
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := f.selects(func() error { return nil }, []byte(c.value)); holds != c.holds || err != nil {
			t.Errorf("%s of %s: %v, %v", c.where, c.value, holds, err)
		}
	}
}

// Work ends when its client has gone.
func TestWorkEndsWithItsClient(t *testing.T) {
	p := newPeer(t)
	p.want("PUT /items\n\n"+`{"id":"a","value":1}`, `201 {"status":"OK"}`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, request := range []string{
		"GET /v1/maps/items", "GET /v1/maps/items\nAccept: application/x-ndjson", "GET /items", "GET /v1/maps/items?where=a!=1",
		"POST /v1/tx\n\n" + `{"operations":[{"op":"put","map":"m","key":"a","value":1}]}`, "PATCH /v1/maps/m/a\n\n{}", "POST /v1/maps/m/a/add",
	} {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("%s: %v", request, got)
				}
			}()
			w := httptest.NewRecorder()
			p.h.ServeHTTP(w, asked(request).WithContext(gone))
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}()
	}
	p.want("GET /v1/maps/m/a", `404 not-found "the key has no entry"`)
	if s := p.db.Stats(); s.Snapshots != 0 {
		t.Errorf("%d snapshots are left", s.Snapshots)
	}
}

// two are users with a map each.
func two(t *testing.T) Option {
	return WithAccess(users(t, access.User{Name: "alice", Tokens: []string{access.Hash("alice")}, Write: []string{"a"}},
		access.User{Name: "bob", Tokens: []string{access.Hash("bob")}, Write: []string{"b"}}))
}

// Requests that are too large for all memory are refused, and give back their memory.
func TestRequestsShareMemory(t *testing.T) {
	p := newPeer(t, WithMaxMemory(4*heldBytes))
	memory := p.h.(*handler).memory
	text := `"` + strings.Repeat("x", heldBytes/2-2) + `"`
	p.want("PUT /v1/maps/m/a\n\n"+text, "201")
	p.want("GET /v1/maps/m/a", "200 "+text)
	p.want("GET /v1/maps/m?where=z!=1", "200 "+strings.TrimPrefix(p.do("GET /v1/maps/m"), "200 "))
	for range 8 {
		p.want("PATCH /v1/maps/m/a\n\n"+text, "200 "+text)
	}
	deep := strings.Repeat(`{"a":`, 99) + "1" + strings.Repeat("}", 99)
	var wide strings.Builder
	wide.WriteString(`{"0":0`)
	for i := range 50_000 {
		fmt.Fprintf(&wide, `,"%d":0`, i)
	}
	for _, request := range []string{
		"PUT /v1/maps/m/b\nContent-Type: application/json\n\n" + strings.Repeat(" ", 5*heldBytes) + "1",
		"PUT /items\n\n" + `{"id":"b","value":"` + strings.Repeat("x", 5*heldBytes) + `"}`,
		"PATCH /v1/maps/m/b\n\n" + wide.String() + "}",
		"POST /v1/tx\n\n" + `{"operations":[` + strings.Repeat(`{"op":"add","map":"m","key":"n"},`, 9000) + `{"op":"get","map":"m","key":"a"}]}`,
		"POST /v1/maps/m\n\n" + `{"key":"b","value":"` + strings.Repeat("x", 5*heldBytes) + `"}`,
	} {
		if got := p.do(request, "Retry-After")[:3]; got != "413" && got != "503" {
			t.Errorf("%.60s: %s", request, got)
		}
		if n := memory.Used(); n != 0 {
			t.Errorf("%.60s: %d bytes are in use", request, n)
		}
	}
	p.want("GET /v1/maps/m/b", `404 not-found "the key has no entry"`)
	p.want("PATCH /v1/maps/m/d\n\n"+deep, "200 "+deep)
}

// The request with most memory ends for another user, and none for a request of the same.
func TestTheLargestGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		half := strings.Repeat(" ", heldBytes/2)
		c := l.dial()
		first := make(chan string)
		go func() {
			first <- answerTo(t, c, fmt.Sprintf("PUT /v1/maps/a/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", heldBytes, half+half[:heldBytes/4]))
		}()
		synctest.Wait()
		p.want("PUT /v1/maps/b/small\nAuthorization: Bearer bob\n\n1", "201")
		began := time.Now()
		p.want("PUT /v1/maps/b/b\nAuthorization: Bearer bob\nContent-Type: application/json\n\n1"+half, "201")
		if got := <-first; got != "HTTP/1.1 503 Service Unavailable" || time.Since(began) != 0 {
			t.Errorf("%s, after %v", got, time.Since(began))
		}
		c.Close()
	}, two(t), WithMaxMemory(heldBytes+heldBytes/4))
}

// reader asks for something and reads the first line of the answer, and no more.
func reader(t *testing.T, l *pipes, token, path string) (net.Conn, string) {
	t.Helper()
	c := l.dial()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n", path, token); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, strings.TrimSpace(line)
}

// The moments of one user leave one for another.
func TestMomentsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for _, name := range []string{"a", "b"} {
			p.want("PUT /v1/maps/"+name+"/k\nContent-Type: text/plain\nAuthorization: Bearer "+map[string]string{"a": "alice", "b": "bob"}[name]+"\n\n"+strings.Repeat("x", 16*heldBytes), "201")
		}
		at := "?at=" + fmt.Sprint(p.h.(*handler).db.Stats().Records)
		var slow []net.Conn
		for range mostMoments {
			c, first := reader(t, l, "alice", "/v1/maps/a/k"+at)
			if slow = append(slow, c); first != "HTTP/1.1 200 OK" {
				t.Fatal(first)
			}
		}
		p.want("GET /v1/maps/a/k"+at+"\nAuthorization: Bearer alice", `503 unavailable "4 moments of the past are open already"`)
		for range 2 {
			c, first := reader(t, l, "bob", "/v1/maps/b/k"+at)
			if slow = append(slow, c); first != "HTTP/1.1 200 OK" {
				t.Fatal(first)
			}
		}
		p.want("GET /v1/maps/b/k"+at+"\nAuthorization: Bearer bob", `503 unavailable "4 moments of the past are open already"`)
		whole := 0
		for _, c := range slow {
			if n, _ := io.Copy(io.Discard, c); n > 16*heldBytes {
				whole++
			}
			c.Close()
		}
		if synctest.Wait(); whole != mostMoments || p.db.Stats().Snapshots != 0 {
			t.Errorf("%d were answered, %d snapshots are left", whole, p.db.Stats().Snapshots)
		}

		// A reader of some bytes now and then does not have one for ever.
		c, _ := reader(t, l, "alice", "/v1/maps/a/k"+at)
		began, b := time.Now(), make([]byte, 2*sentBytes)
		for err := error(nil); err == nil; _, err = io.ReadFull(c, b) {
			time.Sleep(25 * time.Second)
		}
		if lasted := time.Since(began); lasted < longestMoment || lasted > longestMoment+time.Minute {
			t.Errorf("it lasted %v", lasted)
		}
		c.Close()
	}, two(t))
}

// Streams of changes are shared, too.
func TestStreamsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		var list []net.Conn
		open := func(token, path string) string {
			c, first := reader(t, l, token, path)
			list = append(list, c)
			go io.Copy(io.Discard, c)
			return first
		}
		for range mostStreams {
			if first := open("alice", "/v1/maps/a/changes"); first != "HTTP/1.1 200 OK" {
				t.Fatal(first)
			}
		}
		p.want("GET /v1/maps/a/changes\nAuthorization: Bearer alice", `503 unavailable "1000 streams of changes are open already"`)
		if first := open("bob", "/v1/maps/b/changes"); first != "HTTP/1.1 200 OK" {
			t.Error(first)
		}
		synctest.Wait()
		if n := p.h.(*handler).streams.open.Load(); n != mostStreams {
			t.Errorf("%d streams are open", n)
		}
		for _, c := range list {
			c.Close()
		}
	}, two(t))
}

// A body that comes a byte at a time is one that stops. That of a probe, or of a client without a token, is not read.
func TestSlowBodies(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for _, c := range []struct {
			first, token, answer string
			longest              time.Duration
		}{
			{"PUT /v1/maps/a/k", "alice", "HTTP/1.1 400 Bad Request", 40 * time.Second},
			{"PATCH /v1/maps/a/k", "alice", "HTTP/1.1 400 Bad Request", 40 * time.Second},
			{"GET /v1/maps/a", "alice", "HTTP/1.1 400 Bad Request", 40 * time.Second},
			{"PUT /v1/maps/b/k", "alice", "HTTP/1.1 403 Forbidden", 40 * time.Second},
			{"PUT /v1/maps/a/k", "none", "HTTP/1.1 401 Unauthorized", 0},
			{"GET /v1/maps/a", "none", "HTTP/1.1 401 Unauthorized", 0},
			{"GET /nothing", "none", "HTTP/1.1 401 Unauthorized", 0},
			{"GET /livez", "none", "HTTP/1.1 200 OK", 0},
			{"GET /readyz", "alice", "HTTP/1.1 200 OK", 0},
		} {
			conn := l.dial()
			began := time.Now()
			sent := make(chan bool)
			go func() {
				defer close(sent)
				fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n", c.first, c.token)
				for {
					if _, err := conn.Write([]byte{' '}); err != nil {
						return
					}
					time.Sleep(7 * time.Second)
				}
			}()
			in := bufio.NewReader(conn)
			first, err := in.ReadString('\n')
			if waited := time.Since(began); strings.TrimSpace(first) != c.answer || waited > c.longest {
				t.Errorf("%s by %s: %s after %v, %v", c.first, c.token, strings.TrimSpace(first), waited, err)
			}
			io.Copy(io.Discard, in)
			if waited := time.Since(began); waited > c.longest+time.Second {
				t.Errorf("%s by %s: the connection is closed after %v", c.first, c.token, waited)
			}
			conn.Close()
			<-sent
		}
	}, two(t))
}

// A bulk of lines takes turns with others. It has no turn while it waits for lines.
func TestBulksTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // for which there is one turn
	inBubble(t, func(t *testing.T, _ *pipes, p *peer) {
		var other turns.Turn
		other.Begin("other")
		other.Long(t.Context())
		began, lines := time.Now(), 0
		r := asked("POST /v1/maps/m\n\n")
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if lines++; lines > 3 {
				return 0, io.EOF
			}
			time.Sleep(2 * time.Millisecond)
			if lines > 1 {
				var another turns.Turn
				asked := time.Now()
				if another.Long(t.Context()); time.Since(asked) > 0 {
					t.Error("the bulk has a turn while it reads")
				}
				another.End()
			}
			return copy(b, fmt.Appendf(nil, `{"key":"%d","value":1}`+"\n", lines)), nil
		}))
		w := httptest.NewRecorder()
		go func() {
			time.Sleep(20 * time.Millisecond)
			other.End()
		}()
		p.h.ServeHTTP(w, r)
		if took := time.Since(began); w.Code != http.StatusOK || took < 20*time.Millisecond || took > 40*time.Millisecond {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

// A body without a length is refused beyond the limit. It is not cut there, whatever its first part would mean.
func TestBodiesAreNotCut(t *testing.T) {
	const limit = 1 << 10
	p := newPeer(t, WithMaxBody(limit))
	p.want("PUT /v1/maps/m/a\n\n{}", "201")
	bodies := map[string]string{
		"PATCH /v1/maps/m/a": `{"x":1}`, "PUT /v1/maps/m/b": `1`, "PUT /items": `{"id":"a","value":1}`,
		"POST /v1/tx": `{"operations":[{"op":"put","map":"m","key":"c","value":1}]}`,
	}
	for _, more := range []int{limit, 1, 0} {
		for first, text := range bodies {
			r := asked(first + "\nContent-Type: application/json\n\n" + text + strings.Repeat(" ", limit-len(text)+more))
			r.ContentLength = -1
			w := httptest.NewRecorder()
			p.h.ServeHTTP(w, r)
			if w.Code == http.StatusRequestEntityTooLarge != (more > 0) || more == 0 && w.Code >= 300 {
				t.Errorf("%s, %d bytes beyond the limit: %d %s", first, more, w.Code, w.Body)
			}
		}
		if n := p.db.Raw().Len(); more > 0 && n != 1 {
			t.Errorf("%d entries are written by bodies that were refused", n-1)
		}
	}
}

// Lines of which no entry is kept are not charged for as long as the bulk lasts, and a bulk that is refused leaves
// the refusals of others as they are.
func TestBulksOfLinesThatAreNotKept(t *testing.T) {
	p := newPeer(t, WithMaxMemory(2<<20))
	for name, line := range map[string]string{
		"expired": `{"key":"k","value":"` + strings.Repeat("x", 1000) + `","expires":"2001-01-01T00:00:00Z"}`,
		"bad":     `{"key":"k","value":"` + strings.Repeat("x", 1000) + `","content":"nonsense"}`,
		"comment": `{"copal":1,"x":"` + strings.Repeat("x", 1000) + `"}`,
	} {
		if got := p.do("POST /v1/maps/m\n\n" + strings.Repeat(line+"\n", 8000)); !strings.HasPrefix(got, "200") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	for range 2 {
		got := p.do("POST /v1/maps/m\n\n"+`{"key":"k","value":"`+strings.Repeat("x", 3<<20)+`"}`, "Retry-After")
		if !strings.HasPrefix(got, "503") || strings.Count(got, "entries written before it") != 1 {
			t.Errorf("a line that is too long: %.300s", got)
		}
	}
}
