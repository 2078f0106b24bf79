package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

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

// The error handler's errors during a listing are printed and change the exit code; the rest is
// listed.
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
	code := carryOut(cli.NewApp(strings.NewReader(""), stdout, stderr), []string{"ls", "--long", dir})
	if stdout.done != nil {
		t.Fatal(stdout.done)
	}
	if code != cli.ExitCorrupt {
		t.Errorf("exit code %d, want %d", code, cli.ExitCorrupt)
	}
	if got := strings.Count(stdout.String(), "\n"); got != n-1 {
		t.Errorf("%d lines, want %d", got, n-1)
	}
	if got := stderr.String(); !strings.HasPrefix(got, "copal: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "corrupt") {
		t.Errorf("standard error: %q", got)
	}
}
