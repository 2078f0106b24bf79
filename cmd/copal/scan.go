package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const scanHelp = `Print the entries whose keys begin with PREFIX, all if it is not given, in the order of
copal range.

Each line is a key, a tab, and a value. Keys are shown as copal ls shows them. A value
is shown as it is, JSON for instance; one that is empty, begins with b", has a space at
its edge, or holds what cannot be seen on a line is shown as a Go string literal behind
a b: b"\x00\xff". Of a key that holds a hash, a list or a set that is said: (hash).

--at MOMENT prints those that there were then; see copal --help.

With --json each line is {"key":…,"value":…}, with "text" or "base64" where the value is
no JSON, as of copal get.`

const scanExample = `  copal scan app.db users:
  copal scan app.db users: --match '*:settings' --limit 10
  copal scan app.db --json users: | jq .value.Name`

func newScan(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scan DIR [PREFIX]",
		Short:   "Print entries, in order, by prefix",
		Long:    scanHelp,
		Example: scanExample,
		Args:    cli.Arguments(1, 2),
	}
	makeScan(a, cmd, "PREFIX", func(s *cli.Selection, keys [][]byte) {
		if len(keys) > 0 {
			s.Prefix = keys[0]
		}
	})
	return cmd
}

// makeScan completes a command that prints entries. bound sets the bounds from the arguments.
func makeScan(a *cli.App, cmd *cobra.Command, words string, bound func(s *cli.Selection, keys [][]byte)) {
	var f entries.Scan
	var at *cli.MomentFlag
	var exists cli.ExistsFlag
	cmd.ValidArgsFunction = a.CompleteKey(2)
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		s, err := f.Parse(cmd, nil)
		if err != nil {
			return err
		}
		keys, err := cli.ParseKeys(args[1:], f.Quoted)
		if err != nil {
			return err
		}
		bound(&s, keys)
		return at.View(args[0], func(from cli.Source) error {
			if err := exists.Check(a, from, keys...); err != nil {
				return err
			}
			return entries.PrintScan(a, from, s, &f, out)
		})
	})
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each entry")
	cmd.Flags().BoolVarP(&f.Keys, "keys", "k", false, "print keys alone, and read no values")
	cmd.Flags().BoolVarP(&f.Reverse, "reverse", "r", false, "go backward, from the last key")
	f.AddLimit(cmd, "entries")
	f.AddMatch(cmd)
	f.AddQuoted(cmd, words)
	exists.Add(cmd)
	at = a.AddAt(cmd, "read")
}
