package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kinds are the types that keep entries, or stand for all of them.
var kinds = []string{"Map", "Raw", "HashOf", "ListOf", "SetOf", "SortedSetOf", "Batch", "Tx", "Snapshot", "DB"}

const (
	mostTypes = 24
	mostVerbs = 78 // 60 is the goal
)

// TestVerbs wants the table of docs/verbs.md to list the methods, and limits its size. With
// COPAL_WRITE=1 it writes the table.
func TestVerbs(t *testing.T) {
	root := filepath.Join("..", "..")
	types, verbs := surface(t, root)
	if len(types) > mostTypes {
		t.Errorf("package copal has %d types, more than %d: %q", len(types), mostTypes, types)
	}
	names := slices.Sorted(maps.Keys(verbs))
	if len(names) > mostVerbs {
		t.Errorf("the kinds of entries have %d verbs, more than %d: %q", len(names), mostVerbs, names)
	}
	var b strings.Builder
	b.WriteString("# Verbs\n\nWhat each kind of entries can do: a verb means the same wherever it stands. `A` and `F` are twins with\nAsync and FSync behind the name, `M` with InMemory. [Decision 026](decisions/026-the-surface.md) says why.\n\n")
	fmt.Fprintf(&b, "| verb | %s |\n|---|%s\n", strings.Join(kinds, " | "), strings.Repeat("---|", len(kinds)))
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for _, kind := range kinds {
			fmt.Fprintf(&b, " %s |", verbs[name][kind])
		}
		b.WriteString("\n")
	}
	page := filepath.Join(root, "docs", "verbs.md")
	if os.Getenv("COPAL_WRITE") == "1" {
		if err := os.WriteFile(page, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("docs/verbs.md is not the table of the methods, which COPAL_WRITE=1 writes:\n%s", b.String())
	}
}

// surface are the exported types of the root, and of each verb the kinds that have it, with its twins.
func surface(t *testing.T, root string) (types []string, verbs map[string]map[string]string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]map[string]bool{} // by kind
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
						types = append(types, s.Name.Name)
					}
				}
			case *ast.FuncDecl:
				if kind := receiver(d); kind != "" && d.Name.IsExported() {
					if methods[kind] == nil {
						methods[kind] = map[string]bool{}
					}
					methods[kind][d.Name.Name] = true
				}
			}
		}
	}
	for _, kind := range []string{"HashOf", "ListOf", "SetOf", "SortedSetOf"} { // which embed it
		for name := range methods["Collection"] {
			methods[kind][name] = true
		}
	}
	verbs = map[string]map[string]string{}
	for _, kind := range kinds {
		for name := range methods[kind] {
			verb, twin := name, "×"
			for suffix, letter := range map[string]string{"Async": "A", "FSync": "F", "InMemory": "M"} {
				if short, ok := strings.CutSuffix(name, suffix); ok && methods[kind][short] {
					verb, twin = short, letter
				}
			}
			if verbs[verb] == nil {
				verbs[verb] = map[string]string{}
			}
			marks := strings.Split(verbs[verb][kind]+twin, "")
			slices.Sort(marks)
			if i := slices.Index(marks, "×"); i >= 0 { // the verb itself comes first
				marks = append([]string{"×"}, slices.Delete(marks, i, i+1)...)
			}
			verbs[verb][kind] = strings.Join(marks, "")
		}
	}
	slices.Sort(types)
	return types, verbs
}

// receiver is the name of the type that a method is of, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
