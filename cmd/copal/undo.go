package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/comparing"
)

const undoHelp = `Undo the changes of entries since a moment: changed entries get back their value, elements
and deadline, deleted ones come back, and new ones are deleted.
PREFIX selects keys; a map is its name and a colon: users:
MOMENT is written like "10 minutes ago", 10:00 or 4711, the number of a record: copal --help.

undo first prints the changes that it would make, in the form of copal diff, and asks. It
makes them in one transaction of new records, so ` + "`copal log`" + `, --from and --since show
the entries before and after it, and an undo can be undone.

An entry that has changed more than once since MOMENT is marked with !: a later change may
be none of the mistake. With --until MOMENT, a moment after the mistake, only earlier
changes are undone. Entries that have changed later are left and listed, as are those that
change before you answer.

A deadline comes back unchanged. If it has passed, the entry is deleted. A dropped map comes
back with its types.

undo needs the store's lock, and memory for the entries that it writes. With --dry-run it
needs no lock, and prints all changes; otherwise it prints the first ones and their numbers.
A program that has the store open calls copal/admin.Undo.

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
		Short:             "Undo changes since a moment",
		Long:              undoHelp,
		Example:           undoExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error { return f.Run(a, args, out) })
	f.Consent.Flags(cmd)
	f.Since = a.AddMoment(cmd, "since", "undo changes since this `MOMENT`, such as 10m or \"2 days ago\"")
	f.Until = a.AddMoment(cmd, "until", "undo only changes up to this `MOMENT`")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print a line of JSON for each entry")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, `read PREFIX as ls shows a key: a Go string literal if it begins with "`)
	return cmd
}
