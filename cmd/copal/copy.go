package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/migrating"
)

const copyHelp = `Copy what the store SRC has into the store DST, while SRC is written to. Each is a
directory, or a server: redis://host:port. DST is made if it is a directory that is not
there; else it must be empty.

First all entries are copied, then what has changed meanwhile, until DST has caught up.
Then all entries of both are compared by their checksums, and copy ends and says the
sequence number of SRC up to which DST has all. Run again, it goes on there, and copies
only what has changed since.

With --cutover it does not end, but goes on as SRC changes. When you have stopped what
writes to SRC, press Enter: copy makes the last changes, compares all, and says that both
are equal. Then let your programs open DST. If standard input ends before a line, that is
an error, and the same command goes on.

Values arrive with their codecs, schemas and content types, deadlines to the
millisecond, and hashes, lists, sets, sorted sets and streams with all elements and
groups. A Redis keeps no codecs, schemas and content types: copy says how many entries
lost a content type. To take streams it has to be Redis 7.0 or later. A server takes values
of up to 512 MiB, and has a minute for each command: redis://host?timeout=5m gives it more.

After an interruption or a crash the same command goes on about where it ended: the entry
copal.copy:position of DST says where, until --cutover is through. Only copy may write to
DST meanwhile. When copy has found something else there, the next run replaces what
differs, and with --replace deletes what DST alone has. A run that reads all of SRC again,
as after it was compacted, deletes that, too.

A plain Redis tells no moments: as SRC it is read again and again or, if it is set to say
which keys change (notify-keyspace-events EA), once, and then these keys. What is written
or flushed meanwhile may be copied or not. All is read and compared at the --cutover
alone; before, copy says "copied, not compared".

With --replace DST need not be empty: what it has, and SRC has not, is deleted.

With --json the output is {"from":…,"to":…,"seq":…,"entries":…,"written":…,"deleted":…,
"resumed":…,"walks":…,"rounds":…,"sum":…,"equal":…,"contentTypesLeftOut":…}: sum is of all
entries, so that it can be compared with the one of another copy, and equal says that SRC
was not written to since. sum, entries and contentTypesLeftOut, the number of
content types that were not copied, are null where nothing was compared.`

const copyExample = `  copal copy app.db /mnt/new/app.db
  copal copy app.db /mnt/new/app.db --cutover`

func newCopy(a *cli.App) *cobra.Command {
	var f migrating.Flags
	cmd := &cobra.Command{
		Use:               "copy SRC DST",
		Short:             "Copy a store that is written to into another one",
		Long:              copyHelp,
		Example:           copyExample,
		Args:              cli.Arguments(2, 2),
		ValidArgsFunction: cli.CompleteDirs,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			if a.Host != nil {
				return cli.UsageError("copy stands alone: the shell has the store")
			}
			defer a.CatchSignals()()
			return migrating.CopyStore(a, args[0], args[1], &f, out)
		}),
	}
	cmd.Flags().BoolVar(&f.Cutover, "cutover", false, "go on until you have stopped what writes to SRC and press Enter")
	cmd.Flags().BoolVar(&f.Replace, "replace", false, "delete what DST has and SRC has not")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print what was done as one JSON object")
	return cmd
}
