package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/changes"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

const watchHelp = `Print the changes of all processes as they come, until Ctrl-C. PREFIX and --match select
keys.

Each line is a time, set, del, expired or drop, a key, and for set a tab and the value,
both shown as copal scan shows them. The changes of a transaction or a batch come
together. An expiry is printed if the map of the entry has ExpiryEvents.

--after SEQ first prints the changes after that sequence number, which is one of --json
output, or 0 for all changes that the log still has. If compaction has removed some of
them, the exit code is 1. --limit ends the command after so many changes.

With --json each line is {"seq":…,"time":"…","op":"set","key":…,"value":…}, with "text" or
"base64" where the value is no JSON, "expires"
for an entry with a deadline. "op":"del" and "op":"expired" come without a value,
"op":"delrange" is a deletion of all keys from "key" on and before "to", and "op":"drop" is
one of a whole map. "more":true is said if further changes follow that count together with
it; take "seq" for --after from a line without.
A change of a hash, list or set has "collection":"hash". Each element that has changed has
a line with "element", which is a position in a list. "created" says that the collection is
a new one, and "from" which key it had before.

` + cli.MatchHelp

const watchExample = `  copal watch app.db
  copal watch app.db users: --json | jq .value.Name
  copal watch app.db --after 0 --limit 100`

func newWatch(a *cli.App) *cobra.Command {
	var f changes.Watch
	cmd := &cobra.Command{
		Use:               "watch DIR [PREFIX]",
		Short:             "Follow changes as they come",
		Long:              watchHelp,
		Example:           watchExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		s, err := f.Parse(cmd, args[1:])
		if err != nil {
			return err
		}
		opts := []copal.WatchOption{copal.WithPrefix(s.Watched())}
		if cmd.Flags().Changed("after") {
			opts = append(opts, copal.WithAfter(f.After))
		}
		if a.Host == nil {
			defer a.CatchSignals()()
		}
		return a.View(args[0], func(db *copal.DB) error { return changes.Follow(a, db, s, &f, opts, out) })
	})
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each change")
	cmd.Flags().Uint64Var(&f.After, "after", 0, "print first the changes after this sequence number")
	cmd.Flags().Int64VarP(&f.Limit, "limit", "n", 0, "end after this many changes")
	f.AddMatch(cmd)
	f.AddQuoted(cmd, "PREFIX")
	return cmd
}
