// Command years measures large and old stores: ten million keys in little memory, values of many
// times the memory, opening after a clean end and after a kill, and the cost of compaction and
// backup. It prints one line for each figure.
//
//	go run ./years keys       10 M keys of 100 B under MaxMemory(256 MiB)
//	go run ./years overwrite  1 M keys of 100 B overwritten ten times, with compaction on
//	go run ./years values     10 GiB of values of 64 KiB, in a control group of 1 GiB
//
// Each phase is a process of its own, so that its memory is its own, and the file cache is all that
// it inherits. A phase checks every value that it reads. The sizes are flags; -help lists them.
//
// Unlike the other benchmarks these compare nothing: they are the figures of one machine, once.
// Times are of that machine and whatever else it did; memory, sizes and counts are copal's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// A scenario is a list of phases that work on one directory.
type scenario struct {
	name, what string
	run        func(ctx context.Context, s *settings) error
}

var scenarios = []scenario{
	{"keys", "10 M keys of 100 B under MaxMemory(256 MiB)", runKeys},
	{"overwrite", "1 M keys of 100 B overwritten ten times, with compaction on", runOverwrite},
	{"values", "10 GiB of values of 64 KiB, in a control group of 1 GiB", runValues},
}

// settings are the flags, which the phases get too.
type settings struct {
	Dir        string
	Keys       int
	ValueBytes int
	Total      int64 // bytes of values in the scenario values
	MaxMemory  int64
	Group      int64 // memory of the control group
	Reads      int
	Times      int
	keep       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if name := os.Getenv(phaseVariable); name != "" {
		err = bePhase(name)
	} else {
		err = run(ctx, os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "years:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	s := settings{}
	f := flag.NewFlagSet("years", flag.ContinueOnError)
	f.StringVar(&s.Dir, "dir", ".", "make the files in a fresh directory below this one")
	f.BoolVar(&s.keep, "keep", false, "leave the files there")
	f.IntVar(&s.Keys, "keys", 0, "number of keys (default: keys 10000000, overwrite 1000000)")
	f.IntVar(&s.Times, "times", 10, "overwrite: how often each key is overwritten")
	f.IntVar(&s.ValueBytes, "value", 0, "bytes of a value (default: keys 100, values 65536)")
	f.Int64Var(&s.Total, "total", 10<<30, "values: bytes of all values")
	f.Int64Var(&s.MaxMemory, "memory", 256<<20, "MaxMemory of the store")
	f.Int64Var(&s.Group, "group", 1<<30, "values: memory of the control group")
	f.IntVar(&s.Reads, "reads", 0, "random reads (default: keys 1000000, values 20000)")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: years SCENARIO [flags]")
		for _, sc := range scenarios {
			fmt.Fprintf(f.Output(), "  %-10s %s\n", sc.name, sc.what)
		}
		f.PrintDefaults()
	}
	if len(args) == 0 {
		f.Usage()
		return errors.New("which scenario?")
	}
	name, args := args[0], args[1:]
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, sc := range scenarios {
		if sc.name == name {
			return s.within(func() error { return sc.run(ctx, &s) })
		}
	}
	f.Usage()
	return fmt.Errorf("there is no scenario %q", name)
}

// within runs f with a directory that is gone afterwards.
func (s *settings) within(f func() error) (err error) {
	base, err := filepath.Abs(s.Dir)
	if err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(base, ".years-"); err != nil {
		return err
	}
	defer func() {
		if s.keep {
			fmt.Println("the files are in", s.Dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}()
	return f()
}
