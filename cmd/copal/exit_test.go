package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
)

func TestExitCodeOfEveryError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("any"), exitError},
		{copal.ErrVersion, exitError},
		{usageError{"any"}, exitUsage},
		{copal.ErrNotFound, exitNotFound},
		{copal.ErrLocked, exitLocked},
		{copal.ErrCorrupt, exitCorrupt},
		{&copal.CorruptError{}, exitCorrupt},
		{corruptStore{"db", 1}, exitCorrupt},
	} {
		if got := exitCode(fmt.Errorf("wrapped: %w", c.err)); c.err != nil && got != c.want {
			t.Errorf("%v wrapped: %d, want %d", c.err, got, c.want)
		}
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// A second Open of a store fails with an error that has an exit code of its own.
func TestLockedStoreHasItsExitCode(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = copal.Open(dir)
	if got := exitCode(err); got != exitLocked {
		t.Errorf("%v: %d, want %d", err, got, exitLocked)
	}
}

func TestMessageHasOnePrefix(t *testing.T) {
	err := errors.Join(errors.New("copal: one"), errors.New("copal: two"))
	if got := message(err); got != "one; two" {
		t.Errorf("%q", got)
	}
	if got := message(fmt.Errorf("key a: %w", errors.New("copal: one"))); got != "key a: one" {
		t.Errorf("%q", got)
	}
}

// damager damages the last record of a store's log when output begins.
type damager struct {
	bytes.Buffer
	dir  string
	done error
	once bool
}

func (d *damager) Write(p []byte) (int, error) {
	if !d.once {
		d.once = true
		d.done = flipLastRecord(d.dir)
	}
	return d.Buffer.Write(p)
}

func flipLastRecord(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	file := logs[len(logs)-1]
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b[len(b)-10] ^= 1
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b[len(b)-10:], int64(len(b)-10))
	return errors.Join(err, f.Close())
}

// An error that no call returns, met in the midst of a listing, is printed and
// makes the exit code tell of it; the rest is listed.
func TestErrorsOfTheHandlerChangeTheExitCode(t *testing.T) {
	dir := t.TempDir()
	db, err := copal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000 // more than the buffer of the output holds
	if err := errors.Join(fillStore(db, n), db.Close()); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := &damager{dir: dir}, &bytes.Buffer{}
	code := newApp(strings.NewReader(""), stdout, stderr).run([]string{"ls", "--long", dir})
	if stdout.done != nil {
		t.Fatal(stdout.done)
	}
	if code != exitCorrupt {
		t.Errorf("exit code %d, want %d", code, exitCorrupt)
	}
	if got := strings.Count(stdout.String(), "\n"); got != n-1 {
		t.Errorf("%d lines, want %d", got, n-1)
	}
	if got := stderr.String(); !strings.HasPrefix(got, "copal: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "corrupt") {
		t.Errorf("standard error: %q", got)
	}
}
