package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestHello runs the program twice: the second run finds what the first has left.
func TestHello(t *testing.T) {
	args, stdout := os.Args, os.Stdout
	defer func() { os.Args, os.Stdout = args, stdout }()
	os.Args = []string{"hello", filepath.Join(t.TempDir(), "hello.db")}
	for _, want := range []string{"{ 0} false\nalice {Alice 1}\n", "{Alice 1} true\nalice {Alice 2}\n"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout = w
		main()
		w.Close()
		if got, err := io.ReadAll(r); string(got) != want || err != nil {
			t.Errorf("it prints %q, %v, want %q", got, err, want)
		}
	}
}
