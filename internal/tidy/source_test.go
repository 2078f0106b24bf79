package tidy

import (
	"bytes"
	"go/format"
	"testing"
)

// maxLines is how long a file with code may grow before it has to be divided.
const maxLines = 700

func TestSourceIsFormatted(t *testing.T) {
	walk(t, ".go", func(name string, text []byte) {
		formatted, err := format.Source(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(formatted, text) {
			t.Errorf("%s is not formatted: gofmt -w %s", name, name)
		}
	})
}

func TestFilesAreShort(t *testing.T) {
	walk(t, ".go", func(name string, text []byte) {
		lines := bytes.Count(text, []byte("\n"))
		if !bytes.HasSuffix([]byte(name), []byte("_test.go")) && lines > maxLines {
			t.Errorf("%s has %d lines; more than %d are more than one noun", name, lines, maxLines)
		}
	})
}
