package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/built"
	"github.com/copaldb/copal/internal/exposition"
)

// figures are the counters of a route.
type figures struct {
	took    exposition.Histogram // without streams, which last
	answers [len(statuses)]atomic.Int64
}

// statuses are all that are answered, the most frequent first, and at the end 0 for all others.
var statuses = [...]int{200, 201, 204, 304, 404, 206, 400, 401, 403, 405, 409, 410, 412, 413, 415, 416, 422, 429, cutOffStatus, 500, 503, 507, 0}

// streams counts the open streams of changes, and the bytes and events that were sent in all of them.
type streams struct {
	open   atomic.Int64
	events atomic.Int64
}

// cutOffStatus counts an answer that could not be ended. No client gets it.
const cutOffStatus = 499

// count counts a request that was answered.
func (f *figures) count(status int, took time.Duration, stream bool) {
	i := 0
	for i < len(statuses)-1 && statuses[i] != status {
		i++
	}
	f.answers[i].Add(1)
	if !stream {
		f.took.Observe(took)
	}
}

// alive answers whether the server runs: if it answers at all, it does.
func (q *request) alive() error { return q.ok(http.StatusOK) }

// ready answers whether requests should come here: not when the server is ending, or the store is closed or
// refuses writes.
func (q *request) ready() error {
	if q.ctx.Err() != nil {
		return problemf(unavailable, "the server is ending")
	}
	if err := q.takesWrites(); err != nil { // anybody may ask, and learns no more
		q.logger.Error("the store takes no writes", "error", err)
		return problemf(unavailable, "the store takes no writes; the log of the server has the reason")
	}
	return q.ok(http.StatusOK)
}

// takesWrites returns why the store takes no writes, or nil. One that was opened for reading alone is not asked to.
func (h *handler) takesWrites() error {
	if err := h.db.Update(func(*copal.Tx) error { return nil }); err != copal.ErrReadOnly {
		return err
	}
	return nil
}

// version answers the revision that the server was built from.
func (q *request) version() error {
	body, err := json.Marshal(built.Read())
	if err != nil {
		return err
	}
	return q.json(append(body, '\n'))
}

// metrics answers how the store and its doors do.
func (q *request) metrics() error {
	var text bytes.Buffer
	if err := q.writeMetrics(&text); err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", exposition.ContentType)
	h.Set("Cache-Control", "no-store")
	q.status(http.StatusOK)
	_, err := q.w.Write(text.Bytes())
	return gaveUp(err)
}

func (h *handler) writeMetrics(out io.Writer) error {
	w := exposition.NewWriter(out)
	h.storeMetrics(w)
	h.doorMetrics(w)
	errs := []error{w.Err()}
	for _, more := range h.more {
		errs = append(errs, more(out))
	}
	return errors.Join(errs...)
}

func (h *handler) storeMetrics(w *exposition.Writer) {
	const counter, gauge = exposition.Counter, exposition.Gauge
	v := built.Read()
	w.Metric("copal_build_info", gauge, "What the program was built from; always 1.")
	w.Sample("copal_build_info", 1, "version", v.Version, "commit", v.Commit, "goversion", v.Go, "format", strconv.Itoa(v.Format))
	refused := 0.0
	if h.takesWrites() != nil {
		refused = 1
	}
	w.One("copal_writes_refused", gauge, "1 when the store takes no writes after an error of the disk, or is closed.", refused)
	st := h.db.Stats()
	w.One("copal_keys", gauge, "Entries of all maps, and raw ones.", float64(st.Keys))
	w.One("copal_log_records", gauge, "Records in the log, with those of overwritten and deleted entries.", float64(st.Records))
	w.One("copal_log_bytes", gauge, "Bytes of the segments of the log.", float64(st.LogBytes))
	w.One("copal_log_live_bytes", gauge, "Bytes of the log that belong to entries, about.", float64(st.LiveBytes))
	w.One("copal_log_segments", gauge, "Files of the log.", float64(st.Segments))
	w.One("copal_log_held_bytes", gauge, "Bytes of replaced files that a snapshot, a watch, a read or a backup still needs.", float64(st.HeldBytes))
	w.One("copal_log_torn_bytes", gauge, "Bytes at the end of the log that opening did not count.", float64(st.TornBytes))
	w.One("copal_compacted_segments_total", counter, "Files of the log that compaction has replaced.", float64(st.Compacted))
	w.One("copal_index_bytes", gauge, "Memory of the index.", float64(st.IndexBytes))
	w.One("copal_cache_bytes", gauge, "Memory of decoded values.", float64(st.CacheBytes))
	w.One("copal_snapshots", gauge, "Open snapshots and running transactions.", float64(st.Snapshots))
	w.One("copal_snapshot_bytes", gauge, "Memory that is kept for snapshots.", float64(st.SnapshotBytes))
	if s, err := h.db.Snapshot(); err == nil {
		w.One("copal_sequence", gauge, "Number of the last record of the log.", float64(s.Seq()))
		s.Close()
	}
}

func (h *handler) doorMetrics(w *exposition.Writer) {
	w.Metric("copal_http_requests_total", exposition.Counter, "Requests that were answered, by route and status; 499 where the answer could not be ended.")
	for i := range h.figures {
		for s := range statuses {
			if n := h.figures[i].answers[s].Load(); n > 0 {
				w.Sample("copal_http_requests_total", float64(n), "method", methodOf(i), "route", pathOf(i), "code", strconv.Itoa(statuses[s]))
			}
		}
	}
	w.Metric("copal_http_request_duration_seconds", exposition.Buckets, "How long requests took, without streams of changes.")
	for i := range h.figures {
		w.Histogram("copal_http_request_duration_seconds", &h.figures[i].took, "method", methodOf(i), "route", pathOf(i))
	}
	w.One("copal_http_requests_in_flight", exposition.Gauge, "Requests that are being answered, with streams of changes.", float64(h.running.Load()))
	w.One("copal_http_memory_bytes", exposition.Gauge, "Memory that requests hold, but for small buffers.", float64(h.memory.Used()))
	w.One("copal_http_evicted_total", exposition.Counter, "Requests that were ended for others, of users with less memory, moments or streams.", float64(h.evictions.Load()))
	w.One("copal_http_streams", exposition.Gauge, "Streams of changes that are open.", float64(h.streams.open.Load()))
	w.One("copal_http_stream_events_total", exposition.Counter, "Events that were sent in streams of changes.", float64(h.streams.events.Load()))
}

// answered counts a request, and writes a line about it.
func (h *handler) answered(n int, r *http.Request, status int, began time.Time, lasts bool, user string) {
	took := time.Since(began)
	h.figures[n].count(status, took, lasts)
	if h.requests == nil {
		return
	}
	attributes := []any{"method", r.Method, "path", r.URL.Path, "route", pathOf(n), "status", status, "took", took, "remote", r.RemoteAddr}
	if user != "" {
		attributes = append(attributes, "user", user)
	}
	if id := traceOf(r.Header.Get("Traceparent")); id != "" {
		attributes = append(attributes, "trace", id)
	}
	h.requests.Info("request", attributes...)
}

// pathOf and methodOf name a route, "" for requests without a route.
func pathOf(n int) string {
	if n < len(routes) {
		return routes[n].path
	}
	return ""
}

func methodOf(n int) string {
	if n < len(routes) {
		return routes[n].method
	}
	return ""
}

// traceOf is the id of the trace that a request belongs to, by the header of W3C Trace Context, "" for none:
// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.
func traceOf(header string) string {
	const version, id, parent, flags = 2, 32, 16, 2
	if len(header) < version+id+parent+flags+3 || header[version] != '-' || header[version+1+id] != '-' || header[version+1+id+1+parent] != '-' {
		return ""
	}
	text := header[version+1 : version+1+id]
	for i := range text {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return text
}
