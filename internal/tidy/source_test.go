package tidy

import (
	"bytes"
	"go/format"
	"testing"
	"unicode/utf8"
)

// maxLines is how long a file with code may grow before it has to be divided.
const maxLines = 700

// maxColumns is how wide a comment is, with a tab of 4. Examples and tables, after a tab, may be wider.
const maxColumns = 120

func TestCommentsAreWrapped(t *testing.T) {
	walk(t, ".go", func(name string, text []byte) {
		n := 0
		for line := range bytes.Lines(text) {
			n++
			wide := utf8.RuneCount(bytes.ReplaceAll(bytes.TrimRight(line, "\n"), []byte("\t"), []byte("    "))) > maxColumns
			comment, is := bytes.CutPrefix(bytes.TrimLeft(line, "\t"), []byte("//"))
			if is && wide && !bytes.HasPrefix(comment, []byte("\t")) {
				t.Errorf("%s:%d: the comment is wider than %d columns", name, n, maxColumns)
			}
		}
	})
}

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
