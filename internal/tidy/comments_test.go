package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"testing"
)

// public are the directories of the packages that users import.
var public = []string{".", "codec", "hybridlog", "remote"}

// Each package is introduced by one comment, in doc.go except for commands, and no more: it would be shown as one text.
func TestPackagesAreIntroduced(t *testing.T) {
	comments := map[string]int{}
	walkGo(t, parser.PackageClauseOnly|parser.ParseComments, func(f goFile) {
		if f.test {
			return
		}
		if _, seen := comments[f.dir]; !seen {
			comments[f.dir] = 0
		}
		if f.Doc != nil {
			comments[f.dir]++
			if base := path.Base(f.name); f.File.Name.Name != "main" && base != "doc.go" {
				t.Errorf("the comment of package %s is in %s, and not in doc.go", f.dir, base)
			}
		}
	})
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d package comments", dir, n)
		}
	}
}

func TestExportsAreDocumented(t *testing.T) {
	walkGo(t, parser.ParseComments|parser.SkipObjectResolution, func(f goFile) {
		if f.test || !slices.Contains(public, f.dir) {
			return
		}
		for _, declaration := range f.Decls {
			for _, name := range undocumented(declaration) {
				t.Errorf("%v: %s has no doc comment", f.set.Position(name.Pos()), name.Name)
			}
		}
	})
}

// undocumented lists the exported identifiers of a declaration without a doc comment.
func undocumented(declaration ast.Decl) []*ast.Ident {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || isExported(d.Recv.List[0].Type)) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

// undocumentedSpec looks at one line of a declaration. A constant or variable may be
// documented by the comment of its group or at the end of its line, a type may not.
func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) (names []*ast.Ident) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		if s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			names = append(names, s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok {
			names = append(names, undocumentedMethods(i)...)
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return nil
		}
		for _, name := range s.Names {
			if name.IsExported() {
				names = append(names, name)
			}
		}
	}
	return names
}

func undocumentedMethods(i *ast.InterfaceType) (names []*ast.Ident) {
	for _, method := range i.Methods.List {
		for _, name := range method.Names {
			if name.IsExported() && method.Doc == nil && method.Comment == nil {
				names = append(names, name)
			}
		}
	}
	return names
}

// isExported reports whether the type of a receiver is exported.
func isExported(receiver ast.Expr) bool {
	switch r := receiver.(type) {
	case *ast.Ident:
		return r.IsExported()
	case *ast.StarExpr:
		return isExported(r.X)
	case *ast.IndexExpr:
		return isExported(r.X)
	case *ast.IndexListExpr:
		return isExported(r.X)
	}
	return false
}

// The check above finds each kind of missing comment.
func TestUndocumentedIsFound(t *testing.T) {
	const source = `package p
func F() {}
func (T) M() {}
func (*G[K]) M2() {}
func (*t) M() {}
type T struct{}
type I interface { N() }
type (
	U int
)
var V int
const (
	A = 1
	B = 2 // documented
)
// Documented.
type (
	W int
)
// Documented.
const C = 1
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, declaration := range file.Decls {
		for _, name := range undocumented(declaration) {
			got = append(got, name.Name)
		}
	}
	want := []string{"F", "M", "M2", "T", "I", "N", "U", "V", "A", "W"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
