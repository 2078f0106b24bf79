package exposition

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	w.One("copal_keys", Gauge, `Entries; a \ and a
line.`, 12)
	w.Metric("copal_http_requests_total", Counter, "Requests.")
	w.Sample("copal_http_requests_total", 3, "route", `GET /v1/"a"\b`+"\n", "code", "200")
	w.Sample("copal_http_requests_total", 1e21)
	const want = `# HELP copal_keys Entries; a \\ and a\nline.
# TYPE copal_keys gauge
copal_keys 12
# HELP copal_http_requests_total Requests.
# TYPE copal_http_requests_total counter
copal_http_requests_total{route="GET /v1/\"a\"\\b\n",code="200"} 3
copal_http_requests_total 1e+21
`
	if b.String() != want || w.Err() != nil {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, 10 * time.Microsecond, 10*time.Microsecond + 1, time.Second, time.Minute} {
		h.Observe(d)
	}
	var b strings.Builder
	w := NewWriter(&b)
	w.Metric("x_seconds", Buckets, "Time.")
	w.Histogram("x_seconds", &h, "of", "a")
	for _, line := range []string{
		"# TYPE x_seconds histogram\n", `x_seconds_bucket{of="a",le="1e-05"} 2` + "\n", `x_seconds_bucket{of="a",le="2.5e-05"} 3` + "\n",
		`x_seconds_bucket{of="a",le="0.5"} 3` + "\n", `x_seconds_bucket{of="a",le="1"} 4` + "\n", `x_seconds_bucket{of="a",le="10"} 4` + "\n",
		`x_seconds_bucket{of="a",le="+Inf"} 5` + "\n", `x_seconds_sum{of="a"} 61.000020001` + "\n", `x_seconds_count{of="a"} 5` + "\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
	h.Reset()
	before := b.Len()
	if w.Histogram("x_seconds", &h); b.Len() != before || h.Sum() != 0 {
		t.Error("an empty histogram has samples")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestError(t *testing.T) {
	w := NewWriter(broken{})
	if w.One("a", Gauge, "A.", 1); w.Err() == nil {
		t.Error("no error")
	}
}
