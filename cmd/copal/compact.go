package main

import (
	"bufio"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
)

const compactHelp = `Give back all the space that can be given back: of what was overwritten, deleted or has
expired. What the store holds stays as it is.

A store does that by itself while a program has it open, as soon as the log is twice as
long as what counts in it, and 32 MiB longer. This takes what is left, and needs room for
one file of the log at most. Files are replaced one by one, so it may be interrupted: what
it has given back by then stays given back. Less than 1 KiB is left as it is.

With --json the output is {"before":{…},"after":{…}}, each with logBytes, segments and
records.`

func newCompact(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "compact DIR",
		Short:             "Give back space",
		Long:              compactHelp,
		Example:           "  copal compact app.db\n  copal compact app.db --json | jq .after.logBytes",
		Args:              arguments(1, 1),
		ValidArgsFunction: completeDir,
		RunE: a.runs(func(args []string, out *bufio.Writer) error {
			return a.update(args[0], func(db *copal.DB) error { return a.compact(db, asJSON, out) })
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the sizes before and after as one JSON object")
	return cmd
}

func (a *app) compact(db *copal.DB, asJSON bool, out *bufio.Writer) error {
	before := db.Stats()
	bar := a.newProgress("compacting")
	err := db.Compact(a.ctx, bar.show)
	bar.clear()
	write := writeSizes
	if asJSON {
		write = writeSizesJSON
	}
	return errors.Join(err, write(out, before, db.Stats())) // what was given back stays so after an error, too
}

func writeSizes(out *bufio.Writer, before, after copal.Stats) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tlog bytes\tsegments\trecords")
	fmt.Fprintf(w, "before\t%s\t%d\t%d\n", showBytes(before.LogBytes), before.Segments, before.Records)
	fmt.Fprintf(w, "after\t%s\t%d\t%d\n", showBytes(after.LogBytes), after.Segments, after.Records)
	return w.Flush()
}

type sizesJSON struct {
	LogBytes int64 `json:"logBytes"`
	Segments int   `json:"segments"`
	Records  int64 `json:"records"`
}

func writeSizesJSON(out *bufio.Writer, before, after copal.Stats) error {
	sizes := func(s copal.Stats) sizesJSON { return sizesJSON{s.LogBytes, s.Segments, s.Records} }
	return writeJSON(out, struct {
		Before sizesJSON `json:"before"`
		After  sizesJSON `json:"after"`
	}{sizes(before), sizes(after)})
}
