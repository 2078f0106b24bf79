package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestKilledAndRunAgain kills commands that make stores when they have written so many bytes. The
// remains are never called damaged, and the same command again makes the whole store. COPAL_LONG
// kills five hundred, not twenty.
func TestKilledAndRunAgain(t *testing.T) {
	rounds := 5 // of each command
	if os.Getenv("COPAL_LONG") == "1" {
		rounds = 125
	}
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	db, err := copal.Open(path("source"))
	if err == nil {
		err = errors.Join(fillStore(db, 10_000), db.Close())
	}
	if err == nil {
		err = os.CopyFS(path("damaged"), os.DirFS(path("source")))
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path("damaged/00000001.log"))
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(path("damaged/00000001.log"), b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out, wrong bytes.Buffer
		if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), args); code != want {
			t.Fatalf("copal %s ends with %d: %s", strings.Join(args, " "), code, wrong.String())
		}
		return out.String() + wrong.String()
	}
	run(0, "export", path("source"), path("dump.ndjson"))
	run(0, "repair", path("damaged"), path("mended"))
	run(0, "backup", path("source"), path("backup"))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	killed, unfinished := 0, 0
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"restore", "source", []string{"restore", path("new"), path("backup")}},
		{"backup", "source", []string{"backup", path("source"), path("new")}},
		{"import", "source", []string{"import", path("new"), path("dump.ndjson")}},
		{"repair in place", "mended", []string{"repair", path("new"), "--yes"}},
	} {
		for n := range rounds {
			where := fmt.Sprintf("%s %d", c.name, n)
			if c.name == "repair in place" {
				if err := os.CopyFS(path("new"), os.DirFS(path("damaged"))); err != nil {
					t.Fatal(err)
				}
			}
			if killAt(t, base, c.args, rng.Int64N(int64(len(b))*11/10)) {
				killed++
			}
			var out, wrong bytes.Buffer
			code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), []string{"check", path("new")})
			says := out.String() + wrong.String()
			switch {
			case strings.Contains(says, "is unfinished"):
				if unfinished++; strings.Contains(says, "corrupt") || strings.Contains(says, "copal repair") {
					t.Fatalf("%s: it is said to be %s", where, says)
				}
			case code == cli.ExitCorrupt && c.name != "repair in place":
				t.Fatalf("%s: it is said to be %s", where, says)
			}
			if code != cli.ExitOK || c.name != "repair in place" {
				if c.name == "restore" && code == cli.ExitOK {
					os.RemoveAll(path("new")) // it was through
				}
				run(0, c.args...)
			}
			run(0, "check", path("new"))
			if got := run(0, "diff", path(c.want), path("new")); strings.Contains(got, "key-") {
				t.Fatalf("%s: it differs: %.300s", where, got)
			}
			names, err := filepath.Glob(path("new*"))
			if want := map[bool]int{true: 2, false: 1}[c.name == "repair in place"]; err != nil || len(names) != want {
				t.Fatalf("%s: there is %q", where, names)
			}
			if _, err := os.Stat(path("new/UNFINISHED")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s: it is unfinished in the end, %v", where, err)
			}
			for _, name := range names {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("%d were killed, and %d stores were unfinished", killed, unfinished)
	if killed < rounds || unfinished == 0 {
		t.Errorf("%d were killed, and %d stores were unfinished", killed, unfinished)
	}
}

// killAt kills a command when new stores have so many bytes more than before, and reports whether
// it was running.
func killAt(t *testing.T, base string, args []string, bytes int64) bool {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := sizeOfNew(base)
	cmd := &exec.Cmd{Path: program, Args: append([]string{"copal"}, args...), Env: os.Environ()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return err != nil
		default:
		}
		if sizeOfNew(base)-before >= bytes {
			cmd.Process.Kill()
			return <-ended != nil
		}
		runtime.Gosched()
	}
}

// sizeOfNew counts an empty directory as nothing, and a file as a byte more than it has.
func sizeOfNew(base string) (n int64) {
	files, _ := filepath.Glob(filepath.Join(base, "new*", "*"))
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && filepath.Base(name) != "RING" {
			n += info.Size() + 1
		}
	}
	return n
}

// TestUnfinishedImport: a store that has a part of an import opens, and each command says so, until
// the same import has ended.
func TestUnfinishedImport(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run := func(want int, args ...string) string {
		t.Helper()
		var out, wrong bytes.Buffer
		if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), args); code != want {
			t.Errorf("copal %s ends with %d: %s", strings.Join(args, " "), code, wrong.String())
		}
		return wrong.String()
	}
	lines := strings.Repeat(`{"key":"a","value":1}`+"\n", 3)
	for name, text := range map[string]string{"bad.jsonl": lines + "none\n" + lines, "other.jsonl": lines} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run(cli.ExitError, "import", "new.db", "bad.jsonl")
	for _, args := range [][]string{{"get", "new.db", "a"}, {"stat", "new.db"}, {"ls", "new.db"}, {"check", "new.db"}, {"set", "new.db", "b", "1"}} {
		if says := run(cli.ExitOK, args...); !strings.Contains(says, "is unfinished: its import of "+filepath.Join(dir, "bad.jsonl")) {
			t.Errorf("copal %s says %q", strings.Join(args, " "), says)
		}
	}
	run(cli.ExitOK, "import", "new.db", "other.jsonl")
	if says := run(cli.ExitOK, "stat", "new.db"); !strings.Contains(says, "is unfinished") {
		t.Errorf("after another import: %q", says)
	}
	if says := run(cli.ExitOK, "import", "new.db", "bad.jsonl", "--skip-bad"); strings.Contains(says, "is unfinished") {
		t.Errorf("the same import says %q", says)
	}
	if says := run(cli.ExitOK, "stat", "new.db"); strings.Contains(says, "is unfinished") {
		t.Errorf("afterwards: %q", says)
	}
}

// TestSwappedRestoreIsRunAgain: where the arguments of a restore are the wrong way round, and it
// was killed, the same command ends it.
func TestSwappedRestoreIsRunAgain(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	run := func(want int, args ...string) {
		t.Helper()
		var out, wrong bytes.Buffer
		if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), args); code != want {
			t.Errorf("copal %s ends with %d: %s", strings.Join(args, " "), code, wrong.String())
		}
	}
	run(cli.ExitOK, "set", "db", "k", "v")
	run(cli.ExitOK, "backup", "db", "copy")
	run(cli.ExitError, "restore", "copy", "db") // both exist
	if err := os.Mkdir("made", 0o777); err != nil {
		t.Fatal(err)
	}
	whole, err := files.Path("copy")
	if err == nil {
		err = seglog.NoteUnfinished(vfs.OS(), filepath.Join(dir, "made"), seglog.Unfinished{Work: seglog.RestoreWork, Source: whole})
	}
	if err != nil {
		t.Fatal(err)
	}
	run(cli.ExitError, "restore", "db", "made") // of another source
	run(cli.ExitOK, "restore", "copy", "made")
	run(cli.ExitOK, "get", "made", "k")
}
