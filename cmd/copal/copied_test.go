package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// copyOpenStore copies the files of a store that is open, and returns the name of the copy.
func copyOpenStore(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not say when a file was made")
	}
	home := t.TempDir()
	dir, copied := filepath.Join(home, "db"), filepath.Join(home, "copied")
	db, err := copal.Open(dir)
	if err == nil {
		err = db.Raw().Set([]byte("k"), []byte("v"))
	}
	for err == nil && !copyHasItsOwnTime(t, dir, copied) {
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return copied
}

// copyHasItsOwnTime copies a store. It reports false if that was made in the tick of the clock in
// which the store was.
func copyHasItsOwnTime(t *testing.T, dir, copied string) bool {
	t.Helper()
	if err := errors.Join(os.RemoveAll(copied), os.CopyFS(copied, os.DirFS(dir))); err != nil {
		t.Fatal(err)
	}
	_, err := admin.Check(t.Context(), copied, nil)
	if err != nil && !errors.Is(err, copal.ErrCopied) {
		t.Fatal(err)
	}
	return err != nil
}

func TestCopiedStore(t *testing.T) {
	dir := copyOpenStore(t)
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := carryOut(cli.NewApp(strings.NewReader("{}\n"), &out, &errs), args)
		if text := out.String() + errs.String(); code != want || !strings.Contains(text, says) {
			t.Errorf("%q: code %d, %s", args, code, text)
		}
	}
	for _, args := range [][]string{
		{"get", dir, "k"}, {"set", dir, "k", "w"}, {"del", dir, "k"}, {"has", dir, "k"}, {"incr", dir, "n"}, {"ttl", dir, "k"},
		{"ls", dir}, {"scan", dir}, {"range", dir, "a"}, {"count", dir}, {"log", dir}, {"diff", dir, dir}, {"export", dir},
		{"serve", dir, "--redis", "", "--http", "", "--unix", filepath.Join(t.TempDir(), "s")}, {"stat", dir}, {"schema", dir}, {"history", dir},
		{"sync", dir}, {"compact", dir}, {"backup", dir, dir + ".backup"}, {"copy", dir, dir + ".copy"}, {"watch", dir}, {"shell", dir},
	} {
		run(cli.ExitError, dir+" is a copy of a store that was not closed", args...)
	}
	run(cli.ExitError, "1 key: intact", "check", dir)
	run(cli.ExitError, "is a copy of a store", "check", dir)
	run(cli.ExitError, `"sound":false,"copied":true`, "check", dir, "--json")
	run(cli.ExitOK, "last writes that were acknowledged there may be missing", "check", dir, "--copied")
	run(cli.ExitOK, "v", "get", dir, "k", "--copied")
	run(cli.ExitOK, `"k"`, "--copied", "export", dir)
	run(cli.ExitOK, "the last writes that were acknowledged there may be missing", "repair", dir, dir+".mended")
	run(cli.ExitOK, "v", "get", dir+".mended", "k")
	run(cli.ExitOK, "sound", "check", dir+".mended")
	run(cli.ExitOK, "is repaired", "repair", dir, "--yes")
	run(cli.ExitOK, "sound", "check", dir)
	run(cli.ExitError, "is a copy", "get", dir+".damaged", "k")
	run(cli.ExitOK, "", "set", dir+".damaged", "k", "w", "--copied")
	run(cli.ExitOK, "w", "get", dir+".damaged", "k")
	run(cli.ExitOK, "sound", "check", dir+".damaged")
}
