package chart

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Chart shows series of points as lines. On its Y axis less is better: it has times, or bytes.
type Chart struct {
	Title, Subtitle string
	X, Y            Axis
	Series          []Series

	// Kinds and Groups list the names in Kind and Group of series, in the order of colours and
	// marks, so that charts with different series agree on them. Names that are not listed follow,
	// in the order of the series.
	Kinds, Groups []string
}

// Series is one line of a chart. Series of one Kind share a colour, series of one Group a dash and
// a mark. A series without a Kind has its Name for one.
type Series struct {
	Name        string
	Kind, Group string
	Points      []Point
}

// Point is a median at X, and the least and the most that was measured there. If Min and Max are
// both zero there is no spread.
type Point struct {
	X, Y, Min, Max float64
}

// The room of a chart around the lines, in pixels.
const (
	chartHeight = 480
	chartLeft   = 76
	chartTop    = 92
	chartBottom = 58
	legendGap   = 18
	legendMost  = 230 // width of the names
	legendPitch = 17
	sampleWidth = 26 // of a line, before its name
	sampleGap   = 7
)

// entry is the place of a series in the legend, beside the end of its line. A series without a
// point has none.
type entry struct {
	*Series
	number       int // of the series in the chart
	colour, mark int
	end          float64 // the coordinate, or infinity
}

// WriteSVG writes the chart as a file of its own, light or dark as its reader prefers.
func (c *Chart) WriteSVG(w io.Writer) error { return writeSVG(w, c) }

func (c *Chart) draw(d *drawing, alone bool) {
	var names []string
	var xs, ys []float64
	for _, s := range c.Series {
		names = append(names, s.Name)
		for _, p := range s.Points {
			if !c.shows(p) {
				continue
			}
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.spread() {
				ys = append(ys, p.Min, p.Max)
			}
		}
	}
	height := max(chartHeight, float64(chartTop+chartBottom+legendPitch*len(c.Series)))
	bottom := height - chartBottom
	right := width - margin - widest(names, legendMost) - sampleWidth - sampleGap - legendGap
	x := newScale(c.X, xs, chartLeft, right)
	y := newScale(c.Y, ys, bottom, chartTop)

	d.begin(c.Title, c.Subtitle, height, alone)
	c.drawAxes(d, x, y)
	entries, best := c.entries(), c.best()
	for i := range entries {
		c.drawSeries(d, &entries[i], x, y, best)
	}
	drawLegend(d, entries, right+legendGap, chartTop, bottom)
	d.WriteString("</svg>\n")
}

// shows reports whether a point has a place in the chart.
func (c *Chart) shows(p Point) bool {
	_, x := c.X.measure(p.X)
	_, y := c.Y.measure(p.Y)
	return x && y
}

// spread reports whether a point has a least and a greatest value.
func (p Point) spread() bool {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	return finite(p.Min) && finite(p.Max) && (p.Min != 0 || p.Max != 0)
}

// best returns the least Y at each X, of the points that have a place.
func (c *Chart) best() map[float64]float64 {
	best := map[float64]float64{}
	for _, s := range c.Series {
		for _, p := range s.Points {
			if y, seen := best[p.X]; c.shows(p) && (!seen || p.Y < y) {
				best[p.X] = p.Y
			}
		}
	}
	return best
}

// entries gives each series its colour and its mark.
func (c *Chart) entries() []entry {
	kinds, groups := slices.Clone(c.Kinds), slices.Clone(c.Groups)
	number := func(names *[]string, name string) int {
		i := slices.Index(*names, name)
		if i < 0 {
			i = len(*names)
			*names = append(*names, name)
		}
		return i
	}
	var entries []entry
	for i := range c.Series {
		s := &c.Series[i]
		colour, mark := number(&kinds, cmp.Or(s.Kind, s.Name)), number(&groups, s.Group)
		entries = append(entries, entry{s, i, colour % colours, mark % len(marks), math.Inf(1)})
	}
	return entries
}

func (c *Chart) drawAxes(d *drawing, x, y scale) {
	var minor, major strings.Builder
	line := func(t tick, format string, args ...any) {
		b := &minor
		if t.label != "" {
			b = &major
		}
		fmt.Fprintf(b, format, args...)
	}
	for _, t := range y.ticks() {
		at := y.placeMeasure(t.at)
		line(t, "M%s %sH%s", num(x.from), num(at), num(x.to))
		d.text(x.from-8, at+4, "tick", "end", t.label)
	}
	for _, t := range x.ticks() {
		at := x.placeMeasure(t.at)
		line(t, "M%s %sV%s", num(at), num(y.from), num(y.to))
		d.text(at, y.from+18, "tick", "middle", t.label)
	}
	fmt.Fprintf(d, `<path class="minor" d="%s"/><path class="major" d="%s"/>`+"\n", minor.String(), major.String())
	fmt.Fprintf(d, `<path class="base" d="M%s %sH%s"/>`+"\n", num(x.from), num(y.from), num(x.to))
	d.text(margin, chartTop-14, "label", "", c.Y.Label)
	d.text((x.from+x.to)/2, y.from+42, "label", "middle", c.X.Label)
}

// drawSeries draws the line, broken where a point has no place, the spreads, and the points with
// their texts.
func (c *Chart) drawSeries(d *drawing, e *entry, x, y scale, best map[float64]float64) {
	var line, spread strings.Builder
	var points drawing
	pen := "M"
	for _, p := range slices.SortedStableFunc(slices.Values(e.Points), func(a, b Point) int { return cmp.Compare(a.X, b.X) }) {
		if !c.shows(p) {
			pen = "M"
			continue
		}
		px, py := x.place(p.X), y.place(p.Y)
		fmt.Fprintf(&line, "%s%s %s", pen, num(px), num(py))
		pen, e.end = "L", py
		if p.spread() {
			fmt.Fprintf(&spread, "M%s %sV%s", num(px), num(y.place(p.Min)), num(y.place(p.Max)))
		}
		points.point(px, py, e.mark, c.tell(e.Series, p, best[p.X]))
	}
	fmt.Fprintf(d, `<g class="s k%d" data-s="%d">`+"\n", e.colour, e.number)
	fmt.Fprintf(d, `<path class="spread" d="%s"/><path class="line m%d" d="%s"/>`+"\n", spread.String(), e.mark, line.String())
	d.WriteString(points.String() + "</g>\n")
}

// tell returns the description of a point, in lines of text.
func (c *Chart) tell(s *Series, p Point, best float64) string {
	text := s.Name + "\n" + strings.TrimPrefix(c.X.Label+": ", ": ") + c.X.Unit.Format(p.X) + "\n" + c.Y.Unit.Format(p.Y)
	if p.spread() {
		text += " (" + p.tellSpread(c.Y.Unit) + ")"
	}
	switch {
	case p.Y == best:
		text += "\nthe best here"
	case best > 0:
		text += "\n" + Ratio.Format(p.Y/best) + " the best here"
	}
	return text
}

func (p Point) tellSpread(u Unit) string { return u.Format(p.Min) + " – " + u.Format(p.Max) }

// drawLegend writes the names beside the ends of their lines, and moves them apart where they would
// touch. Series without a point come last.
func drawLegend(d *drawing, entries []entry, left, top, bottom float64) {
	const half = legendPitch / 2.0
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.end, b.end) })
	at := make([]float64, len(entries))
	least := top + half
	for i, e := range entries {
		at[i] = max(e.end, least)
		least = at[i] + legendPitch
	}
	most := bottom - half
	for i := range slices.Backward(at) {
		at[i] = min(at[i], most)
		most = at[i] - legendPitch
	}
	for i, e := range entries {
		class := "e"
		if math.IsInf(e.end, 1) {
			class = "e empty"
		}
		fmt.Fprintf(d, `<g class="%s k%d" data-s="%d"><rect class="hit" x="%s" y="%s" width="%s" height="%d"/>`,
			class, e.colour, e.number, num(left-4), num(at[i]-half), num(width-left), legendPitch)
		fmt.Fprintf(d, `<path class="line m%d" d="M%s %sh%d"/><path class="p" transform="translate(%s %[3]s)" d="%[6]s"/>`+"\n",
			e.mark, num(left), num(at[i]), sampleWidth, num(left+sampleWidth/2), marks[e.mark])
		d.text(left+sampleWidth+sampleGap, at[i]+4, "name", "", fit(e.Name, legendMost))
		d.WriteString("</g>\n")
	}
}

// Numbers returns the chart as a table: a row for each series, a column for each X, the best of
// each column emphasised.
func (c *Chart) Numbers() Table {
	var xs []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !math.IsNaN(p.X) && !math.IsInf(p.X, 0) {
				xs = append(xs, p.X)
			}
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	t := Table{Header: []string{c.X.Label}}
	for _, x := range xs {
		t.Header = append(t.Header, c.X.Unit.Format(x))
	}
	best := c.best()
	for i, s := range c.Series {
		row := make([]string, len(t.Header))
		row[0] = s.Name
		for _, p := range s.Points {
			column, ok := slices.BinarySearch(xs, p.X)
			if !ok {
				continue
			}
			cell := c.Y.Unit.Format(p.Y)
			if p.spread() {
				cell += "\n" + p.tellSpread(c.Y.Unit)
			}
			row[column+1] = cell
			if y, seen := best[p.X]; seen && p.Y == y {
				t.Best = append(t.Best, Cell{i, column + 1})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
