package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

// users are those that a handler asks for.
func users(t *testing.T, list ...access.User) *access.Users {
	t.Helper()
	u, err := access.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestOneAuthorization: with two headers, a proxy and the server might believe different ones.
func TestOneAuthorization(t *testing.T) {
	p := newPeer(t, WithAccess(users(t, access.Password("all"))))
	const refused = `400 bad-request "a request has at most one Authorization header"`
	for _, two := range []string{"Bearer all\nAuthorization: Bearer all", "Bearer all\nauthorization: Basic OmFsbA==", "Bearer none\nAuthorization: Bearer all", "\nAuthorization: Bearer all"} {
		p.want("PUT /v1/maps/m/k\nAuthorization: "+two+"\n\n1", refused)
		p.want("GET /livez\nAuthorization: "+two, refused)
	}
	p.want("PUT /v1/maps/m/k\nAuthorization: Bearer all\n\n1", "201")
}

// Wrong tokens of an address are answered later and later, whatever the route. Probes and right tokens do not wait.
func TestWrongTokensTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, WithAccess(users(t, access.Password("all"))))
		took := func(text, answer string) time.Duration {
			t.Helper()
			began := time.Now()
			p.want(text, answer)
			return time.Since(began)
		}
		const wrong = `401 unauthorized "the token is missing, or belongs to no user"`
		for n := range 10 {
			if d := took(fmt.Sprintf("GET /v1/maps/m/k\nAuthorization: Bearer %d", n), wrong); d != 0 {
				t.Errorf("wrong token %d takes %v", n, d)
			}
		}
		for _, text := range []string{"GET /v1/maps/m/k\nAuthorization: Bearer x", "GET /nowhere\nAuthorization: Bearer x", "GET /v1/maps\nAuthorization: Basic OmZhbHNl"} {
			if d := took(text, wrong); d != time.Second {
				t.Errorf("%s takes %v", text, d)
			}
		}
		for text, status := range map[string]string{"GET /livez\nAuthorization: Bearer x": "200", "GET /v1/maps\nAuthorization: Bearer all": "200", "GET /v1/maps": "401"} {
			began := time.Now()
			if got := p.do(text); !strings.HasPrefix(got, status) || time.Since(began) != 0 {
				t.Errorf("%s: %s after %v", text, got, time.Since(began))
			}
		}
		var late sync.WaitGroup
		defer late.Wait()
		for range 8 {
			late.Go(func() { p.h.ServeHTTP(httptest.NewRecorder(), asked("GET /v1/maps\nAuthorization: Bearer x")) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, asked("GET /v1/maps\nAuthorization: Bearer all"))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("amid guesses: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	})
}

// Each route is closed to those without a token, and but for a few to those without a right.
func TestEachRouteNeedsARight(t *testing.T) {
	// A wrong token is slowed down: the time of a bubble jumps.
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, WithAccess(users(t, access.Password("all"),
			access.User{Name: "none", Tokens: []string{access.Hash("none")}, Read: []string{"other"}, Write: []string{"another"}},
			access.User{Name: "reader", Tokens: []string{access.Hash("reader")}, Read: []string{access.All}})))
		p.want("PUT /v1/maps/m/k\nAuthorization: Bearer all\n\n1", "201")
		p.want("PUT /v1/maps/other/k\nAuthorization: Bearer all\n\n1", "201")
		open := map[string]bool{"/livez": true, "/readyz": true, "/healthz": true}
		known := map[string]bool{"/": true, "/v1/maps": true, "/metrics": true, "/version": true, "/openapi.json": true}
		for i := range routes {
			r := &routes[i]
			path := strings.NewReplacer("{map}", "m", "{key}", "k", "{id}", "k").Replace(r.path)
			body := ""
			switch {
			case r.path == "/v1/tx":
				body = `{"operations":[{"op":"get","map":"other","key":"k"},{"op":"put","map":"m","key":"k","value":2}]}`
			case r.group == "Changes":
				r := httptest.NewRequest(r.method, path, nil)
				r.Header.Set("Authorization", "Bearer none")
				w := httptest.NewRecorder()
				if p.h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
					t.Errorf("%s: %d", path, w.Code)
				}
				continue
			case r.method == "PUT" || r.method == "POST":
				body = "1"
			}
			status := func(token string) string {
				header := ""
				if token != "" {
					header = "\nAuthorization: Bearer " + token
				}
				return p.do(r.method + " " + path + header + "\n\n" + body)[:3]
			}
			want := map[string]string{"": "401", "wrong": "401", "none": "403", "reader": "403"}
			if r.method == "GET" {
				delete(want, "reader")
			}
			if known[r.path] || open[r.path] {
				want["none"] = "200"
			}
			if open[r.path] {
				want[""], want["wrong"] = "200", "200"
			}
			for token, want := range want {
				if got := status(token); got != want {
					t.Errorf("%s %s by %q: %s, and not %s", r.method, path, token, got, want)
				}
			}
			if got := status("reader"); r.method == "GET" && (got == "401" || got == "403") {
				t.Errorf("%s %s by a reader: %s", r.method, path, got)
			}
		}
		p.want("GET /v1/maps/m/k\nAuthorization: Bearer all", "200 1")
		p.want("GET /nowhere", `401 unauthorized "the token is missing, or belongs to no user"`)
	})
}

func TestRightsByMap(t *testing.T) {
	p := newPeer(t, WithAccess(users(t, access.Password("all"),
		access.User{Name: "shop", Tokens: []string{access.Hash("shop")}, Read: []string{"prices", "items"}, Write: []string{"orders"}})))
	as := func(token, request string) string {
		first, rest, _ := strings.Cut(request, "\n")
		return first + "\nAuthorization: Bearer " + token + "\n" + rest
	}
	for _, c := range []struct{ request, answer string }{
		{as("all", "PUT /v1/maps/prices/a\n\n1"), "201"},
		{as("all", "PUT /v1/maps/secrets/a\n\n1"), "201"},
		{as("all", "PUT /items\n\n"+`{"id":"a","value":1}`), `201 {"status":"OK"}`},
		{as("shop", "GET /v1/maps/prices/a"), "200 1"},
		{as("shop", "PUT /v1/maps/prices/a\n\n2"), `403 forbidden "shop has no right to write the map prices"`},
		{as("shop", "PUT /v1/maps/orders/a\n\n2"), "201"},
		{as("shop", "GET /v1/maps/orders/a"), "200 2"},
		{as("shop", "GET /v1/maps/secrets/a"), `403 forbidden "shop has no right to read the map secrets"`},
		{as("shop", "GET /v1/maps"), `200 {"maps":[{"name":"items","entries":1},{"name":"orders","entries":1},{"name":"prices","entries":1}]}`},
		{as("shop", "DELETE /items"), `403 forbidden "shop has no right to write the map items"`},
		{as("shop", "GET /v1/changes"), `403 forbidden "shop has no right to read all maps"`},
		{as("shop", "POST /v1/tx\n\n"+`{"operations":[{"op":"get","map":"prices","key":"a"},{"op":"delete","map":"prices","key":"a"}]}`),
			`403 forbidden "shop has no right to write the map prices","operation":1`},
		{as("shop", "POST /v1/tx\n\n"+`{"operations":[{"op":"put","map":"orders","key":"b","value":1},{"op":"add","map":"orders","key":"n"}]}`),
			`200 {"results":[{"status":201},{"status":200,"value":1}]}`},
	} {
		p.want(c.request, c.answer)
	}
}

// A stream of changes ends when its user gets other rights, and says nothing of other maps.
func TestStreamEndsWithTheRight(t *testing.T) {
	u := users(t, access.Password("all"), access.User{Name: "reader", Tokens: []string{access.Hash("reader")}, Read: []string{"m"}})
	p := newPeer(t, WithAccess(u))
	server := httptest.NewServer(p.h)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/maps/m/changes?since=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer reader")
	r.Header.Set("Accept", typeLines)
	answer, err := server.Client().Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	defer answer.Body.Close()
	secret := p.db.Raw().Hash([]byte("secret:1"))
	if err := secret.Set("f", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := secret.Rename("m:1"); err != nil {
		t.Fatal(err)
	}
	p.want("PUT /v1/maps/m/k\nAuthorization: Bearer all\n\n1", "201")
	var text strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(text.String(), `"key":"k"`) {
		n, err := answer.Body.Read(buf)
		if text.Write(buf[:n]); err != nil {
			t.Fatal(text.String(), err)
		}
	}
	if strings.Contains(text.String(), "secret") || !strings.Contains(text.String(), `"key":"1"`) {
		t.Error(text.String())
	}
	if err := u.Set(access.Password("all")); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = answer.Body.Read(buf)
	}
	if ctx.Err() != nil {
		t.Error("the stream did not end")
	}
}

// Users may choose the same Idempotency-Key, and one who only reads writes nothing by it.
func TestIdempotencyByUser(t *testing.T) {
	of := func(name string) access.User {
		return access.User{Name: name, Tokens: []string{access.Hash(name)}, Write: []string{"n"}}
	}
	p := newPeer(t, WithAccess(users(t, of("a"), of("b"), access.Password("all"), access.User{Name: "reader", Tokens: []string{access.Hash("reader")}, Read: []string{"n"}})))
	for _, token := range []string{"a", "b", "a"} {
		p.do("POST /v1/maps/n/x/add\nIdempotency-Key: 1\nAuthorization: Bearer " + token + "\n\n")
	}
	p.want("GET /v1/maps/n/x\nAuthorization: Bearer all", "200 2")
	for _, user := range []string{"a", "b"} {
		p.want("DELETE /v1/maps/http:replies:"+user+"?all=true\nAuthorization: Bearer all", "204")
	}
	p.want("POST /v1/tx\nIdempotency-Key: 1\nAuthorization: Bearer reader\n\n"+`{"operations":[{"op":"get","map":"n","key":"none","if_none_match":"*"}]}`, `404 not-found "the key has no entry","operation":0`)
	p.do("POST /v1/tx\nIdempotency-Key: 1\nAuthorization: Bearer reader\n\n" + `{"operations":[{"op":"get","map":"n","key":"x"}]}`)
	for key := range p.db.Raw().All() {
		if string(key) != "n:x" {
			t.Errorf("a user who may read alone has written %s", key)
		}
	}
}

// A user with all the answers that are kept for it is refused, and no other is. Its earlier requests are answered
// again, and nothing is evicted. Its requests count again when answers have been removed, by an administrator or by
// their deadline, and over another start of the server.
func TestRepliesOfAUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(name string) access.User {
			return access.User{Name: name, Tokens: []string{access.Hash(name)}, Write: []string{"n"}}
		}
		list := users(t, of("a"), of("b"), access.Password("all"))
		p := newPeer(t, WithAccess(list), func(h *handler) { h.most = 3 })
		add := func(user, key string) string {
			return p.do("POST /v1/maps/n/"+user+"/add\nIdempotency-Key: "+key+"\nAuthorization: Bearer "+user+"\n\n", "Idempotency-Replayed", "Retry-After")
		}
		want := func(user, key, answer string) {
			t.Helper()
			if got := add(user, key); !strings.HasPrefix(got, answer) {
				t.Errorf("%s of %s: %s, and not %s", key, user, got, answer)
			}
		}
		for n := range 3 {
			want("a", fmt.Sprint(n), fmt.Sprintf("200 Idempotency-Replayed= Retry-After= %d", n+1))
			time.Sleep(time.Hour)
		}
		const refused = "429 Idempotency-Replayed= Retry-After=60 "
		for _, first := range []string{"POST /v1/maps/n/a/add", "PUT /v1/maps/n/a", "DELETE /v1/maps/n/a", "PATCH /v1/maps/n/a", "POST /v1/tx"} {
			body := `{"operations":[{"op":"delete","map":"n","key":"a"}]}`
			if strings.HasSuffix(first, "/add") || strings.HasPrefix(first, "DELETE") {
				body = ""
			}
			p.want(first+"\nIdempotency-Key: 4\nAuthorization: Bearer a\n\n"+body, `429 too-many-requests "a has 3 answers that are kept for an Idempotency-Key, each for 24h0m0s"`)
		}
		p.want("GET /v1/maps/n/a\nAuthorization: Bearer a", "200 3")
		p.want("PUT /v1/maps/n/other\nAuthorization: Bearer a\n\n1", "201")
		want("a", "0", "200 Idempotency-Replayed=true Retry-After= 1")
		p.want("POST /v1/maps/n/b/add\nIdempotency-Key: 0\nAuthorization: Bearer a\n\n", `422 idempotency-key-reused "the key was used for another request within the last 24h0m0s"`)
		want("b", "0", "200 Idempotency-Replayed= Retry-After= 1")
		for n := range 5 { // may write everything
			want("all", fmt.Sprint(n), fmt.Sprintf("200 Idempotency-Replayed= Retry-After= %d", n+1))
		}
		p.h = Handler(p.db, WithAccess(list), func(h *handler) { h.most = 3 })
		want("a", "4", refused)
		time.Sleep(repliesStay - 3*time.Hour + time.Millisecond) // the first has been removed
		want("a", "4", "200 Idempotency-Replayed= Retry-After= 4")
		want("a", "5", refused)
		want("a", "0", refused) // and would be carried out again
		p.want("DELETE /v1/maps/http:replies:a?prefix=4\nAuthorization: Bearer all", "204")
		want("a", "5", "200 Idempotency-Replayed= Retry-After= 5")
		want("a", "4", refused)
	})
}

// A long answer is not kept, and its operations are not carried out.
func TestLongAnswersAreNotKept(t *testing.T) {
	p := newPeer(t)
	p.want("PUT /v1/maps/n/x\n\n\""+strings.Repeat("x", mostAnswer)+"\"", "201")
	p.want(`POST /v1/tx`+"\nIdempotency-Key: 1\n\n"+`{"operations":[{"op":"get","map":"n","key":"x"},{"op":"put","map":"n","key":"y","value":1}]}`,
		`413 too-large "an answer of more than 65536 bytes is not kept for an Idempotency-Key"`)
	p.want("GET /v1/maps/n/y", `404 not-found "the key has no entry"`)
}

// Uploads and listings end when their user has gone.
func TestRequestsEndWithTheRight(t *testing.T) {
	list := []access.User{access.Password("all"), {Name: "w", Tokens: []string{access.Hash("w")}, Write: []string{"m"}}}
	u := users(t, list...)
	p := newPeer(t, WithAccess(u))
	server := httptest.NewServer(p.h)
	defer server.Close()
	ask := func(method, path, kind string, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer w")
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept", typeLines)
		return server.Client().Do(r)
	}
	for path, c := range map[string]struct{ method, kind, first, late string }{
		"/v1/maps/m":     {"POST", typeLines, `{"key":"first","value":1}` + "\n", `{"key":"late","value":1}` + "\n"},
		"/v1/maps/m/big": {"PUT", typeBytes, strings.Repeat("a", 2<<20), strings.Repeat("b", 2<<20)},
	} {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, c.first)
			u.Set(list[0])
			io.WriteString(w, c.late) // some of which may be read already
			io.WriteString(w, c.late)
			w.Close()
		}()
		answer, err := ask(c.method, path, c.kind, r)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized {
				t.Error(path, answer.Status)
			}
		}
		r.Close()
		if err := u.Set(list...); err != nil {
			t.Fatal(err)
		}
	}
	if p.db.Raw().Has([]byte("m:big")) {
		t.Error("a value was written whose end came when the user had gone")
	}
	for i := range 400 {
		if err := p.db.Raw().Set(fmt.Appendf(nil, "m:%04d", i), bytes.Repeat([]byte("x"), 100<<10)); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := ask("GET", "/v1/maps/m", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	in := bufio.NewReader(answer.Body)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := u.Set(list[0]); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, in); err == nil {
		t.Errorf("all of it came, %d bytes", n)
	}
}

// No request of a user with rights to one map shows or changes another map, by any route.
func TestNoRouteReachesAnotherMap(t *testing.T) {
	p := newPeer(t, WithAccess(users(t, access.Password("all"), access.User{Name: "mallory", Tokens: []string{access.Hash("mallory")}, Write: []string{"m"}})))
	as := func(user, first, body string) string {
		return p.do(first + "\nAuthorization: Bearer " + user + "\nContent-Type: application/json\nIdempotency-Key: SECRET\n\n" + body)
	}
	for _, name := range []string{"other", "m2", "M", "items", "http:replies"} {
		p.want("PUT /v1/maps/"+name+"/SECRETkey\nAuthorization: Bearer all\n\n"+`{"a":"SECRETvalue"}`, "201")
	}
	as("all", "POST /v1/maps/other/n/add", "")
	as("mallory", "PUT /v1/maps/m/own", "1")
	if err := p.db.Raw().Set([]byte("SECRETraw"), []byte("SECRET")); err != nil {
		t.Fatal(err)
	}
	all := func() (list []string) {
		for key, value := range p.db.Raw().All() {
			if !bytes.HasPrefix(key, copal.MapPrefix("m")) && !bytes.HasPrefix(key, copal.MapPrefix(repliesOf("mallory"))) {
				list = append(list, fmt.Sprintf("%q %q", key, value))
			}
		}
		return list
	}
	before := all()
	names := []string{"m", "other", "m2", "M", "items", "http:replies", "http:replies:mallory", "http%3Areplies", "m%2F..%2Fother", "m%3A", "", "%00", "m%2F", ".", "..", "*"}
	keys := []string{"own", "SECRETkey", "SECRETraw", "..%2Fother%2FSECRETkey", "%2e%2e", "", "changes", "other:SECRETkey", "%00", "n"}
	queries := []string{"", "?all=true", "?prefix=&to=~", "?prefix=../other:", "?from=other:&to=z", "?key=SECRETkey", "?id=SECRETkey", "?where=a!=1", "?at=1", "?cursor=kU0VDUkVU", "?since=0"}
	bodies := []string{"", "1", `{"id":"SECRETkey","value":1}`, `{"key":"other:SECRETkey","value":1}`,
		`{"operations":[{"op":"get","map":"other","key":"SECRETkey"}]}`, `{"operations":[{"op":"put","map":"m","key":"k","value":1},{"op":"delete","map":"other","key":"SECRETkey"}]}`,
		`{"operations":[{"op":"get","map":"m:","key":"SECRETkey"},{"op":"add","map":"","key":"other:n"}]}`}
	n := 0
	for i := range routes {
		r := &routes[i]
		for _, name := range names {
			for _, key := range keys {
				path := strings.NewReplacer("{map}", name, "{key}", key, "{id}", key).Replace(r.path)
				for q, query := range queries {
					body := bodies[(n+q)%len(bodies)]
					if r.method == "GET" {
						body = ""
					}
					if r.method == "GET" && strings.HasSuffix(path, "/changes") { // which may have no end
						ctx, cancel := context.WithTimeout(t.Context(), 0)
						cancel()
						request := httptest.NewRequest(r.method, path+query, nil).WithContext(ctx)
						request.Header.Set("Authorization", "Bearer mallory")
						w := httptest.NewRecorder()
						func() {
							defer func() { recover() }()
							p.h.ServeHTTP(w, request)
						}()
						if strings.Contains(w.Body.String(), "SECRET") {
							t.Errorf("%s %s%s shows %s", r.method, path, query, w.Body)
						}
						continue
					}
					got := as("mallory", r.method+" "+path+query, body)
					n++
					// The error of a request may repeat its text.
					if status, text, _ := strings.Cut(got, " "); status < "300" && strings.Contains(text, "SECRET") && !strings.Contains(path, "/m/") && !strings.HasPrefix(path, "/v1/maps/m") || strings.Contains(got, "SECRETvalue") {
						t.Errorf("%s %s%s shows %s", r.method, path, query, got)
					}
				}
				if !strings.Contains(r.path, "{key}") && !strings.Contains(r.path, "{id}") {
					break
				}
			}
			if !strings.Contains(r.path, "{map}") {
				break
			}
		}
	}
	if after := all(); !slices.Equal(before, after) {
		t.Errorf("after %d requests\n%q\nwas\n%q", n, after, before)
	}
	t.Logf("%d requests", n)
}
