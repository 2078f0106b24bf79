package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const ttlHelp = `Print how long an entry has to live, "none" for one that stays; or change that.

TIME is how long from now, such as 90s, 36h or 7d; a moment such as
2030-12-31T23:59:59Z; or none, which makes the entry stay. The value stays in any case.
Only to change it the store is opened for writing.

With --json the output is one line, {"key":…,"expires":"2030-12-31T23:59:59.999Z",
"ttlMillis":…}, and for an entry that stays {"key":…,"expires":null,"ttlMillis":null}.

If there is no entry for the key, the exit code is 3.`

func newTTL(a *cli.App) *cobra.Command {
	var asJSON, quoted bool
	cmd := &cobra.Command{
		Use:               "ttl DIR KEY [TIME]",
		Short:             "Show or change when an entry expires",
		Long:              ttlHelp,
		Example:           "  copal ttl app.db session:7f3a\n  copal ttl app.db session:7f3a 24h\n  copal ttl app.db session:7f3a none",
		Args:              cli.Arguments(2, 3),
		ValidArgsFunction: a.CompleteKey(1),
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			key, err := cli.ParseKey(args[1], quoted)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.View(args[0], func(db *copal.DB) error { return entries.ShowDeadline(a, db, key, asJSON, out) })
			}
			change, err := cli.ParseDeadline(args[2])
			if err != nil {
				return err
			}
			return a.Update(args[0], func(db *copal.DB) error {
				if err := change(db, key); err != nil {
					return a.Missing(cli.Source{DB: db}, err, key)
				}
				if !asJSON {
					return nil
				}
				return entries.ShowDeadline(a, db, key, asJSON, out)
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print key and deadline as JSON")
	cmd.Flags().BoolVarP(&quoted, "quoted", "Q", false, cli.QuotedUsage)
	return cmd
}
