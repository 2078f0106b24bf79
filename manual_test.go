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

// TestManualIsComplete wants an example for each exported function, and for each
// method of an exported type but Error, Is and Unwrap.
func TestManualIsComplete(t *testing.T) {
	examples := map[string]bool{}
	var wanted []string
	for _, file := range parseDir(t) {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok:
			case file.Name.Name == "copal_test":
				name, _, _ := strings.Cut(strings.TrimPrefix(f.Name.Name, "Example"), "_with")
				examples[name] = strings.HasPrefix(f.Name.Name, "Example")
			case f.Name.IsExported():
				if name := entryPoint(f); name != "" {
					wanted = append(wanted, name)
				}
			}
		}
	}
	if len(wanted) < 40 {
		t.Fatalf("only %d entry points are found: %q", len(wanted), wanted)
	}
	for _, name := range wanted {
		if !examples[name] {
			t.Errorf("there is no Example%s", name)
		}
	}
}

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
	case "Error", "Is", "Unwrap":
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
