package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/copaldb/copal/internal/ndjson"
)

// importJSON is what --json prints.
type importJSON struct {
	File     string `json:"file"`
	Format   string `json:"format"`
	Entries  int64  `json:"entries"`
	Replaced int64  `json:"replaced,omitempty"` // entries that another was in the place of; not in a dry run
	Deleted  int64  `json:"deleted,omitempty"`
	Expired  int64  `json:"expired,omitempty"`
	Resumed  int64  `json:"resumed,omitempty"`
	Bad      int64  `json:"bad,omitempty"`

	LeftOut   map[string]int64 `json:"leftOut,omitempty"`   // by what they are: "library of functions"
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

func (r *importJSON) leftOut() (n int64) {
	for _, of := range r.LeftOut {
		n += of
	}
	return n
}

// tornJSON is where the input was cut.
type tornJSON struct {
	Line   int64  `json:"line,omitempty"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// mostShown is how many of many problems are shown.
const mostShown = 20

// bad hears of what is no entry.
func (in *intake) bad(e *ndjson.LineError) error {
	in.result.Bad++
	switch where := *e; {
	case e.Last:
		in.result.Bad--
		in.result.Complete = false
		if in.result.Torn == nil {
			in.result.Torn = &tornJSON{e.Line, e.Offset, e.Reason}
			in.warn("%s ends in what is not whole: %s", in.path, position(&where))
		}
	case !in.skipBad:
		return fmt.Errorf("%s; --skip-bad leaves it out", position(&where))
	case in.result.Bad <= mostShown:
		in.warn("%s: left out: %s", in.path, position(&where))
	}
	return nil
}

// position is a LineError of a file that may have no lines.
func position(e *ndjson.LineError) string {
	switch {
	case e.Line > 0:
		return e.Error()
	case e.Offset > 0:
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Reason)
	}
	return e.Reason
}

// leftOut hears of what Redis has and a store has not.
func (in *intake) leftOut(what string, key []byte) {
	if in.result.LeftOut == nil {
		in.result.LeftOut = map[string]int64{}
	}
	in.result.LeftOut[what]++
	if in.result.LeftOut[what] > mostShown {
		return
	}
	if key == nil {
		in.warn("%s: left out: a %s", in.path, what)
	} else {
		in.warn("%s: left out: key %q, a %s", in.path, key, what)
	}
}

func (in *intake) note(text string) { in.result.Notes = append(in.result.Notes, text) }

// warn tells of something that is no error.
func (in *intake) warn(format string, args ...any) {
	in.bar.clear()
	fmt.Fprintln(in.stderr, "copal:", plain(fmt.Sprintf(format, args...)))
}

// finish prints the counts.
func (in *intake) finish(out *bufio.Writer) error {
	for _, text := range in.result.Notes {
		in.warn("%s: %s", in.path, text)
	}
	if n := in.result.Contents; n > 0 {
		in.warn("the content types of %s were left out: the server takes none", countEntries(n))
	}
	if in.result.Bad > mostShown {
		in.warn("%s: %d were left out in all", in.path, in.result.Bad)
	}
	for _, what := range slices.Sorted(maps.Keys(in.result.LeftOut)) {
		if n := in.result.LeftOut[what]; n > mostShown {
			in.warn("%s: left out: %d in all, each a %s", in.path, n, what)
		}
	}
	if in.json {
		return errors.Join(writeJSON(out, in.result), in.different())
	}
	verb := "imported"
	if in.dryRun {
		verb = "would import"
	}
	fmt.Fprintf(out, "%s %s from %s", verb, countEntries(in.result.Entries), in.format.Name)
	for _, n := range []struct {
		n    int64
		what string
	}{{in.result.Replaced, "in the place of others"}, {in.result.Resumed, "done before"}, {in.result.Deleted, "deleted"}, {in.result.Expired, "expired"}, {in.result.Bad + in.result.leftOut(), "left out"}, {in.result.Verified, "verified"}} {
		if n.n > 0 {
			fmt.Fprintf(out, ", %d %s", n.n, n.what)
		}
	}
	_, err := fmt.Fprintln(out)
	return errors.Join(err, in.different())
}
