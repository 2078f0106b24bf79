package serving

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/httpapi"
	"github.com/copaldb/copal/internal/exposition"
	"github.com/copaldb/copal/internal/strangers"
	"github.com/copaldb/copal/internal/vfs"
)

// The server of --admin is for operators, at an address of this machine or a unix socket: profiles,
// metrics and probes, and no contents of the store. It asks for no password.

// IsSocket reports whether an address is the path of a unix socket.
func IsSocket(address string) bool { return strings.ContainsAny(address, `/\`) }

// mayAdminister refuses an address that other machines reach: a profile shows parts of the memory.
func mayAdminister(address string) error {
	if address == "" || IsSocket(address) {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.UsageError(fmt.Sprintf("--admin: %v; a unix socket has a / in its path", err))
	}
	if !isLoopback(host) {
		return cli.UsageError(fmt.Sprintf("--admin is for this machine alone, and other machines can reach %s", address))
	}
	return nil
}

// ListenAdmin listens at the address of --admin.
func ListenAdmin(address string) (net.Listener, error) {
	if IsSocket(address) {
		return ListenUnix(address, vfs.OwnerOnly)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	return l, nil
}

// administer serves the connections of --admin until shutdown.
func (w *web) administer(l net.Listener) error { return w.admin.Serve(l) }

// administration returns the handler of --admin. It refuses pages in a browser, also those under a
// name that was made to mean this machine: a socket takes any name, and an address its own alone.
func administration(door http.Handler, token string) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/metrics", "/version"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Host = "localhost"
			door.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		socket := at != nil && at.Network() == "unix"
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" || !socket && !httpapi.IsLocalName(r.Host) {
			http.Error(w, "this is no door for pages", http.StatusForbidden)
			return
		}
		if strangers.Known(r.Context(), "") != nil {
			w.Header().Set("Connection", "close")
			http.Error(w, "there are as many connections as the door takes", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var started = time.Now()

// processMetrics writes the metrics of the process, by their usual names.
func processMetrics(out io.Writer) error {
	w := exposition.NewWriter(out)
	w.One("process_start_time_seconds", exposition.Gauge, "When the process began, in seconds since 1970.", float64(started.UnixMilli())/1000)
	w.One("go_goroutines", exposition.Gauge, "Goroutines.", float64(runtime.NumGoroutine()))
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	w.One("copal_process_memory_bytes", exposition.Gauge, "Memory that the process has of the system, without mapped files.", float64(samples[0].Value.Uint64()-samples[1].Value.Uint64()))
	w.One("copal_process_gc_cycles_total", exposition.Counter, "Cycles of the garbage collector.", float64(samples[2].Value.Uint64()))
	return w.Err()
}
