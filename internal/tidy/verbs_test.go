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

// kinds are the types that have methods: first those that keep entries, or give access to all of
// them.
var kinds = []string{
	"Map", "Raw", "HashOf", "ListOf", "SetOf", "SortedSetOf", "Batch", "Tx", "Snapshot", "DB",
	"Entry", "Change", "MapChange", "ValueWriter", "ValueReader", "Stats",
}

// The methods of all kinds, by purpose. Methods of interfaces of errors, fmt and io are left out.
var (
	handles = strings.Fields("AsOf AsOfSeq At Backward Batch Hash In List Raw Snapshot SortedSet Stream StringSet With WithContext")
	verbs   = strings.Fields(`Add All Backup Between Cancel Clear Close Commit Compact Count Create Deadline Delete
		DeletePrefix DeleteRange Drop Expire ExpireAt From Get GetAndDelete GetOrSet Has History Insert Keys KeysBetween Len Load MembersFrom
		Open Peek Persist PopBack PopFront PopMax PopMin Prefix Push PushBack PushFront Range Rank Ranked Refresh Rename
		Require		Set SetAll SetTTL SetUntil Sync TellExpiry TTL Until Update Values View Watch`)
	says   = strings.Fields("Covers DB Maps Name Old Ratio Seq Size Stats Time Type Value")
	others = strings.Fields("Error Is Read ReadAt ReadFrom Seek String Unwrap Write WriteTo")
)

const (
	mostTypes = 25
	mostVerbs = 60
)

// TestVerbs wants each method to be a handle, a verb, or a property of a handle, limits their number, and wants
// the tables of docs/verbs.md to be made of them. With COPAL_WRITE=1 it writes the page.
func TestVerbs(t *testing.T) {
	root := filepath.Join("..", "..")
	types, methods := surface(t, root)
	if len(types) > mostTypes {
		t.Errorf("package copal has %d types, more than %d: %q", len(types), mostTypes, types)
	}
	if len(verbs) > mostVerbs {
		t.Errorf("package copal has %d verbs, more than %d", len(verbs), mostVerbs)
	}
	listed := slices.Concat(handles, verbs, says)
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if !slices.Contains(listed, name) {
			t.Errorf("method %s of %v is neither a handle, nor a verb, nor what a handle says of itself", name, slices.Sorted(maps.Keys(methods[name])))
		}
		if kind := lacksTwin(name, methods[name]); kind != "" {
			t.Errorf("%s of %s has no twin with FSync", name, kind)
		}
	}
	for i, name := range listed {
		if methods[name] == nil || slices.Contains(listed[:i], name) {
			t.Errorf("%s is listed, and is no method, or is listed twice", name)
		}
	}
	var b strings.Builder
	b.WriteString("# Verbs\n\nThe verbs of each type of handle: a verb means the same on every type. `A` and `F` mark twins named with Async and\nFSync, `M` a twin with InMemory. [The design of the API](design/surface.md) has the reasons.\n")
	table(&b, "Handles", "Methods that return another handle, a batch or a stream.", handles, methods)
	table(&b, "Verbs", "", verbs, methods)
	table(&b, "Properties of a handle", "", says, methods)
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
		t.Errorf("docs/verbs.md is not that of the methods, which COPAL_WRITE=1 writes:\n%s", b.String())
	}
}

// TestOptions wants an option that takes a value to begin with With, and one that is a switch not to.
func TestOptions(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	for _, file := range parsed(t, root) {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv != nil || !d.Name.IsExported() || d.Type.Results == nil {
				continue
			}
			of, ok := d.Type.Results.List[0].Type.(*ast.Ident)
			if !ok || !slices.Contains([]string{"Option", "MapOption", "WatchOption"}, of.Name) {
				continue
			}
			found++
			if strings.HasPrefix(d.Name.Name, "With") != (d.Type.Params.NumFields() > 0) {
				t.Errorf("option %s takes %d values", d.Name.Name, d.Type.Params.NumFields())
			}
		}
	}
	if found < 15 {
		t.Errorf("there are %d options", found)
	}
}

// lacksTwin is a kind of which Set, Delete or Update has no twin with FSync, "" for none. A batch is as durable
// as its handle, and an Entry as its Update. ListOf.Set has none yet.
func lacksTwin(name string, has map[string]string) string {
	if !slices.Contains([]string{"Set", "Delete", "Update"}, name) {
		return ""
	}
	for _, kind := range kinds {
		if marks := has[kind]; marks != "" && !strings.Contains(marks, "F") && !slices.Contains([]string{"Batch", "Entry", "ListOf"}, kind) {
			return kind
		}
	}
	return ""
}

// table writes the part of the page that has the named methods, with a column for each kind that has one.
func table(b *strings.Builder, title, text string, names []string, methods map[string]map[string]string) {
	fmt.Fprintf(b, "\n## %s\n\n", title)
	if text != "" {
		fmt.Fprintf(b, "%s\n\n", text)
	}
	columns := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return methods[name][kind] != "" })
	})
	fmt.Fprintf(b, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", name)
		for _, kind := range columns {
			fmt.Fprintf(b, " %s |", methods[name][kind])
		}
		b.WriteString("\n")
	}
}

// surface are the exported types of the root, and of each method the kinds that have it, with its twins.
func surface(t *testing.T, root string) (types []string, byName map[string]map[string]string) {
	t.Helper()
	methods := map[string]map[string]bool{} // by kind
	for _, file := range parsed(t, root) {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
						types = append(types, s.Name.Name)
					}
				}
			case *ast.FuncDecl:
				if kind := receiver(d); ast.IsExported(kind) && d.Name.IsExported() && !slices.Contains(others, d.Name.Name) {
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
	delete(methods, "Collection")
	for kind := range methods {
		if !slices.Contains(kinds, kind) {
			t.Errorf("type %s has methods, and is no kind that docs/verbs.md has a column for", kind)
		}
	}
	byName = map[string]map[string]string{}
	for _, kind := range kinds {
		for name := range methods[kind] {
			verb, twin := name, "×"
			for suffix, letter := range map[string]string{"Async": "A", "FSync": "F", "InMemory": "M"} {
				if short, ok := strings.CutSuffix(name, suffix); ok && methods[kind][short] {
					verb, twin = short, letter
				}
			}
			if byName[verb] == nil {
				byName[verb] = map[string]string{}
			}
			marks := strings.Split(byName[verb][kind]+twin, "")
			slices.Sort(marks)
			if i := slices.Index(marks, "×"); i >= 0 { // the verb itself comes first
				marks = append([]string{"×"}, slices.Delete(marks, i, i+1)...)
			}
			byName[verb][kind] = strings.Join(marks, "")
		}
	}
	slices.Sort(types)
	return types, byName
}

// parsed are the files of the package in a directory, without tests.
func parsed(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
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
