package tidy

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/limits.txt")

// rules are the limits of a package. A package that is beyond one has its number in testdata/limits.txt, and that may
// only fall.
var rules = map[string]int{
	"lines":   8000, // of code and its comments, without tests
	"fields":  30,   // of its largest struct
	"methods": 100,  // of the type with the most
}

// rates are limits of words, in 10,000 words of a page or of the comments of a package. Such a word mostly hides a
// noun, a subject, or one of "is", "has" and "returns": CONTRIBUTING.md, Words.
var rates = []struct {
	name string
	find *regexp.Regexp
	most int
}{
	{"what", regexp.MustCompile(`(?i)\bwhat\b`), 20},
	{"stands", regexp.MustCompile(`(?i)\b(stands?|stood)\b`), 4},
	{"tells", regexp.MustCompile(`(?i)\b(tells?|told)\b`), 4},
	{"behind", regexp.MustCompile(`(?i)\bbehind\b`), 4},
	{"nobody", regexp.MustCompile(`(?i)\bnobody\b`), 4},
	{"is-to", regexp.MustCompile(`(?i)\b(is|are) to\b`), 4},
	{"as-it-is", regexp.MustCompile(`(?i)\bas (it is|they are)\b`), 4},
}

// limitsFile has the numbers of the packages that are beyond a rule.
const limitsFile = "testdata/limits.txt"

// A package that has grown into several nouns is divided, and one whose prose has an accent is written anew.
func TestPackagesHaveLimits(t *testing.T) {
	found := map[string]int{} // by package and rule
	words := map[string]int{} // of comments, by package, and of pages
	methods := map[string]int{}
	count := func(place, text string) {
		text = strings.Join(strings.Fields(text), " ")
		words[place] += strings.Count(text, " ") + 1
		for _, rate := range rates {
			found[place+" "+rate.name] += len(rate.find.FindAllString(text, -1))
		}
	}
	most := func(dir, rule string, n int) { found[dir+" "+rule] = max(found[dir+" "+rule], n) }
	walkGo(t, parser.ParseComments|parser.SkipObjectResolution, func(f goFile) {
		for _, group := range f.Comments {
			count(f.dir, group.Text())
		}
		if f.test {
			return
		}
		found[f.dir+" lines"] += f.set.File(f.Pos()).LineCount()
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				most(f.dir, "fields", n.Fields.NumFields())
			case *ast.FuncDecl:
				if of := receiver(n); of != "" {
					methods[f.dir+" "+of]++
					most(f.dir, "methods", methods[f.dir+" "+of])
				}
			}
			return true
		})
	})
	walk(t, ".md", func(name string, text []byte) {
		count(name, inlineCode.ReplaceAllString(fenced.ReplaceAllString(string(text), ""), ""))
	})
	allowed := func(key string) int {
		dir, rule, _ := strings.Cut(key, " ")
		for _, rate := range rates {
			if rate.name == rule {
				return rate.most*words[dir]/10_000 + 1
			}
		}
		return rules[rule]
	}
	maps.DeleteFunc(found, func(key string, n int) bool { return n <= allowed(key) })
	if *update {
		writeLimits(t, found)
	}
	limits := readLimits(t)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		switch n, limit := found[key], limits[key]; {
		case limit == 0:
			t.Errorf("%s: %d, and %d is the limit", key, n, allowed(key))
		case n > limit:
			t.Errorf("%s: %d, and %d before; it may only fall", key, n, limit)
		}
		delete(limits, key)
	}
	for key := range limits {
		t.Errorf("%s is within its rule, and needs no line in %s", key, limitsFile)
	}
}

func readLimits(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(limitsFile)
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%s: %q is no package, rule and number", limitsFile, line)
		}
		if limits[fields[0]+" "+fields[1]], err = strconv.Atoi(fields[2]); err != nil {
			t.Fatal(err)
		}
	}
	return limits
}

func writeLimits(t *testing.T, found map[string]int) {
	t.Helper()
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintln(&text, key, found[key])
	}
	if err := os.WriteFile(limitsFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The architecture page names every package: whoever looks for a place to change something begins there.
func TestArchitectureNamesPackages(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	walkGo(t, parser.PackageClauseOnly, func(f goFile) {
		if seen[f.dir] || f.dir == "." || f.in(".ci", "bench", "examples") {
			return
		}
		seen[f.dir] = true
		name := strings.TrimPrefix(f.dir, "internal/")
		if !regexp.MustCompile("`[^`\n]*\\b" + regexp.QuoteMeta(name) + "`").Match(page) {
			t.Errorf("docs/architecture.md does not name %s", f.dir)
		}
	})
}
