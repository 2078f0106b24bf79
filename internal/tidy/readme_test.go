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

// TestReadmeIsCompiled wants each block of Go in README.md among the examples, where it is compiled and
// run: line by line, but for the indentation. Blocks with "..." are sketches of signatures.
func TestReadmeIsCompiled(t *testing.T) {
	root := filepath.Join("..", "..")
	var tested strings.Builder
	for _, name := range []string{"example_readme_test.go", "examples/hello/main.go"} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		tested.WriteString(flush(string(text)))
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 5 {
		t.Fatalf("README.md has %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(block[1], "{ ... }") && !strings.Contains(tested.String(), flush(block[1])) {
			t.Errorf("no example has this block of README.md:\n%s", block[1])
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
