package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// module is the path of the module whose root is two directories up.
const module = "github.com/copaldb/copal"

// walk calls f for each file of the repository whose name ends in ext, with its path from the root,
// in slashes. Test data is left out.
func walk(t *testing.T, ext string, f func(name string, text []byte)) {
	t.Helper()
	repository := os.DirFS(filepath.Join("..", ".."))
	n := 0
	err := fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ext:
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err == nil {
			n++
			f(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Fatalf("no file ends in %s", ext)
	}
}

// goFile is a parsed source file.
type goFile struct {
	*ast.File
	name string // path from the root of the repository
	dir  string // its directory, "." for the root
	test bool
	set  *token.FileSet
}

func walkGo(t *testing.T, mode parser.Mode, f func(file goFile)) {
	t.Helper()
	walk(t, ".go", func(name string, text []byte) {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, text, mode)
		if err != nil {
			t.Error(err)
			return
		}
		f(goFile{File: parsed, name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), set: set})
	})
}

// imports are the paths that the file imports.
func (f goFile) imports() []string {
	var paths []string
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// in reports whether the file is in one of the directories or below.
func (f goFile) in(dirs ...string) bool {
	for _, dir := range dirs {
		if f.dir == dir || strings.HasPrefix(f.dir, dir+"/") {
			return true
		}
	}
	return false
}
