package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
)

func TestProbes(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	p := newPeer(t, WithAccess(users(t, access.Password("secret"))), WithContext(ctx))
	p.want("GET /livez", `200 {"status":"OK"}`)
	p.want("GET /readyz", `200 {"status":"OK"}`)
	p.want("GET /healthz", `200 {"status":"OK"}`)
	p.want("GET /metrics", `401 unauthorized "the token is missing, or belongs to no user"`)
	end()
	p.want("GET /livez", `200 {"status":"OK"}`)
	p.want("GET /readyz", `503 unavailable "the server is ending"`)
	p.want("GET /readyz?x=1", `400 bad-request "the route takes no ?x="`)
}

// A store whose directory has gone takes no writes, and its server is not ready.
func TestNotReadyWhenTheDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := copal.Open(dir, copal.WithErrorHandler(func(error) {}))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, db, Handler(db)}
	p.want("PUT /v1/maps/m/a\n\n1", `201`)
	if err := os.Rename(dir, dir+" moved"); err != nil {
		t.Skip("an open directory cannot be moved here")
	}
	if err := db.Sync(); err == nil {
		t.Skip("it is not known here that the directory has gone")
	}
	if got := p.do("GET /readyz"); !strings.HasPrefix(got, "503 ") {
		t.Error(got)
	}
	p.want("GET /livez", `200 {"status":"OK"}`)
	if got := p.do("GET /metrics"); !strings.Contains(got, "\ncopal_writes_refused 1\n") {
		t.Error(got)
	}
	db.Close()
	if got := p.do("GET /readyz"); !strings.HasPrefix(got, "503 ") {
		t.Error(got)
	}
}

// A store that is open for reading alone is ready to be read.
func TestReadyToBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := copal.Open(dir)
	if err == nil {
		err = errors.Join(db.Sync(), db.Close())
	}
	if err == nil {
		db, err = copal.Open(dir, copal.ReadOnly())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := &peer{t, db, Handler(db)}
	p.want("GET /readyz", `200 {"status":"OK"}`)
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_]+)(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? ([0-9.e+-]+|\+Inf)$`)
	metricLine = regexp.MustCompile(`^# TYPE (copal_[a-z_]+) (counter|gauge|histogram)$`)
)

// Each line of the metrics is one of the format, each sample belongs to the metric in front of it, and no name comes
// twice.
func TestMetrics(t *testing.T) {
	p := newPeer(t, WithMetrics(func(w io.Writer) error {
		_, err := io.WriteString(w, "# HELP copal_more More.\n# TYPE copal_more gauge\ncopal_more 1\n")
		return err
	}))
	p.want("PUT /v1/maps/m/a\n\n1", `201`)
	p.want("GET /v1/maps/m/a", `200 1`)
	p.do("GET /v1/maps/m/b")
	p.do("GET /nowhere")
	text := p.do("GET /metrics", "Content-Type") + "\n"
	body, ok := strings.CutPrefix(text, "200 Content-Type=text/plain; version=0.0.4; charset=utf-8 ")
	if !ok {
		t.Fatal(text)
	}
	metric, seen := "", map[string]bool{}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		if m := metricLine.FindStringSubmatch(line); m != nil {
			metric = m[1]
			if seen[metric] || m[2] == "counter" != strings.HasSuffix(metric, "_total") {
				t.Errorf("%s occurs twice, or ends like another type", metric)
			}
			seen[metric] = true
			continue
		}
		if m := sampleLine.FindStringSubmatch(line); m == nil || !strings.HasPrefix(m[1], metric) {
			t.Errorf("the line %q, behind %s", line, metric)
		}
	}
	for _, want := range []string{
		"copal_keys 1\n", "copal_log_records 2\n", "copal_sequence 2\n", "copal_writes_refused 0\n", "copal_more 1\n", "copal_http_requests_in_flight 1\n",
		`copal_http_requests_total{method="GET",route="/v1/maps/{map}/{key}",code="200"} 1` + "\n",
		`copal_http_requests_total{method="GET",route="/v1/maps/{map}/{key}",code="404"} 1` + "\n",
		`copal_http_requests_total{method="",route="",code="404"} 1` + "\n",
		`copal_http_request_duration_seconds_count{method="GET",route="/v1/maps/{map}/{key}"} 2` + "\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no line %s", want)
		}
	}
}

// A stream counts as one while it is open, and its events when they are whole.
func TestMetricsOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		w := httptest.NewRecorder()
		go func() {
			defer close(done)
			p.h.ServeHTTP(w, asked("GET /v1/changes?since=0").WithContext(ctx))
		}()
		synctest.Wait()
		p.want("PUT /v1/maps/m/a\n\n1", `201`)
		p.do("POST /v1/tx\n\n" + `{"operations":[{"op":"put","map":"m","key":"a","value":1},{"op":"put","map":"m","key":"b","value":2}]}`)
		synctest.Wait()
		events := strings.Count(w.Body.String(), "data: ")
		text := p.do("GET /metrics") + "\n"
		if events == 0 || !strings.Contains(text, "copal_http_streams 1\n") || !strings.Contains(text, "copal_http_stream_events_total "+string('0'+byte(events))+"\n") {
			t.Errorf("%d events\n%s", events, text)
		}
		end()
		<-done
		if text := p.do("GET /metrics"); !strings.Contains(text, "copal_http_streams 0\n") || strings.Contains(text, `_seconds_count{method="GET",route="/v1/changes"}`) {
			t.Error(text)
		}
	})
}

func TestVersion(t *testing.T) {
	p := newPeer(t)
	var v struct{ Version, Go string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(p.do("GET /version"), "200 ")), &v); err != nil || v.Version == "" || !strings.HasPrefix(v.Go, "go") {
		t.Error(v, err)
	}
}

func TestAccessLog(t *testing.T) {
	var b bytes.Buffer
	p := newPeer(t, WithAccessLog(slog.New(slog.NewJSONHandler(&b, nil))))
	p.want("PUT /v1/maps/m/a\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n\n1", `201`)
	p.do("GET /nowhere\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e473X-00f067aa0ba902b7-01")
	want := []string{`"method":"PUT","path":"/v1/maps/m/a","route":"/v1/maps/{map}/{key}","status":201,`, `"method":"GET","path":"/nowhere","route":"","status":404,`}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != len(want) {
		t.Fatal(b.String())
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || strings.Contains(line, `"trace":"4bf92f3577b34da6a3ce929d0e0e4736"`) != (i == 0) {
			t.Errorf("%s, want %s", line, want[i])
		}
	}
}
