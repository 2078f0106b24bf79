package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const getHelp = `Print the value under a key.

Exactly the stored bytes are written. On a terminal a newline follows them, and control
characters are written as \x1b; --raw sends the bytes themselves there, too. A
key of a map is the map's name, a colon, and the key: users:alice.

KEY is taken literally, also when it is "-". Put -- before one that begins with a
dash. For a key with bytes that cannot be typed use --quoted, which reads a key as
copal ls shows it.

With --json the output is one line, {"key":…,"value":…}, and for an entry with a
deadline {"key":…,"expires":"2030-12-31T23:59:59.999Z","value":…}. A value
that is JSON stands in "value", to the byte; other text in "text"; other bytes, encoded, in
"base64". A key that is not UTF-8 is given as {"base64":"…"}. Lines of copal export look
the same, and copal import reads them.

--at MOMENT prints an earlier value, as far as the log has it; see copal --help.

If there is no entry for the key, nothing is written and the exit code is 3.`

const getExample = `  copal get app.db users:alice
  copal get app.db avatar.png > avatar.png
  copal get app.db --quoted '"ids:\x00\xff"'
  copal get app.db --json users:alice`

func newGet(a *cli.App) *cobra.Command {
	var asJSON, quoted, raw bool
	var at *cli.MomentFlag
	cmd := &cobra.Command{
		Use:               "get DIR KEY",
		Short:             "Print the value under a key",
		Long:              getHelp,
		Example:           getExample,
		Args:              cli.Arguments(2, 2),
		ValidArgsFunction: a.CompleteKey(1),
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			key, err := cli.ParseKey(args[1], quoted)
			if err != nil {
				return err
			}
			return at.View(args[0], func(s cli.Source) error { return entries.Get(a, s, key, asJSON, raw, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print key and value as JSON")
	cmd.Flags().BoolVar(&raw, "raw", false, "send the stored bytes to a terminal as they are")
	cmd.Flags().BoolVarP(&quoted, "quoted", "Q", false, cli.QuotedUsage)
	cli.Exclude(cmd, "json", "raw")
	at = a.AddAt(cmd, "read")
	return cmd
}
