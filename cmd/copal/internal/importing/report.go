package importing

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/ndjson"
)

// Result has the counts of an import, as --json prints them.
type Result struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Entries  int64  `json:"entries"`
	Replaced int64  `json:"replaced,omitempty"` // entries that another was in the place of; not in a dry run
	Deleted  int64  `json:"deleted,omitempty"`
	Expired  int64  `json:"expired,omitempty"`
	Resumed  int64  `json:"resumed,omitempty"`
	Bad      int64  `json:"bad,omitempty"`

	LeftOut   map[string]int64 `json:"leftOut,omitempty"`   // by kind: "library of functions"
	Verified  int64            `json:"verified,omitempty"`  // entries that were read again and are in the store as they were read
	Different int64            `json:"different,omitempty"` // those that are not
	Gone      int64            `json:"gone,omitempty"`      // entries without a deadline that were not there when it was read again

	Contents int64 `json:"contentTypesLeftOut,omitempty"` // that the server does not keep

	Bytes    int64     `json:"bytes"`
	Complete bool      `json:"complete"`
	Torn     *tornJSON `json:"torn,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	DryRun   bool      `json:"dryRun,omitempty"`
}

func (r *Result) leftOut() (n int64) {
	for _, of := range r.LeftOut {
		n += of
	}
	return n
}

// tornJSON is the place at which the input was cut.
type tornJSON struct {
	Line   int64  `json:"line,omitempty"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// mostShown is the number of problems to show of many.
const mostShown = 20

// bad handles a part of the input that is no entry.
func (in *Intake) bad(e *ndjson.LineError) error {
	in.Result.Bad++
	switch where := *e; {
	case e.Last:
		in.Result.Bad--
		in.Result.Complete = false
		if in.Result.Torn == nil {
			in.Result.Torn = &tornJSON{e.Line, e.Offset, e.Reason}
			in.warn("%s ends in what is not whole: %s", in.Path, position(&where))
		}
	case !in.skipBad:
		return fmt.Errorf("%s; --skip-bad leaves it out", position(&where))
	case in.Result.Bad <= mostShown:
		in.warn("%s: left out: %s", in.Path, position(&where))
	}
	return nil
}

// position returns the text of a LineError in a file that may have no lines.
func position(e *ndjson.LineError) string {
	switch {
	case e.Line > 0:
		return e.Error()
	case e.Offset > 0:
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Reason)
	}
	return e.Reason
}

// leftOut handles a thing of Redis that a store does not have.
func (in *Intake) leftOut(what string, key []byte) {
	if in.Result.LeftOut == nil {
		in.Result.LeftOut = map[string]int64{}
	}
	in.Result.LeftOut[what]++
	if in.Result.LeftOut[what] > mostShown {
		return
	}
	if key == nil {
		in.warn("%s: left out: a %s", in.Path, what)
	} else {
		in.warn("%s: left out: key %q, a %s", in.Path, key, what)
	}
}

func (in *Intake) note(text string) { in.Result.Notes = append(in.Result.Notes, text) }

// warn prints a message that is no error.
func (in *Intake) warn(format string, args ...any) {
	in.bar.Clear()
	fmt.Fprintln(in.Stderr, "copal:", cli.Plain(fmt.Sprintf(format, args...)))
}

// finish prints the counts.
func (in *Intake) finish(out *bufio.Writer) error {
	for _, text := range in.Result.Notes {
		in.warn("%s: %s", in.Path, text)
	}
	if n := in.Result.Contents; n > 0 {
		in.warn("the content types of %s were left out: the server takes none", cli.CountEntries(n))
	}
	if in.Result.Bad > mostShown {
		in.warn("%s: %d were left out in all", in.Path, in.Result.Bad)
	}
	for _, what := range slices.Sorted(maps.Keys(in.Result.LeftOut)) {
		if n := in.Result.LeftOut[what]; n > mostShown {
			in.warn("%s: left out: %d in all, each a %s", in.Path, n, what)
		}
	}
	if in.json {
		return errors.Join(cli.WriteJSON(out, in.Result), in.different())
	}
	verb := "imported"
	if in.dryRun {
		verb = "would import"
	}
	fmt.Fprintf(out, "%s %s from %s", verb, cli.CountEntries(in.Result.Entries), in.format.Name)
	for _, n := range []struct {
		n    int64
		what string
	}{{in.Result.Replaced, "in the place of others"}, {in.Result.Resumed, "done before"}, {in.Result.Deleted, "deleted"}, {in.Result.Expired, "expired"}, {in.Result.Bad + in.Result.leftOut(), "left out"}, {in.Result.Verified, "verified"}} {
		if n.n > 0 {
			fmt.Fprintf(out, ", %d %s", n.n, n.what)
		}
	}
	_, err := fmt.Fprintln(out)
	return errors.Join(err, in.different())
}
