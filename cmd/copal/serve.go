package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/serving"
)

const serveHelp = `Serve the store in DIR, which is made if it is not there, until SIGINT or SIGTERM: then the
requests that have arrived are answered, and the store is closed.

By Redis's protocol redis-cli and all clients of Redis use it; docs/redis.md has the commands.
By HTTP curl and browsers do; docs/http.md has the routes.
Commands that write, such as copal set DIR, go through the server, by the socket DIR/SOCKET,
which is for processes of the same user; --no-socket leaves that out.
By default only this machine reaches it. Another address of --redis or --http needs a password, in
the file of --password-file or in COPAL_PASSWORD, which gives all rights. --users names a file of
users with tokens, and of the maps that each may read and write; copal token makes them.

--admin serves /debug/pprof, /metrics, /livez and /readyz to administrators. At SIGHUP the files of
--users, --tls-cert, --tls-key and --tls-client-ca are read again.

--durability is the meaning of an OK of a write: with write the change is in the log, so the death
of the process does not lose it, and within a second on the disk; with fsync it is on the disk.
async is the same as write here. A client may choose its own by
CLIENT DURABILITY, a request of HTTP by the header Copal-Durability.

Each flag has a variable of the environment, COPAL_MAX_MEMORY for --max-memory, and a line
max-memory = "1GiB" in the file that --config names. A flag goes before a variable, and that
before the file. Sizes are in bytes, or in KiB, MiB, GiB, KB, MB or GB.`

func newServe(a *cli.App) *cobra.Command {
	var s serving.Settings
	cmd := &cobra.Command{
		Use:               "serve DIR",
		Short:             "Serve the store to clients of Redis and of HTTP",
		Long:              serveHelp,
		Example:           "  copal serve app.db\n  copal serve app.db --redis 0.0.0.0:6379 --password-file secret --max-memory 1GiB\n  COPAL_DURABILITY=fsync copal serve app.db --redis '' --unix app.sock",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Configure(cmd.Flags()); err != nil {
			return err
		}
		return a.Runs(func(args []string, _ *bufio.Writer) error { return serving.Serve(a, args[0], &s) })(cmd, args)
	}
	s.Bind(cmd.Flags())
	return cmd
}
