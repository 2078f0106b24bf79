package study

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/bench/chart"
)

// The figures of docs/study.md and its charts are made of the results in bench/results/study.csv.
// COPAL_WRITE=1 rewrites them; the words between are a person's.
func TestPage(t *testing.T) {
	const docs = "../../../docs/"
	file, err := os.Open("../../../bench/results/study.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	j, err := ReadJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	figures := Figures(j.Results)
	page, err := os.ReadFile(docs + "study.md")
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, text := range parts(j, figures) {
		if want, err = replace(want, name, text); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string][]byte{"study.md": []byte(want)}
	for _, durable := range []bool{false, true} {
		names, charts := Charts(figures, durable)
		for i, name := range names {
			var b bytes.Buffer
			if err := charts[i].WriteSVG(&b); err != nil {
				t.Fatal(err)
			}
			made[filepath.Join("study", name)] = b.Bytes()
		}
	}
	for name, text := range made {
		path := filepath.Join(docs, name)
		if os.Getenv("COPAL_WRITE") != "" {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
			t.Errorf("docs/%s is not made of the results; COPAL_WRITE=1 writes it (%v)", name, err)
		}
	}
}

// replace puts a text between the comments that name it.
func replace(page, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, behind, found := strings.Cut(rest, end)
	if !ok || !found {
		return "", fmt.Errorf("docs/study.md has no place for %q", name)
	}
	return before + begin + text + end + behind, nil
}

// parts returns the generated texts, by name.
func parts(j *Journal, figures []Figure) map[string]string {
	var versions []string
	for _, name := range []string{"go", "bbolt", "badger", "pebble", "buntdb"} {
		if v := j.Header.Modules[name]; v != "" {
			versions = append(versions, name+" "+strings.TrimPrefix(v, name))
		}
	}
	repetitions := map[bool]map[int]int{false: {}, true: {}}
	for _, f := range figures {
		repetitions[f.Durable][f.Records] = max(repetitions[f.Durable][f.Records], f.Repetitions)
	}
	run := fmt.Sprintf("Begun %s on %s; %s.\n\n| records | repetitions, not synced | synced |\n|---:|---:|---:|\n",
		j.Header.Begun, j.Header.Machine, strings.Join(versions, ", "))
	for _, n := range sizes(figures, false) {
		run += fmt.Sprintf("| %s | %d | %d |\n", count(n), repetitions[false][n], repetitions[true][n])
	}
	all := sizes(figures, false)
	most := TableOf(figures, all[len(all)-1], false)
	out := map[string]string{"run": run, "most records": markdown(most.chart()), "most records, the best": "```\n" + strings.Join(most.Advice(), "\n") + "\n```\n"}
	for _, durable := range []bool{false, true} {
		name, n := "not synced", Largest(figures, durable)
		if durable {
			name = "synced"
		}
		t := TableOf(figures, n, durable)
		out[name] = markdown(t.chart())
		out[name+", the best"] = "```\n" + strings.Join(t.Advice(), "\n") + "\n```\n"
	}
	return out
}

// markdown returns a table in the form of the pages.
func markdown(t chart.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n| %s |\n|---|---|%s\n", t.Caption, strings.Join(t.Header, " | "), strings.Repeat("---:|", len(t.Header)-2))
	best := map[chart.Cell]bool{}
	for _, c := range t.Best {
		best[c] = true
	}
	for i, row := range t.Rows {
		for j, text := range row {
			if best[chart.Cell{Row: i, Column: j}] {
				text = "**" + text + "**"
			}
			fmt.Fprintf(&b, "| %s ", text)
		}
		b.WriteString("|\n")
	}
	return b.String()
}
