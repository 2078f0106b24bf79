package upkeep

import (
	"bufio"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// Compact gives back space, and prints the sizes before and after.
func Compact(a *cli.App, db *copal.DB, asJSON bool, out *bufio.Writer) error {
	before := db.Stats()
	bar := a.NewProgress("compacting")
	err := db.Compact(a.Ctx, bar.Show)
	bar.Clear()
	write := writeSizes
	if asJSON {
		write = writeSizesJSON
	}
	return errors.Join(err, write(out, before, db.Stats())) // the space given back stays so after an error, too
}

func writeSizes(out *bufio.Writer, before, after copal.Stats) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tlog bytes\tsegments\trecords")
	fmt.Fprintf(w, "before\t%s\t%d\t%d\n", cli.ShowBytes(before.LogBytes), before.Segments, before.Records)
	fmt.Fprintf(w, "after\t%s\t%d\t%d\n", cli.ShowBytes(after.LogBytes), after.Segments, after.Records)
	return w.Flush()
}

type sizesJSON struct {
	LogBytes int64 `json:"logBytes"`
	Segments int   `json:"segments"`
	Records  int64 `json:"records"`
}

func writeSizesJSON(out *bufio.Writer, before, after copal.Stats) error {
	sizes := func(s copal.Stats) sizesJSON { return sizesJSON{s.LogBytes, s.Segments, s.Records} }
	return cli.WriteJSON(out, struct {
		Before sizesJSON `json:"before"`
		After  sizesJSON `json:"after"`
	}{sizes(before), sizes(after)})
}
