package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/socket"
	"github.com/copaldb/copal/cmd/copal/internal/tlsfiles"
	"github.com/copaldb/copal/redisapi"
)

// Settings has the flags of serve.
type Settings struct {
	redis, unix, http     string
	durability            string
	maxMemory             size
	maxRequest            size
	clientMemory          size
	maxClients            int
	idle, grace, interval time.Duration
	auth                  time.Duration
	history               string
	passwordFile          string
	usersFile             string
	noPassword, noSocket  bool
	socketMode            cli.Permissions // of --unix
	cert, key, clientCA   string
	admin                 string
	config                string
	logs, level           string
	accessLog             bool
	cors                  []string
	debug                 bool
	clusterMode           string
	clusterAnnounce       string
}

// Bind gives a command the flags.
func (s *Settings) Bind(f *pflag.FlagSet) {
	s.maxRequest = 1 << 30
	f.StringVar(&s.redis, "redis", "127.0.0.1:6379", "the address of the Redis protocol; empty for none")
	f.StringVar(&s.http, "http", "127.0.0.1:9532", "the address of HTTP; empty for none")
	f.StringVar(&s.unix, "unix", "", "a unix socket of the Redis protocol")
	f.Var(&s.socketMode, "socket-mode", "the permissions of --unix: those that may write to it are let in")
	f.StringSliceVar(&s.cors, "cors", nil, "origins, such as https://app.example, whose pages may use --http")
	f.StringVar(&s.durability, "durability", "write", "what an OK means: async, write or fsync")
	f.Var(&s.maxMemory, "max-memory", "memory for the index and for values; 0 for a quarter of the machine's")
	f.Var(&s.maxRequest, "max-request", "the longest request")
	f.Var(&s.clientMemory, "client-memory", "memory for requests and replies of all clients, of each protocol; 0 for 1 GiB of Redis and 256 MiB of HTTP")
	f.IntVar(&s.maxClients, "max-clients", 10_000, "connections at a time, of each protocol")
	f.DurationVar(&s.idle, "idle-timeout", 0, "close a connection that has sent or read nothing for so long; 0 for never")
	f.DurationVar(&s.auth, "auth-timeout", 10*time.Second, "close a connection to --redis or --unix that has shown no token for so long; 0 for never")
	f.DurationVar(&s.grace, "grace", 10*time.Second, "how long requests that run may take when the server ends")
	f.DurationVar(&s.interval, "sync-interval", time.Second, "how often the log is synced to the disk")
	f.StringVar(&s.clusterMode, "cluster-mode", "off", "off, or one-shard: answer as a cluster of one, for clients that know nothing but clusters")
	f.StringVar(&s.clusterAnnounce, "cluster-announce", "", "host:port by which the clients of one-shard reach the server; empty is that of --redis")
	f.StringVar(&s.history, "history", "", "how long the past is kept, such as 36h or 7d; empty changes nothing")
	f.StringVar(&s.passwordFile, "password-file", "", "a file whose first line is the password")
	f.StringVar(&s.usersFile, "users", "", "a TOML file of users, and of the maps that each may read and write")
	f.BoolVar(&s.noPassword, "no-password", false, "let other machines in without a password: only trusted ones reach the addresses")
	f.BoolVar(&s.noSocket, "no-socket", false, "no socket in DIR, by which copal set and others write")
	f.StringVar(&s.cert, "tls-cert", "", "a certificate in PEM: connections of --redis and --http are by TLS")
	f.StringVar(&s.key, "tls-key", "", "its key in PEM")
	f.StringVar(&s.clientCA, "tls-client-ca", "", "certificates in PEM, one of which has to vouch for each client")
	f.StringVar(&s.admin, "admin", "", "an address of this machine, or a unix socket, for profiles, metrics and probes, without a password")
	f.StringVar(&s.config, "config", "", "a TOML file with flags")
	f.StringVar(&s.logs, "log", "text", "the form of the log: text or json")
	f.StringVar(&s.level, "log-level", "info", "the level of the log: debug, info, warn or error")
	f.BoolVar(&s.accessLog, "access-log", false, "log each request of HTTP")
	f.BoolVar(&s.debug, "debug", false, "allow the command DEBUG, for tests of clients")
}

// Configure sets the flags that the command line has not set.
func (s *Settings) Configure(flags *pflag.FlagSet) error {
	return configure(flags, s.config, os.LookupEnv)
}

// Serve serves the store until a signal.
func Serve(a *cli.App, dir string, s *Settings) error {
	if a.Host != nil {
		return cli.UsageError("serve stands alone: the shell has the store")
	}
	logger, err := newLogger(a, s)
	if err != nil {
		return err
	}
	if s.maxClients < 1 || s.maxRequest < 1 || s.idle < 0 || s.auth < 0 || s.grace < 0 || s.interval <= 0 {
		return cli.UsageError("--max-clients, --max-request and --sync-interval are positive, and no time is negative")
	}
	if s.auth == 0 {
		s.auth = -1 // no bound
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2) // internal/turns has the reason
	}
	server := &redisapi.Server{AuthTimeout: s.auth, MaxClients: s.maxClients, MaxRequest: int64(s.maxRequest), ClientMemory: int64(s.clientMemory), IdleTimeout: s.idle, Debug: s.debug, Logger: logger}
	if server.Durability, err = durabilityNamed(s.durability); err != nil {
		return err
	}
	users, token, err := s.users()
	if err != nil {
		return err
	}
	if users != nil {
		server.Access = users.Users
	}
	if s.redis == "" && s.unix == "" && s.http == "" {
		return cli.UsageError("there is nothing to serve: --redis, --http and --unix are empty")
	}
	if err := errors.Join(s.mayListen("--redis", s.redis, users != nil), s.mayListen("--http", s.http, users != nil), mayAdminister(s.admin), s.mayBeCluster(), s.mayShare()); err != nil {
		return err
	}
	secure, err := s.tlsFiles()
	if err != nil {
		return err
	}
	options := []copal.Option{copal.WithSyncInterval(s.interval), copal.WithLogger(logger),
		copal.WithErrorHandler(func(err error) { logger.Error("the store", "error", err) })}
	if s.maxMemory > 0 {
		options = append(options, copal.WithMaxMemory(int64(s.maxMemory)))
	}
	if s.history != "" {
		keep, err := cli.ParseKeep(s.history)
		if err != nil {
			return err
		}
		options = append(options, copal.WithHistory(keep))
	}
	if err := cli.RequireRoom(dir); err != nil {
		return err
	}
	defer a.CatchSignals()()
	defer readAgain(users, secure, logger)()
	if server.DB, err = a.Open(dir, options...); err != nil {
		return err
	}
	return errors.Join(listen(a, dir, server, s, secure, token, logger), server.DB.Close())
}

// door is a listener with the server of its connections.
type door struct {
	net.Listener
	protocol string
	serve    func(net.Listener) error
}

// listen opens the listeners, serves their connections, and closes them when a.Ctx is done.
func listen(a *cli.App, dir string, server *redisapi.Server, s *Settings, secure *tlsfiles.Files, token string, logger *slog.Logger) error {
	own := ownServer(server)
	s.fitConnections(server, own, logger)
	web := newWeb(server, s, token, logger)
	var doors []door
	var reached string // by clients of Redis
	defer func() {
		for _, l := range doors {
			l.Close()
		}
	}()
	for _, at := range []struct {
		flag, address, protocol string
		serve                   func(net.Listener) error
	}{{"--redis", s.redis, "redis", server.Serve}, {"--http", s.http, "http", web.serve}} {
		if at.address == "" {
			continue
		}
		l, err := net.Listen("tcp", at.address)
		if err != nil {
			return fmt.Errorf("%s: %w", at.flag, err)
		}
		if at.protocol == "redis" {
			reached = l.Addr().String()
		}
		if at.protocol == "http" {
			l = newLimited(l, s.maxClients, logger)
		}
		if secure != nil {
			l = tls.NewListener(l, secure.Config(at.protocol))
		}
		doors = append(doors, door{l, at.protocol, at.serve})
	}
	if s.clusterMode == "one-shard" {
		server.ClusterAddress = cmp.Or(s.clusterAnnounce, reached)
	}
	if s.unix != "" {
		l, err := ListenUnix(s.unix, s.socketMode.Bits())
		if err != nil {
			return err
		}
		doors = append(doors, door{l, "redis", server.Serve})
	}
	if s.admin != "" {
		l, err := ListenAdmin(s.admin)
		if err != nil {
			return err
		}
		l = newLimited(l, adminConnections, logger)
		doors = append(doors, door{l, "admin", web.administer})
	}
	if !s.noSocket {
		l, err := listenOwn(dir)
		if err == nil {
			doors = append(doors, door{l, "redis", own.Serve})
		} else {
			logger.Warn("other processes cannot write by a socket in the directory of the store", "error", err)
		}
	}
	failed := make(chan error, len(doors))
	for _, l := range doors {
		logger.Info("serving", "protocol", l.protocol, "address", l.Addr().String(), "tls", secure != nil && l.Addr().Network() == "tcp" && l.protocol != "admin", "durability", s.durability)
		go func() { failed <- l.serve(l.Listener) }()
	}
	notify("READY=1")
	var err error
	select {
	case err = <-failed:
	case <-a.Ctx.Done():
		logger.Info("ending", "cause", context.Cause(a.Ctx))
	}
	notify("STOPPING=1")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), s.grace)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- web.shutdown(ctx) }()
	if late := errors.Join(server.Shutdown(ctx), own.Shutdown(ctx), <-ended); late != nil {
		logger.Warn("connections were closed before their requests were answered", "grace", s.grace)
	}
	logger.Info("closing the store")
	return err
}

// newLogger returns a logger to standard error.
func newLogger(a *cli.App, s *Settings) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return nil, cli.UsageError(fmt.Sprintf("--log-level is debug, info, warn or error, and not %q", s.level))
	}
	options := &slog.HandlerOptions{Level: level}
	switch s.logs {
	case "text":
		return slog.New(slog.NewTextHandler(a.Stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Stderr, options)), nil
	}
	return nil, cli.UsageError(fmt.Sprintf("--log is text or json, and not %q", s.logs))
}

func durabilityNamed(text string) (copal.Durability, error) {
	for _, d := range []copal.Durability{copal.Async, copal.Write, copal.FSync} {
		if d.String() == text {
			return d, nil
		}
	}
	return 0, cli.UsageError(fmt.Sprintf("--durability is async, write or fsync, and not %q", text))
}

// password returns the first line of a file or, without a file, the variable COPAL_PASSWORD.
func password(file string) (string, error) {
	if file == "" {
		return strings.TrimRight(os.Getenv("COPAL_PASSWORD"), "\r\n"), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", fmt.Errorf("the password of %s is empty", file)
	}
	return line, nil
}

// tlsFiles returns the files that the flags name, nil for none.
func (s *Settings) tlsFiles() (*tlsfiles.Files, error) {
	switch {
	case s.cert == "" && s.key == "" && s.clientCA == "":
		return nil, nil
	case s.cert == "" || s.key == "":
		return nil, cli.UsageError("TLS needs --tls-cert and --tls-key")
	case s.redis == "" && s.http == "":
		return nil, cli.UsageError("TLS is for the addresses of --redis and --http, which are empty")
	}
	f := &tlsfiles.Files{Cert: s.cert, Key: s.key, ClientCA: s.clientCA}
	return f, f.Read()
}

// mayListen refuses an address that other machines reach, unless users must authenticate, or
// --no-password is given.
func (s *Settings) mayListen(flag, address string, asks bool) error {
	if address == "" || asks || s.noPassword {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.UsageError(fmt.Sprintf("%s: %v", flag, err))
	}
	if isLoopback(host) {
		return nil
	}
	return cli.UsageError(fmt.Sprintf("other machines can reach %s: that needs a password, in COPAL_PASSWORD or by --password-file, or --users; or --no-password (COPAL_NO_PASSWORD=true), if nobody else reaches it", address))
}

// mayShare refuses words of --cors that are no origins.
func (s *Settings) mayShare() error {
	for _, origin := range s.cors {
		if err := new(http.CrossOriginProtection).AddTrustedOrigin(origin); err != nil {
			return cli.UsageError(fmt.Sprintf("--cors: %v; an origin is a scheme, a host and perhaps a port, such as https://app.example", err))
		}
	}
	return nil
}

// mayBeCluster refuses a cluster without an address by which its clients reach it. By default it is
// --redis, unless this is all addresses of the machine.
func (s *Settings) mayBeCluster() error {
	switch s.clusterMode {
	case "one-shard":
	case "off":
		if s.clusterAnnounce == "" {
			return nil
		}
		fallthrough
	default:
		return cli.UsageError(fmt.Sprintf("--cluster-mode is off or one-shard, and not %q; --cluster-announce is for one-shard", s.clusterMode))
	}
	host, port, err := net.SplitHostPort(cmp.Or(s.clusterAnnounce, s.redis))
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() || s.clusterAnnounce != "" && (port == "" || port == "0") {
		return cli.UsageError("--cluster-mode one-shard needs --cluster-announce HOST:PORT, by which clients reach the server")
	}
	return nil
}

// isLoopback reports whether only this machine reaches a host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ListenUnix listens at a socket, which gets the permissions of mode. One that a killed server has
// left is taken away; one that is served is an error.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if runtime.GOOS == "windows" {
		return net.Listen("unix", path)
	}
	if info, err := os.Lstat(path); err == nil && socket.Is(info) {
		if other, dial := net.Dial("unix", path); dial == nil {
			other.Close()
			return net.Listen("unix", path) // and has the error that it is in use
		}
	}
	return socket.Listen(path, mode)
}
