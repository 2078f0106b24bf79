// Command load is the usual load suite for embedded stores: collections of records of 1.2 KB,
// openings by the thousand, blobs of 2 to 5 MB, and mixes of reads and writes by many goroutines.
// It measures copal beside bbolt, badger, pebble and buntdb, and prints a table for each topic.
//
//	go run ./load                        # everything: half an hour
//	go run ./load -quick                 # a tenth of the sizes, one round; noisier
//	go run ./load -run '^collections'    # some lines
//	go run ./load -json load.json        # also write every figure to a file
//
// Each phase is a process of its own, so its memory is its own. The sides take turns: in each round
// every side does the same work on a fresh store, and another side begins. A phase checks the
// values that it reads, and a wrong one ends the run.
//
// Durability is equal on all sides of a table. A store that is not synced does one sync at the end,
// inside the clock.
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
	"strings"
	"time"

	"github.com/copaldb/copal/internal/bench/table"
)

func main() {
	if text := os.Getenv(phaseVariable); text != "" {
		exit(bePhase(text, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options are the flags.
type options struct {
	rounds         int
	quick          bool
	run, json, dir string
}

// run carries out a command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 0, "rounds of every line (default: three, and one of the longest lines)")
	f.BoolVar(&o.quick, "quick", false, "a tenth of the sizes, one round")
	f.StringVar(&o.run, "run", "", "measure only lines whose name matches this regular expression")
	f.StringVar(&o.json, "json", "", "write the figures of every round to this file, too")
	f.StringVar(&o.dir, "dir", ".", "make the stores in a fresh directory below this one")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.rounds < 0 {
		return fmt.Errorf("bad arguments %q: there are flags only, and one round at least", args)
	}
	lines, err := o.lines()
	if err != nil {
		return err
	}
	base, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(base, ".load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var modules []string
	for _, side := range others {
		modules = append(modules, engines[side].Module)
	}
	m, unlock, err := table.Begin(ctx, dir, modules, func(text string) { fmt.Fprintln(stderr, text) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r := &report{Machine: m, Quick: o.quick, Run: o.run}
	return r.measure(ctx, dir, lines, o.json, stdout, stderr)
}

// lines returns the lines that the flags ask for, with their rounds.
func (o options) lines() (chosen []line, err error) {
	wanted, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	s := fullScale
	if o.quick {
		s = quickScale
	}
	var names []string
	for _, l := range allLines(s) {
		names = append(names, l.name)
		if o.rounds > 0 {
			l.rounds = o.rounds
		} else if o.quick {
			l.rounds = 1
		}
		if wanted.MatchString(l.name) {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no line matches %q; there are %s", o.run, strings.Join(names, ", "))
	}
	return chosen, nil
}

// measure measures the lines in turn. It prints each topic when its last line is done, and keeps
// the file of figures up to date: a run that is interrupted has not been for nothing.
func (r *report) measure(ctx context.Context, dir string, lines []line, file string, stdout, stderr io.Writer) (err error) {
	if r.Nothing, err = runPhase(ctx, &spec{Phase: "nothing"}); err != nil {
		return err
	}
	r.writeHead(stdout)
	began := time.Now()
	done := 0 // lines that are printed
	for i := range lines {
		l := &lines[i]
		fmt.Fprintf(stderr, "%2d/%d %-28s ", i+1, len(lines), l.name)
		start := time.Now()
		result, err := l.measure(ctx, dir)
		fmt.Fprintf(stderr, "%.0f s\n", time.Since(start).Seconds())
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		r.Lines = append(r.Lines, *result)
		r.Seconds = time.Since(began).Seconds()
		if err := r.save(file); err != nil {
			return err
		}
		if i+1 == len(lines) || lines[i+1].topic != l.topic {
			writeTopic(stdout, l.topic, r.Lines[done:])
			done = i + 1
		}
	}
	fmt.Fprintf(stdout, "\nThe run took %v.\n", time.Since(began).Round(time.Second))
	return nil
}
