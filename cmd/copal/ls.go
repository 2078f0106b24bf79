package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const lsHelp = `List the keys of a store, those that begin with PREFIX if it is given.

Keys come in the order of their bytes, and the keys of a map in the order of their type,
one on each line. A key that is empty, or holds control characters, bytes that are not
UTF-8 or a double quote or a space at its edge, is shown as a Go string literal in double
quotes, so that a line is always one key; get --quoted takes it back. With --null keys are written as they are, each
followed by a NUL byte.

--from and --to select keys as copal range does, --match those that a pattern stands for.
` + cli.MatchHelp + `

--at MOMENT lists those that there were then; see copal --help.

With --long the size of the value in bytes stands before the key, which means that
every value is read. With --json each line is {"key":…}, and with --long
{"key":…,"valueBytes":…}; a key that is not UTF-8 is given as {"base64":"…"}. The key
of an entry with a deadline is followed by "expires":"2030-12-31T23:59:59.999Z".`

const lsExample = `  copal ls app.db
  copal ls app.db users: --limit 10
  copal ls app.db --long | sort -rn | head    # the largest values
  copal ls app.db --null | xargs -0 -n1 copal get app.db --`

func newLs(a *cli.App) *cobra.Command {
	var f entries.List
	var at *cli.MomentFlag
	var exists cli.ExistsFlag
	cmd := &cobra.Command{
		Use:               "ls DIR [PREFIX]",
		Short:             "List the keys of a store, in order",
		Long:              lsHelp,
		Example:           lsExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		if f.Null && (f.JSON || f.Long) {
			return cli.UsageError("--null goes with neither --json nor --long")
		}
		s, err := f.Parse(cmd, args[1:])
		if err != nil {
			return err
		}
		return at.View(args[0], func(from cli.Source) error {
			if err := exists.Check(a, from, s.Prefix, s.From); err != nil {
				return err
			}
			return f.Print(a, from, s, out)
		})
	})
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each key")
	cmd.Flags().BoolVarP(&f.Null, "null", "0", false, "print keys as they are, each followed by a NUL byte")
	cmd.Flags().BoolVarP(&f.Long, "long", "l", false, "print the size of each value too")
	f.AddRange(cmd)
	f.AddLimit(cmd, "keys")
	f.AddMatch(cmd)
	f.AddQuoted(cmd, "PREFIX, --from and --to")
	exists.Add(cmd)
	at = a.AddAt(cmd, "read")
	return cmd
}
