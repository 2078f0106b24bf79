package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

const syncHelp = `Make all writes durable.

A command that writes does so at its end. It is of use in a shell's script, between
commands, and for a store that a killed process has left: its writes that were not synced
are verified, copied, and then on the disk.

On a server it ends when the earlier writes are on a disk. A Redis confirms that from 7.2 on,
with appendonly; for others the exit code is 1.

With --json the output is {"records":…}, of the log that is durable; null where a
server has the store.`

func newSync(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "sync DIR",
		Short:             "Make all writes durable",
		Long:              syncHelp,
		Example:           "  copal sync app.db",
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			return a.Update(args[0], func(db *copal.DB) error { return syncStore(db, asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print how many records there are as JSON")
	return cmd
}

func syncStore(db *copal.DB, asJSON bool, out *bufio.Writer) error {
	if err := db.Sync(); err != nil || !asJSON {
		return err
	}
	var records *int64
	if n := db.Stats().Records; !cli.IsFar(db) {
		records = &n
	}
	return cli.WriteJSON(out, struct {
		Records *int64 `json:"records"`
	}{records})
}
