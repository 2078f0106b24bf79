package chart

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// Page is a report that one HTML file holds.
type Page struct {
	Title    string
	Lead     []string // paragraphs
	Sections []Section
}

// Section is a part of a page: its paragraphs, then its figures, then its tables.
type Section struct {
	Heading string
	Text    []string
	Figures []Figure
	Tables  []Table
}

// Figure is a *Chart or *Bars.
type Figure interface {
	WriteSVG(w io.Writer) error
	Numbers() Table
	draw(d *drawing, alone bool)
}

// Table is rows of text. Columns of numbers are aligned at the right. Of a cell with two lines the
// second is small.
type Table struct {
	Caption string
	Header  []string
	Rows    [][]string
	Best    []Cell // these are emphasised
}

// Cell is a place in Table.Rows, both numbers from 0; the header is not counted.
type Cell struct{ Row, Column int }

// policy forbids a browser to load anything from outside the file.
const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:`

// WriteHTML writes the page as one file that asks for nothing else. The numbers of each figure are
// below it for readers without a script.
func (p *Page) WriteHTML(w io.Writer) error {
	var d drawing
	fmt.Fprintf(&d, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<link rel="icon" href="data:,">
<title>%s</title>
<style>
%s%s</style>
</head>
<body>
<h1>%[2]s</h1>
`, policy, esc(p.Title), svgCSS, pageCSS)
	for _, text := range p.Lead {
		fmt.Fprintf(&d, `<p class="lead">%s</p>`+"\n", esc(text))
	}
	if len(p.Sections) > 1 {
		d.WriteString("<nav><ul>\n")
		for i, s := range p.Sections {
			fmt.Fprintf(&d, `<li><a href="#s%d">%s</a></li>`+"\n", i+1, esc(s.Heading))
		}
		d.WriteString("</ul></nav>\n")
	}
	for i, s := range p.Sections {
		fmt.Fprintf(&d, `<section id="s%d">`+"\n<h2>%s</h2>\n", i+1, esc(s.Heading))
		s.write(&d)
		d.WriteString("</section>\n")
	}
	fmt.Fprintf(&d, "<script>\n%s</script>\n</body>\n</html>\n", pageJS)
	_, err := io.WriteString(w, d.String())
	return err
}

func (s *Section) write(d *drawing) {
	for _, text := range s.Text {
		fmt.Fprintf(d, "<p>%s</p>\n", esc(text))
	}
	for _, f := range s.Figures {
		d.WriteString("<figure>\n")
		f.draw(d, false)
		d.WriteString("<details><summary>The numbers</summary>\n")
		t := f.Numbers()
		t.write(d)
		d.WriteString("</details>\n</figure>\n")
	}
	for _, t := range s.Tables {
		t.write(d)
	}
}

func (t *Table) write(d *drawing) {
	d.WriteString(`<div class="scroll"><table>` + "\n")
	if t.Caption != "" {
		fmt.Fprintf(d, "<caption>%s</caption>\n", esc(t.Caption))
	}
	d.WriteString("<thead><tr>")
	for i, text := range t.Header {
		fmt.Fprintf(d, `<th scope="col"%s>%s</th>`, t.align(i), esc(text))
	}
	d.WriteString("</tr></thead>\n<tbody>\n")
	for i, row := range t.Rows {
		d.WriteString("<tr>")
		for j, text := range row {
			text, small, _ := strings.Cut(text, "\n")
			text = esc(text)
			if slices.Contains(t.Best, Cell{i, j}) {
				text = "<b>" + text + "</b>"
			}
			if small != "" {
				text += "<small>" + esc(small) + "</small>"
			}
			if j == 0 {
				fmt.Fprintf(d, `<th scope="row">%s</th>`, text)
			} else {
				fmt.Fprintf(d, `<td%s>%s</td>`, t.align(j), text)
			}
		}
		d.WriteString("</tr>\n")
	}
	d.WriteString("</tbody>\n</table></div>\n")
}

// align returns the attribute of a column's cells. The first column names the rows; another is one
// of numbers if each of its cells begins as a number does, or is empty.
func (t *Table) align(column int) string {
	if column == 0 {
		return ""
	}
	for _, row := range t.Rows {
		if column < len(row) && strings.IndexAny(row[column]+"0", "0123456789+-<>~–−") != 0 {
			return ""
		}
	}
	return ` class="n"`
}

// writeSVG writes a figure as a file of its own.
func writeSVG(w io.Writer, f Figure) error {
	var d drawing
	f.draw(&d, true)
	_, err := io.WriteString(w, d.String())
	return err
}
