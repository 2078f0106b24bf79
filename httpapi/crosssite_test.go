package httpapi

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// No page of another origin writes: not by a form, whatever type its body has, not by a link or a
// picture, and not under a name that was made to mean this machine.
func TestPagesOfOtherOriginsDoNotWrite(t *testing.T) {
	pages := map[string]map[string]string{
		"a form":                       {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Content-Type": "application/x-www-form-urlencoded"},
		"a form of an earlier browser": {"Origin": "http://evil.example", "Content-Type": "text/plain"},
		"a form without a referrer":    {"Origin": "null", "Content-Type": "multipart/form-data; boundary=a"},
		"a page of a file":             {"Origin": "null", "Content-Type": "application/json"},
		"another port of this machine": {"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-site", "Content-Type": "application/json"},
		"a site beside it":             {"Sec-Fetch-Site": "same-site", "Content-Type": "application/json"},
		"a rebound name":               {"Host": "evil.example:9532", "Origin": "http://evil.example:9532", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"},
		"a rebound name, earlier":      {"Host": "evil.example:9532", "Content-Type": "application/json"},
		"a rebound name of an address": {"Host": "127.0.0.1.evil.example:9532", "Origin": "http://127.0.0.1.evil.example:9532", "Content-Type": "application/json"},
	}
	p := newPeer(t, LocalNames())
	raw := p.db.Raw()
	for _, key := range []string{"m:1", "items:1"} {
		if err := raw.Set([]byte(key), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	state := func() string {
		var b strings.Builder
		for key, value := range raw.All() {
			b.WriteString(string(key) + "=" + string(value) + "\n")
		}
		return b.String()
	}
	before := state()
	for _, route := range routes {
		path := strings.NewReplacer("{map}", "m", "{key}", "1", "{id}", "1").Replace(route.path)
		if route.path == "/v1/maps/{map}" && route.method == "DELETE" {
			path += "?all=true"
		}
		for name, headers := range pages {
			if route.method == "GET" && headers["Host"] == "" {
				continue // no GET writes, and a page does not see the answer
			}
			r := httptest.NewRequest(route.method, "http://127.0.0.1:9532"+path, strings.NewReader(`{"id":"1","value":2}`))
			for header, value := range headers {
				r.Header.Set(header, value)
			}
			if host := headers["Host"]; host != "" {
				r.Host = host
			}
			w := httptest.NewRecorder()
			p.h.ServeHTTP(w, r)
			if a := w.Result(); a.StatusCode != 403 || a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s of %s: %s", route.method, path, name, shown(a, nil))
			}
		}
		if route.method != "GET" {
			continue
		}
		for _, method := range []string{"GET", "HEAD"} { // a picture or a link
			if strings.HasSuffix(path, "/changes") {
				continue // a stream without an end
			}
			r := httptest.NewRequest(method, "http://127.0.0.1:9532"+path, nil)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			w := httptest.NewRecorder()
			p.h.ServeHTTP(w, r)
			if got := w.Result().Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s %s: a page of %q may read the answer", method, path, got)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("the store has changed from\n%sto\n%s", before, after)
	}
	var own bytes.Buffer
	r := httptest.NewRequest("PUT", "http://localhost:9532/v1/maps/m/1", strings.NewReader("2"))
	r.Header.Set("Origin", "http://localhost:9532")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, r)
	if io.Copy(&own, w.Result().Body); w.Code != 204 {
		t.Errorf("a page of the server's own origin: %d %s", w.Code, &own)
	}
}
