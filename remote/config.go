package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal"
)

// Config is the address of a store on a server, and the settings of the connections to it.
type Config struct {
	// Addresses are those of one server, or of some nodes of a cluster, which name the others. Each
	// is host:port, or the absolute path of a Unix socket.
	Addresses []string

	// Username and Password are for the server. A password without a name is for the default user.
	Username, Password string

	// DB is the number of the database. A cluster has only database 0.
	DB int

	// TLS, if not nil, is the configuration of encrypted connections. Without a ServerName, it is
	// the host of each address.
	TLS *tls.Config

	// Timeout is the time that the server may take to answer a command, and to accept a connection.
	// After that, or up to an eighth earlier, the call fails, and its error is
	// os.ErrDeadlineExceeded. The connection is given up, within about two more seconds if several
	// calls share it. A context that ends earlier ends its call earlier. The default is 5 seconds.
	Timeout time.Duration

	// CacheBytes is about how much memory on this machine maps take to cache entries that Get, Load
	// and Peek have read, 0 for none. The server notifies the client of changes. Reads of a cached
	// entry are as fast as those of a map in a directory. They see each write through the same DB,
	// each change that DB.Watch has yielded, and writes by others a moment after they were
	// acknowledged: after the time of the notification or, if that does not come, as from a node
	// that a cluster has lost, after a minute. An entry that takes more than a 64th of the bytes is
	// not cached. Update, Has, walks, raw reads and collections always ask the server.
	CacheBytes int

	// MaxConnections bounds the connections that calls have for themselves: transactions, snapshots,
	// watches, writes with FSync, and changes of a collection that depend on more than one element or
	// on a server without scripts. A call beyond that waits for one, until it ends. All other calls
	// share one to four connections to each server. The default is 100.
	MaxConnections int

	// DialTimeout is the time for making a connection, TLS included. A call that makes one also ends
	// with Timeout. The default is Timeout.
	DialTimeout time.Duration

	// Master, if not empty, is the name of a master that sentinels watch: Addresses are those of the
	// sentinels then, which have no password. Calls go to the server that the sentinels name as the
	// master, also after a failover. Username, Password, DB and TLS are for that server; TLS is also
	// for the sentinels.
	Master string

	// Trace, if not nil, is called before commands are sent together, with the context of the handle
	// and their names. It may return a function, which is called with their error when all have been
	// answered, or the call has ended: nil, also if the server has refused one. Several goroutines
	// may call both at once; both delay the call.
	Trace func(ctx context.Context, commands []string) (done func(error))

	dialing func(ctx context.Context, address string) (net.Conn, error) // of tests, nil for none
}

const (
	defaultTimeout        = 5 * time.Second
	defaultMaxConnections = 100
	defaultPort           = "6379"
)

// Open opens the store at a URL:
//
//	redis://user:password@host:port/db
//	redis://host1:port,host2:port      nodes of a cluster
//	rediss://host:port                 the same with TLS
//	unix:///path/of.sock?db=1
//
// After a question mark there may be
//
//	timeout=2s       Config.Timeout
//	cache=67108864   Config.CacheBytes
//	connections=20   Config.MaxConnections
//	dial=500ms       Config.DialTimeout
//	master=name      Config.Master; the hosts are those of the sentinels
//	db=1             the database, in the place of the path
//	tls=true         as rediss
//	cacert=ca.pem    the authorities that the server's certificate is checked by
//	cert=c.pem, key=k.pem   the certificate of this client
//	servername=host  the name that the server's certificate must have
//	insecure=true    the server's certificate is not checked
//
// A user name or a password with other characters than letters and digits is percent-encoded. Open
// fails if no server answers. The context is only for opening. opts are those that copal.OpenDriven
// takes.
func Open(ctx context.Context, url string, opts ...copal.Option) (*copal.DB, error) {
	c, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx, opts...)
}

// ParseURL returns the Config of a URL in the form that Open takes. Its errors never contain the
// password.
func ParseURL(text string) (Config, error) {
	c, err := parseURL(text)
	if err != nil {
		return Config{}, fmt.Errorf("copal: the URL of a store: %w", err)
	}
	return c, nil
}

var errEscape = errors.New("it has a % that is not followed by two hexadecimal digits")

// parseURL parses the part before the question mark itself: package url takes only one host, and
// shows parts of passwords in its errors.
func parseURL(text string) (c Config, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return c, errors.New("it does not begin with redis://, rediss:// or unix://")
	}
	if strings.Contains(rest, "#") {
		return c, errors.New("it has a #; in a password that is %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		name, password, _ := strings.Cut(authority[:i], ":")
		if c.Username, err = url.PathUnescape(name); err != nil {
			return c, errEscape
		}
		if c.Password, err = url.PathUnescape(password); err != nil {
			return c, errEscape
		}
		authority = authority[i+1:]
	}
	if path, err = url.PathUnescape(path); err != nil {
		return c, errEscape
	}
	switch scheme {
	case "unix":
		if authority != "" || len(path) < 2 {
			return c, errors.New("unix:// needs the absolute path of a socket")
		}
		c.Addresses = []string{path}
	case "redis", "rediss":
		if c.Addresses, err = addresses(authority); err != nil {
			return c, err
		}
		if path = strings.Trim(path, "/"); path != "" {
			if c.DB, err = database(path); err != nil {
				return c, err
			}
		}
	default:
		return c, errors.New("it does not begin with redis://, rediss:// or unix://")
	}
	return c, c.parameters(query, scheme == "rediss")
}

// addresses are those in a list with commas. A missing host is this machine.
func addresses(list string) (all []string, err error) {
	for _, each := range strings.Split(list, ",") {
		host, port := each, defaultPort
		if i := strings.LastIndexByte(each, ':'); i >= 0 && !strings.HasSuffix(each, "]") {
			host, port = each[:i], each[i+1:]
			if port == "" {
				port = defaultPort
			}
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("a port is no number from 1 to 65535")
		}
		if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
			host = host[1 : len(host)-1]
		} else if strings.ContainsAny(host, ":[]") {
			return nil, errors.New("an IPv6 address needs brackets")
		}
		if host == "" {
			host = "localhost"
		}
		all = append(all, net.JoinHostPort(host, port))
	}
	return all, nil
}

func database(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, errors.New("the database is no number")
	}
	return int(n), nil
}

// parameters parses the part after the question mark.
func (c *Config) parameters(query string, encrypted bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after the question mark is no list of name=value pairs")
	}
	var files struct{ ca, cert, key string }
	var t tls.Config
	for name, list := range values {
		text := list[len(list)-1]
		var err error
		switch name {
		case "timeout":
			if c.Timeout, err = time.ParseDuration(text); err == nil && c.Timeout <= 0 {
				err = errors.New("it must be positive")
			}
		case "cache":
			if c.CacheBytes, err = strconv.Atoi(text); err == nil && c.CacheBytes < 0 {
				err = errors.New("it must not be negative")
			}
		case "dial":
			if c.DialTimeout, err = time.ParseDuration(text); err == nil && c.DialTimeout <= 0 {
				err = errors.New("it must be positive")
			}
		case "master":
			if c.Master = text; text == "" {
				err = errors.New("it is empty")
			}
		case "connections":
			if c.MaxConnections, err = strconv.Atoi(text); err == nil && c.MaxConnections <= 0 {
				err = errors.New("it must be positive")
			}
		case "db":
			c.DB, err = database(text)
		case "tls":
			var on bool
			on, err = strconv.ParseBool(text)
			encrypted = encrypted || on
		case "insecure":
			t.InsecureSkipVerify, err = strconv.ParseBool(text)
		case "servername":
			t.ServerName = text
		case "cacert":
			files.ca = text
		case "cert":
			files.cert = text
		case "key":
			files.key = text
		default:
			return fmt.Errorf("there is no parameter %q", name)
		}
		if err != nil {
			return fmt.Errorf("the parameter %s: %w", name, err)
		}
	}
	if !encrypted {
		if files.ca != "" || files.cert != "" || files.key != "" || t.InsecureSkipVerify || t.ServerName != "" {
			return errors.New("it has parameters of TLS, and is not encrypted: begin it with rediss://")
		}
		return nil
	}
	c.TLS = &t
	return c.load(files.ca, files.cert, files.key)
}

// load reads certificates from files.
func (c *Config) load(ca, cert, key string) error {
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate", ca)
		}
	}
	if cert == "" && key == "" {
		return nil
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	c.TLS.Certificates = []tls.Certificate{own}
	return err
}

// check returns an error for a Config that can reach no store.
func (c *Config) check() error {
	if len(c.Addresses) == 0 {
		return errors.New("copal: a store on another machine has no address")
	}
	for _, a := range c.Addresses {
		if filepath.IsAbs(a) && len(c.Addresses) > 1 {
			return fmt.Errorf("copal: the socket %s excludes other addresses", a)
		}
	}
	if c.Timeout < 0 || c.DialTimeout < 0 || c.DB < 0 || c.CacheBytes < 0 || c.MaxConnections < 0 {
		return fmt.Errorf("copal: time limits of %v and %v, database %d, a cache of %d bytes, %d connections; none can be negative", c.Timeout, c.DialTimeout, c.DB, c.CacheBytes, c.MaxConnections)
	}
	return nil
}

// dial connects to an address.
func (c *Config) dial(ctx context.Context, address string, d *net.Dialer) (nc net.Conn, err error) {
	if c.dialing != nil {
		return c.dialing(ctx, address)
	}
	network := "tcp"
	if filepath.IsAbs(address) {
		network = "unix"
	}
	if c.TLS != nil {
		t := c.TLS
		if network == "unix" && t.ServerName == "" && !t.InsecureSkipVerify {
			t = t.Clone()
			t.ServerName = "localhost"
		}
		nc, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, network, address)
	} else {
		nc, err = d.DialContext(ctx, network, address)
	}
	return nc, err
}
