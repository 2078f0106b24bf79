//go:build !image

package measuring

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/bench/rivals"
	"github.com/copaldb/copal/internal/bench/study"
	"github.com/copaldb/copal/internal/files"
)

// Study has the flags of study.
type Study struct {
	Sizes               []int
	Reps                int
	Engines, Strategies []string
	Durability          string
	Limit               time.Duration
	Own, Out            string
	Quick, Again, JSON  bool
}

// studyEngines are those that the command has with it.
var studyEngines = []rivals.Engine{rivals.Bbolt, rivals.CopalOrdered, rivals.Badger, rivals.Bunt}

// RunStudy measures, and writes the results into a directory.
func RunStudy(a *cli.App, f Study, args []string, sized bool, out *bufio.Writer) (err error) {
	o, err := studyOptions(a, f, args, sized)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.Out, 0o777); err != nil {
		return err
	}
	if o.Dir, err = files.Path(f.Out); err != nil {
		return err
	}
	defer a.CatchSignals()()
	header, unlock, err := study.Begin(a.Ctx, o, a.Note)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	path := cli.Inside(f.Out, "results.csv")
	j, err := study.OpenJournal(path, header, f.Again)
	if errors.Is(err, study.ErrOther) {
		err = fmt.Errorf("%w; --again begins anew, --out DIR puts results elsewhere", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	bar, begun := a.NewBar("", progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false)), a.Now()
	o.Progress = func(p study.Progress) {
		took := a.Now().Sub(begun)
		bar.Describe(fmt.Sprintf("%s left, %v", roughly(p.Left), p.Cell))
		bar.Show(int64(took), int64(took+p.Left))
	}
	tooLong := map[string]int{}
	o.LeftOut = func(c study.Cell, why error) {
		if errors.Is(why, study.ErrLimit) {
			tooLong[c.Size()]++
			return
		}
		bar.Clear()
		a.Note(fmt.Sprintf("left out: %v: %v", c, why))
	}
	err = study.Run(a.Ctx, o, j)
	bar.Clear()
	for _, size := range slices.Sorted(maps.Keys(tooLong)) {
		a.Note(fmt.Sprintf("left out: %d of the tables of %s: a repetition would take longer than %v (--limit)", tooLong[size], size, f.Limit))
	}
	if err != nil {
		if a.Ctx.Err() != nil && len(j.Results) > 0 {
			a.Note("the same command goes on where this was; results so far are in " + path)
		}
		return err
	}
	figures := study.Figures(j.Results)
	if err := study.WriteFiles(o.Dir, j); err != nil {
		return err
	}
	if f.JSON {
		return cli.WriteJSON(out, figures)
	}
	if err := study.WriteText(out, figures); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Charts: %s\n", cli.Inside(f.Out, "report.html"))
	return err
}

// studyOptions returns the options of the flags.
func studyOptions(a *cli.App, f Study, args []string, sized bool) (o study.Options, err error) {
	o = study.Options{Sizes: f.Sizes, Reps: f.Reps, Strategies: f.Strategies, Limit: f.Limit}
	for _, n := range f.Sizes {
		if n < 2 {
			return o, cli.UsageError(fmt.Sprintf("--sizes %d: a table has two records at least", n))
		}
	}
	if f.Reps < 1 {
		return o, cli.UsageError(fmt.Sprintf("--reps %d: there is one at least", f.Reps))
	}
	for _, name := range f.Engines {
		found := false
		for _, e := range studyEngines {
			if e.Name == name {
				o.Engines, found = append(o.Engines, e), true
			}
		}
		if !found {
			return o, cli.UsageError(fmt.Sprintf("--engines: there is no engine %q", name))
		}
	}
	switch f.Durability {
	case "both":
		o.Durable = []bool{false, true}
	case "none":
		o.Durable = []bool{false}
	case "synced":
		o.Durable = []bool{true}
	default:
		return o, cli.UsageError("--durability takes none, synced or both")
	}
	if err := o.Check(); err != nil {
		return o, cli.UsageError("--strategies: " + err.Error())
	}
	if f.Own == "" {
		if len(args) > 0 {
			return o, cli.UsageError("a MAP is one of the store that --own names")
		}
		return o, nil
	}
	if cli.IsServer(f.Own) {
		return o, cli.UsageError("--own takes a FILE or a directory, and " + cli.Redacted(f.Own) + " is a server; copal export writes its entries to a file")
	}
	if o.Own, err = ownRecords(a, f.Own, args); err != nil {
		return o, err
	}
	if !sized { // records are not repeated, unless a size asks for it
		o.Sizes = nil
		for _, n := range append(f.Sizes, o.Own.Len()) {
			if n <= o.Own.Len() && n > 1 && !slices.Contains(o.Sizes, n) {
				o.Sizes = append(o.Sizes, n)
			}
		}
	}
	return o, nil
}

// ownRecords returns the records of a file of lines, or of a map.
func ownRecords(a *cli.App, from string, args []string) (*study.Own, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if len(args) == 0 {
			return nil, cli.UsageError("of which map of " + from + "? It comes behind: --own " + from + " MAP")
		}
		return ownMap(a, from, args[0])
	}
	if len(args) > 0 {
		return nil, cli.UsageError(from + " is a file, and has no maps")
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

func ownMap(a *cli.App, dir, name string) (own *study.Own, err error) {
	collections := 0
	a.Collection = func(*copal.CollectionError) { collections++ }
	defer func() {
		if collections > 0 {
			a.Note(fmt.Sprintf("left out: %d hashes, lists and sets of %s", collections, name))
		}
	}()
	err = a.View(dir, func(db *copal.DB) error {
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

// roughly returns a duration in words.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
