//go:build !image

package main

import (
	"bufio"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/cmd/copal/internal/measuring"
	"github.com/copaldb/copal/internal/bench/study"
)

const studyHelp = `Measure which encoding suits records: in one pair or a pair for each field, as JSON, gob,
CBOR or binary, in bbolt and in copal, inserted one by one and all at once.

The records are users of 15 fields, or your own: --own FILE takes lines of JSON objects,
--own DIR MAP a map of a store. Each engine and strategy is a fresh store, which is
written, read and updated, and records are compared field by field. All of it is done
--reps times, in turns.

Results go to DIR/results.csv as they are measured, and at the end to results.json, a page
report.html with charts, and the charts as SVG. A study that was interrupted goes on where
it was; --again begins anew. Sizes, engines and strategies may be added to results that are
there. A repetition that would take longer than --limit is left out, and said so.

The study of all sizes takes hours; the line of progress says how long. --quick takes less
than a minute.`

const studyExample = `  copal study --quick
  copal study --sizes 1000,100000 --reps 3
  copal study --own events.ndjson
  copal study --own app.db users`

var studySizes = []int{10, 100, 1_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000}

func newStudy(a *cli.App) *cobra.Command {
	var f measuring.Study
	names, _ := study.Strategies()
	cmd := &cobra.Command{
		Use:     "study [MAP]",
		Short:   "Measure which encoding suits records",
		Long:    studyHelp + "\n\nThe strategies are " + strings.Join(names, ", ") + ".",
		Example: studyExample,
		Args:    cli.Arguments(0, 1),
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.Sizes, "sizes", studySizes, "numbers of records")
	flags.IntVar(&f.Reps, "reps", 10, "repetitions")
	flags.StringSliceVar(&f.Engines, "engines", []string{"bbolt", "copal"}, "bbolt, copal, badger, buntdb")
	flags.StringSliceVar(&f.Strategies, "strategies", nil, "ways to keep a record (default all)")
	flags.StringVar(&f.Durability, "durability", "both", "none, synced or both")
	flags.DurationVar(&f.Limit, "limit", 2*time.Minute, "leave out what takes longer for one repetition; 0 for no limit")
	flags.StringVar(&f.Own, "own", "", "study the records of a FILE of JSON lines, or of MAP in a store")
	flags.StringVar(&f.Out, "out", "copal-study", "directory for results; stores are made in it, and removed")
	flags.BoolVar(&f.Quick, "quick", false, "small sizes, few repetitions: less than a minute")
	flags.BoolVar(&f.Again, "again", false, "begin anew, in place of results that are there")
	flags.BoolVar(&f.JSON, "json", false, "print the figures as JSON")
	cmd.RunE = a.Runs(func(args []string, out *bufio.Writer) error {
		if f.Quick {
			for flag, set := range map[string]func(){
				"sizes": func() { f.Sizes = []int{100, 1_000, 5_000} },
				"reps":  func() { f.Reps = 2 },
				"limit": func() { f.Limit = 700 * time.Millisecond },
				"strategies": func() {
					f.Strategies = []string{"binary", "names", "json", "gob", "fields", "nested", "hash", "map-binary", "map-json"}
				},
			} {
				if !flags.Changed(flag) {
					set()
				}
			}
		}
		return measuring.RunStudy(a, f, args, flags.Changed("sizes"), out)
	})
	return cmd
}
