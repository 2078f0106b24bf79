package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/changes"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

const logHelp = `Print the versions of an entry, the newest first; or without KEY all changes of the store,
the oldest first, and their numbers at the end.

Each version of an entry begins with its time, the number of its record, and set, del or
expired. The lines below it are the difference from the version before, field by field if
both are JSON:
    Age: 28 → 29          another value
  + Tags[2]: "new"        there now, and not before
  - Nick: "al"            there before, and not now
--at and copal restore take such a time or number.

--since MOMENT prints later changes only; see copal --help. --limit prints the newest ones;
on a terminal it is 50 by default. --prefix prints changes of entries whose keys begin so.

The log has all changes since the store was made, or since it was compacted, or for as long
as copal history says.

With --json each line is {"seq":…,"time":"…","op":"set","key":…,"value":…} as of copal
watch, and of an entry "changed":[{"field":"Age","before":28,"after":29}]; a deadline that
came without a record has no "seq". The last line of a store is {"totals":[…]}.`

const logExample = `  copal log app.db users:alice
  copal log app.db --since "1 hour ago"
  copal log app.db --since 2026-11-24 --prefix users: --json`

func newLog(a *cli.App) *cobra.Command {
	var f changes.Log
	cmd := &cobra.Command{
		Use:               "log DIR [KEY]",
		Short:             "Print earlier versions of an entry, or changes",
		Long:              logHelp,
		Example:           logExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		words := append(args[1:len(args):len(args)], f.Prefix)
		keys, err := cli.ParseKeys(words, f.Quoted)
		switch {
		case err != nil:
			return err
		case len(args) == 2 && f.Prefix != "":
			return cli.UsageError("--prefix is for the log of a store, and this one is of the entry " + cli.ShowKey(keys[0]))
		case f.Limit < 0:
			return cli.UsageError("--limit: the number of changes cannot be negative")
		case !cmd.Flags().Changed("limit"):
			f.Limit = changes.DefaultLimit(a, f.JSON)
		}
		if a.Host == nil {
			defer a.CatchSignals()()
		}
		return a.View(args[0], func(db *copal.DB) error {
			if len(args) == 2 {
				return changes.LogEntry(a, db, keys[0], &f, out)
			}
			return changes.LogStore(a, db, keys[0], &f, out)
		})
	})
	cmd.Flags().Int64VarP(&f.Limit, "limit", "n", 0, "print the newest so many")
	f.Since = a.AddMoment(cmd, "since", "print changes after this `MOMENT`, such as 10m or \"2 days ago\"")
	cmd.Flags().StringVarP(&f.Prefix, "prefix", "p", "", "print changes of entries whose keys begin with this")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each change")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, "read KEY and --prefix as ls shows a key: a Go string literal if it begins with \"")
	return cmd
}
