package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// peer is a handler of a store in memory, and the client of it.
type peer struct {
	t  *testing.T
	db *copal.DB
	h  http.Handler
}

func newPeer(t *testing.T, options ...Option) *peer {
	t.Helper()
	db, err := copal.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &peer{t, db, Handler(db, options...)}
}

// asked makes a request of its first line, headers and body: "PUT /x\nIf-Match: 1\n\nbody".
func asked(text string) *http.Request {
	head, body, _ := strings.Cut(text, "\n\n")
	first, rest, _ := strings.Cut(head, "\n")
	method, path, _ := strings.Cut(first, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for line := range strings.SplitSeq(rest, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

// do sends a request, and returns the answer as one line: the status, the headers that are asked for, the body.
func (p *peer) do(request string, headers ...string) string {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.h.ServeHTTP(w, asked(request))
	return shown(w.Result(), headers)
}

func shown(a *http.Response, headers []string) string {
	body, err := io.ReadAll(a.Body)
	out := fmt.Sprint(a.StatusCode)
	for _, name := range headers {
		out += fmt.Sprintf(" %s=%s", name, a.Header.Get(name))
	}
	if text := strings.TrimSuffix(string(body), "\n"); text != "" {
		out += " " + text
	}
	if err != nil {
		out += " cut off: " + err.Error()
	}
	return out
}

// want does a request and compares the answer. Of a problem only the slug, the detail and the field are wanted.
func (p *peer) want(request, answer string, headers ...string) {
	p.t.Helper()
	got := p.do(request, headers...)
	if _, rest, is := strings.Cut(got, `{"type":"`+Page+"#"); is {
		slug, rest, _ := strings.Cut(rest, `"`)
		status, _, _ := strings.Cut(got, " ")
		_, detail, _ := strings.Cut(rest, `"detail":`)
		got = status + " " + slug + " " + strings.TrimSuffix(detail, "}")
	}
	if got != answer {
		p.t.Errorf("%s\n got %s\nwant %s", request, got, answer)
	}
}
