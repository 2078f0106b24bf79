package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a block of Go in a page.
var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// TestPagesAreCompiled wants each block of Go in README.md and docs/guide.md among the examples, where
// it is compiled and run: line by line, but for the indentation. Blocks with "..." are sketches of
// signatures.
func TestPagesAreCompiled(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for page, examples := range map[string][]string{
		"README.md":     {"example_readme_test.go", "examples/hello/main.go"},
		"docs/guide.md": {"example_guide_test.go", "remote/example_test.go"},
	} {
		var tested strings.Builder
		for _, name := range examples {
			tested.WriteString(flush(read(name)))
		}
		blocks := goBlock.FindAllStringSubmatch(read(page), -1)
		if len(blocks) < 8 {
			t.Fatalf("%s has %d blocks of Go", page, len(blocks))
		}
		for _, block := range blocks {
			if !strings.Contains(block[1], "{ ... }") && !strings.Contains(tested.String(), flush(block[1])) {
				t.Errorf("no example has this block of %s:\n%s", page, block[1])
			}
		}
	}
}

// flush is text without indentation.
func flush(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
}
