package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/serving"
)

const healthHelp = `Ask a server, as copal serve is one, whether it is ready: whether its store takes writes. The exit
code is 0 then, and 1 if it is not or does not answer.

ADDRESS is where it serves HTTP, or its --admin. Without one it is what COPAL_ADMIN says, or
COPAL_HTTP, or 127.0.0.1:9532; so it works beside the server with the same environment. With
COPAL_TLS_CERT, or --tls, HTTP is asked by TLS, and the certificate is not checked. A server
that wants certificates of its clients is asked at its --admin.`

func newHealth(a *cli.App) *cobra.Command {
	var secure, asJSON bool
	cmd := &cobra.Command{
		Use:               "health [ADDRESS]",
		Short:             "Ask a server whether it is ready",
		Long:              healthHelp,
		Example:           "  copal health\n  copal health /run/copal/admin.sock",
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		admin := os.Getenv("COPAL_ADMIN")
		address := cmp.Or(admin, os.Getenv("COPAL_HTTP"), "127.0.0.1:9532")
		if len(args) > 0 {
			address = args[0]
		}
		if os.Getenv("COPAL_TLS_CERT") != "" && address != admin && !serving.IsSocket(address) {
			secure = true
		}
		if err := serving.AskHealth(a, address, secure); err != nil {
			return err
		}
		if asJSON {
			return cli.WriteJSON(out, struct {
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
