package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal"
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

// The first signal ends the context, and the process goes on.
func TestSignalsEndTheContext(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can send a signal to itself")
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		a := newApp(nil, io.Discard, io.Discard)
		release := a.catchSignals()
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := self.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-a.ctx.Done()
		if release(); a.ctx.Err() != nil {
			t.Errorf("%v: the context of before has ended, too", signal)
		}
	}
}

// An interrupted command says so, and what it has not reached is as it was.
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
		a := newApp(nil, &out, &errs)
		a.ctx = ctx
		if code := a.run(args); code != exitError || errs.String() != "copal: interrupted\n" {
			t.Errorf("%q: exit code %d, %q", args, code, errs.String())
		}
	}
	var out bytes.Buffer
	if newApp(nil, &out, io.Discard).run([]string{"count", dir}); out.String() != "100\n" {
		t.Errorf("afterwards there are %q entries", out.String())
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("bench leaves %v, %v", left, err)
	}
	if left, err := os.ReadDir(results); err != nil || len(left) != 1 || left[0].Name() != "results.csv" {
		t.Errorf("study leaves %v, %v", left, err)
	}
}

// A read that nothing can end does not keep a command from ending.
func TestInputEndsWithTheContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	a := newApp(r, io.Discard, io.Discard)
	a.ctx = ctx
	in := a.input()
	go w.Write([]byte("abc"))
	p := make([]byte, 2)
	for _, want := range []string{"ab", "c"} {
		n, err := in.Read(p)
		if err != nil || string(p[:n]) != want {
			t.Errorf("%q, %v", p[:n], err)
		}
	}
	cancel()
	if n, err := in.Read(p); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}

func TestInputIsAllOfStandardInput(t *testing.T) {
	want := strings.Repeat("0123456789", 20_000)
	got, err := io.ReadAll(newApp(strings.NewReader(want), nil, nil).input())
	if err != nil || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}
