//go:build !image

package main

import (
	"bufio"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/importers"
	"github.com/copaldb/copal/cmd/copal/internal/measuring"
	"github.com/copaldb/copal/internal/bench/table"
)

const benchHelp = `Measure copal on this machine, in two minutes: typed maps beside maps in memory, and raw bytes,
transactions, walks over a prefix, and values from 128 B to 32 KiB beside bbolt, badger and
buntdb. Both sides of a ratio do the same work on the same keys in turn, and what is read is
checked. A ratio above 1 says how many times less time or memory copal takes. Below 1 copal
loses, and the row says so.

--servers serves a store on loopback, too, and measures SET and GET of Redis's protocol with 50
clients, beside redis-server if it is installed, and GET and PUT of an item by HTTP, beside a
handler of Go that has them in a map. That takes half a minute more.

The figures are those of the machine as it is: let nothing else run. Another run waits until
this one has ended. The files are made in the directory --dir, and removed; it should be on the
disk that the store will be on. --run chooses lines by name from all that there are, those of
parts of copal among them. With --rounds each line has so many rounds, however long that takes.

--html writes a page with charts to a file, which asks for nothing else. With --json the output
is one JSON document with the figures of each round. docs/performance.md
has a whole run, with what is measured and why copal loses where it does.`

// measurements returns the commands that measure. The image, which serves, leaves them out.
func measurements(a *cli.App) []*cobra.Command { return []*cobra.Command{newBench(a), newStudy(a)} }

// beChild ends the process, if it is one that a measurement or an import has started.
func beChild() { table.BeChild(); importers.BeChild() }

func newBench(a *cli.App) *cobra.Command {
	var b measuring.Bench
	cmd := &cobra.Command{
		Use:               "bench",
		Short:             "Measure copal beside other stores, on this machine",
		Long:              benchHelp,
		Example:           "  copal bench\n  copal bench --quick --dir /mnt/data\n  copal bench --servers --html report.html\n  copal bench --run '^values/scan'",
		Args:              cli.Arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.Runs(func(_ []string, out *bufio.Writer) error {
		b.Command = strings.Join(append([]string{cmd.CommandPath()}, changed(cmd.Flags())...), " ")
		return measuring.RunBench(a, &b, out)
	})
	f := cmd.Flags()
	f.StringVar(&b.Dir, "dir", ".", "make the files in a fresh directory below this one")
	f.BoolVar(&b.Servers, "servers", false, "measure servers on loopback, too")
	f.BoolVar(&b.Quick, "quick", false, "take half a minute, with fewer rounds")
	f.StringVar(&b.Run, "run", "", "measure only lines whose names match this regular expression")
	f.IntVar(&b.Rounds, "rounds", 0, "measure each line so many times")
	f.StringVar(&b.HTML, "html", "", "write a page with charts to this file; - for standard output")
	f.BoolVar(&b.JSON, "json", false, "print one JSON document")
	return cmd
}

// changed returns the flags that are set, except those that do not change the figures.
func changed(flags *pflag.FlagSet) (list []string) {
	flags.Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "dir" || f.Name == "html" || f.Name == "json":
		case f.Value.Type() == "bool":
			list = append(list, "--"+f.Name)
		default:
			list = append(list, "--"+f.Name, table.Word(f.Value.String()))
		}
	})
	return list
}
