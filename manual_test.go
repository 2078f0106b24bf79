package copal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestManualIsComplete wants an example for each exported function and type, and one for each method
// but those that packages errors and io name: of its own, in the example of its type, or of a method with
// the same name, for a verb means the same everywhere.
func TestManualIsComplete(t *testing.T) {
	shown, verbs := map[string]bool{}, map[string]bool{}
	var wanted []string
	for _, file := range parseDir(t) {
		tests := strings.HasSuffix(file.Name.Name, "_test")
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name, example := strings.CutPrefix(d.Name.Name, "Example")
				switch {
				case tests && example:
					shown[name] = true
					parts := strings.SplitN(name, "_", 3)
					shown[parts[0]] = true
					if len(parts) > 1 {
						shown[parts[0]+"_"+parts[1]], verbs[parts[1]] = true, true
					}
					ast.Inspect(d.Body, func(n ast.Node) bool { // what the example of a type does with it
						if s, ok := n.(*ast.SelectorExpr); ok {
							shown[parts[0]+"_"+s.Sel.Name] = true
						}
						return true
					})
				case !tests && d.Name.IsExported():
					if name := entryPoint(d); name != "" {
						wanted = append(wanted, name)
					}
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && !tests && s.Name.IsExported() && !noExample[s.Name.Name] {
						wanted = append(wanted, s.Name.Name)
					}
				}
			}
		}
	}
	if len(wanted) < 200 {
		t.Fatalf("only %d entry points are found: %q", len(wanted), wanted)
	}
	for _, name := range wanted {
		_, verb, _ := strings.Cut(name, "_")
		if !shown[name] && !verbs[verb] {
			t.Errorf("there is no Example%s", name)
		}
	}
}

// noExample has types that examples of functions show: what options are, and what is returned.
var noExample = map[string]bool{"Option": true, "MapOption": true, "WatchOption": true}

// parseDir parses the files of this directory, but for the bridge to the seams.
func parseDir(t *testing.T) []*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if name == "export_test.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
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
