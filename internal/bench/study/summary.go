package study

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// A Figure is a step of a cell over its repetitions.
type Figure struct {
	Cell
	Step         Step    `json:"step"`
	Repetitions  int     `json:"repetitions"`
	Nanoseconds  float64 `json:"nanoseconds"` // a record, the median
	Min          float64 `json:"min"`
	Max          float64 `json:"max"`
	Allocations  float64 `json:"allocations"`
	AllocBytes   float64 `json:"allocBytes"`
	FileBytes    float64 `json:"fileBytes"`
	LogicalBytes float64 `json:"logicalBytes"`
}

// Figures sums up results, in the order of engines, strategies and sizes.
func Figures(results []Result) (list []Figure) {
	type at struct {
		Cell
		step Step
	}
	found := map[at][]Result{}
	for _, r := range results {
		found[at{r.Cell, r.Step}] = append(found[at{r.Cell, r.Step}], r)
	}
	for k, rs := range found {
		of := func(f func(Result) float64) []float64 {
			values := make([]float64, len(rs))
			for i, r := range rs {
				values[i] = f(r)
			}
			slices.Sort(values)
			return values
		}
		times := of(func(r Result) float64 { return r.Nanoseconds })
		list = append(list, Figure{Cell: k.Cell, Step: k.step, Repetitions: len(rs),
			Nanoseconds: middle(times), Min: times[0], Max: times[len(times)-1],
			Allocations:  middle(of(func(r Result) float64 { return r.Allocations })),
			AllocBytes:   middle(of(func(r Result) float64 { return r.AllocBytes })),
			FileBytes:    middle(of(func(r Result) float64 { return r.FileBytes })),
			LogicalBytes: middle(of(func(r Result) float64 { return r.LogicalBytes })),
		})
	}
	slices.SortFunc(list, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(place(a.Strategy), place(b.Strategy)), cmp.Compare(a.Records, b.Records),
			compareBool(a.Together, b.Together), compareBool(a.Durable, b.Durable), cmp.Compare(slices.Index(Steps, a.Step), slices.Index(Steps, b.Step)))
	})
	return list
}

// place returns the place of a strategy in the order of tables.
func place(name string) int {
	return slices.IndexFunc(strategies, func(s strategy) bool { return s.name == name })
}

// middle returns the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A Use is a way in which programs use records: a column of the tables.
type Use struct {
	Name     string // for people
	Step     Step
	Together bool // of the two ways to insert; reads of both are alike, and the table shows those after bulk
	Storage  bool // bytes in files, in place of the time
}

// Uses are the columns, in order.
var Uses = []Use{
	{Name: "insert, each", Step: Insert},
	{Name: "insert, bulk", Step: Insert, Together: true},
	{Name: "read", Step: Read, Together: true},
	{Name: "read many", Step: ReadMany, Together: true},
	{Name: "field sum", Step: FieldSum, Together: true},
	{Name: "update", Step: Update, Together: true},
	{Name: "file bytes", Step: Insert, Together: true, Storage: true},
}

// Value returns the value of the figure for the use.
func (u Use) Value(f Figure) float64 {
	if u.Storage {
		return f.FileBytes
	}
	return f.Nanoseconds
}

// Show returns a value in the form of tables: microseconds, or bytes.
func (u Use) Show(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case u.Storage:
		return fmt.Sprintf("%.0f", v)
	case v < 10_000:
		return fmt.Sprintf("%.2f", v/1000)
	case v < 100_000:
		return fmt.Sprintf("%.1f", v/1000)
	}
	return fmt.Sprintf("%.0f", v/1000)
}

// A Table is the figures of one size and durability: a row for each engine and strategy, a column
// for each use. A cell that was not measured is NaN.
type Table struct {
	Records int
	Durable bool
	Rows    []Row
}

// A Row is an engine and a strategy.
type Row struct {
	Engine, Strategy string
	Values           []float64 // in the order of Uses
}

// TableOf makes the table of a size.
func TableOf(figures []Figure, records int, durable bool) Table {
	t := Table{Records: records, Durable: durable}
	for _, f := range figures {
		if f.Records != records || f.Durable != durable {
			continue
		}
		i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Engine == f.Engine && r.Strategy == f.Strategy })
		if i < 0 {
			i = len(t.Rows)
			t.Rows = append(t.Rows, Row{f.Engine, f.Strategy, slices.Repeat([]float64{math.NaN()}, len(Uses))})
		}
		for u, use := range Uses {
			if use.Step == f.Step && use.Together == f.Together {
				t.Rows[i].Values[u] = use.Value(f)
			}
		}
	}
	return t
}

// Best returns the row with the least value of a use, among the rows of an engine, or among all of
// them for the engine "". It returns -1 if nothing was measured.
func (t Table) Best(use int, engine string) int {
	best := -1
	for i, r := range t.Rows {
		if v := r.Values[use]; (engine == "" || r.Engine == engine) && !math.IsNaN(v) && (best < 0 || v < t.Rows[best].Values[use]) {
			best = i
		}
	}
	return best
}

// Engines returns the engines of the rows.
func (t Table) Engines() (names []string) {
	for _, r := range t.Rows {
		if !slices.Contains(names, r.Engine) {
			names = append(names, r.Engine)
		}
	}
	return names
}

// Title returns the title of the table.
func (t Table) Title() string {
	sync := "no transaction is synced"
	if t.Durable {
		sync = "every transaction is synced"
	}
	return count(t.Records) + " records, " + sync
}

// sizes returns the sizes that have figures, from the smallest.
func sizes(figures []Figure, durable bool) (list []int) {
	for _, f := range figures {
		if f.Durable == durable && !slices.Contains(list, f.Records) {
			list = append(list, f.Records)
		}
	}
	slices.Sort(list)
	return list
}

// Largest returns the largest size for which every row of the results has figures, or else the
// largest; 0 without results.
func Largest(figures []Figure, durable bool) int {
	all := sizes(figures, durable)
	if len(all) == 0 {
		return 0
	}
	rows := 0
	for _, n := range all {
		rows = max(rows, len(TableOf(figures, n, durable).Rows))
	}
	for _, n := range slices.Backward(all) {
		t := TableOf(figures, n, durable)
		if len(t.Rows) == rows && !slices.ContainsFunc(t.Rows, func(r Row) bool { return missing(r.Values, durable) }) {
			return n
		}
	}
	return all[len(all)-1]
}

// missing reports whether a row lacks a value that is measured at its durability.
func missing(values []float64, durable bool) bool {
	for u, use := range Uses {
		if math.IsNaN(values[u]) && (!durable || use.Step == Insert || use.Step == Update) {
			return true
		}
	}
	return false
}

// WriteText writes the table of the largest size of each durability, with the best of each column
// marked, and the best choice for each use.
func WriteText(w io.Writer, figures []Figure) error {
	for _, durable := range []bool{false, true} {
		n := Largest(figures, durable)
		if n == 0 {
			continue
		}
		if err := TableOf(figures, n, durable).write(w); err != nil {
			return err
		}
	}
	return nil
}

func (t Table) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: microseconds a record, * the best\n\n%-18s", t.Title(), "")
	for _, u := range Uses {
		fmt.Fprintf(&b, " %13s", u.Name)
	}
	b.WriteString("\n")
	for i, r := range t.Rows {
		fmt.Fprintf(&b, "%-18s", r.Engine+" "+r.Strategy)
		for u, use := range Uses {
			mark := " "
			if t.Best(u, "") == i {
				mark = "*"
			}
			fmt.Fprintf(&b, " %12s%s", use.Show(r.Values[u]), mark)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, line := range t.Advice() {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Advice names the best choice for each use, of all and of each engine.
func (t Table) Advice() (lines []string) {
	for u, use := range Uses {
		best := t.Best(u, "")
		if best < 0 {
			continue
		}
		unit := " µs"
		if use.Storage {
			unit = " B"
		}
		of := func(i int) string {
			r := t.Rows[i]
			return fmt.Sprintf("%s %s %s%s", r.Engine, r.Strategy, use.Show(r.Values[u]), unit)
		}
		line := fmt.Sprintf("%-13s %s", use.Name+":", of(best))
		for _, engine := range t.Engines() {
			if i := t.Best(u, engine); i >= 0 && engine != t.Rows[best].Engine {
				line += fmt.Sprintf("; %s, %.1f times that", of(i), t.Rows[i].Values[u]/t.Rows[best].Values[u])
			}
		}
		lines = append(lines, line)
	}
	return lines
}
