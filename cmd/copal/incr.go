package main

import (
	"bufio"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const incrHelp = `Add N, 1 if it is not given, to the whole number under a key, and print the sum.

A key without an entry counts as 0. N may be negative. The sum is written as decimal
text, and a deadline that the entry has stays. A value that is no number, or a sum
beyond 64 bits, is an error, and nothing changes.

With --json the output is one line, {"key":…,"value":…}.`

func newIncr(a *cli.App) *cobra.Command {
	var f entries.Incr
	cmd := &cobra.Command{
		Use:               "incr DIR KEY [N]",
		Short:             "Add to a number, atomically",
		Long:              incrHelp,
		Example:           "  copal incr app.db visits\n  copal incr app.db visits 10\n  copal incr app.db stock -3",
		Args:              cli.Arguments(2, 3),
		ValidArgsFunction: a.CompleteKey(1),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		key, err := cli.ParseKey(args[1], f.Quoted)
		if err != nil {
			return err
		}
		if len(args) == 3 {
			if cmd.Flags().Changed("by") {
				return cli.UsageError("both N and --by say what to add")
			}
			if f.By, err = strconv.ParseInt(args[2], 10, 64); err != nil {
				return cli.UsageError(strconv.Quote(args[2]) + " is no whole number of 64 bits")
			}
		}
		return a.Update(args[0], func(db *copal.DB) error { return f.Add(db, key, out) })
	})
	cmd.Flags().Int64Var(&f.By, "by", 1, "what to add, as N")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print key and sum as JSON")
	cmd.Flags().BoolVarP(&f.Quoted, "quoted", "Q", false, cli.QuotedUsage)
	cmd.Flags().BoolVar(&f.FSync, "fsync", false, "sync this write by itself; without, the store is synced when it is closed")
	return cmd
}
