package copal_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestManualIsComplete wants an example for each exported function and type, and one for each method but those
// that packages errors and io name: of its own, or what an example of its type calls. Each example has an
// output, for else it is not run.
func TestManualIsComplete(t *testing.T) {
	var tests []*ast.File
	var wanted []string
	for _, file := range parseDir(t) {
		if strings.HasSuffix(file.Name.Name, "_test") {
			tests = append(tests, file)
			continue
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if name := entryPoint(d); name != "" && d.Name.IsExported() && !noExample[name] {
					wanted = append(wanted, name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && !noExample[s.Name.Name] {
						wanted = append(wanted, s.Name.Name)
					}
				}
			}
		}
	}
	if len(wanted) < 200 {
		t.Fatalf("only %d entry points are found: %q", len(wanted), wanted)
	}
	shown := map[string]bool{}
	for _, e := range doc.Examples(tests...) {
		if e.Output == "" && !e.EmptyOutput {
			t.Errorf("Example%s has no output, so it is not run", e.Name)
		}
		of, rest, _ := strings.Cut(e.Name, "_")
		method, _, _ := strings.Cut(rest, "_")
		shown[of], shown[of+"_"+method] = true, true
		ast.Inspect(e.Code, func(n ast.Node) bool { // what the example of a type does with it
			if s, ok := n.(*ast.SelectorExpr); ok {
				shown[of+"_"+s.Sel.Name] = true
			}
			return true
		})
	}
	for _, name := range wanted {
		if !shown[name] {
			t.Errorf("there is no Example%s", name)
		}
	}
}

// noExample has types that examples of functions show, and what only another package of copal can call.
var noExample = map[string]bool{"Option": true, "MapOption": true, "WatchOption": true, "OpenDriven": true}

// parseDir parses the files of this directory, but for tests within the package and the bridge to the seams.
func parseDir(t *testing.T) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name == "copal" && strings.HasSuffix(name, "_test.go") {
			continue
		}
		files = append(files, file)
	}
	return files
}

// entryPoint is Func or Type_Method, as the names of examples have it.
func entryPoint(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	switch f.Name.Name {
	case "Error", "Is", "Unwrap", "Read", "ReadAt", "Seek", "WriteTo", "Write", "ReadFrom": // of packages errors and io
		return ""
	}
	for recv := f.Recv.List[0].Type; ; {
		switch r := recv.(type) {
		case *ast.StarExpr:
			recv = r.X
		case *ast.IndexExpr:
			recv = r.X
		case *ast.IndexListExpr:
			recv = r.X
		case *ast.Ident:
			if !r.IsExported() {
				return ""
			}
			return r.Name + "_" + f.Name.Name
		default:
			return ""
		}
	}
}
