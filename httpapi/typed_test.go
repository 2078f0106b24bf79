package httpapi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/codec"
)

type address struct{ City string }

type user struct {
	Name    string
	Age     int
	Address address
}

// A map of types is seen as JSON whatever its codec, and takes values that its type reads.
func TestTypedMaps(t *testing.T) {
	for _, c := range []codec.Codec{codec.JSON, codec.Binary} {
		t.Run(c.Name(), func(t *testing.T) {
			p := newPeer(t)
			users, err := copal.OpenMap[string, user](p.db, "users", copal.WithCodec(c))
			if err != nil {
				t.Fatal(err)
			}
			if err := users.Set("alice", user{"Alice", 28, address{"Bern"}}); err != nil {
				t.Fatal(err)
			}
			shown := `{"Name":"Alice","Age":28,"Address":{"City":"Bern"}}`
			p.want("GET /v1/maps/users/alice", "200 Content-Type=application/json "+shown, typeOf...)
			p.want("GET /v1/maps/users/alice\nRange: bytes=2-5", "206 Name")
			page := p.do("GET /v1/maps/users?where=Address.City=Bern&where=Age>=28&where=Name!=Bob")
			if !strings.Contains(page, `"value":`+shown) {
				t.Error(page)
			}
			p.want("PATCH /v1/maps/users/alice\n\n{\"Age\":29}", `200 {"Name":"Alice","Age":29,"Address":{"City":"Bern"}}`)
			if u, _ := users.Get("alice"); u.Age != 29 {
				t.Error(u)
			}
			p.want("PUT /v1/maps/users/bob\n\n{\"Name\":\"Bob\"}", "201")
			if u, _ := users.Get("bob"); u.Name != "Bob" {
				t.Error(u)
			}
			refused := func(request, field string) {
				t.Helper()
				got := p.do(request)
				if !strings.HasPrefix(got, "422 ") || !strings.Contains(got, `"field":"`+field+`"`) {
					t.Errorf("%s: %s, and the field is %s", request, got, field)
				}
			}
			refused("PUT /v1/maps/users/bob\n\n{\"Age\":\"old\"}", "Age")
			refused("PUT /v1/maps/users/bob\nIf-Match: *\n\n{\"Address\":{\"City\":3}}", "Address.City")
			refused("PATCH /v1/maps/users/bob\n\n{\"Address\":{\"City\":3}}", "Address.City")
			if got := p.do("PUT /v1/maps/users/bob\n\nplain text"); !strings.HasPrefix(got, "422 ") {
				t.Error(got)
			}
			if got := p.do("PUT /v1/maps/users/bob\nContent-Type: image/png\n\n" + strings.Repeat("x", heldBytes+1)); !strings.HasPrefix(got, "422 ") {
				t.Error(got)
			}
			if got := p.do("POST /v1/maps/users/bob/add"); !strings.HasPrefix(got, "409 ") {
				t.Error(got)
			}
			got := p.do("POST /v1/maps/users\n\n{\"key\":\"carol\",\"value\":{\"Age\":\"x\"}}\n{\"key\":\"dave\",\"value\":{\"Age\":1}}\n")
			if !strings.Contains(got, `"written":1,"expired":0,"failed":1,"errors":[{"line":1,`) {
				t.Error(got)
			}
			got = p.do("POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"users\",\"key\":\"eve\",\"value\":{}},{\"op\":\"put\",\"map\":\"users\",\"key\":\"x\",\"value\":3}]}")
			if !strings.HasPrefix(got, "422 ") || !strings.Contains(got, `"operation":1`) || users.Has("eve") {
				t.Error(got)
			}
			refused("PUT /items\n\n{\"id\":1,\"value\":3}", "id")
			if u, _ := users.Get("bob"); u.Name != "Bob" {
				t.Error(u)
			}
			// So it is when no program has the map open, and the door has written each of its values.
			if err := users.Close(); err != nil {
				t.Fatal(err)
			}
			for _, key := range slices.Collect(p.db.Raw().KeysBetween([]byte("users:"), []byte("users;"))) {
				name := strings.TrimPrefix(string(key), "users:")
				for _, request := range []string{"PUT /v1/maps/users/" + name + "\n\n{\"Name\":\"x\"}", "PATCH /v1/maps/users/" + name + "\n\n{\"Name\":\"Bob\"}"} {
					if got := p.do(request); got[0] != '2' {
						t.Errorf("%s: %s", request, got)
					}
				}
			}
			p.want("POST /v1/maps/users\n\n{\"key\":\"bob\",\"value\":{\"Name\":\"Bob\"}}\n", `200 {"written":1,"expired":0,"failed":0,"errors":[]}`)
			p.want("POST /v1/tx\n\n{\"operations\":[{\"op\":\"put\",\"map\":\"users\",\"key\":\"alice\",\"value\":{\"Name\":\"x\"}}]}", `200 {"results":[{"status":204}]}`)
			refused("PUT /v1/maps/users/bob\n\n{\"Address\":{\"City\":3}}", "Address.City")
			if got := p.do("GET /openapi.json"); !strings.Contains(got, `"City"`) {
				t.Error("the type is forgotten")
			}
			if users, err = copal.OpenMap[string, user](p.db, "users", copal.WithCodec(c)); err != nil {
				t.Fatal(err)
			}
			// A waiting write is visible, and its answer has a number.
			if err := users.SetAsync("frank", user{Name: "Frank"}); err != nil {
				t.Fatal(err)
			}
			if got := p.do("GET /v1/maps/users/frank", "Etag"); !strings.Contains(got, `"Name":"Frank"`) || strings.Contains(got, `Etag="0"`) || strings.Contains(got, "Etag= ") {
				t.Error(got)
			}
		})
	}
}

// Bytes stay the same, also if a program has a map of bytes.
func TestMapOfBytes(t *testing.T) {
	p := newPeer(t)
	files, err := copal.OpenMap[string, []byte](p.db, "files", copal.WithCodec(codec.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	p.want("PUT /v1/maps/files/a\nContent-Type: image/png\n\n\x89PNG", "201")
	if v, ok := files.Get("a"); string(v) != "\x89PNG" || !ok {
		t.Errorf("%q", v)
	}
	if err := files.Set("a", []byte("new")); err != nil {
		t.Fatal(err)
	}
	p.want("GET /v1/maps/files/a", "200 Content-Type=application/octet-stream new", typeOf...)
	p.want("PUT /v1/maps/files/a\nContent-Type: text/css\nCopal-TTL: 1h\n\nx{}", "204")
	if err := files.Expire("a", 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	p.want("GET /v1/maps/files/a", "200 Content-Type=text/css x{}", typeOf...)
	if err := files.With(copal.Async).Persist("a"); err != nil {
		t.Fatal(err)
	}
	p.want("GET /v1/maps/files/a", "200 Content-Type=text/css x{}", typeOf...)
	if got := p.do("GET /v1/maps/files/a", "Content-Security-Policy", "X-Content-Type-Options"); !strings.Contains(got, "=sandbox X-Content-Type-Options=nosniff") {
		t.Error(got)
	}
}

// A key that holds a collection is reported, and is deleted or replaced as a whole.
func TestCollections(t *testing.T) {
	p := newPeer(t)
	if err := p.db.Raw().Hash([]byte("m:h")).Set("f", []byte("v")); err != nil {
		t.Fatal(err)
	}
	p.want("GET /v1/maps/m/h", `409 conflict "the key holds a hash"`)
	p.want("PATCH /v1/maps/m/h\n\n{}", `409 conflict "the key holds a hash"`)
	p.want("PUT /v1/maps/m/h\nIf-None-Match: *\n\n1", `409 conflict "the key holds a hash"`)
	p.want("GET /v1/maps/m", `200 {"seq":`+strconv.FormatUint(seqNow(t, p.db), 10)+`,"entries":[]}`)
	p.want("PUT /v1/maps/m/h\n\n"+strings.Repeat("x", heldBytes+1), "204")
	if err := p.db.Raw().Hash([]byte("m:g")).Set("f", []byte("v")); err != nil {
		t.Fatal(err)
	}
	p.want("PUT /v1/maps/m/g\n\n1", "204")
	for _, request := range []string{"PUT /v1/maps/m/i\nIdempotency-Key: put\n\n1", "DELETE /v1/maps/m/i\nIdempotency-Key: delete"} {
		if _, err := p.db.Raw().Delete([]byte("m:i")); err != nil {
			t.Fatal(err)
		}
		if err := p.db.Raw().Hash([]byte("m:i")).Set("f", []byte("v")); err != nil {
			t.Fatal(err)
		}
		p.want(request, "204")
	}
	p.want("GET /v1/maps/m/i", `404 not-found "the key has no entry"`)
	p.want("DELETE /v1/maps/m/h", "204")
	p.want("GET /v1/maps/m/h", `404 not-found "the key has no entry"`)
}

func seqNow(t *testing.T, db *copal.DB) uint64 {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Seq()
}

// A value of any length comes back, whole and in part, and each part is right.
func TestLargeValues(t *testing.T) {
	p := newPeer(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{heldBytes - 1, heldBytes, heldBytes + 1, 3*heldBytes + 17} {
		value := make([]byte, n)
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		put := httptest.NewRequest("PUT", "/v1/maps/files/a", bytes.NewReader(value))
		put.Header.Set("Content-Type", "video/mp4")
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, put)
		if w.Code != 201 && w.Code != 204 {
			t.Fatal(w.Code, w.Body)
		}
		tag := w.Header().Get("Etag")
		get := func(request string) *http.Response {
			w := httptest.NewRecorder()
			p.h.ServeHTTP(w, asked(request))
			return w.Result()
		}
		if a := get("GET /v1/maps/files/a"); a.Header.Get("Etag") != tag || a.Header.Get("Content-Type") != "video/mp4" || a.ContentLength != int64(n) || shown(a, nil) != "200 "+string(value) {
			t.Errorf("%d bytes: %v", n, a.Header)
		}
		for range 5 {
			from := r.IntN(n)
			to := from + r.IntN(n-from)
			a := get(fmt.Sprintf("GET /v1/maps/files/a\nRange: bytes=%d-%d", from, to))
			if shown(a, nil) != "206 "+string(value[from:to+1]) {
				t.Errorf("bytes %d to %d of %d are others", from, to, n)
			}
		}
		p.want("HEAD /v1/maps/files/a", fmt.Sprintf("200 Content-Length=%d", n), "Content-Length")
		p.want("GET /v1/maps/files/a\nIf-None-Match: "+tag, "304")
		if n > heldBytes {
			p.want("PATCH /v1/maps/files/a\n\n{}", fmt.Sprintf(`413 too-large "the value has %d bytes; the limit here is %d"`, n, heldBytes))
		}
		// A condition that does not hold leaves the value, and drops the bytes that were sent.
		put = httptest.NewRequest("PUT", "/v1/maps/files/a", bytes.NewReader(append(value, 1)))
		put.Header.Set("If-Match", `"1"`)
		w = httptest.NewRecorder()
		p.h.ServeHTTP(w, put)
		if w.Code != http.StatusPreconditionFailed {
			t.Error(w.Code, w.Body)
		}
		p.want("HEAD /v1/maps/files/a", "200 Etag="+tag, "Etag")
	}
	p.want("PATCH /v1/maps/files/a\nCopal-Expires: 2100-01-01T00:00:00Z", "204")
	p.want("HEAD /v1/maps/files/a", "200 Copal-Expires=2100-01-01T00:00:00.000Z Content-Type=video/mp4", "Copal-Expires", "Content-Type")
}

// Items, filters and streams take values that are not in memory as they take others.
func TestLongItems(t *testing.T) {
	p := newPeer(t, WithMaxBody(3*heldBytes))
	age := regexp.MustCompile(`"age":\d+`)
	want := func(p *peer, request, answer string) {
		t.Helper()
		if got := age.ReplaceAllString(p.do(request), `"age":0`); got != answer {
			t.Errorf("%.60s: %d bytes and not %d: %.200s", request, len(got), len(answer), got)
		}
	}
	long := `{"n":1,"text":"` + strings.Repeat("\u00e4", heldBytes) + `"}`
	want(p, `PUT /items`+"\n\n"+`{"id":"a","value":`+long+`}`, `201 {"status":"OK"}`)
	want(p, "GET /items/a", `200 {"id":"a","value":`+long+`,"age":0}`)
	want(p, "GET /items", `200 [{"id":"a","value":`+long+`,"age":0}]`)
	want(p, "PUT /v1/maps/items/b\nContent-Type: text/plain\n\n"+strings.Repeat("abc", 3*heldBytes), "201")
	of := strings.Repeat("YWJj", 3*heldBytes)
	want(p, "GET /items/b", `200 {"id":"b","base64":"`+of+`","age":0}`)
	want(p, "GET /items", `200 [{"id":"a","value":`+long+`,"age":0},`+"\n"+`{"id":"b","base64":"`+of+`","age":0}]`)
	for where, keys := range map[string]int{"n=1": 1, "n=2": 0, "m!=1": 1} {
		got := p.do("GET /v1/maps/items?where=" + where)
		if n := strings.Count(got, `"key":"a"`); n != keys || strings.Contains(got, `"key":"b"`) {
			t.Errorf("where=%s: %.200s", where, got)
		}
	}
	lines := p.do("GET /v1/maps/items\nAccept: application/x-ndjson")
	other := newPeer(t)
	want(other, "POST /v1/maps/items\n\n"+strings.TrimPrefix(lines, "200 "), `200 {"written":2,"expired":0,"failed":0,"errors":[]}`)
	want(other, "GET /v1/maps/items/a", "200 "+long)
	want(other, "GET /items/b", `200 {"id":"b","text":"`+strings.Repeat("abc", 3*heldBytes)+`","age":0}`)
}

// A body beyond a limit is refused before it is read, or at the limit if it had no length.
func TestLimits(t *testing.T) {
	p := newPeer(t, WithMaxBody(100), WithMaxValue(2<<20))
	long := strings.Repeat("x", 2<<20)
	said := func(body string) *http.Request { return asked("PUT /v1/maps/m/a\nContent-Type: text/plain\n\n" + body) }
	unsaid := said(long + "x")
	unsaid.ContentLength = -1
	json := asked("PUT /v1/maps/m/a\nContent-Type: application/json\n\n\"" + long[:100] + "\"")
	jsonUnsaid := asked("PUT /v1/maps/m/a\nContent-Type: application/json\n\n\"" + long[:100] + "\"")
	jsonUnsaid.ContentLength = -1
	item := asked("PUT /items\n\n{\"id\":\"a\",\"value\":\"" + long[:100] + "\"}")
	for i, c := range []struct {
		request *http.Request
		status  int
	}{{said(long), 201}, {said(long + "x"), 413}, {unsaid, 413}, {json, 413}, {jsonUnsaid, 413}, {item, 413}} {
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, c.request)
		if w.Code != c.status {
			t.Errorf("%d: %d, and not %d: %s", i, w.Code, c.status, w.Body)
		}
	}
	p.want("HEAD /v1/maps/m/a", "200 Content-Length=2097152", "Content-Length")
	got := p.do("POST /v1/maps/m\n\n{\"key\":\"b\",\"value\":1}\n{\"key\":\"c\",\"text\":\"" + long[:200<<10] + "\"}\n")
	if !strings.HasPrefix(got, "413 ") {
		t.Error(got)
	}
	p.want("GET /v1/maps/m/b", "200 1")
	p.want("PUT /v1/maps/m/c\n\n"+long[:200], "201")
	p.want("POST /v1/tx\n\n{\"operations\":[{\"op\":\"get\",\"map\":\"m\",\"key\":\"c\"}]}", `413 too-large "an answer of more than 100 bytes"`)
	if got := p.do("GET /v1/maps/m/" + strings.Repeat("k", copal.MaxKeyBytes)); !strings.HasPrefix(got, "413 ") {
		t.Error(got)
	}
}

// A store that cannot be written to says so, and a closed one asks to be asked again.
func TestUnavailable(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, db, Handler(db)}
	p.want("PUT /v1/maps/m/a\n\n1", "201")
	reader, err := copal.Open(dir, copal.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	r := &peer{t, reader, Handler(reader)}
	r.want("GET /v1/maps/m/a", "200 1")
	if got := r.do("PUT /v1/maps/m/a\n\n2"); !strings.HasPrefix(got, "403 ") {
		t.Error(got)
	}
	if got := r.do("POST /v1/maps/m/a/add"); !strings.HasPrefix(got, "403 ") {
		t.Error(got)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"GET /v1/maps/m/a", "PUT /v1/maps/m/a\n\n1", "GET /v1/maps/m", "POST /v1/maps/m/a/add", "GET /v1/changes", "DELETE /items"} {
		p.want(request, `503 unavailable "the store is closed"`)
		if got := p.do(request, "Retry-After"); !strings.HasPrefix(got, "503 Retry-After=1 ") {
			t.Error(got)
		}
	}
}

// TestKeyInTheWrongSpelling: a key that is spelled as none of its map is refused by whoever reads it, too, with an
// example of a right one. It is not an entry that is missing.
func TestKeyInTheWrongSpelling(t *testing.T) {
	p := newPeer(t)
	ages, err := copal.OpenMap[int, int](p.db, "ages")
	if err != nil {
		t.Fatal(err)
	}
	if err := ages.Set(7, 1); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"GET /v1/maps/ages/07", "DELETE /v1/maps/ages/07", "PATCH /v1/maps/ages/07\nCopal-TTL: 1h"} {
		if got := p.do(request); !strings.HasPrefix(got, "422 ") || !strings.Contains(got, "it is no key of map") || !strings.Contains(got, "such as") {
			t.Errorf("%s: %s", request, got)
		}
	}
	if got := p.do("GET /v1/maps/ages/8"); !strings.HasPrefix(got, "404 ") {
		t.Errorf("a key without an entry: %s", got)
	}
}
