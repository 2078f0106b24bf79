package main

import (
	"context"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// sources are the files that the store is compared with at every stop, by path.
type sources map[string]File

func (s sources) bytes() (n int64) {
	for _, f := range s {
		n += int64(f.Bytes)
	}
	return n
}

func (s sources) paths() []string { return slices.Sorted(maps.Keys(s)) }

// packages sums the files up.
func (s sources) packages() map[string]Package {
	sum := map[string]Package{}
	for _, name := range s.paths() {
		f, p := s[name], sum[s[name].Package]
		p.Files = append(p.Files, name)
		p.Imports = append(p.Imports, f.Imports...)
		p.Lines += f.Lines
		if f.Changed.After(p.Newest) {
			p.Newest = f.Changed
		}
		sum[f.Package] = p
	}
	for name, p := range sum {
		slices.Sort(p.Imports)
		p.Imports = slices.Compact(p.Imports)
		sum[name] = p
	}
	return sum
}

// lengths counts the files by hundreds of lines.
func (s sources) lengths() map[int]int {
	count := map[int]int{}
	for _, f := range s {
		count[f.Lines/100]++
	}
	return count
}

// read reads the Go files of the standard library; not those of the go command and
// not test data.
func (t *tour) read(ctx context.Context) (sources, error) {
	found, skipped := sources{}, 0
	err := filepath.WalkDir(t.source, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && (d.Name() == "testdata" || name == filepath.Join(t.source, "cmd")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		f, err := readFile(t.source, name, d)
		if err != nil {
			return err
		}
		if !utf8.ValidString(f.Text) { // which the JSON codec would refuse
			skipped++
			return nil
		}
		found[f.Path] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.title("1  Real records")
	t.row("from", "%s", t.source)
	t.row("files", "%s, %s", number(len(found)), megabytes(found.bytes()))
	t.row("packages", "%s", number(len(found.packages())))
	if skipped > 0 {
		t.row("left out", "%d files that are not UTF-8", skipped)
	}
	return found, nil
}

func readFile(root, name string, d fs.DirEntry) (File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return File{}, err
	}
	info, err := d.Info()
	if err != nil {
		return File{}, err
	}
	below, err := filepath.Rel(root, name)
	if err != nil {
		return File{}, err
	}
	below = filepath.ToSlash(below)
	return File{
		Path: below, Package: path.Dir(below), Bytes: len(text), Lines: strings.Count(string(text), "\n"),
		Imports: imports(text), Changed: info.ModTime().UTC(), Text: string(text),
	}, nil
}

// imports are those of a Go file, none if it is not one.
func imports(text []byte) (list []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	for _, spec := range f.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil {
			list = append(list, name)
		}
	}
	return list
}

// same reports whether a file came back as it was stored.
func (f File) same(g File) bool {
	return f.Path == g.Path && f.Package == g.Package && f.Bytes == g.Bytes && f.Lines == g.Lines &&
		slices.Equal(f.Imports, g.Imports) && f.Changed.Equal(g.Changed) && f.Text == g.Text
}

func (p Package) same(q Package) bool {
	return slices.Equal(p.Files, q.Files) && slices.Equal(p.Imports, q.Imports) && p.Lines == q.Lines && p.Newest.Equal(q.Newest)
}
