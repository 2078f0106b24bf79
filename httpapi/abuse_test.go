package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

// pipes is a listener whose connections are pipes, which have the clock of a bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (l *pipes) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- b
	return a
}

// inBubble serves a store in a bubble.
func inBubble(t *testing.T, f func(t *testing.T, l *pipes, p *peer), options ...Option) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, options...)
		l := newPipes()
		server := &http.Server{Handler: p.h, WriteTimeout: 30 * time.Second, ReadHeaderTimeout: 10 * time.Second}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		f(t, l, p)
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}

// answerTo sends text, and returns the first line of the answer.
func answerTo(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	go io.WriteString(c, text)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// A client that stops in the middle of a body is given up, and others are served meanwhile. Nothing of it counts.
func TestBodiesThatStop(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for name, body := range map[string]string{"short": "abc", "long": strings.Repeat("x", 2*heldBytes)} {
			c := l.dial()
			request := fmt.Sprintf("PUT /v1/maps/m/%s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", name, 3*heldBytes, body)
			began := time.Now()
			first := make(chan string)
			go func() { first <- answerTo(t, c, request) }()
			synctest.Wait()
			p.want("PUT /v1/maps/m/beside-"+name+"\n\n1", "201")
			if got := <-first; got != "HTTP/1.1 400 Bad Request" {
				t.Errorf("%s: %s", name, got)
			}
			if waited := time.Since(began); waited < 30*time.Second || waited > 40*time.Second {
				t.Errorf("%s: it was waited for %v", name, waited)
			}
			c.Close()
			p.want("HEAD /v1/maps/m/"+name, "404")
		}
	})
}

// A client that names a short body, and sends none, is given up, whatever the answer is. One that sends it
// has its stream for as long as it likes.
func TestBodiesThatNeverCome(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for _, first := range []string{"GET /v1/maps/m/a", "GET /v1/changes", "DELETE /v1/maps/m/a", "POST /v1/maps/m/n/add", "GET /nothing", "PUT /v1/maps/m/a?none=1", "PUT /v1/maps/m/a", "POST /v1/maps/m"} {
			for _, length := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
				c := l.dial()
				began := time.Now()
				if _, err := io.WriteString(c, first+" HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				if waited := time.Since(began); waited > 40*time.Second {
					t.Errorf("%s, %s: it was waited for %v", first, length, waited)
				}
			}
		}
		c := l.dial()
		if _, err := io.WriteString(c, "GET /v1/changes HTTP/1.0\r\nContent-Length: 1\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		told := make(chan string)
		go func() {
			text, _ := io.ReadAll(c)
			told <- string(text)
		}()
		time.Sleep(10 * time.Minute)
		p.want("PUT /v1/maps/m/a\n\n1", "201")
		synctest.Wait()
		c.Close()
		if got := <-told; !strings.Contains(got, `"key":"a"`) {
			t.Error(got)
		}
	})
}

// A TTL begins when the body has come, however long that takes.
func TestBodiesThatTakeLong(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for length, pause := range map[int]time.Duration{6: 5 * time.Second, 2 * heldBytes: 20 * time.Second} {
			c := l.dial()
			if _, err := fmt.Fprintf(c, "PUT /v1/maps/m/a HTTP/1.1\r\nHost: x\r\nCopal-TTL: 60\r\nContent-Length: %d\r\n\r\n", length); err != nil {
				t.Fatal(err)
			}
			body := strings.Repeat("x", length)
			for range 5 {
				time.Sleep(pause)
				if _, err := io.WriteString(c, body[:length/6]); err != nil {
					t.Fatal(err)
				}
				body = body[length/6:]
			}
			if got := answerTo(t, c, body); !strings.HasPrefix(got, "HTTP/1.1 20") {
				t.Error(got)
			}
			p.want("HEAD /v1/maps/m/a", "200")
			time.Sleep(time.Minute)
			p.want("HEAD /v1/maps/m/a", "404")
			c.Close()
		}
	})
}

// A body that is cut off leaves nothing, and one that is longer than it says is no more than that.
func TestBodiesThatLie(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		for _, sent := range []string{"", "abc", strings.Repeat("x", 2*heldBytes)} {
			c := l.dial()
			if _, err := fmt.Fprintf(c, "PUT /v1/maps/m/cut HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", 3*heldBytes, sent); err != nil {
				t.Fatal(err)
			}
			c.Close()
			synctest.Wait()
			p.want("HEAD /v1/maps/m/cut", "404")
		}
		c := l.dial()
		if _, err := io.WriteString(c, "POST /v1/maps/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"key\":\"whole\",\"value\":1}\n{\"key\":\"part\",\"value\":1}\n{\"key\":\"c"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		synctest.Wait()
		p.want("GET /v1/maps/m/whole", "200 1")
		for request, answer := range map[string]string{
			"PUT /v1/maps/m/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n12345":                      "HTTP/1.1 201 Created",
			"PUT /v1/maps/m/b HTTP/1.1\r\nHost: x\r\nContent-Length: 1099511627776\r\n\r\n1":              "HTTP/1.1 413 Request Entity Too Large",
			"PUT /v1/maps/m/b HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n1":                         "HTTP/1.1 400 Bad Request",
			"PUT /v1/maps/m/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n1":           "HTTP/1.1 400 Bad Request",
			"GET /v1/maps/m/%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                              "HTTP/1.1 400 Bad Request",
			"GET /v1/maps/m/b?at=%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                         "HTTP/1.1 400 Bad Request",
			"PUT /items HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{":                         "HTTP/1.1 413 Request Entity Too Large",
			"POST /v1/tx HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{":                        "HTTP/1.1 413 Request Entity Too Large",
			"GET /v1/maps/m/b HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n":       "HTTP/1.1 431 Request Header Fields Too Large",
			"BREW /v1/maps/m/b HTTP/1.1\r\nHost: x\r\n\r\n":                                               "HTTP/1.1 405 Method Not Allowed",
			"GET /v1/maps/" + strings.Repeat("%3a", 20_000) + "/b HTTP/1.1\r\nHost: x\r\n\r\n":            "HTTP/1.1 404 Not Found",
			"GET /v1/maps/m/" + strings.Repeat("%ff", copal.MaxKeyBytes) + " HTTP/1.1\r\nHost: x\r\n\r\n": "HTTP/1.1 413 Request Entity Too Large",
		} {
			c := l.dial()
			if got := answerTo(t, c, request); got != answer {
				t.Errorf("%.80q: %s, and not %s", request, got, answer)
			}
			c.Close()
		}
		p.want("GET /v1/maps/m/a", "200 1")
		p.want("HEAD /v1/maps/m/b", "404")
	})
}

// A client that does not read its answer is closed, and its memory is given back.
func TestReadersThatStop(t *testing.T) {
	inBubble(t, func(t *testing.T, l *pipes, p *peer) {
		p.want("PUT /v1/maps/m/a\nContent-Type: text/plain\n\n"+strings.Repeat("x", 3*heldBytes), "201")
		for _, path := range []string{"/v1/maps/m/a", "/v1/maps/m", "/v1/changes?since=0", "/items"} {
			p.want("PUT /items\n\n{\"id\":\"long\",\"value\":\""+strings.Repeat("y", heldBytes/2)+"\"}", `201 {"status":"OK"}`)
			c := l.dial()
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" {
				t.Fatal(line, err)
			}
			time.Sleep(time.Minute) // and reads no more
			synctest.Wait()
			rest, err := io.ReadAll(c)
			if strings.Contains(string(rest), "\r\n0\r\n\r\n") || err != nil && err != io.ErrClosedPipe {
				t.Errorf("%s goes on: %d bytes, %v", path, len(rest), err)
			}
			if s := p.db.Stats(); s.Snapshots != 0 {
				t.Errorf("%s leaves %d snapshots", path, s.Snapshots)
			}
			c.Close()
		}
	})
}

// zeros is a body of so many bytes, none of which are in memory.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), int64(*z))
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// discard is an answer that nobody keeps.
type discard struct {
	httptest.ResponseRecorder
	n int64
}

func (d *discard) Write(p []byte) (int, error) {
	d.n += int64(len(p))
	return len(p), nil
}

// A value that is far longer than the memory that it takes, both ways.
func TestLongValuesTakeLittleMemory(t *testing.T) {
	db, err := copal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := Handler(db)
	const size = 96 << 20
	taken := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	body := zeros(size)
	request := httptest.NewRequest("PUT", "/v1/maps/items/a", &body)
	request.Header.Set("Content-Type", "video/mp4")
	put, get := &discard{ResponseRecorder: *httptest.NewRecorder()}, &discard{ResponseRecorder: *httptest.NewRecorder()}
	if n := taken(func() { h.ServeHTTP(put, request) }); put.Code != 201 || n > size/4 {
		t.Errorf("%d: to put %d bytes takes %d of memory", put.Code, size, n)
	}
	if n := taken(func() { h.ServeHTTP(get, httptest.NewRequest("GET", "/v1/maps/items/a", nil)) }); get.n != size || n > size/4 {
		t.Errorf("to get %d bytes takes %d of memory", get.n, n)
	}
	for _, first := range []string{"GET /items", "GET /items/a", "GET /v1/maps/items\nAccept: application/x-ndjson"} {
		a := &discard{ResponseRecorder: *httptest.NewRecorder()}
		if n := taken(func() { h.ServeHTTP(a, asked(first)) }); a.n < size*4/3 || n > size/4 {
			t.Errorf("%s: to get %d bytes takes %d of memory", first, a.n, n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := &until{text: `"key":"a","bytes":100663296}]}`, done: cancel, ResponseRecorder: *httptest.NewRecorder()}
	if n := taken(func() { h.ServeHTTP(told, asked("GET /v1/maps/items/changes?since=0").WithContext(ctx)) }); n > size/4 {
		t.Errorf("to tell of %d bytes takes %d of memory", size, n)
	}
}

// until is an answer whose reader has enough when a text has come.
type until struct {
	httptest.ResponseRecorder
	text string
	done func()
}

func (u *until) Write(p []byte) (int, error) {
	if strings.Contains(string(p), u.text) {
		u.done()
	}
	return u.ResponseRecorder.Write(p)
}

// With a password nobody does anything without it, however its scheme is written.
func TestPassword(t *testing.T) {
	p := newPeer(t, WithAccess(users(t, access.Password("se cret"))))
	for given, status := range map[string]string{
		"":                           "401",
		"se cret":                    "401",
		"Bearer":                     "401",
		"Bearer se":                  "401",
		"Bearer se cret":             "201",
		"bearer se cret":             "201",
		"Basic OnNlIGNyZXQ=":         "201", // :se cret
		"basic ZGVmYXVsdDpzZSBjcmV0": "201", // default:se cret
		"Basic YWxpY2U6c2UgY3JldA==": "401", // alice:se cret
		"Basic c2UgY3JldA==":         "401", // se cret
	} {
		got := p.do("PUT /items\nAuthorization: "+given+"\n\n{\"id\":\"a\",\"value\":1}", "WWW-Authenticate")
		if !strings.HasPrefix(got, status+" ") || strings.Contains(got, `WWW-Authenticate=Basic realm="copal" {`) != (status == "401") {
			t.Errorf("%q: %s, and not %s", given, got, status)
		}
	}
}

// A panic of the handler is logged, and ends the connection.
func TestPanicIsLogged(t *testing.T) {
	var log strings.Builder
	p := newPeer(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for cause, told := range map[any]bool{"a fault": true, any(http.ErrAbortHandler): false} {
		log.Reset()
		func() {
			defer func() {
				if got := recover(); got != cause {
					t.Errorf("%v, and not %v", got, cause)
				}
			}()
			p.h.(*handler).serve(0, &route{run: func(*request) error { panic(cause) }}, httptest.NewRecorder(), asked("GET /a"))
		}()
		if got := log.String(); strings.Contains(got, "level=ERROR") != told || told && !strings.Contains(got, "TestPanicIsLogged") {
			t.Errorf("%v: %s", cause, got)
		}
	}
}
