package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// TestPathsMeanWhatTheSystemMeans: commands find a store, and the files that they read and write,
// where the system finds them, though ".." follows a symbolic link. PWD may have the link, as a
// shell leaves it, or nothing.
func TestPathsMeanWhatTheSystemMeans(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system has another meaning of ..")
	}
	for _, pwd := range []bool{true, false} {
		root := t.TempDir()
		err := errors.Join(os.MkdirAll(filepath.Join(root, "app/releases/1"), 0o777), os.Symlink("releases/1", filepath.Join(root, "app/current")))
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(filepath.Join(root, "app/current"))
		if !pwd {
			t.Setenv("PWD", "")
		}
		run := func(in string, args ...string) string {
			t.Helper()
			var out, wrong bytes.Buffer
			if code := carryOut(cli.NewApp(strings.NewReader(in), &out, &wrong), args); code != 0 {
				t.Errorf("PWD %v: copal %s ends with %d: %s", pwd, strings.Join(args, " "), code, wrong.String())
			}
			return out.String()
		}
		line := `{"key":"a","value":1}` + "\n"
		if err := os.WriteFile("../in.jsonl", []byte(line), 0o666); err != nil {
			t.Fatal(err)
		}
		run("", "import", "../data.db", "../in.jsonl")
		for range 2 { // the second time the store is found
			run("", "set", "../data.db", "b", "2")
			run("", "backup", "../data.db", "../backup.db")
		}
		run("", "restore", "../restored.db", "../backup.db")
		run("", "repair", "../data.db", "../repaired.db")
		run("", "repair", "../data.db", "--yes")
		run("", "copy", "../data.db", "../copy.db")
		run("", "export", "../data.db", "../out.ndjson")
		run("", "check", "../data.db")
		run("", "compact", "../data.db")
		run("", "incr", "../../current/../data.db", "n")
		for _, name := range []string{"data.db", "backup.db", "restored.db", "repaired.db", "copy.db", "out.ndjson"} {
			if _, err := os.Stat("../" + name); err != nil {
				t.Errorf("PWD %v: %v", pwd, err)
			}
		}
		for _, dir := range []string{"../data.db", "../backup.db", "../restored.db", "../repaired.db", "../copy.db"} {
			if got := run("", "get", dir, "b"); got != "2" {
				t.Errorf("PWD %v: %s has %q", pwd, dir, got)
			}
		}
		if made, _ := filepath.Glob(filepath.Join(root, "app", "*")); len(made) != 2 {
			t.Errorf("PWD %v: something was made elsewhere: %q", pwd, made)
		}
		var out, wrong bytes.Buffer
		if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), []string{"copy", "../data.db", "../../releases/data.db"}); code != cli.ExitUsage {
			t.Errorf("a copy of a store to itself ends with %d: %s", code, wrong.String())
		}
		if code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), []string{"backup", "../data.db", "../../current/../data.db/sub"}); code == 0 {
			t.Error("a backup within the store is made")
		}
	}
}
