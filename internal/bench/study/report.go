package study

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copaldb/copal/internal/bench/chart"
)

// Charts returns the pictures of the results of a durability, by the name of their files: a use
// over the number of records, a line for each engine and strategy.
func Charts(figures []Figure, durable bool) (names []string, charts []*chart.Chart) {
	for _, use := range Uses {
		c := &chart.Chart{
			Title:    use.says(),
			Subtitle: syncs(durable) + "; median, least and most of the repetitions",
			X:        chart.Axis{Label: "records in the store", Unit: chart.Count, Log: true},
			Y:        chart.Axis{Label: "time a record", Unit: chart.Nanoseconds, Log: true},
			Kinds:    kinds(), Groups: []string{"copal", "bbolt", "badger", "pebble", "buntdb"},
		}
		if use.Storage {
			c.Subtitle = syncs(durable)
			c.Y = chart.Axis{Label: "bytes a record", Unit: chart.Bytes, Log: true}
		}
		for _, f := range figures {
			if f.Durable != durable || f.Step != use.Step || f.Together != use.Together {
				continue
			}
			name := f.Engine + " " + f.Strategy
			i := slices.IndexFunc(c.Series, func(s chart.Series) bool { return s.Name == name })
			if i < 0 {
				i = len(c.Series)
				c.Series = append(c.Series, chart.Series{Name: name, Kind: f.Strategy, Group: f.Engine})
			}
			p := chart.Point{X: float64(f.Records), Y: use.Value(f)}
			if !use.Storage {
				p.Min, p.Max = f.Min, f.Max
			}
			c.Series[i].Points = append(c.Series[i].Points, p)
		}
		if len(c.Series) > 0 {
			names = append(names, use.file(durable))
			charts = append(charts, c)
		}
	}
	return names, charts
}

func syncs(durable bool) string {
	if durable {
		return "every transaction is synced"
	}
	return "no transaction is synced"
}

// kinds returns the names of all strategies, so that each has one colour in all charts.
func kinds() (names []string) {
	for _, s := range strategies {
		names = append(names, s.name)
	}
	return names
}

// says describes a use, as a title.
func (u Use) says() string {
	return map[string]string{
		"insert, each": "Insert, each record in a transaction of its own",
		"insert, bulk": "Insert, all records in one transaction",
		"read":         "Read one record at random, a transaction each",
		"read many":    "Read a third of the records in a row, in one transaction",
		"field sum":    "Sum one field of all records, in one transaction",
		"update":       "Update one field of a record at random, a transaction each",
		"file bytes":   "Bytes of all files",
	}[u.Name]
}

// file returns the name of the picture.
func (u Use) file(durable bool) string {
	name := strings.NewReplacer(",", "", " ", "-").Replace(u.Name)
	if durable {
		name += "-synced"
	}
	return name + ".svg"
}

// WriteFiles writes the files of the results into a directory: results.json, report.html, and each
// chart as SVG.
func WriteFiles(dir string, j *Journal) error {
	write := func(name string, f func(w io.Writer) error) error {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return errors.Join(f(file), file.Close())
	}
	figures := Figures(j.Results)
	errs := []error{
		write("results.json", j.WriteJSON),
		write("report.html", func(w io.Writer) error { return WriteHTML(w, j.Header, figures) }),
	}
	for _, durable := range []bool{false, true} {
		names, charts := Charts(figures, durable)
		for i, name := range names {
			errs = append(errs, write(name, charts[i].WriteSVG))
		}
		for _, use := range Uses {
			if name := use.file(durable); !slices.Contains(names, name) { // of a study before this one
				if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// WriteHTML writes a page with tables, charts, and the best choice for each use.
func WriteHTML(w io.Writer, h Header, figures []Figure) error {
	p := &chart.Page{
		Title: "Which encoding should my records use?",
		Lead: []string{
			fmt.Sprintf("%s. %s, begun %s.", h.Subject, h.Machine, h.Begun),
			"Times are for one record. Compare them within this page: another machine has others.",
		},
	}
	for _, durable := range []bool{false, true} {
		n := Largest(figures, durable)
		if n == 0 {
			continue
		}
		t := TableOf(figures, n, durable)
		p.Sections = append(p.Sections, chart.Section{
			Heading: "The best choice: " + t.Title(),
			Text:    t.Advice(),
			Tables:  []chart.Table{t.chart()},
		})
		_, charts := Charts(figures, durable)
		s := chart.Section{Heading: "By the number of records: " + syncs(durable)}
		for _, c := range charts {
			s.Figures = append(s.Figures, c)
		}
		p.Sections = append(p.Sections, s)
	}
	p.Sections = append(p.Sections, explained())
	return p.WriteHTML(w)
}

// chart returns the table for the page.
func (t Table) chart() chart.Table {
	c := chart.Table{Caption: t.Title() + ": microseconds a record, and bytes a record", Header: []string{"engine", "strategy"}}
	for _, u := range Uses {
		c.Header = append(c.Header, u.Name)
	}
	for i, r := range t.Rows {
		row := []string{r.Engine, r.Strategy}
		for u, use := range Uses {
			row = append(row, use.Show(r.Values[u]))
			if !math.IsNaN(r.Values[u]) && t.Best(u, "") == i {
				c.Best = append(c.Best, chart.Cell{Row: i, Column: u + 2})
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// explained explains the words.
func explained() chart.Section {
	s := chart.Section{
		Heading: "What was measured",
		Text: []string{
			"Each repetition makes a fresh store, inserts all records, closes it, notes the size of its files, opens it, reads each record once, " +
				"and then measures reads and updates: half of the records at random, a third in a row from the middle.",
			"Each read checks that it got the record that it asked for, and a hundred records of each store are compared field by field.",
			"A typed map of copal keeps the values that were read last in memory, decoded. So reads of map-binary and of map-json are alike, " +
				"and reads of all others decode.",
			"Strategies that do not give a record back as it was are left out: copal study says which, and why.",
			"The first write after a store is opened is in no figure: copal makes files then, the others when they are opened.",
			"All engines keep keys in order; copal is opened with OrderedKeys and Ordered for that.",
			"Without syncs, all engines keep what was written when the process is killed, but for pebble, which may lose the last writes.",
		},
		Tables: []chart.Table{{Caption: "The strategies", Header: []string{"strategy", "a record is kept as"}}},
	}
	for _, x := range strategies {
		s.Tables[0].Rows = append(s.Tables[0].Rows, []string{x.name, x.says})
	}
	return s
}
