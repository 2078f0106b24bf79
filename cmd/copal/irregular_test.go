//go:build (linux || darwin) && !image

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/vfs"
)

// TestPlacesOfAStranger: a link, a pipe, a device or a directory has the name of a file that export
// or import makes beside its own. The command ends, and follows no link.
func TestPlacesOfAStranger(t *testing.T) {
	const secret = `{"copal":"export"} of somebody else`
	kinds := map[string]func(path, victim string) error{
		"link":     func(path, victim string) error { return os.Symlink(victim, path) },
		"dangling": func(path, victim string) error { return os.Symlink(victim+".missing", path) },
		"pipe":     func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"dir":      func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"device":   func(path, _ string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
	}
	for _, c := range []struct {
		name  string
		args  string // with DIR for the directory
		fails bool   // with each kind of file at the name
	}{
		{"out.part", "export DIR/db DIR/out", true},
		{"out.part", "export DIR/db DIR/out --continue", true},
		{"out.part", "export DIR/db DIR/out --force", false},
		{"db/IMPORT", "import DIR/db DIR/in.jsonl", false},
		{"db/IMPORT", "import DIR/db DIR/in.jsonl --resume", true},
		{"db/IMPORT.tmp", "import DIR/db DIR/bad.jsonl", true},
		{"db/UNFINISHED", "import DIR/db DIR/in.jsonl", false},
		{"new/IMPORT", "import DIR/new DIR/in.jsonl", false},
		{"new/UNFINISHED", "import DIR/new DIR/in.jsonl", false},
		{"new/UNFINISHED.tmp", "import DIR/new DIR/in.jsonl", false},
	} {
		for kind, put := range kinds {
			home := t.TempDir()
			in := func(name string) string { return filepath.Join(home, name) }
			run := func(args string) (int, string) {
				var out, wrong bytes.Buffer
				code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), strings.Fields(strings.ReplaceAll(args, "DIR", home)))
				return code, out.String() + wrong.String()
			}
			if code, text := run("set DIR/db a 1"); code != 0 {
				t.Fatal(text)
			}
			for name, text := range map[string]string{"victim": secret, "in.jsonl": `{"key":"b","value":2}` + "\n", "bad.jsonl": `{"key":"b","value":2}` + "\n[]\n" + `{"key":"c","value":2}` + "\n"} {
				if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(filepath.Dir(in(c.name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := put(in(c.name), in("victim")); kind == "device" && err != nil {
				continue // only root makes devices
			} else if err != nil {
				t.Fatal(err)
			}
			if code, text := run(c.args); c.fails && code == 0 || code == cli.ExitUsage || code != 0 && strings.TrimSpace(text) == "" {
				t.Errorf("%s, %s as a %s, ends with %d: %s", c.args, c.name, kind, code, text)
			}
			if text, err := os.ReadFile(in("victim")); err != nil || string(text) != secret {
				t.Errorf("%s, %s as a %s: the linked file has %q, %v", c.args, c.name, kind, text, err)
			}
			if _, err := os.Lstat(in("victim.missing")); err == nil {
				t.Errorf("%s, %s as a %s: the file that is linked to was made", c.args, c.name, kind)
			}
		}
	}
}

// TestStreamsAreNoFiles: a format that is read in any order is not read from a device, and a page
// is written through no link.
func TestStreamsAreNoFiles(t *testing.T) {
	home := t.TempDir()
	var out, wrong bytes.Buffer
	code := carryOut(cli.NewApp(strings.NewReader(""), &out, &wrong), []string{"import", filepath.Join(home, "db"), "/dev/zero", "--from", "bbolt"})
	if code != cli.ExitUsage || !strings.Contains(wrong.String(), "cannot be read from a pipe or a device") {
		t.Errorf("it ends with %d: %s", code, wrong.String())
	}
	victim, page := filepath.Join(home, "victim"), filepath.Join(home, "page.html")
	if err := errors.Join(os.WriteFile(victim, []byte("secret"), 0o600), os.Symlink(victim, page+cli.PartSuffix)); err != nil {
		t.Fatal(err)
	}
	wrong.Reset()
	if code := carryOut(cli.NewApp(nil, &out, &wrong), []string{"bench", "--dir", home, "--html", page}); code != cli.ExitError || !strings.Contains(wrong.String(), cli.Message(vfs.ErrIrregular)) {
		t.Errorf("bench ends with %d: %s", code, wrong.String())
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "secret" {
		t.Errorf("the linked file has %q, %v", text, err)
	}
}
