package chart

import (
	"fmt"
	"io"
	"math"
)

// Bars shows ratios as bars that go left or right from 1, on a logarithmic axis: half is as long as
// double.
type Bars struct {
	Title, Subtitle string
	Below, Above    string // the meaning of ratios below 1 and above it, such as "slower" and "faster"
	Bars            []Bar
}

// Bar is one ratio. If Min and Max are both zero there is no spread.
type Bar struct {
	Name            string
	Value, Min, Max float64
	Note            string // shown with the value, such as the two figures it is made of
}

// The room of bars, in pixels.
const (
	barsTop    = 74
	barsBottom = 58
	barPitch   = 26
	barNames   = 250
	barValues  = 70
)

// ratio is the axis of all bars.
var ratio = Axis{Unit: Ratio, Log: true}

// WriteSVG writes the bars as a file of its own, light or dark as its reader prefers.
func (b *Bars) WriteSVG(w io.Writer) error { return writeSVG(w, b) }

func (b *Bars) draw(d *drawing, alone bool) {
	bottom := float64(barsTop + barPitch*len(b.Bars))
	var names []string
	values := []float64{1}
	for _, bar := range b.Bars {
		names = append(names, bar.Name)
		values = append(values, bar.Value)
		if p := bar.point(); p.spread() {
			values = append(values, bar.Min, bar.Max)
		}
	}
	left := margin + widest(names, barNames) + 14
	x := newScale(ratio, values, left, width-margin-barValues)
	one := x.place(1)

	d.begin(b.Title, b.Subtitle, bottom+barsBottom, alone)
	for _, t := range x.ticks() {
		at := x.placeMeasure(t.at)
		class := "major"
		if t.label == "" {
			class = "minor"
		}
		fmt.Fprintf(d, `<path class="%s" d="M%s %dV%s"/>`+"\n", class, num(at), barsTop, num(bottom))
		d.text(at, bottom+18, "tick", "middle", t.label)
	}
	for i, bar := range b.Bars {
		b.drawBar(d, bar, x, one, barsTop+barPitch*(float64(i)+0.5))
	}
	fmt.Fprintf(d, `<path class="base" d="M%s %dV%s"/>`+"\n", num(one), barsTop, num(bottom))
	if b.Below != "" {
		d.text(x.from, bottom+42, "label", "", "← "+b.Below)
	}
	if b.Above != "" {
		d.text(x.to, bottom+42, "label", "end", b.Above+" →")
	}
	d.WriteString("</svg>\n")
}

func (b *Bars) drawBar(d *drawing, bar Bar, x scale, one, y float64) {
	d.text(margin, y+4, "name", "", fit(bar.Name, barNames))
	if _, ok := ratio.measure(bar.Value); !ok {
		d.text(width-margin, y+4, "value", "end", none)
		return
	}
	d.text(width-margin, y+4, "value", "end", Ratio.Format(bar.Value))
	at := x.place(bar.Value)
	class := "below"
	if at >= one {
		class = "above"
	}
	fmt.Fprintf(d, `<g class="bar %s"><rect x="%s" y="%s" width="%s" height="%d" rx="1.5"/>`,
		class, num(min(at, one)), num(y-8), num(math.Abs(at-one)), 16)
	text := bar.Name + "\n" + Ratio.Format(bar.Value)
	if p := bar.point(); p.spread() {
		fmt.Fprintf(d, `<path class="spread" d="M%s %sH%s"/>`, num(x.place(bar.Min)), num(y), num(x.place(bar.Max)))
		text += " (" + p.tellSpread(Ratio) + ")"
	}
	if bar.Note != "" {
		text += "\n" + bar.Note
	}
	d.point(at, y, 0, text)
	d.WriteString("</g>\n")
}

// point returns the bar as a point.
func (b Bar) point() Point { return Point{Y: b.Value, Min: b.Min, Max: b.Max} }

// Numbers returns the bars as a table.
func (b *Bars) Numbers() Table {
	t := Table{Header: []string{"", "ratio", "from", "to", ""}}
	for _, bar := range b.Bars {
		row := []string{bar.Name, Ratio.Format(bar.Value), none, none, bar.Note}
		if p := bar.point(); p.spread() {
			row[2], row[3] = Ratio.Format(bar.Min), Ratio.Format(bar.Max)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
