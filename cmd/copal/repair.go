package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const repairHelp = `Make a new store of all that is intact in a damaged one, and say what is lost.

With INTO, a directory that is missing or empty, the new store is made there, and DIR is
left as it is. Without, the new store takes the place of DIR after you have seen what
would be lost and said yes, and the damaged one is kept beside it, as DIR.damaged; a
store that is sound is left alone.

What a lost record said is not known. If it set a key, the value before it shows; if it
deleted one, the key is there again.

--dry-run only says what would be lost. --yes asks nothing. No other process may have
the store open for writing. There must be room for another copy of what is intact.

With --json the output is {"intact":…,"saved":…,"lostBytes":…,"tornBytes":…,"lost":[…],
"passed":[…],"values":[…],"grouped":…,"raw":…}, and without INTO also "damaged", where
the damaged store is now, or "sound":true. See docs/command.md for their meaning.`

const repairExample = `  copal repair app.db --dry-run
  copal repair app.db
  copal repair app.db mended.db`

func newRepair(a *cli.App) *cobra.Command {
	var f upkeep.Repair
	cmd := &cobra.Command{
		Use:               "repair DIR [INTO]",
		Short:             "Save what is intact in a damaged store",
		Long:              repairHelp,
		Example:           repairExample,
		Args:              cli.Arguments(1, 2),
		ValidArgsFunction: cli.CompleteDirs,
		RunE: a.Runs(func(args []string, out *bufio.Writer) error {
			if err := cli.RequireStore(args[0]); err != nil && (len(args) == 2 || !upkeep.IsBegun(args[0])) {
				return err
			}
			if len(args) == 2 && args[1] == "" {
				return cli.ErrNoDir
			}
			defer a.CatchSignals()()
			return upkeep.RepairStore(a, args, &f, out)
		}),
	}
	f.Flags(cmd)
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print what was found as one JSON object")
	return cmd
}
