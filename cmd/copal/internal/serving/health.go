package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// healthPatience is the time for the answer.
const healthPatience = 5 * time.Second

// AskHealth returns why a server is not ready, or nil.
func AskHealth(a *cli.App, address string, secure bool) error {
	network, scheme, at := "tcp", "http", address
	if IsSocket(address) {
		network = "unix"
	} else {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return cli.UsageError(fmt.Sprintf("%v; a unix socket has a / in its path", err))
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			at = net.JoinHostPort("127.0.0.1", port)
		}
	}
	if secure {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(a.Ctx, healthPatience)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		},
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the question says nothing, and nothing hangs on the answer but health
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", address, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	var problem struct{ Detail string }
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	json.Unmarshal(text, &problem)
	return fmt.Errorf("%s is not ready: %s", address, cmp.Or(problem.Detail, answer.Status))
}
