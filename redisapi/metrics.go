package redisapi

import (
	"io"

	"github.com/copaldb/copal/internal/exposition"
)

// WriteMetrics writes metrics of the server in the text format of Prometheus: its connections, and
// the number and the durations of commands. Package httpapi has the metrics of the store. The
// counts are those of INFO, and begin anew with CONFIG RESETSTAT.
func (s *Server) WriteMetrics(out io.Writer) error {
	s.init()
	const counter, gauge, buckets = exposition.Counter, exposition.Gauge, exposition.Buckets
	w := exposition.NewWriter(out)
	s.mu.Lock()
	clients := len(s.clients)
	s.mu.Unlock()
	n := &s.counts
	w.One("copal_redis_clients", gauge, "Connections.", float64(clients))
	w.One("copal_redis_blocked_clients", gauge, "Connections that wait in a command such as BLPOP.", float64(s.waiting.count.Load()))
	w.One("copal_redis_connections_total", counter, "Connections that were accepted.", float64(n.connections.Load()))
	w.One("copal_redis_rejected_connections_total", counter, "Connections that were turned away, as there were too many.", float64(n.rejected.Load()))
	w.One("copal_redis_received_bytes_total", counter, "Bytes of requests.", float64(n.in.Load()))
	w.One("copal_redis_sent_bytes_total", counter, "Bytes of replies.", float64(n.out.Load()))
	w.One("copal_redis_hits_total", counter, "Keys that were read, and there.", float64(s.shared.Hits.Load()))
	w.One("copal_redis_misses_total", counter, "Keys that were read, and not there.", float64(s.shared.Misses.Load()))
	w.Metric("copal_redis_commands_total", counter, "Commands that have run.")
	each := func(write func(name string, f *figures)) {
		for _, cmd := range table.Numbered {
			if f := &s.figures[cmd.Number]; f.calls.Load()|f.rejected.Load() != 0 {
				write(cmd.FullName(), f)
			}
		}
	}
	each(func(name string, f *figures) {
		w.Sample("copal_redis_commands_total", float64(f.calls.Load()), "command", name)
	})
	w.Metric("copal_redis_command_errors_total", counter, "Commands that were refused, or answered an error.")
	each(func(name string, f *figures) {
		w.Sample("copal_redis_command_errors_total", float64(f.rejected.Load()+f.failed.Load()), "command", name)
	})
	w.Metric("copal_redis_command_duration_seconds", buckets, "How long commands took, but for those that have waited.")
	each(func(name string, f *figures) {
		w.Histogram("copal_redis_command_duration_seconds", &f.took, "command", name)
	})
	return w.Err()
}
