package table

import (
	"fmt"
	"io"
	"strings"
)

// The same rows for a user of copal: the ratio comes first, and means the same in all rows. Goals
// are for its makers, and do not show.

// ratioColumns are those of the table of ratios.
var ratioColumns = []column{
	{"ahead", true}, {"min–max", true}, {"", false}, {"", false}, {"copal", true}, {"beside", false}, {"", true},
}

// Ahead returns the factor by which copal takes less time, memory or bytes than the other; below 1
// it takes more. ok reports whether there is another.
func (r Row) Ahead() (s spread, ok bool) {
	if r.Against == nil {
		return spread{}, false
	}
	return spreadOf(ratios(r.Against.Rounds, r.Ours.Rounds)), true
}

// Lost reports whether copal takes more than another that is not copal.
func (r Row) Lost() bool {
	s, ok := r.Ahead()
	return ok && !r.Own && s.Median < 1
}

// WriteRatios writes the report as a table for users, with each loss marked.
func (r *Report) WriteRatios(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Machine.text())
	fmt.Fprintf(&b, "%s, in turn; medians\n", r.roundsEach())
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", warning)
	}
	writeTable(&b, ratioColumns, r.Rows, Row.ratioCells)
	fmt.Fprintf(&b, "\n%s\n", r.Score())
	b.WriteString("ahead: how many times less time, memory or bytes copal takes, the median of the rounds; below 1 it is a LOSS.\n" +
		"~: some rounds say otherwise. Both sides are measured in turn, in one process.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// roundsEach says how many rounds the lines had.
func (r *Report) roundsEach() string {
	least, most := r.Rounds, 0
	for _, row := range r.Rows {
		if n := len(row.Ours.Rounds); n > 1 { // a figure that is the same in each round has one
			least, most = min(least, n), max(most, n)
		}
	}
	switch {
	case r.Rounds == 1:
		return "1 round each"
	case least >= most:
		return fmt.Sprintf("%d rounds each", r.Rounds)
	}
	return fmt.Sprintf("%d to %d rounds each", least, most)
}

// ratioCells returns the columns of a row in the table of ratios.
func (r Row) ratioCells() []string {
	cells := []string{"", "", "", r.Title, r.ours(), "", ""}
	if s, ok := r.Ahead(); ok {
		cells[0], cells[1], cells[2] = factor(s.Median)+"x", factor(s.Min)+"–"+factor(s.Max), r.outcome()
		cells[5], cells[6] = r.Against.Side, quantity(r.Against.Median, r.Unit)
	}
	return cells
}

// outcome marks a loss, and a ratio that some rounds put on the other side of 1.
func (r Row) outcome() string {
	s, ok := r.Ahead()
	if !ok || r.Own {
		return ""
	}
	var words []string
	if r.Lost() {
		words = append(words, "LOSS")
	}
	if s.Min < 1 && s.Max >= 1 {
		words = append(words, "~")
	}
	return strings.Join(words, " ")
}

// Score says how often copal is ahead of others, and how often they are.
func (r *Report) Score() string {
	ahead, lost, close := 0, 0, 0
	for _, row := range r.Rows {
		if _, ok := row.Ahead(); !ok || row.Own {
			continue
		}
		if row.Lost() {
			lost++
		} else {
			ahead++
		}
		if strings.HasSuffix(row.outcome(), "~") {
			close++
		}
	}
	return fmt.Sprintf("copal is ahead in %d of %d comparisons, and behind in %d; in %d of all, some rounds say otherwise.", ahead, ahead+lost, lost, close)
}
