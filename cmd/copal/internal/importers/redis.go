package importers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/rdb"
	"github.com/copaldb/copal/internal/resp"
)

// IsServer reports whether a path is the URL of a server of Redis.
func IsServer(path string) bool {
	return strings.HasPrefix(path, "redis://") || strings.HasPrefix(path, "rediss://") || strings.HasPrefix(path, "redis+unix://") || strings.HasPrefix(path, "unix://")
}

// Redacted returns a URL of a server without its password.
func Redacted(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "redis:"
	}
	return u.Redacted()
}

// scanCount is about the number of keys to read at once.
const scanCount = 64

// server is a connection to a server of Redis, or to one that speaks as it does.
type server struct {
	keys
	conn  net.Conn
	in    *bufio.Reader
	db    int
	exact bool // it knows PEXPIRETIME, as Redis does from 7.0 on
}

// readServer reads all keys of a server that SCAN finds, with DUMP, which does not change them.
func readServer(s *Source, emit func(*Item) error) error {
	at, err := parseServer(s.Path)
	if err != nil {
		return err
	}
	c := &server{keys: keys{Source: s, emit: emit}}
	if c.conn, err = at.dial(s.Ctx); err != nil {
		return err
	}
	defer c.conn.Close()
	defer context.AfterFunc(s.Ctx, func() { c.conn.Close() })() // it ends waiting reads and writes
	c.in = bufio.NewReaderSize(c.conn, 64<<10)
	databases, err := c.begin(at)
	for _, n := range databases {
		if err == nil {
			err = c.database(n)
		}
	}
	return err
}

// address has the address of a server, and the user.
type address struct {
	network, host  string
	tls            bool
	user, password string
	database       int // -1 for all
}

// parseServer reads a URL: redis://user:password@host:port/database, rediss:// for TLS,
// unix:///path or redis+unix:///path. The password may be in the variable of the environment that
// redis-cli reads, too.
func parseServer(text string) (a address, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return a, errors.New("it is no URL of a server: redis://user:password@host:port/database")
	}
	a = address{network: "tcp", host: net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "6379")), tls: u.Scheme == "rediss", database: -1}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	a.password = cmp.Or(a.password, os.Getenv("REDISCLI_AUTH"))
	if u.Scheme == "redis+unix" || u.Scheme == "unix" {
		a.network, a.host = "unix", u.Path
		return a, nil
	}
	if n := strings.Trim(u.Path, "/"); n != "" {
		if a.database, err = strconv.Atoi(n); err != nil || a.database < 0 {
			return a, fmt.Errorf("%q is no number of a database", n)
		}
	}
	return a, nil
}

func (a *address) dial(ctx context.Context) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if a.tls {
		return (&tls.Dialer{NetDialer: d}).DialContext(ctx, a.network, a.host)
	}
	return d.DialContext(ctx, a.network, a.host)
}

// send writes requests, beside the replies that are read meanwhile: neither side waits for the
// other.
func (c *server) send(requests []byte) (wait func() error) {
	sent := make(chan error, 1)
	go func() {
		_, err := c.conn.Write(requests)
		sent <- err
	}()
	return func() error { return <-sent }
}

// read reads a reply. It returns an error reply as an error.
func (c *server) read() (any, error) {
	v, err := resp.ReadReply(c.in)
	if refused, ok := v.(resp.ErrorReply); ok {
		return nil, refused
	}
	if err != nil && c.Ctx.Err() != nil {
		err = c.Ctx.Err()
	}
	if err == io.EOF {
		err = errors.New("the server has closed the connection")
	}
	return v, err
}

func (c *server) do(args ...string) (any, error) {
	wait := c.send(resp.AppendRequest(nil, args...))
	v, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return v, wait()
}

// begin logs in to the server, and returns the databases to read.
func (c *server) begin(at address) (databases []int, err error) {
	if at.password != "" {
		auth := []string{"AUTH", at.user, at.password}
		if at.user == "" {
			auth = []string{"AUTH", at.password}
		}
		if _, err := c.do(auth...); err != nil {
			return nil, err
		}
	}
	if _, err := c.do("CLIENT", "NO-TOUCH", "ON"); err != nil && !isReply(err) { // Redis before 7.2 does not know it
		return nil, err
	}
	_, err = c.do("PEXPIRETIME", "")
	if c.exact = err == nil; err != nil && !isReply(err) {
		return nil, err
	}
	if at.database >= 0 {
		return []int{at.database}, nil
	}
	info, err := c.do("INFO", "keyspace")
	if err != nil {
		return nil, err
	}
	text, _ := info.([]byte)
	for line := range bytes.Lines(text) { // db0:keys=1,expires=0,avg_ttl=0
		name, _, _ := bytes.Cut(line, []byte(":"))
		if digits, ok := bytes.CutPrefix(name, []byte("db")); ok {
			if n, err := strconv.Atoi(string(digits)); err == nil {
				databases = append(databases, n)
			}
		}
	}
	return databases, nil
}

func isReply(err error) bool { return errors.As(err, new(resp.ErrorReply)) }

// database reads all keys of a database.
func (c *server) database(n int) error {
	c.db = n
	if _, err := c.do("SELECT", strconv.Itoa(n)); err != nil {
		return err
	}
	for cursor := "0"; ; {
		reply, err := c.do("SCAN", cursor, "COUNT", strconv.Itoa(scanCount))
		if err != nil {
			return err
		}
		page, _ := reply.([]any)
		if len(page) != 2 {
			return errors.New("SCAN: the reply is none")
		}
		next, ok := page[0].([]byte)
		names, ok2 := page[1].([]any)
		if !ok || !ok2 {
			return errors.New("SCAN: the reply is none")
		}
		if err := c.values(names); err != nil {
			return err
		}
		if cursor = string(next); cursor == "0" {
			return nil
		}
	}
}

// values reads the values of keys.
func (c *server) values(names []any) error {
	requests := resp.AppendRequest(nil, "TIME")
	for _, name := range names {
		key, ok := name.([]byte)
		if !ok {
			return errors.New("SCAN: the reply is none")
		}
		deadline := "PEXPIRETIME"
		if !c.exact {
			deadline = "PTTL"
		}
		requests = resp.AppendRequest(requests, "DUMP", string(key))
		requests = resp.AppendRequest(requests, deadline, string(key))
	}
	wait := c.send(requests)
	now, err := c.time()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.key(name.([]byte), now); err != nil {
			return err
		}
	}
	return wait()
}

// time reads the reply of TIME, from which inexact deadlines count.
func (c *server) time() (time.Time, error) {
	v, err := c.read()
	if err != nil {
		return time.Time{}, fmt.Errorf("TIME: %w", err)
	}
	if pair, _ := v.([]any); len(pair) == 2 {
		seconds, _ := pair[0].([]byte)
		micros, _ := pair[1].([]byte)
		s, ok := resp.ParseInt(seconds)
		us, ok2 := resp.ParseInt(micros)
		if ok && ok2 {
			return time.Unix(s, us*1000), nil
		}
	}
	return time.Time{}, errors.New("TIME: the reply is none")
}

// key reads the replies for a key, and hands it on, unless it is gone meanwhile.
func (c *server) key(name []byte, now time.Time) error {
	dumped, err := c.read()
	if err != nil {
		return fmt.Errorf("DUMP of key %q in database %d: %w", name, c.db, err)
	}
	deadline, err := c.read()
	if err != nil {
		return fmt.Errorf("the deadline of key %q in database %d: %w", name, c.db, err)
	}
	dump, ok := dumped.([]byte)
	at, _ := deadline.(int64)
	if !ok || at == -2 {
		return nil
	}
	item := Item{Entry: admin.Entry{Key: keyOf(c.db, name)}}
	switch {
	case at >= 0 && c.exact:
		item.Expires = time.UnixMilli(at)
	case at >= 0:
		item.Expires, item.Within = now.Add(time.Duration(at)*time.Millisecond), time.Second
	}
	v, err := rdb.Parse(dump)
	var foreign rdb.Foreign
	switch {
	case errors.As(err, &foreign):
		c.LeftOut(string(foreign), item.Key)
		return nil
	case err != nil:
		return c.bad(0, 0, false, "DUMP of key %q in database %d: %v; a newer version may have a form of its own", name, c.db, err)
	}
	return c.value(&item, v, true)
}
