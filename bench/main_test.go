package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain lets a test run be the child that the memory line wants to start.
func TestMain(m *testing.M) {
	if is, err := beChild(); is {
		exit(err)
	}
	os.Exit(m.Run())
}

// Every line runs, finds what was written, and yields each of its rows.
func TestLinesRun(t *testing.T) {
	dir := t.TempDir()
	for _, l := range allLines(tinyScale) {
		if _, err := anonymousBytes(); err != nil && strings.HasPrefix(l.name, "memory/") {
			continue // not on this system
		}
		rows, err := l.run(t.Context(), dir, tinyScale)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(rows) < len(l.rows) {
			t.Errorf("%s: %d rows of %d", l.name, len(rows), len(l.rows))
		}
		for _, r := range rows {
			if r.Line != l.name || r.Group == "" || r.Title == "" || len(r.Ours.Rounds) != 1 {
				t.Errorf("%s: %+v", l.name, r)
			}
			if r.Against != nil && !(r.Result.Median >= 0) {
				t.Errorf("%s: no ratio: %+v", l.name, r)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLineNamesAreUnique(t *testing.T) {
	for _, s := range []scale{fullScale, quickScale} {
		seen := map[string]bool{}
		for _, l := range allLines(s) {
			if seen[l.name] {
				t.Errorf("there are two lines %s", l.name)
			}
			seen[l.name] = true
		}
	}
}

func TestChoose(t *testing.T) {
	all := []line{{name: "a/1"}, {name: "a/2", full: true}, {name: "b/1"}}
	for _, c := range []struct {
		expression string
		quick      bool
		want       []string
	}{
		{"", false, []string{"a/1", "a/2", "b/1"}},
		{"", true, []string{"a/1", "b/1"}},
		{"^a/", false, []string{"a/1", "a/2"}},
		{"2|b", true, []string{"b/1"}},
	} {
		chosen, err := choose(all, c.expression, c.quick)
		var got []string
		for _, l := range chosen {
			got = append(got, l.name)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("choose(%q, %v) = %q, %v; want %q", c.expression, c.quick, got, err, c.want)
		}
	}
	for _, bad := range []string{"c", "("} {
		if _, err := choose(all, bad, false); err == nil {
			t.Errorf("choose(%q) finds something", bad)
		}
	}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"--quick", "--run=x", "--rounds", "2", "--json", "--dir", "d"}, io.Discard)
	want := options{json: true, quick: true, run: "x", rounds: 2, dir: "d"}
	if err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	if s := o.scale(); s.rounds != 2 || s.ops != quickScale.ops {
		t.Errorf("scale %+v", s)
	}
	if s := (options{}).scale(); s != fullScale {
		t.Errorf("scale %+v", s)
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
	args := []string{"--quick", "--json", "--run", "^allocs$", "--dir", dir}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatal(err)
	}
	r, err := readJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4 || r.Rows[0].Line != "allocs" || !r.Quick || r.Rounds != quickScale.rounds || r.Run != "^allocs$" || r.Machine.CPUs < 1 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(progress.String(), "allocs") {
		t.Errorf("progress: %q", progress.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunEndsWhenInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	dir := t.TempDir()
	if err := run(ctx, []string{"--quick", "--run", "^allocs$", "--dir", dir}, &out, io.Discard); err != context.Canceled && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || out.Len() > 0 {
		t.Errorf("left behind: %v, %v; printed: %q", left, err, out.String())
	}
}

func TestMemoryFileSystemWarns(t *testing.T) {
	if len(warnings("tmpfs")) != 1 || len(warnings("ext4")) != 0 || len(warnings("")) != 0 {
		t.Error("the warning is wrong")
	}
}
