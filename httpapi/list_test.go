package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/jsontext"
)

// page is a page of a listing.
type page struct {
	Seq     uint64
	Entries []struct {
		Key   json.RawMessage
		Value json.RawMessage
	}
	Next string
}

// pages reads a listing to its end, and returns the keys.
func (p *peer) pages(query url.Values) (keys []string) {
	p.t.Helper()
	for {
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/maps/m?"+query.Encode(), nil))
		var got page
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			p.t.Fatalf("%s: %d %s: %v", query, w.Code, w.Body, err)
		}
		for _, e := range got.Entries {
			key, err := parseName(e.Key)
			if err != nil {
				p.t.Fatal(err)
			}
			keys = append(keys, string(key))
		}
		if got.Next == "" {
			return keys
		}
		query.Set("cursor", got.Next)
	}
}

// Pages of any length, both ways, have the keys of a range in order, each once.
func TestPages(t *testing.T) {
	p := newPeer(t)
	r := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", "b", "\x00", "\xff", ":", "ä"}
	someKey := func() (key string) {
		for range r.IntN(4) {
			key += alphabet[r.IntN(len(alphabet))]
		}
		return key
	}
	there := map[string]bool{}
	for range 150 {
		key := someKey()
		there[key] = true
		if err := p.db.Raw().Set(append(copal.MapPrefix("m"), key...), []byte("1")); err != nil {
			t.Fatal(err)
		}
		if err := p.db.Raw().Set(append(copal.MapPrefix("n"), key...), []byte("1")); err != nil { // of another map
			t.Fatal(err)
		}
	}
	then := seqNow(t, p.db)
	if err := p.db.Raw().DeletePrefix(append(copal.MapPrefix("m"), 'a')); err != nil {
		t.Fatal(err)
	}
	now := map[string]bool{}
	for key := range there {
		now[key] = there[key] && !strings.HasPrefix(key, "a")
	}
	for i := range 300 {
		from, to, prefix, down := someKey(), someKey(), someKey(), r.IntN(2) == 0
		query := url.Values{"limit": {fmt.Sprint(1 + r.IntN(20))}, "reverse": {fmt.Sprint(down)}}
		for name, bound := range map[string]*string{"from": &from, "to": &to, "prefix": &prefix} {
			if *bound != "" && r.IntN(2) == 0 {
				query.Set(name, *bound)
			} else {
				*bound = ""
			}
		}
		var want []string
		of := there
		if i%10 == 0 { // as it was before the deletion
			query.Set("at", fmt.Sprint(then))
		} else {
			of = now
		}
		for key, is := range of {
			if is && key >= from && (to == "" || key < to) && strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		if down {
			slices.Reverse(want)
		}
		said := query.Encode()
		if got := p.pages(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, and not %q", said, got, want)
		}
	}
}

// A filter compares a field as its type is compared.
func TestFilters(t *testing.T) {
	p := newPeer(t)
	for key, value := range map[string]string{"a": `{"n":1,"s":"x","o":{"p":[1, 2]}}`, "b": `{"n":10.0,"s":"y"}`, "c": `{"n":"1"}`, "d": `{"n":null}`, "e": `text`, "f": `{"n":123456789012345678901}`, "g": `{}`} {
		p.want("PUT /v1/maps/m/"+key+"\n\n"+value, "201")
	}
	for where, want := range map[string]string{
		"n=1": "a", "n=1.0": "a", "n>1": "b f", "n>=1": "a b f", "n<10": "a", "n<=1e1": "a b", "n=\"1\"": "c", "n=null": "d", "n!=1": "b c d f g", "s=x": "a", "s>x": "b", "s=\"y\"": "b",
		"o.p=[1,2]": "a", "o.p.q=1": "", "n=123456789012345678901": "f", "n<123456789012345678901": "a b", "n>1e400": "", "none=1": "", "n=": "",
	} {
		if got := strings.Join(p.pages(url.Values{"where": {where}}), " "); got != want {
			t.Errorf("%s: %q, and not %q", where, got, want)
		}
	}
}

// Lines that were sent are taken again, and make the same entries.
func TestLines(t *testing.T) {
	p := newPeer(t)
	p.want("PUT /v1/maps/m/a\nCopal-Expires: 2100-02-03T04:05:06Z\n\n{\"x\":1}", "201")
	p.want("PUT /v1/maps/m/%ff\nContent-Type: image/png\n\n\x89\xff", "201")
	p.want("PUT /v1/maps/m/long\nContent-Type: text/plain\n\n"+strings.Repeat("0123456789\n", 300_000), "201")
	p.want("PUT /v1/maps/m/b\n\n", "201")
	out := p.do("GET /v1/maps/m\nAccept: text/html, application/x-ndjson;q=0.9", "Content-Type")
	head, body, _ := strings.Cut(out, " {")
	if head != "200 Content-Type=application/x-ndjson" {
		t.Error(head)
	}
	body = "{" + body + "\n"
	p.want("POST /v1/maps/copy\nContent-Type: application/x-ndjson\nCopal-Durability: fsync\n\n"+body, `200 {"written":4,"expired":0,"failed":0,"errors":[]}`)
	for _, key := range []string{"a", "%ff", "long", "b"} {
		of := func(name string) string { return p.do("GET /v1/maps/"+name+"/"+key, "Content-Type", "Copal-Expires") }
		if a, b := of("m"), of("copy"); a != b {
			t.Errorf("%.200s\n%.200s", a, b)
		}
	}
	// Lines that were cut do not pass for all.
	if !strings.HasSuffix(body, "}\n") || !strings.Contains(body[strings.LastIndex(strings.TrimSpace(body), "\n"):], `{"end":4,"crc32c":"`) {
		t.Errorf("the end is %q", body[len(body)-40:])
	}
	// Values that only a program can write are refused line by line.
	lines := `{"key":"h","collection":"hash","elements":1}` + "\n" + `{"element":"f","text":"v"}` + "\n" + `{"schema":1,"codec":"binary","type":"int"}` + "\n" + `{"key":"x","schema":1,"base64":"Ag=="}` + "\n" + `{"key":"y","value":2}`
	got := p.do("POST /v1/maps/copy\n\n" + lines)
	if !strings.HasPrefix(got, `200 {"written":1,"expired":0,"failed":3,"errors":[{"line":1,`) {
		t.Error(got)
	}
	p.want("GET /v1/maps/copy/y", "200 2")
}

// A cursor is a key, in characters that need no escapes.
func TestCursor(t *testing.T) {
	s, err := parseSelection("m", url.Values{"cursor": {cursorMark + base64.RawURLEncoding.EncodeToString([]byte("\xfb\xff"))}})
	if err != nil || !bytes.Equal(s.keys.After, []byte("m:\xfb\xff")) {
		t.Errorf("%q, %v", s.keys.After, err)
	}
}

// A map of integers is listed, and deleted from, in the order of its keys, page by page.
func TestPagesInTheOrderOfTheMap(t *testing.T) {
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	posts, err := copal.OpenMap[int, string](db, "posts")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for n := -20; n < 120; n += 3 {
		all = append(all, strconv.Itoa(n))
		if err := posts.Set(n, "text"); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := copal.OpenMap[int, string](db, "posts-2"); err != nil || more.Set(1, "of another map") != nil {
		t.Fatal(err)
	}
	h := Handler(db)
	ask := func(method, query string) (code int, body struct {
		Entries []struct{ Key string }
		Next    string
	}) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/v1/maps/posts?"+query, nil))
		json.Unmarshal(w.Body.Bytes(), &body)
		return w.Code, body
	}
	pages := func(query string) (keys []string) {
		for next := ""; ; {
			code, page := ask("GET", query+"&limit=7&cursor="+next)
			if code != 200 {
				t.Fatalf("%s: %d", query, code)
			}
			for _, e := range page.Entries {
				keys = append(keys, e.Key)
			}
			if next = page.Next; next == "" {
				return keys
			}
		}
	}
	from := func(n string) int { return slices.Index(all, n) }
	reversed := slices.Clone(all)
	slices.Reverse(reversed)
	for query, want := range map[string][]string{
		"":                     all,
		"reverse=true":         reversed,
		"from=10&to=100":       all[from("10"):from("100")],
		"from=9":               all[from("10"):],
		"to=-5":                all[:from("-5")],
		"prefix=1":             {"1", "10", "13", "16", "19", "100", "103", "106", "109", "112", "115", "118"},
		"prefix=1&to=100":      {"1", "10", "13", "16", "19"},
		"from=100&to=10":       nil,
		"from=-5&reverse=true": reversed[:len(all)-from("-5")],
	} {
		if got := pages(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	w := httptest.NewRecorder()
	lines := httptest.NewRequest("GET", "/v1/maps/posts?from=x", nil)
	lines.Header.Set("Accept", typeLines)
	if h.ServeHTTP(w, lines); w.Code != 400 {
		t.Errorf("lines from x: %d", w.Code)
	}
	for _, bad := range []string{"GET from=x", "GET to=1.5", "DELETE from=x", "DELETE prefix=1&to=100"} {
		method, query, _ := strings.Cut(bad, " ")
		if code, _ := ask(method, query); code != 400 {
			t.Errorf("%s: %d", bad, code)
		}
	}
	for _, query := range []string{"from=9&to=12", "from=100", "to=-5", "prefix=1"} {
		if code, _ := ask("DELETE", query); code != 204 {
			t.Errorf("DELETE %s: %d", query, code)
		}
	}
	if got := pages(""); !slices.Equal(got, []string{"-5", "-2", "4", "7", "22", "25", "28", "31", "34", "37", "40", "43", "46", "49", "52", "55", "58", "61", "64", "67", "70", "73", "76", "79", "82", "85", "88", "91", "94", "97"}) {
		t.Errorf("after the deletions %q", got)
	}
}

// closing is an answer within which the store is closed.
type closing struct {
	httptest.ResponseRecorder
	close func()
}

func (c *closing) Write(p []byte) (int, error) {
	c.close()
	return c.ResponseRecorder.Write(p)
}

// A listing that cannot go on is cut off, and does not pass for a whole one.
func TestListingOfClosedStore(t *testing.T) {
	for _, request := range []string{"GET /items", "GET /v1/maps/items\nAccept: application/x-ndjson"} {
		db, err := copal.OpenMemory()
		if err != nil {
			t.Fatal(err)
		}
		h := Handler(db)
		for i := range 3 * sentBytes / 1000 {
			if err := db.Raw().Set(fmt.Appendf(nil, "items:%d", i), bytes.Repeat([]byte("x"), 1000)); err != nil {
				t.Fatal(err)
			}
		}
		a := &closing{close: func() { db.Close() }, ResponseRecorder: *httptest.NewRecorder()}
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s: %v, and the answer ends with %q", request, p, a.Body.String()[a.Body.Len()-50:])
				}
			}()
			h.ServeHTTP(a, asked(request))
		}()
	}
}

// A page arrives though it took longer to make than the server gives an answer.
func TestPageThatTakesLong(t *testing.T) {
	p := newPeer(t)
	p.want("PUT /v1/maps/m/a\n\n1", "201")
	server := httptest.NewUnstartedServer(p.h)
	server.Config.WriteTimeout = time.Nanosecond
	server.Start()
	defer server.Close()
	a, err := server.Client().Get(server.URL + "/v1/maps/m?where=n=1")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if got := shown(a, nil); got != `200 {"seq":2,"entries":[]}` {
		t.Error(got)
	}
}

// JSON that is stored can be read in all that is made of it. Deeper JSON is refused, or is bytes.
func TestDeepJSON(t *testing.T) {
	p := newPeer(t)
	deep := func(n int) string { return strings.Repeat("[", n) + `"[[\""` + strings.Repeat("]", n) }
	p.want("PUT /v1/maps/items/most\nContent-Type: application/json\n\n"+deep(jsontext.MaxDepth), "201")
	p.want("PUT /v1/maps/items/bytes\n\n"+deep(jsontext.MaxDepth+1), "201")
	for _, request := range []string{
		"PUT /v1/maps/items/more\nContent-Type: application/json\n\n" + deep(jsontext.MaxDepth+1),
		"PATCH /v1/maps/items/more\n\n" + deep(jsontext.MaxDepth+1),
		`PUT /items` + "\n\n" + `{"id":"more","value":` + deep(jsontext.MaxDepth) + `}`,
		`POST /v1/tx` + "\n\n" + `{"operations":[{"op":"put","map":"items","key":"more","value":` + deep(jsontext.MaxDepth) + `}]}`,
	} {
		if got := p.do(request); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, "9990 levels") {
			t.Errorf("%.60s: %.300s", request, got)
		}
	}
	if err := p.db.Raw().Set([]byte("items:raw"), []byte(deep(jsontext.MaxDepth+5))); err != nil { // by another door
		t.Fatal(err)
	}
	lines := p.do("GET /v1/maps/items\nAccept: application/x-ndjson")
	for _, text := range append(strings.Split(strings.TrimPrefix(lines, "200 "), "\n"), strings.TrimPrefix(p.do("GET /v1/maps/items"), "200 "), strings.TrimPrefix(p.do("GET /items"), "200 ")) {
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON: %.100s", text)
		}
	}
	p.want("POST /v1/maps/copy\n\n"+strings.TrimPrefix(lines, "200 "), `200 {"written":3,"expired":0,"failed":0,"errors":[]}`)
}
