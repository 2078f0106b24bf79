package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/copaldb/copal/internal/bench/table"
)

// The units of figures.
const (
	seconds = "s"
	size    = "B"
)

// report is all that a run has found out. As JSON it is one document.
type report struct {
	Machine table.Machine `json:"machine"`
	Quick   bool          `json:"quick,omitempty"`
	Run     string        `json:"run,omitempty"` // the expression that selected lines
	Seconds float64       `json:"seconds"`
	Nothing figures       `json:"nothing"` // the memory of a process that has opened no store
	Lines   []lineResult  `json:"lines"`
}

type lineResult struct {
	Topic  string      `json:"topic"`
	Name   string      `json:"name"`
	Label  string      `json:"label"`
	Rounds int         `json:"rounds"`
	Sides  []string    `json:"sides"`
	Rows   []rowResult `json:"rows"`
}

type rowResult struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Enough float64  `json:"enough,omitempty"`
	Cells  []cell   `json:"cells"`            // one for each side
	Places []string `json:"places,omitempty"` // one for each of copal's sides
}

// A cell is a figure of a side.
type cell struct {
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	Rounds []float64 `json:"rounds"`
	Best   bool      `json:"best,omitempty"`
}

// result makes the rows of a line, out of the figures of each round.
func (l *line) result(all map[string][]figures) *lineResult {
	r := &lineResult{Topic: l.title, Name: l.name, Label: l.label, Rounds: l.rounds, Sides: l.sides}
	for _, w := range l.rows {
		row := rowResult{Title: w.title, Unit: w.unit, Enough: w.enough}
		for _, side := range l.sides {
			var c cell
			for _, f := range all[side] {
				if v, known := f[w.figure]; known {
					c.Rounds = append(c.Rounds, v)
				}
			}
			if len(c.Rounds) == 0 {
				break // memory is known on Linux alone
			}
			c.Median, c.Least, c.Most = median(c.Rounds), slices.Min(c.Rounds), slices.Max(c.Rounds)
			row.Cells = append(row.Cells, c)
		}
		if len(row.Cells) == len(l.sides) {
			row.judge(l.sides)
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// judge marks the best, and compares each of copal's sides with the best of the rivals.
func (r *rowResult) judge(sides []string) {
	best, rival := -1, math.Inf(1)
	for i, c := range r.Cells {
		if sides[i] == reference {
			continue
		}
		if best < 0 || c.Median < r.Cells[best].Median {
			best = i
		}
		if !isOwn(sides[i]) {
			rival = min(rival, c.Median)
		}
	}
	r.Cells[best].Best = true
	for i, c := range r.Cells {
		if isOwn(sides[i]) {
			r.Places = append(r.Places, place(c.Median, rival, r.Enough, r.Unit))
		}
	}
}

func isOwn(side string) bool { return strings.HasPrefix(side, ownMaps) }

// place compares a figure with the best of the rivals.
func place(own, rival, enough float64, unit string) string {
	switch {
	case own <= rival:
		return "first"
	case own <= 1.1*rival:
		return "within 10 %"
	case own <= enough:
		return "≤ " + quantity(enough, unit)
	}
	return fmt.Sprintf("%.3gx", own/rival)
}

// save writes the report to a file, if there is one to be written.
func (r *report) save(name string) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o666)
}

func (r *report) writeHead(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "%s/%s, %d CPUs, %s, %s, %s", m.OS, m.Arch, m.CPUs, m.FileSystem, m.Go, m.Date.Format("2006-01-02 15:04"))
	if r.Quick {
		fmt.Fprint(w, ", a tenth of the sizes")
	}
	fmt.Fprintln(w)
	for _, side := range others {
		fmt.Fprint(w, side, " ", cmp.Or(m.Rivals[engines[side].Module], "?"), "  ")
	}
	fmt.Fprintln(w)
	if n := r.Nothing; n["anonymous"] > 0 {
		fmt.Fprintf(w, "A process that has opened nothing takes %s anonymous, %s with pages of files, %s of heap.\n",
			quantity(n["anonymous"], size), quantity(n["resident"], size), quantity(n["heap"], size))
	}
	fmt.Fprint(w, `The figures are medians; less is better. * is the best. At the end of a row stand the places of copal's columns, in their
order: first, within 10 % of the best rival, or how many times as much as it.
`)
}

// writeTopic writes the table of a topic. All its lines have the same sides.
func writeTopic(w io.Writer, t *topic, lines []lineResult) {
	fmt.Fprintf(w, "\n%s\n%s\n", t.title, t.about)
	for _, l := range lines {
		rounds := fmt.Sprintf("%d rounds", l.Rounds)
		if l.Rounds == 1 {
			rounds = "one round"
		}
		fmt.Fprintf(w, "\n%s, %s\n", l.Label, rounds)
		widest := 0
		for _, r := range l.Rows {
			widest = max(widest, utf8.RuneCountInString(r.Title))
		}
		fmt.Fprintf(w, "  %-*s", widest, "")
		for _, side := range l.Sides {
			fmt.Fprintf(w, " %11s ", side)
		}
		fmt.Fprintln(w, " place of copal")
		for _, r := range l.Rows {
			fmt.Fprintf(w, "  %-*s", widest, r.Title)
			for _, c := range r.Cells {
				mark := " "
				if c.Best {
					mark = "*"
				}
				fmt.Fprintf(w, " %11s%s", quantity(c.Median, r.Unit), mark)
			}
			fmt.Fprintln(w, " ", strings.Join(r.Places, ", "))
		}
	}
}

// quantity writes a figure with three digits.
func quantity(v float64, unit string) string {
	type step struct {
		of   float64
		name string
	}
	steps := []step{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	if unit == size {
		steps = []step{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	}
	at := slices.IndexFunc(steps, func(s step) bool { return v >= s.of })
	if at < 0 {
		at = len(steps) - 1
	}
	n := v / steps[at].of
	digits := 2
	if n >= 99.95 {
		digits = 0
	} else if n >= 9.995 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, n, steps[at].name)
}
