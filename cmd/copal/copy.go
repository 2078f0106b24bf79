package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/migrating"
)

const copyHelp = `Copy the entries of the store SRC into the store DST, while SRC is written to. Each is a
directory, or a server: redis://host:port. A missing directory DST is made; otherwise DST
must be empty.

copy copies all entries, then the changes made meanwhile, until DST has caught up. Then it
compares all entries of both by their checksums, and prints the sequence number of SRC up
to which DST is complete. The next run copies only the later changes.

With --cutover copy goes on as SRC changes. Stop all writers of SRC, then press Enter: copy
makes the last changes, compares all entries, and reports that both stores are equal. Then
let your programs open DST. If standard input ends before a line, the exit code is 1; the
same command continues the copy.

Values arrive with their codecs, schemas and content types, deadlines to the
millisecond, and hashes, lists, sets, sorted sets and streams with all elements and
groups. A Redis keeps no codecs, schemas and content types: copy reports how many entries
lost a content type. Streams need Redis 7.0 or later. A server takes values of up to
512 MiB, and has a minute for each command: redis://host?timeout=5m gives it more.

After an interruption or a crash the same command continues near the place where it ended,
which the entry copal.copy:position of DST has until --cutover ends. Only copy may write to
DST meanwhile. After copy has found other writes there, the next run replaces the entries
that differ, and with --replace deletes those that only DST has. A run that reads all of
SRC again, such as the first after a compaction, deletes them, too.

A plain Redis has no moments. As SRC it is read repeatedly; with notify-keyspace-events EA
it is read once, and then only the keys that change. Writes and flushes meanwhile may be
copied or not. Only --cutover compares; without it copy reports "copied, not compared".

With --replace DST need not be empty: entries that SRC does not have are deleted.

A later run deletes nothing if SRC is another store than before, a server that was restarted
or has another master, or an older backup: it may have lost the entries. With --delete they
are deleted from DST, too.

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
	cmd.Flags().BoolVar(&f.Cutover, "cutover", false, "go on until you have stopped all writers of SRC, and press Enter")
	cmd.Flags().BoolVar(&f.Replace, "replace", false, "delete entries of DST that SRC does not have")
	cmd.Flags().BoolVar(&f.Delete, "delete", false, "delete entries of DST even if SRC may have lost them")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print the report as one JSON object")
	return cmd
}
