package serving

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/copaldb/copal/httpapi"
	"github.com/copaldb/copal/redisapi"
)

// The limits of HTTP. Each piece of a body has its own time, as long as pieces come or are taken.
const (
	headerPatience = 10 * time.Second
	bodyPatience   = 30 * time.Second
	keepAlive      = 2 * time.Minute
	longestHeld    = 16 << 20  // of bodies that are held in memory
	longestHeader  = 256 << 10 // a key of 64 KiB may be in the path, with three characters for each byte
	mostConcurrent = 100       // requests of a connection of HTTP/2
)

// web serves HTTP.
type web struct {
	server http.Server
	admin  http.Server
	end    context.CancelFunc // of streams, which have no end of their own
	logger *slog.Logger
}

func newWeb(door *redisapi.Server, s *Settings, token string, logger *slog.Logger) *web {
	w := &web{logger: logger}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	options := []httpapi.Option{httpapi.WithDurability(door.Durability), httpapi.WithMaxValue(int64(s.maxRequest)),
		httpapi.WithMaxBody(min(int64(s.maxRequest), longestHeld)),
		httpapi.WithLogger(logger), httpapi.WithContext(ctx), httpapi.WithPatience(bodyPatience), httpapi.WithMetrics(door.WriteMetrics), httpapi.WithMetrics(processMetrics)}
	if door.Access != nil {
		options = append(options, httpapi.WithAccess(door.Access))
	}
	if host, _, err := net.SplitHostPort(s.http); door.Access == nil && (err != nil || isLoopback(host)) {
		options = append(options, httpapi.LocalNames())
	}
	if len(s.cors) > 0 {
		options = append(options, httpapi.WithCORS(s.cors...))
	}
	if s.clientMemory > 0 {
		options = append(options, httpapi.WithMaxMemory(int64(s.clientMemory)))
	}
	if s.accessLog {
		options = append(options, httpapi.WithAccessLog(logger))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	handler := httpapi.Handler(door.DB, options...)
	w.admin = http.Server{Handler: administration(handler, token), ReadHeaderTimeout: headerPatience, IdleTimeout: keepAlive, ConnContext: slotOf, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	w.server = http.Server{Handler: handler, Protocols: protocols, ReadHeaderTimeout: headerPatience, WriteTimeout: bodyPatience,
		IdleTimeout: keepAlive, MaxHeaderBytes: longestHeader, ConnContext: slotOf, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostConcurrent}, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	if s.idle > 0 {
		w.server.IdleTimeout = s.idle
	}
	return w
}

// serve serves the connections of a listener until shutdown.
func (w *web) serve(l net.Listener) error { return w.server.Serve(l) }

// shutdown ends the streams, lets requests that run end, and closes all connections when ctx is
// done.
func (w *web) shutdown(ctx context.Context) error {
	w.end()
	err := w.server.Shutdown(ctx)
	if err != nil {
		w.server.Close()
	}
	w.admin.Close() // a profile may take for ever
	return err
}
