package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const historyHelp = `Show how far back the past of a store can be read, or change how long it is kept.

TIME is a time such as 36h or 7d: overwritten and deleted entries stay in the log for so
long. ever keeps all of them; none keeps no more of them, and the next compaction gives back
their space. The store keeps the setting. A program sets it by copal.WithHistory. A longer
time does not bring back entries that are gone.

copal log prints the history, and --at reads the store at a moment of it.

With --json the output is {"keepMillis":…,"since":"…","seq":…}: every moment from that
record and that time on can be read. keepMillis is "ever" for ever, and null where no
history is kept; without "since" all of the store's life can be read, and without "seq"
the present alone. "keepBytes" is the limit of copal.WithHistoryBytes on the bytes of log
that are kept. TIME removes that limit.`

func newHistory(a *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history DIR [TIME]",
		Short:   "Show or change how long the past is kept",
		Long:    historyHelp,
		Example: "  copal history app.db\n  copal history app.db 7d\n  copal get app.db users:alice --at \"10 minutes ago\"",
		Args:    cli.Arguments(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"7d", "ever", "none"}, cobra.ShellCompDirectiveNoFileComp
			}
			return cli.CompleteDir(cmd, args, word)
		},
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			show := func(db *copal.DB) error { return upkeep.WriteWindow(db, asJSON, out) }
			if len(args) == 1 {
				return a.View(args[0], show)
			}
			keep, err := cli.ParseKeep(args[1])
			if err != nil {
				return err
			}
			return a.Update(args[0], func(db *copal.DB) error {
				if err := admin.BeginHistory(db); err != nil {
					return err
				}
				return show(db)
			}, copal.WithHistory(keep))
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON object")
	return cmd
}
