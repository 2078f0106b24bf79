// Command typecheck checks the types of this module for other systems, tests included, without compiling anything:
//
//	go run ./.ci/typecheck windows/amd64 linux/386
//
// A compilation of everything takes some minutes of processor time for each system, and this takes seconds. It finds
// a function, a field or a file that a system lacks, and constants that overflow an int there. It does not find what
// only the compiler or the linker reports, such as a function without a body.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, ForTest string
	GoFiles                  []string
	ImportMap                map[string]string
	Standard                 bool
	Module                   *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

func main() {
	failed := make([]error, len(os.Args)-1)
	var targets sync.WaitGroup
	for i, target := range os.Args[1:] {
		targets.Go(func() { failed[i] = check(target) })
	}
	targets.Wait()
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check checks all packages for a target, dependencies first.
func check(target string) error {
	system, processor, _ := strings.Cut(target, "/")
	list := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,ForTest,GoFiles,ImportMap,Standard,Module,Error", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		return err
	}
	sizes := types.SizesFor("gc", processor)
	if sizes == nil {
		return fmt.Errorf("%s: no such processor", target)
	}
	checked, whole := map[string]*types.Package{"unsafe": types.Unsafe}, 0
	for lines := json.NewDecoder(out); ; {
		var p listed
		if err := lines.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("%s: go list: %w", target, err)
		}
		if p.Error != nil {
			return fmt.Errorf("%s: %s: %s", target, p.ImportPath, p.Error.Err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		if checked[p.ImportPath], err = p.check(sizes, checked); err != nil {
			return fmt.Errorf("%s: %s:\n%w", target, p.ImportPath, err)
		}
		if p.own() {
			whole++
		}
	}
	if err := list.Wait(); err != nil {
		return fmt.Errorf("%s: go list: %w", target, err)
	}
	fmt.Printf("%s: %d packages and tests\n", target, whole)
	return nil
}

// own reports whether the bodies of functions are checked: in packages of this module, and in tests of themselves.
// Others are only imported, or are a package once more, for the tests of another.
func (p *listed) own() bool {
	path, variant, _ := strings.Cut(p.ImportPath, " ")
	return p.Module != nil && p.Module.Main && (variant == "" || strings.TrimSuffix(path, "_test") == p.ForTest)
}

func (p *listed) check(sizes types.Sizes, checked map[string]*types.Package) (*types.Package, error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parse(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	var wrong []error
	c := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if found := checked[path]; found != nil {
				return found, nil
			}
			return nil, fmt.Errorf("%s is not listed before the package that imports it", path)
		}),
		Sizes:            sizes,
		IgnoreFuncBodies: !p.own(),
		Error:            func(err error) { wrong = append(wrong, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	made, _ := c.Check(path, positions, files, nil)
	return made, errors.Join(wrong...)
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

// The files of all targets are parsed once.
var (
	positions = token.NewFileSet()
	parsed    sync.Map // by path, of func() (*ast.File, error)
)

func parse(path string) (*ast.File, error) {
	once, _ := parsed.LoadOrStore(path, sync.OnceValues(func() (*ast.File, error) {
		return parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
	}))
	return once.(func() (*ast.File, error))()
}
