// Command rooms prints the size of each package without its tests, to find packages that have grown
// into several:
//
//	go run ./.ci/rooms            packages of more than 2,000 lines
//	go run ./.ci/rooms -least 0   all
//
// A cycle is a largest set of files each of which needs each other, directly or by files between them: it can only be
// read as a whole.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct {
		Path string
		Main bool
	}
}

// room is the size of a package.
type room struct {
	name                string
	lines, files, cycle int
	fields, methods     int
	widest, busiest     string // the type with the most fields, and the one with the most methods
}

func main() {
	least := flag.Int("least", 2000, "leave out packages with fewer `lines`")
	flag.Parse()
	rooms, err := measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slices.SortFunc(rooms, func(a, b room) int { return cmp.Or(b.lines-a.lines, strings.Compare(a.name, b.name)) })
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tlines\tfiles\tlargest cycle\tlargest struct\tmost methods")
	var all room
	for _, r := range rooms {
		all.lines += r.lines
		all.files += r.files
		if r.lines >= *least {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s %d\t%s %d\n", r.name, r.lines, r.files, r.cycle, r.widest, r.fields, r.busiest, r.methods)
		}
	}
	fmt.Fprintf(table, "all %d packages\t%d\t%d\n", len(rooms), all.lines, all.files)
	table.Flush()
}

// measure returns the sizes of the packages of this module.
func measure() ([]room, error) {
	list := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	positions := token.NewFileSet()
	imports := importer.ForCompiler(positions, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var rooms []room
	for lines := json.NewDecoder(out); ; {
		var p listed
		if err := lines.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module == nil || !p.Module.Main || len(p.GoFiles) == 0 {
			continue
		}
		r, err := p.measure(positions, imports)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		rooms = append(rooms, r)
	}
	return rooms, list.Wait()
}

func (p *listed) measure(positions *token.FileSet, imports types.Importer) (room, error) {
	r := room{name: cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/"), "."), files: len(p.GoFiles), widest: "-", busiest: "-"}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(positions, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return r, err
		}
		files = append(files, file)
		r.lines += positions.File(file.Pos()).LineCount()
	}
	var wrong []error
	config := types.Config{Importer: imports, Error: func(err error) { wrong = append(wrong, err) }}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	made, _ := config.Check(p.ImportPath, positions, files, &info)
	if len(wrong) > 0 {
		return r, errors.Join(wrong...)
	}
	r.shape(made.Scope())
	r.cycle = cycle(needs(made, positions, &info))
	return r, nil
}

// shape finds the largest types.
func (r *room) shape(scope *types.Scope) {
	for _, name := range scope.Names() {
		named, ok := scope.Lookup(name).Type().(*types.Named)
		if _, isType := scope.Lookup(name).(*types.TypeName); !ok || !isType {
			continue
		}
		if n := named.NumMethods(); n > r.methods {
			r.methods, r.busiest = n, name
		}
		if s, ok := named.Underlying().(*types.Struct); ok && s.NumFields() > r.fields {
			r.fields, r.widest = s.NumFields(), name
		}
	}
}

// needs returns for each file the files whose declarations it uses.
func needs(made *types.Package, positions *token.FileSet, info *types.Info) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != made || !object.Pos().IsValid() {
			continue
		}
		from, to := positions.File(id.Pos()).Name(), positions.File(object.Pos()).Name()
		if from != to {
			if all[from] == nil {
				all[from] = map[string]bool{}
			}
			all[from][to] = true
		}
	}
	return all
}

// cycle returns the size of the largest strongly connected component, 1 if there is no cycle: Tarjan, Depth-first
// search and linear graph algorithms, 1972.
func cycle(needs map[string]map[string]bool) int {
	largest, index := 1, map[string]int{}
	low, onStack := map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(file string)
	visit = func(file string) {
		index[file] = len(index) + 1
		low[file] = index[file]
		stack, onStack[file] = append(stack, file), true
		for next := range needs[file] {
			if index[next] == 0 {
				visit(next)
				low[file] = min(low[file], low[next])
			} else if onStack[next] {
				low[file] = min(low[file], index[next])
			}
		}
		if low[file] != index[file] {
			return
		}
		for n := 1; ; n++ {
			last := stack[len(stack)-1]
			stack, onStack[last] = stack[:len(stack)-1], false
			if last == file {
				largest = max(largest, n)
				return
			}
		}
	}
	for file := range needs {
		if index[file] == 0 {
			visit(file)
		}
	}
	return largest
}
