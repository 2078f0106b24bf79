package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/budget"
	"github.com/copaldb/copal/internal/strangers"
	"github.com/copaldb/copal/internal/turns"
)

// Option is a setting of a Handler.
type Option func(*handler)

// WithAccess asks each request for a token of one of the users: by Authorization: Bearer, or as the password of Basic.
// Without it, every client may do everything; with nil users, no client may do anything.
func WithAccess(users *access.Users) Option {
	if users == nil {
		users = new(access.Users)
	}
	return func(h *handler) { h.users = users }
}

// WithDurability says how durable a write is when it is answered, unless the request says so itself by
// Copal-Durability. The default is copal.Write; copal.Async is as good.
func WithDurability(d copal.Durability) Option { return func(h *handler) { h.durability = d } }

// WithMaxBody bounds the bodies that are held in memory: JSON, patches, transactions, lines of a bulk. The default is
// 16 MiB.
func WithMaxBody(bytes int64) Option { return func(h *handler) { h.maxBody = bytes } }

// WithMaxValue bounds the values that are streamed in. The default is 1 GiB.
func WithMaxValue(bytes int64) Option { return func(h *handler) { h.maxValue = bytes } }

// WithMaxMemory bounds the memory that all requests hold together: bodies, transactions, pages, values that are read
// for a filter. A request that does not fit is answered by 503, or is given the room of the largest request of the user
// with most, which ends. The default is 256 MiB.
func WithMaxMemory(bytes int64) Option { return func(h *handler) { h.maxMemory = bytes } }

// WithLogger logs events and errors that no answer has in full. Without it they are dropped.
func WithLogger(l *slog.Logger) Option { return func(h *handler) { h.logger = l } }

// WithContext ends the streams of changes when ctx is done, so that a server which shuts down need not wait for them.
// A client goes on where it was, at the next server.
func WithContext(ctx context.Context) Option { return func(h *handler) { h.ctx = ctx } }

// WithPatience says how long a client may take to send or to read some of a body before it is given up. The default is
// 30 seconds. It counts where the connection has deadlines, as those of net/http have.
func WithPatience(d time.Duration) Option { return func(h *handler) { h.patience = d } }

// WithAccessLog gets a line about each request that was answered: its method, path, route and status, how long it took,
// whose it was and, where it has a header Traceparent (W3C Trace Context), of which trace it is. The default is
// nowhere.
func WithAccessLog(l *slog.Logger) Option { return func(h *handler) { h.requests = l } }

// WithMetrics adds the output of write to GET /metrics: metrics in the text format of Prometheus,
// whose names must differ from the server's own.
func WithMetrics(write func(io.Writer) error) Option {
	return func(h *handler) { h.more = append(h.more, write) }
}

// LocalNames refuses requests for a host that is neither an IP address nor localhost. It is for a server at a loopback
// address without a password: a page whose name is made to mean 127.0.0.1 is of the same origin as the server is then.
func LocalNames() Option { return func(h *handler) { h.localNames = true } }

// IsLocalName reports whether a host, with or without a port, is one that no page of another machine has: an IP address
// or localhost.
func IsLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
}

// handler serves one store.
type handler struct {
	db         *copal.DB
	ctx        context.Context
	users      *access.Users // nil if everybody may do everything
	localNames bool
	cors       []string // origins
	durability copal.Durability
	maxBody    int64
	maxValue   int64
	maxMemory  int64
	patience   time.Duration
	most       int // answers that are kept for a user
	logger     *slog.Logger
	requests   *slog.Logger // nil for nowhere
	more       []func(io.Writer) error

	figures   []figures // of each route, and at the end of requests without a route
	streams   streams
	running   atomic.Int64 // requests
	evictions atomic.Int64 // of requests, for others

	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	memory  *budget.Budget // of requests
	moments *budget.Budget // of the past, that are open
	lasting *budget.Budget // streams of changes
	buffers sync.Pool      // of *[]byte
}

// How many moments of the past may be open at a time, each of which is an index in memory, and for how long; and how
// many streams of changes.
const (
	mostMoments   = 4
	longestMoment = 10 * time.Minute
	mostStreams   = 1000
)

// Handler serves a store. The store stays the caller's, who closes it after the last request.
func Handler(db *copal.DB, options ...Option) http.Handler {
	h := &handler{db: db, ctx: context.Background(), durability: copal.Write, maxBody: 16 << 20, maxValue: 1 << 30, maxMemory: usualMemory, patience: 30 * time.Second, most: mostReplies,
		logger: slog.New(slog.DiscardHandler), figures: make([]figures, len(routes)+1), mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		moments: budget.New(mostMoments), lasting: budget.New(mostStreams)}
	for _, o := range options {
		if o != nil {
			o(h)
		}
	}
	for _, origin := range h.cors {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			panic("httpapi: " + err.Error())
		}
	}
	h.memory = budget.New(h.maxMemory)
	h.buffers.New = func() any { return new([]byte) }
	for i := range routes {
		route := &routes[i]
		serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(i, route, w, r) })
		for _, pattern := range route.patterns() {
			h.mux.Handle(route.method+" "+pattern, serve)
		}
	}
	h.mux.HandleFunc("/", h.nowhere)
	h.mux.HandleFunc("/items", h.nowhere) // else ServeMux sends a PUT of a map to its empty key
	h.mux.HandleFunc("/v1/maps/{map}", h.nowhere)
	return h
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // net/http waits for some of a body that is not read
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.patience))
	}
	if h.localNames && !IsLocalName(r.Host) {
		h.refuse(problemf(forbidden, "%s is not a name of this machine; a server with a password answers for any name", r.Host), w, r)
		return
	}
	if len(h.cors) > 0 && h.share(w, r) {
		return
	}
	if len(r.Header["Authorization"]) > 1 { // a proxy may have looked at another one
		h.refuse(problemf(badRequest, "a request has at most one Authorization header"), w, r)
		return
	}
	if hasBasic(r) && slices.Contains(h.cors, r.Header.Get("Origin")) { // the browser may have sent it by itself
		h.refuse(problemf(forbidden, "a page of another origin sends its token as Bearer, not as Basic"), w, r)
		return
	}
	if err := h.origins.Check(r); err != nil {
		h.refuse(problemf(forbidden, "a page of another origin cannot write here"), w, r)
		return
	}
	if p := r.URL.EscapedPath(); strings.TrimSuffix(p, "/") != strings.TrimSuffix(path.Clean(p), "/") { // ServeMux would send it to another key
		h.refuse(problemf(notFound, "no route for %s; write / within a key as %%2F", r.URL.Path), w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// refuse answers a request that comes to no route.
func (h *handler) refuse(p *problem, w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	dropBody(w, r)
	p.write(w, r)
	h.answered(len(routes), r, p.Status, began, true, "")
}

// grantOf returns the rights of the user of a request, nil for no user. A wrong token may take time,
// unless the route is for anybody: a probe does not wait.
func (h *handler) grantOf(r *http.Request, needs right) (*access.Grant, error) {
	header := r.Header.Get("Authorization")
	switch {
	case h.users == nil:
		return access.Everything, nil
	case header == "":
		return nil, nil
	}
	name, token, _ := r.BasicAuth()
	if scheme, bearer, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		name, token = "", bearer
	}
	if needs == anybody {
		return h.users.Find(name, token), nil
	}
	g, err := h.users.Admit(r.Context(), h.logger, r.RemoteAddr, name, token)
	if err == access.ErrTooManyTokens {
		return nil, problemf(tooMany, "too many wrong tokens came from this address")
	}
	return g, nil
}

// request is a request that is being answered.
type request struct {
	*handler
	w   http.ResponseWriter
	r   *http.Request
	buf *[]byte // the request's own until it is answered

	began time.Time
	grant *access.Grant

	parameters url.Values // of the query, each of which the route takes

	account *budget.Account // of memory; nil until some is taken
	place   *budget.Account // among moments or streams
	counted buffer          // of buf
	last    time.Time       // when the answer has to have been read, zero for no such time

	ending  sync.Mutex // guards the fields below
	evicted bool       // for others
	ended   bool       // the connection is another request's
	stop    func()     // ends a request that waits for something else than its client, nil for none

	code  int  // that was written, 0 for none: after it an error can only end the connection
	lasts bool // a stream of changes, which has no end of its own

	turn  turns.Turn
	tries int // of its transaction: one that is tried again comes to hold a lock, and takes no turns
}

// serve answers a request by the n-th route.
func (h *handler) serve(n int, route *route, w http.ResponseWriter, r *http.Request) {
	q := &request{handler: h, w: w, r: r, buf: h.buffers.Get().(*[]byte), began: time.Now()}
	h.running.Add(1)
	defer func() {
		h.running.Add(-1)
		q.end()
		p := recover()
		switch {
		case p == nil:
		case p != http.ErrAbortHandler:
			q.code = http.StatusInternalServerError
			h.logger.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		case !q.lasts:
			q.code = cutOffStatus
		}
		h.answered(n, r, q.code, q.began, q.lasts, q.grant.Name())
		if p != nil {
			panic(p)
		}
	}()
	var err error
	if q.grant, err = h.grantOf(r, route.needs); err == nil {
		err = q.mayDo(route)
	}
	if err == nil && route.needs != anybody && strangers.Known(r.Context(), q.grant.Name()) != nil {
		w.Header().Set("Connection", "close")
		err = busy("the server has as many connections of users as it takes")
	}
	q.turn.Begin(q.grant.Name())
	if err == nil {
		err = q.check(route)
	}
	if err == nil {
		err = route.run(q)
	}
	if cap(*q.buf) <= freeBytes {
		h.buffers.Put(q.buf)
	}
	if err == nil {
		return
	}
	p := problemOf(q.misspelt(err))
	if q.isEvicted() {
		p = errEvicted
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.patience))
	}
	if p.Status >= http.StatusInternalServerError && !p.usual {
		h.logger.Error("a request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "error", err)
	}
	if q.code != 0 {
		panic(http.ErrAbortHandler) // so that the client sees that the answer is not whole
	}
	q.code = p.Status
	if p.kind == unauthorized || p.kind == tooMany {
		dropBody(w, r)
	}
	p.write(w, r)
}

// misspelt returns, in the place of an ErrNotFound, the error of a key that is spelled as none of its map.
// A write under that key has the same error.
func (q *request) misspelt(err error) error {
	if !errors.Is(err, copal.ErrNotFound) {
		return err
	}
	if _, key, wrong := q.mapAndKey(); wrong == nil && len(key) > 0 {
		if wrong := admin.CheckKey(q.db, key); wrong != nil {
			return wrong
		}
	}
	return err
}

// once are the headers that say one thing.
var once = []string{"Content-Type", "Content-Encoding", "Copal-Ttl", "Copal-Expires", "Copal-Durability", "Idempotency-Key", "Last-Event-Id"}

// check refuses parameters and headers that the route would ignore: a deletion up to ?too= is one of
// everything, a write with an ignored condition undoes another, and of two deadlines one would count.
func (q *request) check(route *route) (err error) {
	for name, values := range q.r.Header {
		if len(values) > 1 && slices.Contains(once, name) {
			return problemf(badRequest, "%s occurs twice", name)
		}
	}
	if route.method != http.MethodGet {
		for _, name := range ofOneEntry {
			if q.r.Header.Get(name) != "" && !slices.Contains(route.takes, name) {
				return problemf(badRequest, "the route takes no %s", name)
			}
		}
	}
	if route.method == http.MethodGet && route.needs == anybody {
		dropBody(q.w, q.r)
	} else if route.method == http.MethodGet && q.r.ContentLength != 0 { // which may be a stream without an end
		if _, err := io.Copy(io.Discard, q.body(q.maxBody)); err != nil {
			return cutOff(err)
		}
	}
	if q.r.URL.RawQuery == "" {
		return nil
	}
	if q.parameters, err = url.ParseQuery(q.r.URL.RawQuery); err != nil {
		return problemf(badRequest, "the query: %v", err)
	}
	for name, values := range q.parameters {
		switch {
		case !slices.Contains(route.takes, "?"+name+"="):
			return problemf(badRequest, "the route takes no ?%s=", name)
		case len(values) > 1 && name != "where":
			return problemf(badRequest, "?%s= occurs twice", name)
		}
	}
	return nil
}

// status writes the status. Only bytes of the body follow.
func (q *request) status(code int) {
	q.code = code
	q.w.WriteHeader(code)
}

// nowhere answers requests that have no route.
func (h *handler) nowhere(w http.ResponseWriter, r *http.Request) {
	g, err := h.grantOf(r, known)
	if err == nil && g == nil {
		err = errUnknown
	}
	if err != nil {
		h.refuse(problemOf(err), w, r)
		return
	}
	var allowed []string
	for _, method := range []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		other := *r
		other.Method = method
		if _, pattern := h.mux.Handler(&other); !strings.HasPrefix(pattern, "/") { // else it is of no method
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		h.refuse(problemf(notFound, "no route for %s; GET / lists the routes", r.URL.Path), w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	h.refuse(problemf(notAllowed, "%s is not one of %s", r.Method, strings.Join(allowed, ", ")), w, r)
}

// durableAs is how durable the writes of the request are.
func (q *request) durableAs() (copal.Durability, error) {
	text := q.r.Header.Get("Copal-Durability")
	if text == "" {
		return q.durability, nil
	}
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		if d.String() == text {
			return d, nil
		}
	}
	return 0, problemf(badRequest, "Copal-Durability is async, write or fsync, and not %q", text)
}

// update runs f in a transaction that is so durable.
func (q *request) update(d copal.Durability, f func(tx *copal.Tx) error) error {
	run := q.db.Update
	if d == copal.FSync {
		run = q.db.UpdateFSync
	}
	q.tries = 0
	defer func() { q.tries = 0 }()
	return run(func(tx *copal.Tx) error {
		q.tries++
		return f(tx)
	})
}

// query is a parameter of the query, "" if it is not there.
func (q *request) query(name string) string { return q.parameters.Get(name) }

// mapAndKey are the map and the whole key of the entry that the path names. The key is the caller's.
func (q *request) mapAndKey() (name string, key []byte, err error) {
	name = q.r.PathValue("map")
	own, err := q.pathOrQuery("key")
	if err == nil {
		key, err = wholeKey(name, own)
	}
	return name, key, err
}

// pathOrQuery returns the name in the path or, where the path ends with a slash, in the query.
func (q *request) pathOrQuery(name string) (string, error) {
	own := q.r.PathValue(name)
	switch {
	case own == "":
		return q.query(name), nil
	case q.parameters.Has(name):
		return "", problemf(badRequest, "the path has the key, and ?%s= has one, too", name)
	}
	return own, nil
}

// wholeKey is the key of an entry of a map in the store.
func wholeKey(name, own string) ([]byte, error) {
	if name == "" {
		return nil, problemf(badRequest, "the name of a map is empty")
	}
	key := append(copal.MapPrefix(name), own...)
	if len(key) > copal.MaxKeyBytes {
		return nil, problemf(tooLarge, "a key of %d bytes; the limit is %d, with the name of the map", len(key), copal.MaxKeyBytes)
	}
	return key, nil
}

// moment opens the moment of the past that ?at= names, nil for now. The caller ends it.
func (q *request) moment() (s *copal.Snapshot, end func(), err error) {
	at := q.query("at")
	if at == "" {
		return nil, nothing, nil
	}
	open, err := momentOf(at)
	if err != nil {
		return nil, nil, err
	}
	if q.enter(q.moments) != nil {
		return nil, nil, busy("%d moments of the past are open already", mostMoments)
	}
	q.last = time.Now().Add(longestMoment)
	if s, err = open(q.db); err != nil {
		if !errors.Is(err, copal.ErrHistoryLost) && !errors.Is(err, copal.ErrClosed) {
			err = problemf(badRequest, "at: %s", plain(err))
		}
		return nil, nil, err
	}
	return s, func() { s.Close() }, nil
}

func nothing() {}

// momentOf reads the value of ?at=: a sequence number, or a time.
func momentOf(at string) (func(*copal.DB) (*copal.Snapshot, error), error) {
	if n, ok := parseSeq(at); ok {
		return func(db *copal.DB) (*copal.Snapshot, error) { return db.AsOfSeq(n) }, nil
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, problemf(badRequest, "at=%s is neither a sequence number nor a time such as %s", at, time.UnixMilli(0).UTC().Format(time.RFC3339))
	}
	return func(db *copal.DB) (*copal.Snapshot, error) { return db.AsOf(t) }, nil
}

// plain is the text of an error of copal without the name.
func plain(err error) string { return strings.TrimPrefix(fmt.Sprint(err), "copal: ") }
