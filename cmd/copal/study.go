//go:build !image

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/bench/rivals"
	"github.com/copaldb/copal/internal/bench/study"
	"github.com/copaldb/copal/internal/files"
)

const studyHelp = `Measure which encoding suits records: in one pair or a pair for each field, as JSON, gob,
CBOR or binary, in bbolt and in copal, inserted one by one and all at once.

The records are users of 15 fields, or your own: --own FILE takes lines of JSON objects,
--own DIR MAP a map of a store. Each engine and strategy is a fresh store, which is
written, read and updated, and records are compared field by field. All of it is done
--reps times, in turns.

Results go to DIR/results.csv as they are measured, and at the end to results.json, a page
report.html with charts, and the charts as SVG. A study that was interrupted goes on where
it was; --again begins anew. Sizes, engines and strategies may be added to results that are
there. A repetition that would take longer than --limit is left out, and said so.

The study of all sizes takes hours; the line of progress says how long. --quick takes less
than a minute.`

const studyExample = `  copal study --quick
  copal study --sizes 1000,100000 --reps 3
  copal study --own events.ndjson
  copal study --own app.db users`

type studyFlags struct {
	sizes               []int
	reps                int
	engines, strategies []string
	durability          string
	limit               time.Duration
	own, out            string
	quick, again, json  bool
}

// studyEngines are those that the command has with it.
var studyEngines = []rivals.Engine{rivals.Bbolt, rivals.CopalOrdered, rivals.Badger, rivals.Bunt}

var studySizes = []int{10, 100, 1_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000}

func newStudy(a *app) *cobra.Command {
	var f studyFlags
	names, _ := study.Strategies()
	cmd := &cobra.Command{
		Use:     "study [MAP]",
		Short:   "Measure which encoding suits records",
		Long:    studyHelp + "\n\nThe strategies are " + strings.Join(names, ", ") + ".",
		Example: studyExample,
		Args:    arguments(0, 1),
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.sizes, "sizes", studySizes, "numbers of records")
	flags.IntVar(&f.reps, "reps", 10, "repetitions")
	flags.StringSliceVar(&f.engines, "engines", []string{"bbolt", "copal"}, "bbolt, copal, badger, buntdb")
	flags.StringSliceVar(&f.strategies, "strategies", nil, "ways to keep a record (default all)")
	flags.StringVar(&f.durability, "durability", "both", "none, synced or both")
	flags.DurationVar(&f.limit, "limit", 2*time.Minute, "leave out what takes longer for one repetition; 0 for no limit")
	flags.StringVar(&f.own, "own", "", "study the records of a FILE of JSON lines, or of MAP in a store")
	flags.StringVar(&f.out, "out", "copal-study", "directory for results; stores are made in it, and removed")
	flags.BoolVar(&f.quick, "quick", false, "small sizes, few repetitions: less than a minute")
	flags.BoolVar(&f.again, "again", false, "begin anew, in place of results that are there")
	flags.BoolVar(&f.json, "json", false, "print the figures as JSON")
	cmd.RunE = a.runs(func(args []string, out *bufio.Writer) error {
		if f.quick {
			for flag, set := range map[string]func(){
				"sizes": func() { f.sizes = []int{100, 1_000, 5_000} },
				"reps":  func() { f.reps = 2 },
				"limit": func() { f.limit = 700 * time.Millisecond },
				"strategies": func() {
					f.strategies = []string{"binary", "names", "json", "gob", "fields", "nested", "hash", "map-binary", "map-json"}
				},
			} {
				if !flags.Changed(flag) {
					set()
				}
			}
		}
		return a.study(f, args, flags.Changed("sizes"), out)
	})
	return cmd
}

func (a *app) study(f studyFlags, args []string, sized bool, out *bufio.Writer) (err error) {
	o, err := a.studyOptions(f, args, sized)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return err
	}
	if o.Dir, err = files.Path(f.out); err != nil {
		return err
	}
	defer a.catchSignals()()
	header, unlock, err := study.Begin(a.ctx, o, a.note)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	path := inside(f.out, "results.csv")
	j, err := study.OpenJournal(path, header, f.again)
	if errors.Is(err, study.ErrOther) {
		err = fmt.Errorf("%w; --again begins anew, --out DIR puts results elsewhere", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	bar, begun := a.newBar("", progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false)), a.now()
	o.Progress = func(p study.Progress) {
		took := a.now().Sub(begun)
		bar.describe(fmt.Sprintf("%s left, %v", roughly(p.Left), p.Cell))
		bar.show(int64(took), int64(took+p.Left))
	}
	tooLong := map[string]int{}
	o.LeftOut = func(c study.Cell, why error) {
		if errors.Is(why, study.ErrLimit) {
			tooLong[c.Size()]++
			return
		}
		bar.clear()
		a.note(fmt.Sprintf("left out: %v: %v", c, why))
	}
	err = study.Run(a.ctx, o, j)
	bar.clear()
	for _, size := range slices.Sorted(maps.Keys(tooLong)) {
		a.note(fmt.Sprintf("left out: %d of the tables of %s: a repetition would take longer than %v (--limit)", tooLong[size], size, f.limit))
	}
	if err != nil {
		if a.ctx.Err() != nil && len(j.Results) > 0 {
			a.note("the same command goes on where this was; results so far are in " + path)
		}
		return err
	}
	figures := study.Figures(j.Results)
	if err := study.WriteFiles(o.Dir, j); err != nil {
		return err
	}
	if f.json {
		return writeJSON(out, figures)
	}
	if err := study.WriteText(out, figures); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Charts: %s\n", inside(f.out, "report.html"))
	return err
}

// studyOptions are what the flags say.
func (a *app) studyOptions(f studyFlags, args []string, sized bool) (o study.Options, err error) {
	o = study.Options{Sizes: f.sizes, Reps: f.reps, Strategies: f.strategies, Limit: f.limit}
	for _, n := range f.sizes {
		if n < 2 {
			return o, usageError{fmt.Sprintf("--sizes %d: a table has two records at least", n)}
		}
	}
	if f.reps < 1 {
		return o, usageError{fmt.Sprintf("--reps %d: there is one at least", f.reps)}
	}
	for _, name := range f.engines {
		found := false
		for _, e := range studyEngines {
			if e.Name == name {
				o.Engines, found = append(o.Engines, e), true
			}
		}
		if !found {
			return o, usageError{fmt.Sprintf("--engines: there is no engine %q", name)}
		}
	}
	switch f.durability {
	case "both":
		o.Durable = []bool{false, true}
	case "none":
		o.Durable = []bool{false}
	case "synced":
		o.Durable = []bool{true}
	default:
		return o, usageError{"--durability takes none, synced or both"}
	}
	if err := o.Check(); err != nil {
		return o, usageError{"--strategies: " + err.Error()}
	}
	if f.own == "" {
		if len(args) > 0 {
			return o, usageError{"a MAP is one of the store that --own names"}
		}
		return o, nil
	}
	if isServer(f.own) {
		return o, usageError{"--own takes a FILE or a directory, and " + redacted(f.own) + " is a server; copal export writes its entries to a file"}
	}
	if o.Own, err = a.ownRecords(f.own, args); err != nil {
		return o, err
	}
	if !sized { // no records are taken twice, unless a size asks for it
		o.Sizes = nil
		for _, n := range append(f.sizes, o.Own.Len()) {
			if n <= o.Own.Len() && n > 1 && !slices.Contains(o.Sizes, n) {
				o.Sizes = append(o.Sizes, n)
			}
		}
	}
	return o, nil
}

// ownRecords are those of a file of lines, or of a map.
func (a *app) ownRecords(from string, args []string) (*study.Own, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if len(args) == 0 {
			return nil, usageError{"of which map of " + from + "? It comes behind: --own " + from + " MAP"}
		}
		return a.ownMap(from, args[0])
	}
	if len(args) > 0 {
		return nil, usageError{from + " is a file, and has no maps"}
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return study.NewOwn(filepath.Base(from), lines, "")
}

func (a *app) ownMap(dir, name string) (own *study.Own, err error) {
	collections := 0
	a.collection = func(*copal.CollectionError) { collections++ }
	defer func() {
		if collections > 0 {
			a.note(fmt.Sprintf("left out: %d hashes, lists and sets of %s", collections, name))
		}
	}()
	err = a.view(dir, func(db *copal.DB) error {
		var lines [][]byte
		for _, value := range db.Raw().Prefix(copal.MapPrefix(name)) {
			lines = append(lines, value)
		}
		if len(lines) == 0 {
			return fmt.Errorf("map %s: %w", name, copal.ErrNotFound)
		}
		types, err := admin.Types(db, name)
		if err != nil {
			return err
		}
		schema := "" // raw values have none
		if len(types) > 0 {
			schema = types[0].Schema
		}
		own, err = study.NewOwn(name, lines, schema)
		return err
	})
	return own, err
}

// roughly is a duration as a person says it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
