package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```[^\n]*$")
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	inlineLink = regexp.MustCompile(`\]\(<?([^)<>\s]+)>?(?:\s+"[^"]*")?\)`)
	namedLink  = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s+(\S+)`)
	scheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*?)[ #]*$`)
)

// The first five minutes of a reader: both commands are there, and .ci/run runs the same.
func TestReadmeHasItsCommands(t *testing.T) {
	for _, file := range []string{"README.md", ".ci/run"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, command := range []string{"go run ./examples/tour", "go test ./..."} {
			if !strings.Contains(string(text), command) {
				t.Errorf("%s does not contain %q", file, command)
			}
		}
	}
}

func TestLinksResolve(t *testing.T) {
	pages := map[string]string{}
	walk(t, ".md", func(name string, text []byte) { pages[name] = string(text) })
	for name, text := range pages {
		for _, link := range links(text) {
			if scheme.MatchString(link) {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s: there is no %s", name, link, file)
			} else if page, ok := pages[file]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, link, file)
			}
		}
	}
}

// links are the targets of the links on a page, those in code left out.
func links(page string) []string {
	page = inlineCode.ReplaceAllString(fenced.ReplaceAllString(page, ""), "code")
	var found []string
	for _, pattern := range []*regexp.Regexp{inlineLink, namedLink} {
		for _, match := range pattern.FindAllStringSubmatch(page, -1) {
			found = append(found, match[1])
		}
	}
	return found
}

// anchors are the names under which the headings of a page can be linked to. A heading
// that comes again gets a number.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		base := anchor(match[1])
		name := base
		for i := 1; names[name]; i++ {
			name = base + "-" + strconv.Itoa(i)
		}
		names[name] = true
	}
	return names
}

// anchor makes the name of a heading as code hosts do: in lower case, spaces as dashes, other
// punctuation dropped.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestLinksAreFound(t *testing.T) {
	page := "# A `b` c!\n[x](one.md) `[y](no.md)` [`z`](two.md#here \"title\")\n```\n[w](no.md)\n```\n## A b c\n[named]: three.md\n"
	if got := strings.Join(links(page), " "); got != "one.md two.md#here three.md" {
		t.Errorf("links: %q", got)
	}
	if got := anchors(page); !got["a-b-c"] || !got["a-b-c-1"] || len(got) != 2 {
		t.Errorf("anchors: %v", got)
	}
}
