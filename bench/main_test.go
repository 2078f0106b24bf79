package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/bench/table"
)

// TestMain lets a test run be the child that the memory line wants to start.
func TestMain(m *testing.M) {
	table.BeChild()
	os.Exit(m.Run())
}

// The rivals of this module take part.
func TestOthersAreMeasured(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // a lock of its own
	r, err := table.Run(t.Context(), table.Options{Size: table.Tiny, Dir: t.TempDir(), Rivals: others, Run: "^(get/hit|raw-view/128B|durable|latency)"})
	if err != nil {
		t.Fatal(err)
	}
	var sides strings.Builder
	for _, row := range r.Rows {
		if row.Against != nil {
			sides.WriteString(row.Against.Side + "\n")
		}
	}
	for _, want := range []string{"xsync.Map\n", "pebble\n", "pebble, lent\n", "pebble Sync\n"} {
		if !strings.Contains(sides.String(), want) {
			t.Errorf("%s does not take part", want)
		}
	}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"--quick", "--run=x", "--rounds", "2", "--json", "--dir", "d"}, io.Discard)
	if err != nil || !o.json || o.list || o.Size != table.Quick || o.Run != "x" || o.Rounds != 2 || o.Dir != "d" || o.Command != "go run . --quick --rounds 2 --run x" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"--rounds", "-1"}, {"extra"}, {"--nothing"}} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("parse(%q) succeeds", bad)
		}
	}
}

func TestRunPrintsNamesOnly(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--list", "--run", "^set/binary"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "set/binary/100k/1\nset/binary/100k/150\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunPrintsReport(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // a lock of its own
	var out, progress bytes.Buffer
	dir := t.TempDir()
	if err := run(t.Context(), []string{"--quick", "--json", "--run", "^allocs$", "--dir", dir}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	r, err := table.ReadJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4 || r.Rows[0].Line != "allocs" || !r.Quick || r.Run != "^allocs$" {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(progress.String(), "allocs") {
		t.Errorf("progress: %q", progress.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
