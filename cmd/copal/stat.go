package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const statHelp = `Count the entries of a store, and the space that they take.

  keys          entries
  records       records in the log, those of overwritten and deleted entries among them
  ratio         records for each key; 1 in a store without waste
  live bytes    of the log, that belong to entries, about
  log bytes     of all segments
  segments      files of the log
  index bytes   memory that the index of keys takes in a process that has the store open
  torn bytes    at the end of the log, left by a crash and of no account
  clock behind  by how much the clock is behind the newest record, if it is
  map NAME      entries of a map; all others are raw keys and single values

On a server it prints the counts that the server has, and also:

  server        what it is, and of a Redis or a Valkey the version
  nodes         of a cluster, the masters
  memory bytes  that the server says it uses; of a cluster all masters together
  file bytes    of a Redis with appendonly, of its file

A copal serve has all of the first list but torn bytes. The keys of a Redis are counted one by one,
and it has no maps. With --json, counts that a server does not have are left out.`

func newStat(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "stat DIR",
		Short:             "Count keys, records and bytes",
		Long:              statHelp,
		Example:           "  copal stat app.db\n  copal stat app.db --json | jq .ratio",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			return a.View(args[0], func(db *copal.DB) error {
				if cli.IsFar(db) {
					return upkeep.StatFar(a, db, asJSON, out)
				}
				s := db.Stats()
				if asJSON {
					return cli.WriteJSON(out, upkeep.ToStatJSON(s, db.Maps()))
				}
				return upkeep.WriteStat(out, s, db.Maps())
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts as one JSON object")
	return cmd
}
