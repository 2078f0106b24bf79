package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copaldb/copal/access"
)

// A page of an origin that is named may ask, write and read all that the server says of it. It gets no credentials of
// the browser, and pages of other origins have the answers of a server without WithCORS.
func TestCORS(t *testing.T) {
	users, err := access.New(access.Password("secret"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, WithCORS("https://app.example"), WithAccess(users))
	do := func(request string) http.Header {
		t.Helper()
		w := httptest.NewRecorder()
		p.h.ServeHTTP(w, asked(request))
		return w.Result().Header
	}
	const own, other = "\nOrigin: https://app.example\nSec-Fetch-Site: cross-site", "\nOrigin: https://evil.example\nSec-Fetch-Site: cross-site"
	const token = "\nAuthorization: Bearer secret"
	p.want("OPTIONS /v1/maps/m/a"+own+"\nAccess-Control-Request-Method: PUT\nAccess-Control-Request-Headers: authorization,if-match",
		"204 Access-Control-Allow-Origin=https://app.example Access-Control-Allow-Methods=GET, HEAD, PUT, PATCH, POST, DELETE Vary=Origin Access-Control-Allow-Credentials=",
		"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Vary", "Access-Control-Allow-Credentials")
	p.want("PUT /v1/maps/m/a"+own+token+"\n\n1", "201 Access-Control-Allow-Origin=https://app.example Access-Control-Allow-Credentials=", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials")
	p.want("GET /v1/maps/m/a"+own+token, "200 Access-Control-Allow-Origin=https://app.example 1", "Access-Control-Allow-Origin")
	p.want("GET /v1/maps/m/a"+own, `401 unauthorized "the token is missing, or belongs to no user"`, "Access-Control-Allow-Origin")
	p.want("OPTIONS /v1/maps/m/a"+other+token+"\nAccess-Control-Request-Method: PUT", `405 method-not-allowed "OPTIONS is not one of DELETE, GET, HEAD, PATCH, PUT"`)
	p.want("PUT /v1/maps/m/a"+other+token+"\n\n2", `403 forbidden "a page of another origin cannot write here"`)
	if h := do("GET /v1/maps/m/a" + other + token); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Vary") != "Origin" {
		t.Error(h)
	}
	p.want("PUT /v1/maps/m/a"+own+"\nAuthorization: Bearer wrong\n\n2", `401 unauthorized "the token is missing, or belongs to no user"`)
	if got := do("GET /v1/maps/m/a" + own).Get("Access-Control-Allow-Origin"); got != "https://app.example" {
		t.Errorf("a page of %q may read a problem", got)
	}
	p.want("GET /v1/maps/m/a"+token, "200 Vary=Origin 1", "Vary")
	// A form of the page comes with the password that the browser remembers.
	p.want("POST /v1/maps/m/a/add"+own+"\nSec-Fetch-Mode: no-cors\nContent-Type: application/x-www-form-urlencoded\nAuthorization: Basic ZGVmYXVsdDpzZWNyZXQ=", `403 forbidden "a page of another origin sends its token as Bearer, not as Basic"`)
	p.want("GET /v1/maps/m/a"+token, "200 1")

	taken := strings.ToLower(do("OPTIONS /" + own + "\nAccess-Control-Request-Method: GET").Get("Access-Control-Allow-Headers"))
	for i := range routes {
		for _, name := range routes[i].takes {
			if !strings.HasPrefix(name, "?") && !strings.Contains(", "+taken+",", " "+strings.ToLower(name)+",") {
				t.Errorf("a page may not send %s", name)
			}
		}
	}
	shown := strings.ToLower(do("GET /" + own + token).Get("Access-Control-Expose-Headers"))
	for _, request := range []string{"GET /v1/maps/m", "GET /v1/maps/m/a\nRange: bytes=0-0", "POST /v1/maps/m/a/add\nIdempotency-Key: k", "POST /v1/maps/m/a/add\nIdempotency-Key: k"} {
		for name := range do(strings.Replace(request, "\n", own+token+"\n", 1) + own + token) {
			if !strings.Contains("content-type, vary, access-control-allow-origin, access-control-expose-headers, "+shown, strings.ToLower(name)) {
				t.Errorf("%s: a page does not see %s", request, name)
			}
		}
	}
}

func TestNoOrigin(t *testing.T) {
	for _, origin := range []string{"*", "app.example", "https://app.example/", "null", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken for an origin", origin)
				}
			}()
			newPeer(t, WithCORS(origin))
		}()
	}
}
