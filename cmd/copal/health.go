package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

const healthHelp = `Ask a server, as copal serve is one, whether it is ready: whether its store takes writes. The exit
code is 0 then, and 1 if it is not or does not answer.

ADDRESS is where it serves HTTP, or its --admin. Without one it is what COPAL_ADMIN says, or
COPAL_HTTP, or 127.0.0.1:9532; so it works beside the server with the same environment. With
COPAL_TLS_CERT, or --tls, HTTP is asked by TLS, and the certificate is not checked. A server
that wants certificates of its clients is asked at its --admin.`

// healthPatience is how long the answer may take.
const healthPatience = 5 * time.Second

func newHealth(a *app) *cobra.Command {
	var secure, asJSON bool
	cmd := &cobra.Command{
		Use:               "health [ADDRESS]",
		Short:             "Ask a server whether it is ready",
		Long:              healthHelp,
		Example:           "  copal health\n  copal health /run/copal/admin.sock",
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		admin := os.Getenv("COPAL_ADMIN")
		address := cmp.Or(admin, os.Getenv("COPAL_HTTP"), "127.0.0.1:9532")
		if len(args) > 0 {
			address = args[0]
		}
		if os.Getenv("COPAL_TLS_CERT") != "" && address != admin && !isSocket(address) {
			secure = true
		}
		if err := a.askHealth(address, secure); err != nil {
			return err
		}
		if asJSON {
			return writeJSON(out, struct {
				Ready bool `json:"ready"`
			}{true})
		}
		_, err := fmt.Fprintln(out, "ready")
		return err
	})
	cmd.Flags().BoolVar(&secure, "tls", false, "ask by TLS")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as a JSON object")
	return cmd
}

// askHealth returns why a server is not ready, or nil.
func (a *app) askHealth(address string, secure bool) error {
	network, scheme, at := "tcp", "http", address
	if isSocket(address) {
		network = "unix"
	} else {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return usageError{fmt.Sprintf("%v; a unix socket has a / in its path", err)}
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			at = net.JoinHostPort("127.0.0.1", port)
		}
	}
	if secure {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(a.ctx, healthPatience)
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
