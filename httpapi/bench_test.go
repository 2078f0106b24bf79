package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

// bare measures one route of net/http, with a value at hand.
func bare() http.Handler {
	value := []byte(benchValue)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/maps/{map}/{key}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		w.Write(value)
	})
	return mux
}

const benchValue = `{"Name":"Alice","Age":28,"Address":{"City":"Bern","Street":"Hauptgasse 1"}}`

func benchHandler(tb testing.TB) http.Handler {
	db, err := copal.Open(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	h := Handler(db)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, asked("PUT /v1/maps/users/alice\n\n"+benchValue))
	if err := db.Sync(); err != nil || w.Code != 201 {
		tb.Fatal(w.Code, err)
	}
	return h
}

// BenchmarkGet asks over connections that stay, as wrk does.
func BenchmarkGet(b *testing.B) {
	for name, h := range map[string]http.Handler{"copal": benchHandler(b), "bare": bare()} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(h)
			defer server.Close()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
				if err != nil {
					b.Error(err)
					return
				}
				defer c.Close()
				in := bufio.NewReader(c)
				for pb.Next() {
					if _, err := io.WriteString(c, "GET /v1/maps/users/alice HTTP/1.1\r\nHost: localhost:9532\r\n\r\n"); err != nil {
						b.Error(err)
						return
					}
					for {
						line, err := in.ReadSlice('\n')
						if err != nil {
							b.Error(err)
							return
						}
						if len(line) == 2 {
							break
						}
					}
					if _, err := in.Discard(len(benchValue)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// quiet is an answer that is thrown away.
type quiet struct{ h http.Header }

func (q *quiet) Header() http.Header         { return q.h }
func (q *quiet) Write(p []byte) (int, error) { return len(p), nil }
func (q *quiet) WriteHeader(int)             {}

// A read of a short value takes few allocations beside those of the one-route handler.
func TestGetAllocates(t *testing.T) {
	of := func(h http.Handler) float64 {
		r := asked("GET /v1/maps/users/alice")
		w := &quiet{h: http.Header{}}
		return testing.AllocsPerRun(200, func() {
			clear(w.h)
			h.ServeHTTP(w, r)
		})
	}
	ours, least := of(benchHandler(t)), of(bare())
	if ours > least+mostAllocs {
		t.Errorf("a read allocates %v times, and the bare handler %v times", ours, least)
	}
}

// mostAllocs is how many more.
const mostAllocs = 9

func BenchmarkHandler(b *testing.B) {
	for name, h := range map[string]http.Handler{"copal": benchHandler(b), "bare": bare()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := asked("GET /v1/maps/users/alice")
			w := &quiet{h: http.Header{}}
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}
