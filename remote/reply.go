package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
)

// refusing is the error of Open for an error reply. An old server shows the words that it does not understand, so the
// password may be in the reply.
func (c *Config) refusing(where string, reply *rueidis.RedisError) error {
	text := reply.Error()
	if c.Password != "" {
		text = strings.ReplaceAll(text, c.Password, "…")
	}
	switch code := codeOf(text); {
	case code == "WRONGPASS", code == "NOAUTH", strings.Contains(text, "invalid password"):
		return fmt.Errorf("copal: the server at %s does not accept the user and the password: %w: %s", where, fs.ErrPermission, text)
	case code == "NOPERM":
		return fmt.Errorf("copal: the user of the server at %s may not open it: %w: %s", where, fs.ErrPermission, text)
	case code == "LOADING", code == "MASTERDOWN", code == "CLUSTERDOWN", code == "BUSY":
		return fmt.Errorf("%w: that at %s says %s", copal.ErrUnavailable, where, text)
	}
	return fmt.Errorf("copal: the server at %s cannot be used: %s", where, text)
}

// strange is the error of Open for a server that has accepted a connection and is none of ours, it seems.
func (c *Config) strange(ctx context.Context, where string, err error) error {
	if says := c.stranger(ctx); says != "" {
		return fmt.Errorf("copal: at %s is no copal serve, Redis or Valkey: %s: %w", where, says, err)
	}
	return fmt.Errorf("copal: opening the store at %s: %w", where, err)
}

// cutOff reports whether the other side has ended the connection.
func cutOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// stranger returns a sentence about a server that has accepted a connection and does not speak the protocol of Redis,
// "" for any other.
func (c *Config) stranger(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, min(c.Timeout, time.Second))
	defer cancel()
	nc, err := c.dial(ctx, c.Addresses[0], &net.Dialer{})
	if err != nil {
		return ""
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if _, err := nc.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return ""
	}
	answer := make([]byte, 64)
	n, err := nc.Read(answer)
	switch {
	case n > 0 && bytes.IndexByte([]byte("+-$*%_"), answer[0]) < 0:
		line, _, _ := bytes.Cut(answer[:n], []byte("\n"))
		return fmt.Sprintf("it answers %q", bytes.TrimRight(line, "\r"))
	case err != nil && ctx.Err() == nil:
		if c.TLS != nil {
			return "it ends the connection without an answer"
		}
		return "it ends the connection without an answer; perhaps it expects TLS (rediss://)"
	}
	return ""
}

// meaning is an error reply by its code.
func meaning(code string, err error) error {
	switch code {
	case "READONLY":
		return fmt.Errorf("%w: the server is a replica: %w", copal.ErrReadOnly, err)
	case "MISCONF":
		return fmt.Errorf("%w: the server refuses writes: %w", copal.ErrReadOnly, err)
	case "LOADING":
		return fmt.Errorf("%w: it still loads its data: %w", copal.ErrUnavailable, err)
	case "MASTERDOWN":
		return fmt.Errorf("%w: it is a replica that has lost its master: %w", copal.ErrUnavailable, err)
	case "BUSY":
		return fmt.Errorf("%w: a script keeps it busy: %w", copal.ErrUnavailable, err)
	case "CLUSTERDOWN":
		return fmt.Errorf("%w: the cluster is down: %w", copal.ErrUnavailable, err)
	case "MOVED", "ASK", "TRYAGAIN":
		return fmt.Errorf("%w: the nodes of the cluster do not agree which of them has the key: %w", copal.ErrUnavailable, err)
	case "CROSSSLOT":
		return fmt.Errorf("copal: keys of a cluster that are used together must have one {tag}: %w: %w", errors.ErrUnsupported, err)
	case "NOAUTH", "WRONGPASS":
		return fmt.Errorf("copal: the server does not accept the user and the password: %w: %w", fs.ErrPermission, err)
	case "NOPERM":
		return fmt.Errorf("copal: the user may not do that: %w: %w", fs.ErrPermission, err)
	case "OOM":
		return fmt.Errorf("%w: the server has reached its maxmemory, and did not make the write: %w", copal.ErrNoSpace, err)
	case "NOREPLICAS":
		return fmt.Errorf("%w: the server has too few replicas, and did not make the write: %w", copal.ErrDurability, err)
	case "HISTORYLOST":
		return fmt.Errorf("%w: %w", copal.ErrHistoryLost, err)
	}
	return fmt.Errorf("copal: the server refuses: %w", err)
}

// codeOf is the word that an error reply begins with. A Redis before 7.0 has the error of a script's command within its
// own: its code is that one's.
func codeOf(text string) string {
	if _, within, ok := strings.Cut(text, ": @user_script: "); ok {
		_, text, _ = strings.Cut(within, ": ")
	}
	code, _, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	return code
}
