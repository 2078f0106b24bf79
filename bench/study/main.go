// Command study is 'copal study' with pebble among its engines, which the command does without
// because it would be much larger. Results may be added to those of the command, and the other
// way round.
//
//	cd bench && go run ./study -engines pebble,badger -sizes 1000,100000 -reps 3 -out ../copal-study
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/copaldb/copal/bench/internal/pebbledb"
	"github.com/copaldb/copal/internal/bench/rivals"
	"github.com/copaldb/copal/internal/bench/study"
)

var engines = []rivals.Engine{rivals.Bbolt, rivals.CopalOrdered, rivals.Badger, rivals.Bunt, pebbledb.Engine}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "study:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("study", flag.ContinueOnError)
	named := f.String("engines", "bbolt,copal,badger,buntdb,pebble", "engines")
	sizes := f.String("sizes", "1000,10000,100000", "numbers of records")
	strategies := f.String("strategies", "", "ways to keep a record (default all)")
	reps := f.Int("reps", 3, "repetitions")
	synced := f.Bool("synced", false, "sync each transaction")
	limit := f.Duration("limit", 2*time.Minute, "leave out what takes longer for one repetition")
	out := f.String("out", "copal-study", "directory for results")
	if err := f.Parse(args); err != nil {
		return err
	}
	o := study.Options{Dir: *out, Reps: *reps, Durable: []bool{*synced}, Limit: *limit}
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			return fmt.Errorf("-sizes %s: not a number of records", text)
		}
		o.Sizes = append(o.Sizes, n)
	}
	if *strategies != "" {
		o.Strategies = strings.Split(*strategies, ",")
	}
	for name := range strings.SplitSeq(*named, ",") {
		before := len(o.Engines)
		for _, e := range engines {
			if e.Name == name {
				o.Engines = append(o.Engines, e)
			}
		}
		if len(o.Engines) == before {
			return fmt.Errorf("-engines: there is no engine %q", name)
		}
	}
	o.Progress = func(p study.Progress) {
		fmt.Fprintf(os.Stderr, "%d/%d, %v left: %v\n", p.Done+1, p.Total, p.Left.Round(time.Second), p.Cell)
	}
	o.LeftOut = func(c study.Cell, why error) { fmt.Fprintf(os.Stderr, "left out: %v: %v\n", c, why) }
	if err := os.MkdirAll(*out, 0o777); err != nil {
		return err
	}
	header, unlock, err := study.Begin(ctx, o, func(text string) { fmt.Fprintln(os.Stderr, text) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	j, err := study.OpenJournal(filepath.Join(*out, "results.csv"), header, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := study.Run(ctx, o, j); err != nil {
		return err
	}
	if err := study.WriteFiles(*out, j); err != nil {
		return err
	}
	return study.WriteText(os.Stdout, study.Figures(j.Results))
}
