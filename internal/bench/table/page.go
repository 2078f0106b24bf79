package table

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/copaldb/copal/internal/bench/chart"
)

// WritePage writes the report for users as one HTML file that asks for nothing else.
func (r *Report) WritePage(w io.Writer) error {
	page := chart.Page{Title: "copal beside what could be used instead", Lead: []string{
		r.Score(),
		"A ratio says how many times less time, memory or bytes copal takes than the other: the median of the rounds, with the least and the most. Below 1 copal loses. Both sides are measured in turn, in one process, with the same work on the same keys.",
	}}
	lines := strings.Split(strings.TrimSpace(r.Machine.text()), "\n")
	page.Lead = append(page.Lead, strings.Join(append(lines, r.roundsEach(), r.Command), "; "))
	for _, w := range r.Warnings {
		page.Lead = append(page.Lead, "Warning: "+w+".")
	}
	if lost := r.losses(); lost != nil {
		page.Sections = append(page.Sections, chart.Section{Heading: "What copal loses", Text: []string{"The greatest loss first."}, Tables: []chart.Table{lossTable(lost)}})
	}
	for rest := r.Rows; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(row Row) bool { return row.Group != rest[0].Group })
		if n < 0 {
			n = len(rest)
		}
		page.Sections = append(page.Sections, section(rest[:n]))
		rest = rest[n:]
	}
	return page.WriteHTML(w)
}

// losses returns the rows that copal loses, the greatest loss first.
func (r *Report) losses() []Row {
	lost := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return !row.Lost() })
	slices.SortStableFunc(lost, func(a, b Row) int {
		x, _ := a.Ahead()
		y, _ := b.Ahead()
		return cmp.Compare(x.Median, y.Median)
	})
	return lost
}

func lossTable(lost []Row) chart.Table {
	t := chart.Table{Header: []string{"line", "", "ratio", "copal", "beside"}}
	for _, row := range lost {
		s, _ := row.Ahead()
		t.Rows = append(t.Rows, []string{row.Line, strings.TrimSpace(row.Title), factor(s.Median) + "×\n" + factor(s.Min) + "–" + factor(s.Max), row.ours(), row.beside()})
	}
	return t
}

// section is rows of one group: as lines where they are of values by length, and as bars.
func section(rows []Row) chart.Section {
	s := chart.Section{Heading: rows[0].Group}
	if c := byLength(rows); c != nil {
		s.Figures = append(s.Figures, c)
	}
	bars := &chart.Bars{Title: "How many times less copal takes", Subtitle: "on a logarithmic axis: half is as long as double", Below: "copal loses", Above: "copal is ahead"}
	alone := chart.Table{Header: []string{"copal alone", ""}}
	for _, row := range rows {
		ahead, ok := row.Ahead()
		if !ok {
			alone.Rows = append(alone.Rows, []string{strings.TrimSpace(row.Title), row.ours()})
			continue
		}
		bars.Bars = append(bars.Bars, chart.Bar{
			Name:  row.Against.Side + ": " + strings.TrimSpace(row.Title),
			Value: ahead.Median, Min: ahead.Min, Max: ahead.Max,
			Note: "copal " + row.ours() + ", " + row.beside(),
		})
	}
	if bars.Bars != nil {
		s.Figures = append(s.Figures, bars)
	}
	if alone.Rows != nil {
		s.Tables = append(s.Tables, alone)
	}
	return s
}

// byLength returns a chart of lines that are named by the length of their values; nil for others.
func byLength(rows []Row) *chart.Chart {
	if !strings.HasPrefix(rows[0].Line, valueFamily+"/") {
		return nil
	}
	c := &chart.Chart{
		Title: "By the length of values", Subtitle: "medians, with the least and the most; less is better",
		X: chart.Axis{Label: "length of a value", Unit: chart.Bytes, Log: true},
		Y: chart.Axis{Label: rows[0].Metric, Unit: chart.Nanoseconds, Log: true},
	}
	add := func(f figure, bytes float64) {
		i := slices.IndexFunc(c.Series, func(s chart.Series) bool { return s.Name == f.Side })
		if i < 0 {
			name, way, _ := strings.Cut(f.Side, ", ") // ", lent"
			i = len(c.Series)
			c.Series = append(c.Series, chart.Series{Name: f.Side, Kind: name, Group: way})
		}
		s := spreadOf(f.Rounds)
		c.Series[i].Points = append(c.Series[i].Points, chart.Point{X: bytes, Y: s.Median, Min: s.Min, Max: s.Max})
	}
	for i, row := range rows {
		length, _ := strconv.ParseFloat(strings.TrimSuffix(strings.Split(row.Line, "/")[2], "B"), 64)
		if i == 0 || rows[i-1].Line != row.Line {
			add(row.Ours, length)
		}
		if row.Against != nil {
			add(*row.Against, length)
		}
	}
	slices.SortStableFunc(c.Series[1:], func(a, b chart.Series) int {
		return cmp.Compare(fmt.Sprint(a.Group, a.Name), fmt.Sprint(b.Group, b.Name))
	})
	return c
}
