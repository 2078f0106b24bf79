package jitter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const self = "github.com/copaldb/copal/internal/jitter"

// root is the root of the module.
var root, _ = filepath.Abs(filepath.Join("..", ".."))

// watched are the methods before which there is a delay.
var watched = []string{"Lock", "RLock", "TryLock", "Unlock", "RUnlock", "Load", "Store", "Swap", "CompareAndSwap", "Add", "And", "Or", "Wait", "Broadcast", "Signal"}

// delayed returns the source of a file with the calls, and the number of calls.
func delayed(name string, source []byte) ([]byte, int, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	var at []token.Pos // of the statements before which there is a call
	block := func(list []ast.Stmt) {
		for _, s := range list {
			if mayMeet(s) {
				at = append(at, s.Pos())
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			block(n.List)
		case *ast.CaseClause:
			block(n.Body)
		case *ast.CommClause:
			block(n.Body)
		case *ast.GoStmt:
			if f, ok := n.Call.Fun.(*ast.FuncLit); ok && len(f.Body.List) > 0 {
				at = append(at, f.Body.List[0].Pos())
			}
		}
		return true
	})
	if len(at) == 0 {
		return source, 0, nil
	}
	slices.Sort(at)
	at = slices.Compact(at)
	var out bytes.Buffer
	end := 0
	piece := func(pos token.Pos, insert string) {
		o := fset.Position(pos).Offset
		out.Write(source[end:o])
		out.WriteString(insert)
		end = o
	}
	piece(file.Name.End(), "; import jitter \""+self+"\"")
	for _, pos := range at {
		piece(pos, "jitter.Here(); ")
	}
	out.Write(source[end:])
	if _, err := format.Source(out.Bytes()); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return out.Bytes(), len(at), nil
}

// mayMeet reports whether the statement, but for blocks within it, does something that other
// goroutines may see or wait for. A label stays before its loop, and a deferred call acts later.
func mayMeet(s ast.Stmt) (found bool) {
	switch s.(type) {
	case *ast.SendStmt, *ast.SelectStmt:
		return true
	case *ast.LabeledStmt, *ast.DeferStmt, *ast.DeclStmt, *ast.CaseClause, *ast.CommClause:
		return false
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(watched, f.Sel.Name) {
				found = true
			}
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "close" {
				found = true
			}
		}
		return !found
	})
	return found
}

// overlay makes copies of all files of the module but tests and this package, and returns the name
// of the list that go takes.
func overlay(t *testing.T) string {
	t.Helper()
	dir, replaced, total := t.TempDir(), map[string]string{}, 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if skipped := []string{".git", "testdata", "bench", filepath.Join("internal", "jitter"), filepath.Join("internal", "keycodec"), filepath.Join("internal", "record"), "codec"}; slices.Contains(skipped, name) || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out, n, err := delayed(path, source)
		if err != nil || n == 0 {
			return err
		}
		total += n
		copied := filepath.Join(dir, strconv.Itoa(len(replaced))+".go")
		replaced[path] = copied
		return os.WriteFile(copied, out, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	if total < 1000 {
		t.Fatalf("there are %d places for delays in %d files", total, len(replaced))
	}
	t.Logf("%d delays in %d files", total, len(replaced))
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// The calls are in their places, and the rest of the code is unchanged.
func TestDelayed(t *testing.T) {
	const source = `package p

func f() {
	go func() { g() }()
	mu.Lock()
	defer mu.Unlock()
	if n.Load() > 0 {
		<-c
		g()
	}
again:
	for {
		select {
		case c <- 1:
			close(c)
			break again
		}
	}
}
`
	const want = `package p; import jitter "github.com/copaldb/copal/internal/jitter"

func f() {
	go func() { jitter.Here(); g() }()
	jitter.Here(); mu.Lock()
	defer mu.Unlock()
	jitter.Here(); if n.Load() > 0 {
		jitter.Here(); <-c
		g()
	}
again:
	for {
		jitter.Here(); select {
		case c <- 1:
			jitter.Here(); close(c)
			break again
		}
	}
}
`
	out, n, err := delayed("p.go", []byte(source))
	if err != nil || string(out) != want || n != 6 {
		t.Errorf("%d, %v:\n%s", n, err, out)
	}
}

// TestJitter runs the short tests of packages on the copies. COPAL_JITTER says how many times.
func TestJitter(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("COPAL_JITTER"))
	if rounds < 1 {
		t.Skip("COPAL_JITTER=1 runs it")
	}
	list := overlay(t)
	for _, name := range []string{"internal/seglog", "internal/engine", "internal/compaction", "internal/follow", "internal/backup", "internal/feed", "internal/stream", "internal/cache", "internal/index", "internal/order", "internal/grace", "internal/laps", "hybridlog", "internal/serial", "internal/linear", "internal/followtest", "."} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "jitter.test")
			if out, err := run(root, nil, "go", "test", "-c", "-overlay", list, "-o", binary, "./"+name); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, processors := range []string{"1", "2", "8"} {
				for range rounds {
					out, err := run(filepath.Join(root, name), []string{"GOMAXPROCS=" + processors}, binary, "-test.short", "-test.timeout=30m")
					if err != nil {
						t.Errorf("with %s processors: %v\n%s", processors, err, out[max(0, len(out)-20_000):])
					}
				}
			}
		})
	}
}

func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
