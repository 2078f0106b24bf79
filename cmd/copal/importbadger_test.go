//go:build !image

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// TestImportOfBadger: a directory of badger is imported, and a damaged one is an error that makes
// no store.
func TestImportOfBadger(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the library cannot open read-only here")
	}
	home := t.TempDir()
	in := func(name string) string { return filepath.Join(home, name) }
	db, err := badger.Open(badger.DefaultOptions(in("old")).WithLogger(nil).WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10))
	if err == nil {
		err = db.Update(func(tx *badger.Txn) error {
			return errors.Join(tx.Set([]byte("k"), []byte(`{"n": 1}`)), tx.SetEntry(badger.NewEntry([]byte("\xff\n"), []byte{0, 0xff}).WithMeta(7)))
		})
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (code int, out, wrong string) {
		var o, w bytes.Buffer
		code = carryOut(cli.NewApp(strings.NewReader(""), &o, &w), args)
		return code, o.String(), w.String()
	}
	code, out, wrong := run("import", in("db"), in("old"))
	if code != 0 || !strings.Contains(out, "imported 2 entries from badger") || !strings.Contains(out+wrong, "1 entries have a user meta byte") {
		t.Errorf("it ends with %d: %s%s", code, out, wrong)
	}
	if _, out, _ := run("get", "--raw", in("db"), "k"); out != `{"n": 1}` {
		t.Errorf("the value is %q", out)
	}
	if err := os.Truncate(in("old/000001.sst"), 50); err != nil {
		t.Fatal(err)
	}
	code, out, wrong = run("import", in("other"), in("old"))
	if code == 0 || !strings.Contains(wrong, "damaged") || strings.Count(wrong, "\n") != 1 {
		t.Errorf("it ends with %d: %s%s", code, out, wrong)
	}
	if _, err := os.Stat(in("other")); err == nil {
		t.Error("a store was made")
	}
}
