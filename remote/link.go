package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/internal/driver"
)

// link is the connection to a server or a cluster. All calls share it.
//
// The client sends the commands of many goroutines in one stream. It follows the redirections of a
// cluster, by which a command was refused, and sends nothing again by itself (call.send).
type link struct {
	client  rueidis.Client
	timeout time.Duration
	db      int
	closed  atomic.Bool
	has     features
	near    *near // the cache of maps, nil for none
	conns   *conns
	common  atomic.Pointer[commonLimit]
	trace   func(context.Context, []string) func(error) // Config.Trace
	own     chan struct{}                               // has one for each connection that a call has for itself

	option rueidis.ClientOption
	mu     sync.Mutex                // guards others
	others map[string]rueidis.Client // to nodes that client does not know, by their addresses
	clock  clock
}

// bufferBytes is the memory of a connection for each direction. A change of a collection has one of
// its own, so there may be many.
const bufferBytes = 64 << 10

// mostConnections bounds the connections to a server that calls share.
const mostConnections = 4

// sentinelInterval is the interval at which sentinels are asked for the master, in case that their
// word of another one is lost.
const sentinelInterval = 5 * time.Second

// mostSends bounds the sends of a read whose connections end, and of any command that was not sent.
// When a server has been away, a read may try each of its connections before it has a new one.
const mostSends = mostConnections + 1

// Open opens the store.
func (c Config) Open(ctx context.Context, opts ...copal.Option) (*copal.DB, error) {
	d, err := c.driver(ctx)
	if err != nil {
		return nil, err
	}
	db, err := copal.OpenDriven(d, opts...)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return db, nil
}

func (c Config) driver(ctx context.Context) (driver.Driver, error) {
	r, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return r.driver(), nil
}

// connect connects, and probes the features of the server.
func (c Config) connect(ctx context.Context) (*redis, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = c.Timeout
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = defaultMaxConnections
	}
	var kept *near
	if c.CacheBytes > 0 {
		kept = newNear(c.CacheBytes)
	}
	if err := ended(ctx); err != nil {
		kept.close()
		return nil, c.unopened(ctx, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	defer cancel()
	all := &conns{}
	option := c.option(kept, all)
	client, err := within(ctx, func() (rueidis.Client, error) { return newClient(ctx, option) })
	if err != nil {
		kept.close()
		return nil, c.unopened(ctx, err)
	}
	r := &redis{link: &link{client: client, timeout: c.Timeout, db: c.DB, near: kept, conns: all, trace: c.Trace, own: make(chan struct{}, c.MaxConnections), option: option, others: map[string]rueidis.Client{}}, on: client}
	err = r.probe(ctx)
	if err == nil && c.DB != 0 && r.has.copal {
		err = fmt.Errorf("walks and changes of copal need database 0: %w", errors.ErrUnsupported)
	}
	if err != nil {
		all.end() // so that Close does not wait for a server that does not answer
		r.Close()
		return nil, c.unopened(ctx, err)
	}
	return r, nil
}

// driver is the one that has all that the server has.
func (r *redis) driver() driver.Driver {
	if r.has.copal {
		return newServed(r)
	}
	return r
}

// option returns the settings of clients' connections.
func (c *Config) option(kept *near, all *conns) rueidis.ClientOption {
	option := rueidis.ClientOption{
		InitAddress:      c.Addresses,
		Username:         c.Username,
		Password:         c.Password,
		SelectDB:         c.DB,
		ClientName:       "copal",
		TLSConfig:        c.TLS, // so that the client takes the ports of TLS
		Dialer:           net.Dialer{Timeout: c.DialTimeout},
		ConnWriteTimeout: c.Timeout,
		DisableCache:     true,

		ReadBufferEachConn:  bufferBytes,
		WriteBufferEachConn: bufferBytes,
		BlockingPoolCleanup: time.Minute,
		BlockingPoolMinSize: 2,
		BlockingPoolSize:    c.MaxConnections,

		ClusterOption: rueidis.ClusterOption{MaxMovedRedirections: 16},
		DisableRetry:  true, // call.send does it, within the context
		DialCtxFn: func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return all.dial(ctx, func() (net.Conn, error) { return c.dial(ctx, address, d) })
		},
	}
	if c.Master != "" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: c.Master, Dialer: option.Dialer, TLSConfig: c.TLS, TopologyRefreshInterval: sentinelInterval}
	}
	if kept != nil {
		// Without OPTIN: a command that announces the next one may reach another node than that.
		option.DisableCache, option.ClientTrackingOptions, option.OnInvalidations = false, []string{}, kept.told
	}
	return option
}

// within returns the result of f, and ends with ctx, which f does not take.
func within(ctx context.Context, f func() (rueidis.Client, error)) (rueidis.Client, error) {
	type made struct {
		rueidis.Client
		error
	}
	done := make(chan made, 1)
	go func() {
		client, err := f()
		done <- made{client, err}
	}()
	select {
	case m := <-done:
		return m.Client, m.error
	case <-ctx.Done():
		go func() {
			if m := <-done; m.error == nil {
				m.Client.Close()
			}
		}()
		return nil, ended(ctx)
	}
}

// newClient connects to a server or, if that says that it is a node of one, to a cluster. Left to itself, the client
// would take each server for a cluster that knows the commands of one, as those of copal do.
func newClient(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	switch {
	case option.Sentinel.MasterSet != "":
		option.PipelineMultiplex = multiplex()
		return rueidis.NewClient(option)
	case len(option.InitAddress) > 1:
		return rueidis.NewClient(option)
	}
	client, err := newSingle(option)
	if err != nil {
		return nil, err
	}
	says, err := client.Do(ctx, client.B().Arbitrary("HELLO").ReadOnly()).AsMap()
	if _, reply := err.(*rueidis.RedisError); reply {
		return client, nil // without HELLO it is no node of a cluster that this driver knows
	}
	mode := says["mode"]
	if name, _ := mode.ToString(); err == nil && name != "cluster" {
		return client, nil
	}
	if client.Do(ctx, client.B().Arbitrary("CLIENT", "DURABILITY").ReadOnly()).Error() == nil {
		return client, nil // a copal serve: the only shard of its cluster, with commands that a client of clusters cannot route
	}
	client.Close()
	if err != nil {
		return nil, err
	}
	return rueidis.NewClient(option)
}

// multiplex returns the number of connections for the calls of all goroutines, in the client's
// form: one for each two processors, up to mostConnections. A call costs mostly system calls, and
// over more connections than can be written to at once each piece that is sent has fewer commands.
func multiplex() int {
	switch p := runtime.GOMAXPROCS(0); {
	case p < 4:
		return -1 // one
	case p < 8:
		return 1 // two
	}
	return 2 // four
}

// newSingle connects to a server, whether or not it is a node of a cluster.
func newSingle(option rueidis.ClientOption) (rueidis.Client, error) {
	option.ForceSingleClient, option.PipelineMultiplex = true, multiplex()
	client, err := rueidis.NewClient(option)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	return client, nil
}

// unopened is the error of Open, without the password: an old server shows the commands that it
// does not understand.
func (c *Config) unopened(ctx context.Context, err error) error {
	own := ended(ctx)
	if own != nil && own != errTimeout {
		return own
	}
	where := strings.Join(c.Addresses, ",")
	var reply *rueidis.RedisError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var not unsent
	switch {
	case errors.Is(err, rueidis.ErrNoCache):
		return fmt.Errorf("copal: the server at %s does not report changes to clients (CLIENT TRACKING), so nothing can be cached: %w", where, errors.ErrUnsupported)
	case errors.As(err, &reply):
		return c.refusing(where, reply)
	case cutOff(err):
		return c.strange(ctx, where, err)
	case errors.As(err, &certificate):
		return fmt.Errorf("copal: the certificate of the server at %s is not trusted: %w", where, err)
	case errors.As(err, &record):
		return fmt.Errorf("copal: the server at %s does not speak TLS: %w", where, err)
	case own != nil:
		return fmt.Errorf("copal: the server at %s does not answer: %w", where, errTimeout)
	case errors.As(err, &not):
		return fmt.Errorf("copal: there is no connection to %s: %w", where, err)
	}
	return c.strange(ctx, where, err)
}

// Close ends the connections: within the time limit, even if a server does not answer.
func (l *link) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	late := time.AfterFunc(l.timeout, l.conns.end)
	defer late.Stop()
	l.client.Close()
	l.near.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.others {
		other.Close()
	}
	return nil
}

// node is the client for one node of a cluster, which follows no redirections. The client for all does not know a node
// that has no slot yet.
func (l *link) node(ctx context.Context, address string) (rueidis.Client, error) {
	if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
		return nil, fmt.Errorf("copal: the cluster does not say where a node is: %q", address)
	}
	known := func() rueidis.Client {
		if client := l.client.Nodes()[address]; client != nil {
			return client
		}
		return l.others[address]
	}
	l.mu.Lock()
	client := known()
	l.mu.Unlock()
	if client != nil {
		return client, nil
	}
	option := l.option
	option.InitAddress = []string{address}
	made, err := within(ctx, func() (rueidis.Client, error) { return newSingle(option) })
	if err != nil {
		return nil, l.failed(ctx, err, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		made.Close()
		return nil, copal.ErrClosed
	}
	if client := known(); client != nil { // another call was faster
		made.Close()
		return client, nil
	}
	l.others[address] = made
	return made, nil
}

// isCluster reports whether there may be several nodes.
func (l *link) isCluster() bool { return l.client.Mode() == rueidis.ClientModeCluster }

// bounded is the context with the time limit.
func (l *link) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.timeout, errTimeout)
}

// alone calls f with a connection of its own: in a cluster, to the node that has the keys. While a
// cluster moves a slot the node may refuse. It names the node to ask instead, if the key has moved
// already, or is new; otherwise alone waits, and the client asks again for the node. A command that
// was refused was not carried out, and f sends at most one command or one transaction that writes:
// so nothing is sent twice.
func (l *link) alone(ctx context.Context, f func(context.Context, rueidis.CommandClient) error) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	address := ""
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := l.aloneOnce(ctx, address, f)
		if !l.isCluster() || !refused(err, "MOVED", "ASK", "TRYAGAIN") {
			return err
		}
		was := address
		if address = asked(err); address != "" && was == "" {
			continue
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// aloneOnce is alone, once: with the node at an address if one was named, and else with the one that has the keys.
func (l *link) aloneOnce(ctx context.Context, address string, f func(context.Context, rueidis.CommandClient) error) (err error) {
	client := l.client
	if address != "" {
		if client, err = l.node(ctx, address); err != nil {
			return err
		}
	}
	on, release, err := l.dedicate(ctx, client)
	if err != nil {
		return err
	}
	if address != "" {
		err = f(ctx, asking{on})
	} else {
		err = f(ctx, on)
	}
	if err == nil || errors.Is(err, driver.ErrConflict) {
		release()
	} else {
		go on.Close() // it may be within WATCH or MULTI; closing waits for a second at most
	}
	return err
}

// asked returns the address of the node that a refusal names, for a key that a node of a cluster
// does not have and whose slot it gives away; "" for another error, and if the refusal does not
// name a host.
func asked(err error) (address string) {
	var reply *rueidis.RedisError
	if !refused(err, "ASK") || !errors.As(err, &reply) || len(strings.Fields(reply.Error())) != 3 {
		return ""
	}
	address, _ = reply.IsAsk()
	if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
		return ""
	}
	return address
}

// asking has a node carry out commands about a slot that it is about to get. ASKING is for the next command alone, and
// that sent before MULTI is for all up to EXEC.
type asking struct{ rueidis.CommandClient }

func (a asking) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	return a.DoMulti(ctx, c)[0]
}

func (a asking) DoMulti(ctx context.Context, list ...rueidis.Completed) []rueidis.RedisResult {
	var all []rueidis.Completed
	var places []int
	within := false
	for _, c := range list {
		if !within {
			all = append(all, a.B().Arbitrary("ASKING").ReadOnly())
		}
		places, all = append(places, len(all)), append(all, c)
		within = within || c.Commands()[0] == "MULTI" // after EXEC there is no command about a key
	}
	replies := a.CommandClient.DoMulti(ctx, all...)
	for i, at := range places {
		replies[i] = replies[at]
	}
	return replies[:len(list)]
}

// own is a connection of a call alone.
type own struct {
	rueidis.DedicatedClient
	free func() // lets another call have one
}

func (o own) Close() {
	o.DedicatedClient.Close()
	o.free()
}

// dedicate returns a connection for the caller alone, who releases or closes it.
func (l *link) dedicate(ctx context.Context, client rueidis.Client) (rueidis.DedicatedClient, func(), error) {
	if l.closed.Load() {
		return nil, nil, copal.ErrClosed
	}
	select {
	case l.own <- struct{}{}:
	case <-ctx.Done():
		err := ended(ctx)
		if err == errTimeout {
			err = fmt.Errorf("copal: all %d connections of Config.MaxConnections are in use: %w", cap(l.own), err)
		}
		return nil, nil, err
	}
	done := make(chan own)
	go func() { // ends by the time limit, since the client takes no context
		on, release := client.Dedicate()
		free := sync.OnceFunc(func() { release(); <-l.own })
		select {
		case done <- own{on, free}:
		case <-ctx.Done():
			free()
		}
	}()
	select {
	case o := <-done:
		return o, o.free, nil
	case <-ctx.Done():
		return nil, nil, l.failed(ctx, unsent{ended(ctx)}, false)
	}
}
