package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// WithCORS lets pages of other origins, such as https://app.example, use the store by fetch, as CORS has it. A page
// sends a token itself, by Authorization: the server never allows the credentials of the browser, such as a password
// that its user has typed in. Handler panics if an origin is none: it has a scheme, a host and no path. There is no
// origin for all.
func WithCORS(origins ...string) Option {
	return func(h *handler) { h.cors = append(h.cors, origins...) }
}

// hasBasic reports whether a request has a password of Basic, which a browser may remember.
func hasBasic(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Basic")
}

// Headers of CORS. A page may read the shown headers of an answer.
var (
	sayShown   = []string{"Accept-Ranges, Accept-Patch, Allow, Content-Length, Content-Range, Copal-Expires, Copal-Seq, ETag, Idempotency-Replayed, Retry-After, WWW-Authenticate"}
	sayMethods = []string{"GET, HEAD, PUT, PATCH, POST, DELETE"}
	sayOrigin  = []string{"Origin"}
	sayMaxAge  = []string{"7200"} // seconds for which a browser need not ask again
)

// sayTaken has the headers that a page may send: those of all routes.
var sayTaken = sync.OnceValue(func() []string {
	list := []string{"Authorization", "Content-Type", "Traceparent"}
	for i := range routes {
		for _, name := range routes[i].takes {
			if !strings.HasPrefix(name, "?") && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return []string{strings.Join(list, ", ")}
})

// share writes the headers by which a page of another origin may read the answer, if its origin is one of those. It
// reports whether the request asks only that, and is answered.
func (h *handler) share(w http.ResponseWriter, r *http.Request) bool {
	header := w.Header()
	header["Vary"] = sayOrigin
	origin := r.Header.Get("Origin")
	if !slices.Contains(h.cors, origin) {
		return false
	}
	header["Access-Control-Allow-Origin"] = []string{origin}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header["Access-Control-Expose-Headers"] = sayShown
		return false
	}
	header["Access-Control-Allow-Methods"] = sayMethods
	header["Access-Control-Allow-Headers"] = sayTaken()
	header["Access-Control-Max-Age"] = sayMaxAge
	dropBody(w, r)
	w.WriteHeader(http.StatusNoContent)
	h.answered(len(routes), r, http.StatusNoContent, time.Now(), true, "")
	return true
}
