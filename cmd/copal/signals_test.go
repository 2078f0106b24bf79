package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// storeOf makes a store of n entries.
func storeOf(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fillStore(db, n), db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An interrupted command says so, and leaves the rest unchanged.
func TestInterruptedCommands(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // bench has a lock there
	dir, files, results := storeOf(t, 100), t.TempDir(), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"ls", dir}, {"scan", dir}, {"count", dir, "key-0"}, {"del", dir, "--prefix", "key-", "--yes"}, {"del", dir, "--prefix", "key-", "--dry-run"},
		{"compact", dir}, {"backup", dir, dir + ".backup"}, {"restore", dir + ".new", dir}, {"repair", dir, dir + ".new"},
		{"bench", "--dir", files, "--run", "^allocs$"}, {"study", "--out", results, "--sizes", "10"},
	} {
		var out, errs bytes.Buffer
		a := cli.NewApp(nil, &out, &errs)
		a.Ctx = ctx
		if code := carryOut(a, args); code != cli.ExitError || errs.String() != "copal: interrupted\n" {
			t.Errorf("%q: exit code %d, %q", args, code, errs.String())
		}
	}
	var out bytes.Buffer
	if carryOut(cli.NewApp(nil, &out, io.Discard), []string{"count", dir}); out.String() != "100\n" {
		t.Errorf("afterwards there are %q entries", out.String())
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("bench leaves %v, %v", left, err)
	}
	if left, err := os.ReadDir(results); err != nil || len(left) != 1 || left[0].Name() != "results.csv" {
		t.Errorf("study leaves %v, %v", left, err)
	}
}
