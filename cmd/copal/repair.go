package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/upkeep"
)

const repairHelp = `Make a new store of the intact records of a damaged one, and list the lost ones.

With INTO, a missing or empty directory, the new store is made there, and DIR is unchanged.
Without INTO, repair lists the losses and asks; then the new store replaces DIR, and the
damaged one is kept beside it, as DIR.damaged. A sound store is unchanged.

The content of a lost record is not known. If it set a key, the key has its earlier value;
if it deleted a key, the key is back.

--dry-run only lists the losses. --yes does not ask. No other process may have the store
open for writing. There must be room for a copy of the intact records.

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
		Short:             "Save the intact records of a damaged store",
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
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print the report as one JSON object")
	return cmd
}
