package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/entries"
)

const delHelp = `Delete entries: those of the keys that are named, or with --prefix and --match all whose
keys begin so, or look so.

Named keys are deleted without a question. If there is no entry for one of them, the
others are deleted all the same, and the exit code is 3.

With --prefix or --match the entries are counted, and nothing is deleted before you say
yes. --dry-run lists their keys and deletes nothing; --yes asks nothing. ` + cli.MatchHelp + `

With --json there is a line for each named key: {"key":…,"deleted":true}; and with --prefix or
--match one line says how many there were: {"deleted":…}.`

const delExample = `  copal del app.db users:alice
  copal del app.db --prefix session: --dry-run
  copal del app.db --match 'users:*:tmp' --yes`

func newDel(a *cli.App) *cobra.Command {
	var f entries.Del
	cmd := &cobra.Command{
		Use:               "del DIR [KEY...]",
		Short:             "Delete entries",
		Long:              delHelp,
		Example:           delExample,
		Args:              cli.Arguments(1, cli.AnyNumber),
		ValidArgsFunction: a.CompleteKey(cli.AnyNumber),
	}
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		f.Many = cmd.Flags().Changed("prefix") || cmd.Flags().Changed("match")
		if f.Many == (len(args) > 1) {
			return cli.UsageError("what is to be deleted? Either name keys, or say --prefix or --match")
		}
		if f.Many {
			return entries.DelMany(a, cmd, args[0], &f, out)
		}
		if f.DryRun || f.Yes {
			return cli.UsageError("--dry-run and --yes go with --prefix and --match; named keys are deleted without a question")
		}
		keys, err := cli.ParseKeys(args[1:], f.Quoted)
		if err != nil {
			return err
		}
		return a.Update(args[0], func(db *copal.DB) error { return f.Named(a, db, keys, out) })
	})
	f.Consent.Flags(cmd)
	f.AddQuoted(cmd, "keys and --prefix")
	f.AddMatch(cmd)
	cmd.Flags().StringVarP(&f.Prefix, "prefix", "p", "", "delete all entries whose keys begin with this `PREFIX`")
	cmd.Flags().BoolVar(&f.FSync, "fsync", false, "sync the deletion by itself; without, the store is synced when it is closed")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print the deletions as JSON")
	return cmd
}
