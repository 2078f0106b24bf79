// Command bench compares copal with what a program could use instead: maps in memory, other
// embedded stores, plain files. It prints one table of ratios, each of things that were
// measured in turn, in one process, on one machine, and beside each ratio what copal is to
// reach. README.md says how to read it.
//
// A workload checks what it reads, and one that finds something else than was written ends the
// run; so does any error. A goal that is missed does not: the table is a report.
//
// What is not here: tests that fail when something is slow, and comparisons at unequal
// durability without a word about it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	if is, err := beChild(); is {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options are the flags.
type options struct {
	json, quick, list bool
	run, dir          string
	rounds            int
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.json, "json", false, "print one JSON document instead of the table")
	f.BoolVar(&o.quick, "quick", false, "fewer rounds, shorter, and without the longest lines: under a minute")
	f.BoolVar(&o.list, "list", false, "print the names of the lines, and measure nothing")
	f.StringVar(&o.run, "run", "", "measure only lines whose name matches this regular expression")
	f.StringVar(&o.dir, "dir", ".", "make the files in a fresh directory below this one")
	f.IntVar(&o.rounds, "rounds", 0, "rounds that count (default 9, with -quick 3)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.rounds < 0 {
		return o, fmt.Errorf("-rounds %d: there must be one at least", o.rounds)
	}
	return o, nil
}

func (o options) scale() scale {
	s := fullScale
	if o.quick {
		s = quickScale
	}
	if o.rounds > 0 {
		s.rounds = o.rounds
	}
	return s
}

// run is the program.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	lines, err := choose(allLines(o.scale()), o.run, o.quick)
	if err != nil {
		return err
	}
	if o.list {
		for _, l := range lines {
			fmt.Fprintln(stdout, l.name)
		}
		return nil
	}
	unlock, err := lock(stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := measureAll(ctx, lines, o, stderr)
	if err != nil {
		return err
	}
	if o.json {
		return r.writeJSON(stdout)
	}
	return r.writeText(stdout)
}

// choose selects lines by name, and without naming them those that quick has time for.
func choose(lines []line, expression string, quick bool) ([]line, error) {
	wanted, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	var chosen []line
	for _, l := range lines {
		if wanted.MatchString(l.name) && !(quick && l.full) {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no line matches %q; -list shows them", expression)
	}
	return chosen, nil
}

// measureAll runs the lines, in a directory that is gone afterwards.
func measureAll(ctx context.Context, lines []line, o options, progress io.Writer) (r *report, err error) {
	base, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, ".run-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := o.scale()
	r = &report{Machine: describeMachine(dir), Quick: o.quick, Rounds: s.rounds, Run: o.run}
	r.Warnings = warnings(r.Machine.FileSystem)
	for i, l := range lines {
		start := time.Now()
		fmt.Fprintf(progress, "%2d/%d %-24s ", i+1, len(lines), l.name)
		rows, err := l.run(ctx, dir, s)
		fmt.Fprintf(progress, "%.1f s\n", time.Since(start).Seconds())
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	return r, nil
}

// warnings are of a file system on which the durable lines mean nothing.
func warnings(fileSystem string) []string {
	if fileSystem == "tmpfs" || fileSystem == "ramfs" {
		return []string{fileSystem + " keeps files in memory: the durable figures mean nothing; choose a disk with -dir"}
	}
	return nil
}
