package table

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// result reads the newest result of a kind, by the date in its name.
func result(t *testing.T, kind string) *Report {
	t.Helper()
	files, err := filepath.Glob("../../../bench/results/*-" + kind + ".json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no result of %s: %v", kind, err)
	}
	f, err := os.Open(slices.Max(files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := ReadJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// part is the text between two marks of a page.
var part = regexp.MustCompile(`(?s)<!-- made of bench/results: (\w+) -->\n.*?<!-- end -->`)

// The figures of docs/performance.md and of README.md are those of the files in bench/results. With
// COPAL_WRITE=1 the test writes them. Words are outside the marks.
func TestManual(t *testing.T) {
	all, servers := result(t, "table"), result(t, "servers")
	made := map[string]string{
		"run": all.about("cd bench && "), "losses": losses(all, servers), "ratios": all.score() + all.groups("###"),
		"servers": servers.about("") + servers.score() + servers.groups("###"), "readme": readme(all, servers),
	}
	for page, n := range map[string]int{"docs/performance.md": 4, "README.md": 1} {
		name := filepath.Join("..", "..", "..", filepath.FromSlash(page))
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		want := part.ReplaceAllStringFunc(string(text), func(old string) string {
			found++
			mark := part.FindStringSubmatch(old)[1]
			return "<!-- made of bench/results: " + mark + " -->\n\n" + made[mark] + "\n<!-- end -->"
		})
		if found != n {
			t.Errorf("%s has %d parts that are made, want %d", page, found, n)
		}
		if os.Getenv("COPAL_WRITE") == "1" {
			if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
				t.Fatal(err)
			}
		} else if want != string(text) {
			t.Errorf("%s does not have the figures of bench/results, which COPAL_WRITE=1 writes", page)
		}
	}
}

// about describes the machine of the figures, and the way in which they were taken.
func (r *Report) about(where string) string {
	lines := strings.Split(strings.TrimSpace(r.Machine.text()), "\n")
	text := fmt.Sprintf("`%s%s`, %s, medians.\n%s.\n", where, r.Command, r.roundsEach(), strings.Join(lines, ".\n"))
	for _, w := range r.Warnings {
		text += "**" + w + ".**\n"
	}
	return text
}

func (r *Report) score() string { return "\n" + capital(r.Score()) + "\n" }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// groups returns the rows under their headings, the ratio first.
func (r *Report) groups(heading string) string {
	var b strings.Builder
	for i, row := range r.Rows {
		if i == 0 || r.Rows[i-1].Group != row.Group {
			fmt.Fprintf(&b, "\n%s %s\n\n| | ahead | min–max | copal | beside | goal |\n|---|---|---|---|---|---|\n", heading, row.Group)
		}
		title := row.Title
		if i > 0 {
			row = row.behind(r.Rows[i-1])
		}
		if row.Title != "" {
			row.Title = strings.TrimSpace(title)
			if row.Title != title {
				row.Title = "– " + row.Title
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.Title, row.ratio(), row.span(), row.ours(), row.beside(), row.goalText())
	}
	return b.String()
}

// ratio is bold where it is a loss.
func (r Row) ratio() string {
	s, ok := r.Ahead()
	switch text := factor(s.Median) + "x"; {
	case !ok:
		return ""
	case r.Lost():
		return "**" + text + "**"
	default:
		return text
	}
}

func (r Row) span() string {
	s, ok := r.Ahead()
	if !ok || s.Min == s.Max {
		return ""
	}
	return factor(s.Min) + "–" + factor(s.Max)
}

// goalText returns the goal of the row, and its verdict.
func (r Row) goalText() string {
	if r.Reach == nil {
		return r.verdict()
	}
	what := ""
	if r.Against != nil {
		what = r.compared() + " "
	}
	return what + r.bound(r.Reach) + ", " + r.verdict()
}

// losses returns the losses of all reports.
func losses(reports ...*Report) string {
	var all Report
	for _, r := range reports {
		all.Rows = append(all.Rows, r.Rows...)
	}
	var b strings.Builder
	b.WriteString("| line | | ahead | min–max | copal | beside |\n|---|---|---|---|---|---|\n")
	for _, row := range all.losses() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", row.Line, strings.TrimSpace(row.Title), row.ratio(), row.span(), row.ours(), row.beside())
	}
	return b.String()
}

// headlines are the rows of README: the title of a line there, and the pattern of its name.
var headlines = []struct{ title, line string }{
	{"`Get` of a struct in memory", "get/hit/binary/100k/1"},
	{"`Set` of a struct, in the log when it returns", "set/binary/100k/1"},
	{"raw `Get` of 128 B, copied", "raw-get/128B/*/1"},
	{"raw `Get` of 32 KiB, copied", "raw-get/32768B/*/1"},
	{"raw `Get` of 8 KiB, overwritten many times just before", "raw-get-written/8192B/*/1"},
	{"raw `Set` of 128 B, not synced", "raw-put/128B/*/1"},
	{"walk over a prefix, values of 512 B, copied, a pair", "values/scan/512B/*"},
	{"transaction of 2 reads and 2 writes", "tx/process/1"},
	{"synced write, 150 goroutines", "durable"},
	{"batch of 500, synced, a key", "batch/power"},
	{"memory for a key whose value is on the disk", "memory/*"},
	{"`SET` of the Redis protocol, 50 clients, 16 at a time", "redis/SET/P16"},
	{"`GET` of an item by HTTP, 50 clients", "http/GET"},
}

// asides are notes on sides for a table without text.
var asides = map[string]string{"sync.Map": ", which keeps nothing,", "Go map": ", with its value,", "net/http": " with a map"}

func readme(reports ...*Report) string {
	var b strings.Builder
	lines := strings.Split(reports[0].Machine.text(), "\n")
	fmt.Fprintf(&b, "%s.\n\n| | copal | beside | ahead |\n|---|---|---|---|\n", lines[0])
	for _, h := range headlines {
		var rows []Row
		for _, r := range reports {
			for _, row := range r.Rows {
				if match, _ := path.Match(h.line, row.Line); match && row.Against != nil && !row.Own && !strings.HasSuffix(row.Against.Side, lent) {
					rows = append(rows, row)
				}
			}
		}
		if h.line == "durable" {
			rows = rows[1:] // the first has one goroutine
		}
		if strings.HasPrefix(h.line, "get/hit") || strings.HasPrefix(h.line, "memory") {
			rows = rows[:1]
		}
		slices.SortStableFunc(rows, func(a, b Row) int { return int(a.Against.Median - b.Against.Median) })
		var others []string
		for _, row := range rows[:min(2, len(rows))] {
			others = append(others, row.Against.Side+asides[row.Against.Side]+" "+quantity(row.Against.Median, row.Unit))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", h.title, quantity(rows[0].Ours.Median, rows[0].Unit), strings.Join(others, ", "), rows[0].ratio())
	}
	return b.String()
}
