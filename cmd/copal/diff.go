package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/comparing"
)

const diffHelp = `Compare two moments of a store, or two stores, and print the entries in which they differ,
in the order of their keys, field by field where values are JSON, and element by element
where keys hold collections:
- users:bob	{"Name":"Bob"}     there first, and gone in the second
+ users:carol	{"Name":"Carol"}   not there first, and new in the second
~ users:alice                    changed:
    Age: 28 → 29                   another value
  + Tags[2]: "new"                 in the second alone
  - Nick: "al"                     in the first alone
The last line says how many entries are gone, new and changed.

With --from MOMENT the store in DIR is compared with itself, from that moment up to --to
MOMENT or now (copal --help has the forms of a moment); PREFIX selects keys. Without
--from the arguments are two stores, such as a store and its backup, and PREFIX. ` +
	"`copal log`" + ` prints the changes between the two states, and copal undo undoes them.

Either of two stores may be on a server: redis://host:port. A Redis has no codecs, types
and content types, and no times at which consumers of streams got an entry, so they are not
compared. Writes to a Redis during the comparison may be reported as differences or not. An
entry that cannot be read, such as a value of a module of Redis, is reported, the others are
compared, and the exit code is 1. On a server, "before" and "after" have no "seq" and "time".

With --json there is a line for each entry: {"key":…,"change":"changed","before":{"value":…},
"after":{"value":…},"changed":[{"field":"Age","before":28,"after":29}]}; change is removed,
added or changed, and "before" and "after" have the forms of copal export. Behind a changed
collection comes a line for each element: {"key":…,"element":…,…}, of a list "index". The
last line is {"removed":…,"added":…,"changed":…}. The exit code does not depend on what differs.`

const diffExample = `  copal diff app.db --from "10 minutes ago"
  copal diff app.db users: --from 10:00 --to 10:05 --json
  copal diff app.db /mnt/backup/app.db
  copal diff app.db redis://localhost:6379`

func newDiff(a *cli.App) *cobra.Command {
	var f comparing.Diff
	cmd := &cobra.Command{
		Use:               "diff DIR [DIR] [PREFIX]",
		Short:             "Compare two moments, or two stores",
		Long:              diffHelp,
		Example:           diffExample,
		Args:              cli.Arguments(1, 3),
		ValidArgsFunction: a.CompleteKey(2),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error { return f.Run(a, args, out) })
	f.From = a.AddMoment(cmd, "from", "begin with the store as it was at this `MOMENT`, such as 10m or \"2 days ago\"")
	f.To = a.AddMoment(cmd, "to", "end with the store as it was at this `MOMENT`, in the place of now")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each entry that differs")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, `read PREFIX as ls shows a key: a Go string literal if it begins with "`)
	return cmd
}
