package main

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const statHelp = `Count what a store holds, and what it takes.

  keys          entries
  records       records in the log, those of overwritten and deleted entries among them
  ratio         records for each key; 1 in a store without waste
  live bytes    of the log, that belong to entries, about
  log bytes     of all segments
  segments      files of the log
  index bytes   memory that the index of keys takes in a process that has the store open
  torn bytes    at the end of the log, left by a crash and of no account
  map NAME      entries of a map; all others are raw keys and single values`

func newStat(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "stat DIR",
		Short:             "Count keys, records and bytes",
		Long:              statHelp,
		Example:           "  copal stat app.db\n  copal stat app.db --json | jq .ratio",
		Args:              arguments(1, 1),
		ValidArgsFunction: completeDir,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			return a.view(args[0], func(db *copal.DB) error {
				s := db.Stats()
				if asJSON {
					return writeJSON(out, toStatJSON(s, db.Maps()))
				}
				return writeStat(out, s, db.Maps())
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts as one JSON object")
	return cmd
}

// statJSON is copal.Stats for machines. The memory of decoded values is left out: it would be the
// memory of this command, which decodes none.
type statJSON struct {
	Keys       int64   `json:"keys"`
	Records    int64   `json:"records"`
	Ratio      float64 `json:"ratio"`
	LiveBytes  int64   `json:"liveBytes"`
	LogBytes   int64   `json:"logBytes"`
	Segments   int     `json:"segments"`
	IndexBytes int64   `json:"indexBytes"`
	TornBytes  int64   `json:"tornBytes"`

	Maps []mapJSON `json:"maps"`
}

type mapJSON struct {
	Name string `json:"name"`
	Keys int    `json:"keys"`
}

func toStatJSON(s copal.Stats, maps iter.Seq2[string, int]) statJSON {
	list := []mapJSON{}
	for name, keys := range maps {
		list = append(list, mapJSON{name, keys})
	}
	return statJSON{Keys: s.Keys, Records: s.Records, Ratio: s.Ratio(), LiveBytes: s.LiveBytes,
		LogBytes: s.LogBytes, Segments: s.Segments, IndexBytes: s.IndexBytes, TornBytes: s.TornBytes, Maps: list}
}

func writeStat(out io.Writer, s copal.Stats, maps iter.Seq2[string, int]) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "keys\t%d\n", s.Keys)
	fmt.Fprintf(w, "records\t%d\n", s.Records)
	fmt.Fprintf(w, "ratio\t%.2f\n", s.Ratio())
	fmt.Fprintf(w, "live bytes\t%s\n", showBytes(s.LiveBytes))
	fmt.Fprintf(w, "log bytes\t%s\n", showBytes(s.LogBytes))
	fmt.Fprintf(w, "segments\t%d\n", s.Segments)
	fmt.Fprintf(w, "index bytes\t%s\n", showBytes(s.IndexBytes))
	fmt.Fprintf(w, "torn bytes\t%s\n", showBytes(s.TornBytes))
	for name, keys := range maps {
		fmt.Fprintf(w, "map %s\t%d\n", showKey([]byte(name)), keys)
	}
	return w.Flush()
}
