package chart

import (
	_ "embed"
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

//go:embed svg.css
var svgCSS string

const (
	width   = 860 // of every figure
	margin  = 20  // beside all that is drawn; page.css makes up for it
	colours = 12  // classes k0 … of svg.css
	wide    = 6.8 // width of a letter of a label, more or less: nothing here can measure text
)

// marks are the shapes of points, around 0 0. Series of one group share one, and the dash of its
// number: class m0 … of svg.css.
var marks = [...]string{
	"M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",              // circle
	"M-3.2-3.2h6.4v6.4h-6.4z",                                   // square
	"M0-4.4l4 7h-8z",                                            // triangle
	"M0-4.6l4.3 4.6l-4.3 4.6l-4.3-4.6z",                         // diamond
	"M0 4.4l4-7h-8z",                                            // triangle on its head
	"M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z", // plus
}

// drawing is the text of a figure as it grows.
type drawing struct{ strings.Builder }

// begin writes the head of a figure. A separate figure has its own colours.
func (d *drawing) begin(title, subtitle string, height float64, alone bool) {
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %d %s" width="%[1]d" height="%[2]s" role="img" aria-label="%s">`,
		width, num(height), esc(title))
	if alone {
		fmt.Fprintf(d, "\n<style>\n%s</style>", svgCSS)
	}
	fmt.Fprintf(d, "\n"+`<rect class="paper" width="%d" height="%s"/>`+"\n", width, num(height))
	d.text(margin, 30, "title", "", title)
	d.text(margin, 50, "sub", "", subtitle)
}

// text writes one line of text. The anchor is start, the default, middle or end.
func (d *drawing) text(x, y float64, class, anchor, text string) {
	if text == "" {
		return
	}
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(d, `<text class="%s" x="%s" y="%s"%s>%s</text>`+"\n", class, num(x), num(y), anchor, esc(text))
}

// point draws a mark. Browsers show its title when the pointer rests there, and the script of a
// page shows it at once.
func (d *drawing) point(x, y float64, mark int, title string) {
	fmt.Fprintf(d, `<path class="p" transform="translate(%s %s)" d="%s"><title>%s</title></path>`+"\n", num(x), num(y), marks[mark], esc(title))
}

// num writes a coordinate. A tenth of a pixel is less than anybody sees.
func num(v float64) string {
	return strings.TrimSuffix(strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), "0"), ".")
}

// esc escapes text for SVG and HTML, in attributes, too. XML has no control characters, and only
// UTF-8.
func esc(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, s))
}

// fit shortens text to so many pixels.
func fit(s string, pixels float64) string {
	runes, most := []rune(s), int(pixels/wide)
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// widest returns the width of the longest of the texts, but at most so many pixels.
func widest(texts []string, most float64) (w float64) {
	for _, s := range texts {
		w = max(w, wide*float64(utf8.RuneCountInString(s)))
	}
	return min(w, most)
}
