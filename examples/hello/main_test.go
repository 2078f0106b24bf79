package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeShowsThisProgram wants the output of two runs, and the log that they leave, in README.md as
// they are, but for numbers that each store draws: checksums, salts and times.
func TestReadmeShowsThisProgram(t *testing.T) {
	if dir := os.Getenv("HELLO_DIR"); dir != "" {
		os.Args = []string{"hello", dir}
		main()
		os.Exit(0)
	}
	dir := filepath.Join(t.TempDir(), "hello.db")
	page, err := os.ReadFile(filepath.FromSlash("../../README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var real strings.Builder
	for range 2 {
		run := exec.Command(os.Args[0], "-test.run=^TestReadmeShowsThisProgram$")
		run.Env = append(os.Environ(), "HELLO_DIR="+dir)
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		real.WriteString("$ go run ./examples/hello\n")
		real.Write(out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "00000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	real.WriteString("$ cat hello.db/*.log\n")
	real.Write(log)
	if !strings.Contains(masked(string(page)), masked(real.String())) {
		t.Errorf("README.md does not show this:\n%s", real.String())
	}
}

// masked is a text without what each store draws.
func masked(text string) string {
	head := regexp.MustCompile(`(?m)(salt|start|store) [0-9a-f]+|[0-9a-f]{8}$`)
	record := regexp.MustCompile(`(?m)^[0-9a-f]{8} (\w+ \w+ \w+ \w+) [0-9a-f]+`)
	return record.ReplaceAllString(head.ReplaceAllString(text, "$1 X"), "X $1 X")
}
