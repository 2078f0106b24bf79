package tidy

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"strings"
	"testing"
)

// maxExamples is the number of examples of package copal, which may only fall: a reader finds one for each type, each
// function and each promise, and no second one.
const maxExamples = 128

// noExample has types that examples of functions show, functions for another package of copal, and methods that
// packages errors, fmt and io name. Of the twins of Update one example shows the way.
var noExample = map[string]bool{"Option": true, "MapOption": true, "WatchOption": true, "OpenDriven": true, "Snapshot": true, "Stats": true,
	"Error": true, "Is": true, "Unwrap": true, "String": true, "Read": true, "ReadAt": true, "Seek": true, "WriteTo": true, "Write": true, "ReadFrom": true,
	"UpdateAsync": true, "UpdateInMemory": true}

// TestManualIsComplete wants an example of package copal for each exported function and type, and each exported method
// in an example, of whatever type. Each example has an output, for else it is not run.
func TestManualIsComplete(t *testing.T) {
	var tests []*ast.File
	var wanted, methods []string
	walkGo(t, parser.ParseComments|parser.SkipObjectResolution, func(f goFile) {
		switch {
		case f.dir != ".":
			return
		case f.test:
			if strings.HasPrefix(f.name, "example") {
				tests = append(tests, f.File)
			}
			return
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				switch of := receiver(d); {
				case !d.Name.IsExported() || noExample[d.Name.Name]:
				case d.Recv == nil:
					wanted = append(wanted, d.Name.Name)
				case ast.IsExported(of):
					methods = append(methods, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && !noExample[s.Name.Name] {
						wanted = append(wanted, s.Name.Name)
					}
				}
			}
		}
	})
	if len(wanted) < 50 || len(methods) < 150 {
		t.Fatalf("only %d functions and types and %d methods are found", len(wanted), len(methods))
	}
	examples := doc.Examples(tests...)
	if len(examples) > maxExamples {
		t.Errorf("%d examples; %d are enough", len(examples), maxExamples)
	}
	shown := map[string]bool{}
	for _, e := range examples {
		if e.Output == "" && !e.EmptyOutput {
			t.Errorf("Example%s has no output, so it is not run", e.Name)
		}
		of, _, _ := strings.Cut(e.Name, "_")
		shown[of] = true
	}
	for _, f := range tests {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				shown["."+s.Sel.Name] = true
			}
			return true
		})
	}
	for _, name := range wanted {
		if !shown[name] {
			t.Errorf("there is no Example%s", name)
		}
	}
	for _, name := range methods {
		if !shown["."+name] {
			t.Errorf("no example calls the method %s", name)
		}
	}
}
