package table

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxColumns is the width of the table, at most.
const maxColumns = 119

// column is a head, and whether its cells are aligned at the right, as figures are.
type column struct {
	head  string
	right bool
}

// columns are those of the table with goals.
var columns = []column{
	{"", false}, {"copal", true}, {"against", false}, {"", true}, {"ratio", true}, {"", false},
	{"min–max", true}, {"reach", true}, {"dream", true}, {"", false},
}

const columnGap = "  "

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Machine.text())
	fmt.Fprintf(&b, "%d rounds each, in turn; medians\n", r.Rounds)
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", warning)
	}
	writeTable(&b, columns, r.Rows, Row.cells)
	b.WriteString(r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func (m Machine) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s, %d CPUs, %s, %s", m.OS, m.Arch, m.CPUs, m.Go, m.Date.Format(time.DateTime))
	if m.FileSystem != "" {
		fmt.Fprintf(&b, ", %s", m.FileSystem)
	}
	if m.Commit != "" {
		fmt.Fprintf(&b, ", commit %.12s", m.Commit)
		if m.Modified {
			b.WriteString(" with changes")
		}
	}
	b.WriteByte('\n')
	var rivals []string
	for _, p := range slices.Sorted(maps.Keys(m.Rivals)) {
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && path.Dir(p) != "." {
			name = path.Base(path.Dir(p))
		}
		rivals = append(rivals, name+" "+m.Rivals[p])
	}
	if len(rivals) > 0 {
		fmt.Fprintf(&b, "%s\n", strings.Join(rivals, ", "))
	}
	return b.String()
}

// writeTable writes rows under their headings.
func writeTable(b *strings.Builder, columns []column, rows []Row, cells func(Row) []string) {
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.head
	}
	table := [][]string{head}
	for i, r := range rows {
		if i > 0 {
			r = r.behind(rows[i-1])
		}
		table = append(table, cells(r))
	}
	widths := columnWidths(table)
	for i, cells := range table {
		if i > 0 && (i == 1 || rows[i-1].Group != rows[i-2].Group) {
			fmt.Fprintf(b, "\n%s\n", rows[i-1].Group)
		}
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(alignLine(columns, cells, widths))
	}
}

// behind returns the row without the parts that it shares with the previous row.
func (r Row) behind(before Row) Row {
	if before.Line == r.Line && before.Title == r.Title {
		r.Title = ""
		r.repeats = before.Ours.Side == r.Ours.Side
	}
	return r
}

func columnWidths(table [][]string) []int {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	return widths
}

func alignLine(columns []column, cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
		switch {
		case i == 0:
		case columns[i].head == "" && !columns[i].right && i < len(cells)-1:
			b.WriteByte(' ') // the word that belongs to the number before it
		default:
			b.WriteString(columnGap)
		}
		if columns[i].right {
			b.WriteString(pad + c)
		} else {
			b.WriteString(c + pad)
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// cells returns the columns of a row in the table with goals.
func (r Row) cells() []string {
	cells := []string{" " + r.Title, r.ours(), "", "", "", "", "", "", "", r.verdict()}
	if r.Against != nil {
		cells[2], cells[3] = r.Against.Side, quantity(r.Against.Median, r.Unit)
		cells[4], cells[5] = factor(r.Result.Median)+"x", r.compared()
	}
	if r.Result.Min != r.Result.Max {
		cells[6] = r.number(r.Result.Min) + "–" + r.number(r.Result.Max)
	}
	cells[7], cells[8] = r.bound(r.Reach), r.bound(r.Dream)
	return cells
}

// ours is our figure, unless the row before has it.
func (r Row) ours() string {
	if r.repeats {
		return ""
	}
	return quantity(r.Ours.Median, r.Unit)
}

// beside returns the other side with its figure.
func (r Row) beside() string {
	if r.Against == nil {
		return ""
	}
	return r.Against.Side + " " + quantity(r.Against.Median, r.Unit)
}

// compared names the quantity of a ratio.
func (r Row) compared() string {
	switch {
	case r.Sense == more:
		return "speed"
	case r.Unit == nanoseconds:
		return "time"
	}
	return "size"
}

// number writes an end of the spread: of ratios, or of figures in the unit of their median.
func (r Row) number(v float64) string {
	if r.Sense == value {
		_, divisor := r.Unit.scale(r.Ours.Median)
		return factor(v / divisor)
	}
	return factor(v)
}

func (r Row) bound(v *float64) string {
	switch {
	case v == nil:
		return ""
	case r.Sense == more:
		return fmt.Sprintf("≥%g", *v)
	case r.Sense == less:
		return fmt.Sprintf("≤%g", *v)
	}
	return "≤" + quantity(*v, r.Unit)
}

// verdict names the best of the goals that are met. A tilde follows when some rounds say otherwise.
func (r Row) verdict() string {
	text := string(r.Verdict)
	if r.Dreamt {
		text = "dream"
	}
	if r.Close {
		text += " ~"
	}
	return text
}

// factor writes three digits or so.
func factor(v float64) string {
	switch {
	case v >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// quantity writes a number with its unit, three digits or so.
func quantity(v float64, u unit) string {
	name, divisor := u.scale(v)
	if v /= divisor; v == math.Trunc(v) {
		return strings.TrimSpace(fmt.Sprintf("%.0f %s", v, name))
	}
	return strings.TrimSpace(factor(v) + " " + name)
}

// scale chooses the multiple of a unit in which to write v.
func (u unit) scale(v float64) (name string, divisor float64) {
	var names []string
	step := 1000.0
	switch u {
	case nanoseconds:
		names = []string{"ns", "µs", "ms", "s"}
	case bytesUnit:
		names, step = []string{"B", "KiB", "MiB", "GiB"}, 1024
	default:
		return "", 1
	}
	divisor = 1
	for len(names) > 1 && v/divisor >= step*0.9995 {
		divisor *= step
		names = names[1:]
	}
	return names[0], divisor
}

// summary counts verdicts.
func (r *Report) summary() string {
	counts := map[verdict]int{}
	for _, row := range r.Rows {
		counts[row.Verdict]++
	}
	return fmt.Sprintf("\n%d met, %d missed, %d without a goal. x time, x size: copal's over the other's; "+
		"x speed: how many times\nfaster copal is. dream: the reach is met, and the dream too. "+
		"~: some rounds say otherwise than the median.\n",
		counts[met], counts[missed], counts[none])
}
