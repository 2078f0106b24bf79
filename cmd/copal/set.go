package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const setHelp = `Store a value under a key, in place of the one that is there.

VALUE is taken literally; "-" is all of standard input, byte by byte, a
newline at its end among them. An entry of a map is written as JSON text, under the
map's name, a colon, and the key.

A store that is missing is created. When the command has ended, the value is on the
disk. A deadline that the entry had is gone, unless --ttl or --until gives it one.

With --json the output is one line, {"key":…,"valueBytes":…}, and with a deadline
{"key":…,"expires":"2030-12-31T23:59:59.999Z","valueBytes":…}.`

const setExample = `  copal set app.db greeting hello
  copal set app.db users:alice '{"Name":"Alice","Age":28}'
  copal set app.db avatar.png - < avatar.png
  copal set app.db session:7f3a alice --ttl 24h
  copal set app.db -- -dash 'a key that begins with a dash'`

func newSet(a *cli.App) *cobra.Command {
	var f entries.Set
	cmd := &cobra.Command{
		Use:               "set DIR KEY VALUE",
		Short:             "Store a value under a key",
		Long:              setHelp,
		Example:           setExample,
		Args:              cli.Arguments(3, 3),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		key, err := cli.ParseKey(args[1], f.Quoted)
		if err != nil {
			return err
		}
		if _, err = f.Deadline(); err != nil {
			return err
		}
		for _, name := range []string{"ttl", "until"} {
			if cmd.Flags().Changed(name) && f.TTL+f.Until == "" { // of a script's variable that is not set
				return cli.UsageError("--" + name + " is empty")
			}
		}
		value, err := a.ReadValue(args[2]) // before the store is opened: it may take long
		if err != nil {
			return err
		}
		return a.UpdateOrCreate(args[0], func(db *copal.DB) error {
			if err := a.FitsServed(args[0], key, value); err != nil {
				return err
			}
			return f.Store(db, key, value, out)
		})
	})
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print the entry as JSON")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, cli.QuotedUsage)
	cmd.Flags().BoolVar(&f.FSync, "fsync", false, "sync this write by itself; without, the store is synced when it is closed")
	cmd.Flags().StringVar(&f.TTL, "ttl", "", "let the entry expire after this `time`, such as 90s, 36h or 7d")
	cmd.Flags().StringVar(&f.Until, "until", "", "let the entry expire at this `moment`, such as 2030-12-31T23:59:59Z")
	cli.Exclude(cmd, "ttl", "until")
	return cmd
}
