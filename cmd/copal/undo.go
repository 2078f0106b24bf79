package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/comparing"
)

const undoHelp = `Take back what has happened to entries since a moment: what was changed gets the value, the
elements and the deadline that it had, what was deleted comes back, and what is new goes.
PREFIX is what the keys begin with; a map is its name and a colon: users:
MOMENT is written like "10 minutes ago", 10:00 or 4711, the number of a record: copal --help.

First it prints what it would do, as copal diff prints a change, and asks. All of it is
one transaction, of new records: it counts as a whole or not at all, and ` + "`copal log`" + `,
--from and --since see both what was before and what was after it. So an undo can be undone.

An entry that has changed more than once since MOMENT is marked with !: somebody may have
written it after the mistake. With --until MOMENT, the moment behind the mistake, only what
happened before it is taken back, and entries that have changed since are left as they are
and told of. So are those that change while you read.

A deadline comes back as it was. If it has passed, the entry is gone, as if nothing had been
written since. A map that was dropped comes back with its types.

undo needs the store's lock, and memory for what it writes. With --dry-run it needs no lock
and prints all that it would do; otherwise the first entries and the numbers. A program that
has the store open can do it itself: copal/admin.Undo.

With --json the lines are those of copal diff, with "changes", how often an entry has changed,
and the last one is {"restored":…,"deleted":…,"expired":…,"left":[…]}, with the keys that
were left as they are; of a dry run {"removed":…,"added":…,"changed":…}.`

const undoExample = `  copal undo app.db users: --since "10 minutes ago" --dry-run
  copal undo app.db users: --since "10 minutes ago"
  copal undo app.db --since 10:00 --until 10:05 --yes`

func newUndo(a *cli.App) *cobra.Command {
	var f comparing.Undo
	cmd := &cobra.Command{
		Use:               "undo DIR [PREFIX]",
		Short:             "Take back what has happened since a moment",
		Long:              undoHelp,
		Example:           undoExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error { return f.Run(a, args, out) })
	f.Consent.Flags(cmd)
	f.Since = a.AddMoment(cmd, "since", "take back what has happened since this `MOMENT`, such as 10m or \"2 days ago\"")
	f.Until = a.AddMoment(cmd, "until", "take back only what had happened by this `MOMENT`, in the place of now")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each entry")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, `read PREFIX as ls shows a key: a Go string literal if it begins with "`)
	return cmd
}
