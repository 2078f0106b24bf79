package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suitePart is the text between the marks of docs/performance.md.
var suitePart = regexp.MustCompile(`(?s)<!-- made by the load suite -->\n.*?<!-- end -->`)

// TestPage: the tables of the load suite in docs/performance.md are those of the newest file in
// bench/results. With COPAL_WRITE=1 the test writes them.
func TestPage(t *testing.T) {
	files, err := filepath.Glob("../results/*-load.json")
	if err != nil || len(files) == 0 {
		t.Skip("there is no result of the load suite")
	}
	text, err := os.ReadFile(slices.Max(files))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("..", "..", "docs", "performance.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := suitePart.ReplaceAllLiteralString(string(page), "<!-- made by the load suite -->\n\n"+r.page()+"\n<!-- end -->")
	if !suitePart.Match(page) {
		t.Fatal("docs/performance.md has no place for the load suite")
	}
	if os.Getenv("COPAL_WRITE") == "1" {
		if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Error("docs/performance.md does not have the figures of the load suite, which COPAL_WRITE=1 writes")
	}
}

// page returns the report as tables of a page.
func (r *report) page() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s/%s, %d CPUs, %s, %s, %s. Least is best, and **bold**.\n", m.OS, m.Arch, m.CPUs, m.FileSystem, m.Go, m.Date.Format("2006-01-02"))
	topic := ""
	for _, l := range r.Lines {
		if l.Topic != topic {
			topic = l.Topic
			fmt.Fprintf(&b, "\n### %s\n", topic)
		}
		rounds := ""
		if l.Rounds > 1 {
			rounds = fmt.Sprintf(", medians of %d rounds", l.Rounds)
		}
		fmt.Fprintf(&b, "\n%s%s:\n\n| | %s | place of copal |\n|---|%s---|\n", l.Label, rounds, strings.Join(l.Sides, " | "), strings.Repeat("---:|", len(l.Sides)))
		for _, row := range l.Rows {
			fmt.Fprintf(&b, "| %s |", strings.TrimSpace(row.Title))
			for _, c := range row.Cells {
				format := " %s |"
				if c.Best {
					format = " **%s** |"
				}
				fmt.Fprintf(&b, format, quantity(c.Median, row.Unit))
			}
			fmt.Fprintf(&b, " %s |\n", strings.Join(row.Places, ", "))
		}
	}
	return b.String()
}
