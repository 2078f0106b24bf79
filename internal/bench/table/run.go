package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// Size is the amount of work of each line.
type Size int

const (
	Full  Size = iota // plan for 40 minutes
	Quick             // a second or two a line, without the longest ones
	Tiny              // for tests, which check that lines run and not their figures
)

var scales = map[Size]scale{Full: fullScale, Quick: quickScale, Tiny: tinyScale}

// Options are the settings of a run.
type Options struct {
	Size   Size
	Run    string // a regular expression that the names of lines match
	Rounds int    // of each line; 0 for as many as the size has
	// Budget is the time for all lines together. Each line has as many rounds as its share allows,
	// from three up to those of Full. 0, or a number of rounds, is no limit.
	Budget  time.Duration
	Dir     string // files are made in a fresh directory below this one
	Rivals  Rivals
	Servers bool // lines of servers on loopback as well

	Command  string            // the command line in the report; may be empty
	Note     func(text string) // called with messages for the user; may be nil
	Progress func(Step)        // is called when a line begins, as it goes on, and when it has ended; may be nil
}

// Word returns a word of Options.Command, in quotes if a shell needs them.
func Word(text string) string {
	if strings.ContainsAny(text, "^$|()[]{}*?&;<>\\\"' ") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// leastRounds is how many a line has in spite of a budget.
const leastRounds = 3

// Step is the progress of a run.
type Step struct {
	Line    string
	At, All int     // its place among the lines, from 0 on, and their number
	Part    float64 // of the line that is done: 0 where it begins, 1 where it has ended
}

func (o *Options) setting() setting {
	s := setting{scales[o.Size], o.Rivals}
	switch {
	case o.Rounds > 0:
		s.rounds = o.Rounds
	case o.Budget > 0: // ends them
		s.rounds = fullScale.rounds
	}
	return s
}

// lines returns the lines that the options choose: by name, or without a name those that the size
// has time for.
func (o *Options) lines() ([]line, error) {
	s := o.setting()
	lines := allLines(s)
	if o.Servers {
		lines = slices.Concat(lines, redisLines(s), httpLines(s))
	}
	return choose(lines, o.Run, o.Size == Quick)
}

// Lines returns the names of the lines that Run would measure.
func Lines(o Options) (names []string, err error) {
	lines, err := o.lines()
	for _, l := range lines {
		names = append(names, l.name)
	}
	return names, err
}

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
		return nil, fmt.Errorf("no line matches %q; the names begin with %s", expression, strings.Join(families(lines), ", "))
	}
	return chosen, nil
}

// families returns the first parts of the names of lines.
func families(lines []line) (list []string) {
	for _, l := range lines {
		family, _, _ := strings.Cut(l.name, "/")
		if !slices.Contains(list, family) {
			list = append(list, family)
		}
	}
	return list
}

// Run measures the chosen lines while no other run goes on. Its files are in a directory that it
// always removes at the end. A line ends early with ctx.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	lines, err := o.lines()
	if err != nil {
		return nil, err
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	unlock, err := lock(ctx, o.Note)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	base, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, ".copal-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = &Report{Machine: describeMachine(dir, o.Rivals.modules()), Command: o.Command, Quick: o.Size == Quick, Rounds: o.setting().rounds, Run: o.Run}
	r.Warnings = warnings(r.Machine.FileSystem)
	switch {
	case o.Servers && redisProgram == "":
		r.Warnings = append(r.Warnings, "redis-server is not on the PATH, so nothing stands beside copal by the protocol of Redis")
	case o.Servers:
		r.Machine.Rivals["redis-server"] = redisVersion()
	}
	for _, w := range r.Warnings {
		o.Note(w)
	}
	r.Rows, err = o.measure(ctx, lines, dir)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// measure gives each line an equal share of the time that is left.
func (o *Options) measure(ctx context.Context, lines []line, dir string) (all []Row, err error) {
	rounds := o.setting().rounds
	end := time.Now().Add(o.Budget)
	for i, l := range lines {
		told := func(part float64) { o.Progress(Step{l.name, i, len(lines), part}) }
		p := pace{warmUp: 1, least: rounds, most: rounds, told: told}
		if o.Budget > 0 && o.Rounds == 0 {
			began, share := time.Now(), max(time.Until(end)/time.Duration(len(lines)-i), 1)
			p.least, p.until = min(leastRounds, rounds), began.Add(share)
			p.told = func(part float64) { // the time ends most lines, and not the number of rounds
				told(max(part, min(float64(time.Since(began))/float64(share), 0.99)))
			}
		}
		told(0)
		rows, err := l.run(ctx, dir, p)
		if ctx.Err() != nil {
			return nil, ctx.Err() // also if the line has ended with rows or another error
		}
		if err != nil {
			return nil, err
		}
		told(1)
		all = append(all, rows...)
	}
	return all, nil
}

// warnings are of a file system on which the durable lines mean nothing.
func warnings(fileSystem string) []string {
	if fileSystem == "tmpfs" || fileSystem == "ramfs" {
		return []string{fileSystem + " keeps files in memory: the durable figures mean nothing; choose a disk with --dir"}
	}
	return nil
}

// modules returns the module paths of the measured engines.
func (r *Rivals) modules() (paths []string) {
	for _, e := range append([]rivals.Engine{rivals.Bbolt, rivals.Badger, rivals.Bunt}, r.Stores...) {
		paths = append(paths, e.Module)
	}
	for _, m := range r.Maps {
		paths = append(paths, m.Module)
	}
	return paths
}
