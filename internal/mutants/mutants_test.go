package mutants

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// root is the root of the module.
var root, _ = filepath.Abs(filepath.Join("..", ".."))

// mutant is a bug, and the tests that must catch it: each of the catchers.
type mutant struct {
	name     string // of the patch, without its ending
	patch    string // its path
	breaks   string
	catchers []catcher
	limit    time.Duration
}

// catcher is tests of a package, one of which must catch a mutant.
type catcher struct {
	dir   string // of the package, from the root of the module
	tests []string
}

const usualLimit = 10 * time.Minute

// parse reads the header of a patch.
func parse(patch string) (m mutant, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return m, err
	}
	m = mutant{name: strings.TrimSuffix(filepath.Base(patch), ".patch"), patch: patch, limit: usualLimit}
	header, _, ok := strings.Cut(string(text), "\ndiff --git ")
	if !ok {
		return m, errors.New("it has no line that begins with diff --git")
	}
	for line := range strings.Lines(header) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch what {
		case "breaks":
			m.breaks = value
		case "caught by":
			list := strings.Fields(value)
			if len(list) < 2 {
				return m, fmt.Errorf("%q does not name a package and a test", value)
			}
			m.catchers = append(m.catchers, catcher{list[0], list[1:]})
		case "limit":
			if m.limit, err = time.ParseDuration(value); err != nil {
				return m, err
			}
		case "":
		default:
			return m, fmt.Errorf("the header has the line %q", line)
		}
	}
	if m.breaks == "" || m.catchers == nil {
		return m, errors.New("its header does not say what it breaks, or what catches it")
	}
	return m, nil
}

// all are the mutants of this directory.
func all(t *testing.T) (list []mutant) {
	t.Helper()
	patches, err := filepath.Glob("*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("there are no patches: %v", err)
	}
	for _, patch := range patches {
		path, _ := filepath.Abs(patch)
		m, err := parse(path)
		if err != nil {
			t.Errorf("%s: %v", patch, err)
			continue
		}
		list = append(list, m)
	}
	return list
}

// git runs git in dir. No variable of the caller's names another place.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // a copy is no part of a repository around it
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// needsGit skips a test where there is no git, or the module is not a work tree of its own.
func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	top, err := git(root, "rev-parse", "--show-toplevel")
	same := false
	if err == nil {
		a, errA := os.Stat(strings.TrimSpace(top))
		b, errB := os.Stat(root)
		same = errA == nil && errB == nil && os.SameFile(a, b)
	}
	if !same {
		t.Skipf("skipped: %s is no work tree of git: %s", root, top)
	}
}

// The tests that a patch names are there.
func TestMutantsNameTests(t *testing.T) {
	for _, m := range all(t) {
		for _, by := range m.catchers {
			source := testsIn(t, by.dir)
			for _, test := range by.tests {
				if !strings.Contains(source, "\nfunc "+test+"(t *testing.T)") {
					t.Errorf("%s: %s has no %s", m.name, by.dir, test)
				}
			}
		}
	}
}

// testsIn is the source of the tests of a package.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("there are no tests in %s: %v", dir, err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	return source.String()
}

// Each patch applies to the present code. When code moves, the patch must follow.
func TestMutantsApply(t *testing.T) {
	needsGit(t)
	for _, m := range all(t) {
		if out, err := git(root, "apply", "--check", m.patch); err != nil {
			t.Errorf("%s does not apply: %v\n%s", m.name, err, out)
		}
	}
}

// Each mutant is caught. COPAL_MUTANTS says how many times.
func TestMutants(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("COPAL_MUTANTS"))
	if rounds < 1 {
		t.Skip("COPAL_MUTANTS=1 runs it")
	}
	needsGit(t)
	l := &laboratory{dir: copyOfModule(t), bin: t.TempDir(), green: map[string]error{}}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutant\tcaught\tby\tseconds\tbreaks")
	for _, m := range all(t) {
		t.Run(m.name, func(t *testing.T) {
			for _, tests := range m.catchers {
				found, times, by := 0, []string{}, "nothing"
				for range rounds {
					c, err := l.try(m, tests)
					if err != nil {
						t.Errorf("%s: %v", m.breaks, err)
					}
					if times = append(times, fmt.Sprintf("%.1f", c.took.Seconds())); c.by != "" {
						found, by = found+1, c.by
					}
				}
				fmt.Fprintf(w, "%s\t%d of %d\t%s %s\t%s\t%s\n", m.name, found, rounds, tests.dir, by, strings.Join(times, " "), m.breaks)
			}
		})
	}
	w.Flush()
	t.Logf("\n%s", table.String())
}

// copyOfModule copies the present files that git tracks or does not ignore.
func copyOfModule(t *testing.T) string {
	t.Helper()
	list, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err, list)
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		from, to := filepath.Join(root, filepath.FromSlash(name)), filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is tracked, and was removed
		}
		var text []byte
		if err == nil {
			text, err = os.ReadFile(from)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o777)
		}
		if err == nil {
			err = os.WriteFile(to, text, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// laboratory is a copy of the module, into which one mutant at a time is let.
type laboratory struct {
	dir   string
	bin   string           // directory of the test binaries
	green map[string]error // by directory and tests: their result without a mutant
}

// caught says which test has failed, "" for none, and when.
type caught struct {
	by   string
	took time.Duration
}

// try applies a mutant, and runs tests that must catch it. Its error is the reason why it was not
// caught.
func (l *laboratory) try(m mutant, tests catcher) (c caught, err error) {
	name := fmt.Sprint(tests)
	if _, known := l.green[name]; !known {
		if c, err := l.run(tests, m.limit); err == nil && c.by != "" {
			l.green[name] = fmt.Errorf("%s fails without the mutant, too", c.by)
		} else {
			l.green[name] = err
		}
	}
	if err := l.green[name]; err != nil {
		return c, err
	}
	if out, err := git(l.dir, "apply", m.patch); err != nil {
		return c, fmt.Errorf("it does not apply: %w\n%s", err, out)
	}
	defer func() {
		if out, undone := git(l.dir, "apply", "-R", m.patch); undone != nil {
			err = errors.Join(err, fmt.Errorf("it cannot be taken back: %w\n%s", undone, out))
		}
	}()
	if c, err = l.run(tests, m.limit); err == nil && c.by == "" {
		err = fmt.Errorf("%s does not notice", strings.Join(tests.tests, ", "))
	}
	return c, err
}

// run builds and runs tests on the present copy.
func (l *laboratory) run(tests catcher, most time.Duration) (c caught, err error) {
	binary := filepath.Join(l.bin, "tests.exe")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, tests.dir)
	build.Dir = l.dir
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	limit, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	test := exec.CommandContext(limit, binary, "-test.v", "-test.failfast", "-test.timeout=0", "-test.run=^("+strings.Join(tests.tests, "|")+")$")
	test.Dir = filepath.Join(l.dir, filepath.FromSlash(tests.dir))
	test.WaitDelay = time.Second // children of the tests may hold the pipe
	begin := time.Now()
	out, err := test.CombinedOutput()
	c.took = time.Since(begin)
	switch {
	case limit.Err() != nil:
		return c, fmt.Errorf("%s: no result within %v", strings.Join(tests.tests, ", "), most)
	case err == nil && !strings.Contains(string(out), "\n--- PASS: "):
		return c, fmt.Errorf("%s: none of them ran\n%s", strings.Join(tests.tests, ", "), out)
	case err != nil:
		c.by = failure(string(out))
	}
	return c, nil
}

var (
	failed = regexp.MustCompile(`(?m)^( *)--- FAIL: (\S+)`)
	began  = regexp.MustCompile(`(?m)^=== RUN +(\S+)`)
)

// failure is the name of the test that an output says has failed: the innermost, or the one that ran when the
// process ended.
func failure(out string) (name string) {
	depth := -1
	for _, match := range failed.FindAllStringSubmatch(out, -1) {
		if len(match[1]) > depth {
			depth, name = len(match[1]), match[2]
		}
	}
	if all := began.FindAllStringSubmatch(out, -1); name == "" && len(all) > 0 {
		name = all[len(all)-1][1] + " (the process ended)"
	}
	return name
}

// The innermost test is the one that is named.
func TestFailureIsNamed(t *testing.T) {
	for out, want := range map[string]string{
		"=== RUN   TestA\n--- PASS: TestA (0.1s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (1.0s)\n    --- FAIL: TestB/x (1.0s)\nFAIL\n": "TestB/x",
		"=== RUN   TestA\n--- PASS: TestA (0.1s)\n=== RUN   TestB\npanic: of another goroutine\n":                                                   "TestB (the process ended)",
		"--- FAIL: TestA (0.1s)\n": "TestA",
		"PASS\n":                   "",
	} {
		if got := failure(out); got != want {
			t.Errorf("of %q: %q, want %q", out, got, want)
		}
	}
}
