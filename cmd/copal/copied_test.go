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

// copyHasItsOwnTime copies a store. It reports false if that was made in the tick of the clock in which the store was.
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
		code := newApp(strings.NewReader("{}\n"), &out, &errs).run(args)
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
		run(exitError, dir+" is a copy of a store that was not closed", args...)
	}
	run(exitError, "1 key: intact", "check", dir)
	run(exitError, "is a copy of a store", "check", dir)
	run(exitError, `"sound":false,"copied":true`, "check", dir, "--json")
	run(exitOK, "last writes that were acknowledged there may be missing", "check", dir, "--copied")
	run(exitOK, "v", "get", dir, "k", "--copied")
	run(exitOK, `"k"`, "--copied", "export", dir)
	run(exitOK, "the last writes that were acknowledged there may be missing", "repair", dir, dir+".mended")
	run(exitOK, "v", "get", dir+".mended", "k")
	run(exitOK, "sound", "check", dir+".mended")
	run(exitOK, "is repaired", "repair", dir, "--yes")
	run(exitOK, "sound", "check", dir)
	run(exitError, "is a copy", "get", dir+".damaged", "k")
	run(exitOK, "", "set", dir+".damaged", "k", "w", "--copied")
	run(exitOK, "w", "get", dir+".damaged", "k")
	run(exitOK, "sound", "check", dir+".damaged")
}
