// Command bench compares copal with the alternatives of a program: maps in memory, other embedded
// stores, plain files. It prints the table of ratios of internal/bench/table, with the rivals whose
// modules users of copal do not need. README.md explains the table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/copaldb/copal/bench/internal/pebbledb"
	"github.com/copaldb/copal/internal/bench/rivals"
	"github.com/copaldb/copal/internal/bench/table"
)

// others are the rivals that this module alone has.
var others = table.Rivals{
	Stores: []rivals.Engine{pebbledb.Engine},
	Maps:   []table.RivalMap{{Name: "xsync.Map", Module: "github.com/puzpuzpuz/xsync/v4", New: newXsyncMap}},
}

type xsyncMap struct {
	m *xsync.Map[string, table.Person]
}

func newXsyncMap() table.Map[table.Person] { return xsyncMap{xsync.NewMap[string, table.Person]()} }

func (x xsyncMap) Get(key string) (table.Person, bool) { return x.m.Load(key) }

func (x xsyncMap) Set(key string, p table.Person) error {
	x.m.Store(key, p)
	return nil
}

func main() {
	table.BeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flags are the flags of the command line that are no options of the table.
type flags struct {
	table.Options
	json, list bool
}

func parse(args []string, stderr io.Writer) (o flags, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	quick := false
	f.BoolVar(&o.json, "json", false, "print one JSON document instead of the table")
	f.BoolVar(&quick, "quick", false, "fewer rounds, shorter, and without the longest lines: two minutes")
	f.BoolVar(&o.list, "list", false, "print the names of the lines, and measure nothing")
	f.StringVar(&o.Run, "run", "", "measure only lines whose name matches this regular expression")
	f.StringVar(&o.Dir, "dir", ".", "make the files in a fresh directory below this one")
	f.IntVar(&o.Rounds, "rounds", 0, "rounds that count (default 9, with -quick 3)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.Rounds < 0 {
		return o, fmt.Errorf("-rounds %d: there must be one at least", o.Rounds)
	}
	if quick {
		o.Size = table.Quick
	}
	o.Rivals = others
	o.Command = "go run ."
	f.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "dir", "json": // say nothing of the figures
		case "quick":
			o.Command += " --" + f.Name
		default:
			o.Command += " --" + f.Name + " " + table.Word(f.Value.String())
		}
	})
	return o, nil
}

// run carries out a command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.list {
		names, err := table.Lines(o.Options)
		for _, name := range names {
			fmt.Fprintln(stdout, name)
		}
		return err
	}
	o.Note = func(text string) { fmt.Fprintln(stderr, text) }
	o.Progress = progressOn(stderr)
	r, err := table.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	if o.json {
		return r.WriteJSON(stdout)
	}
	return r.WriteText(stdout)
}

// progressOn writes each line with the time that it takes.
func progressOn(w io.Writer) func(table.Step) {
	var began time.Time
	return func(s table.Step) {
		switch s.Part {
		case 0:
			began = time.Now()
			fmt.Fprintf(w, "%2d/%d %-24s ", s.At+1, s.All, s.Line)
		case 1:
			fmt.Fprintf(w, "%.1f s\n", time.Since(began).Seconds())
		}
	}
}
