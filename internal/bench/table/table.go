package table

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A line is one experiment: sides that run in turn, and the rows of the table that come of
// it. Its setup is not timed.
type line struct {
	name  string // for --run
	group string // the heading of its rows
	full  bool   // too long for --quick
	once  bool   // yields the same in every round
	cold  bool   // needs no round to warm up
	rows  []versus
	setup func(e *env) ([]side, error)
}

// versus is a row before it is measured: one side against the best of others.
type versus struct {
	title       string
	ours        string
	theirs      []string // the one with the least median carries the goal, the others are information
	info        []string // information in any case
	metric      metric
	theirMetric metric // when it is another
	own         bool   // the others are copal, too
	goal        goal
}

// goal is the goal of a row. The zero goal is only information: our figure over theirs.
type goal struct {
	sense sense
	reach *float64
	dream *float64
}

// sense is the figure that is compared with the goal.
type sense string

const (
	less  sense = ""      // ours over theirs, at most so much: time, or size
	more  sense = "speed" // theirs over ours, at least so much: how many times faster
	value sense = "value" // ours alone, at most so much
)

func atMost(reach float64) goal    { return goal{sense: less, reach: &reach} }
func atLeast(reach float64) goal   { return goal{sense: more, reach: &reach} }
func valueUpTo(reach float64) goal { return goal{sense: value, reach: &reach} }

func (g goal) dreaming(of float64) goal {
	g.dream = &of
	return g
}

// holds reports whether x satisfies the bound.
func (g goal) holds(x, bound float64) bool {
	if g.sense == more {
		return x >= bound
	}
	return x <= bound
}

// figure is the result of one side.
type figure struct {
	Side   string    `json:"side"`
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

// verdict is the outcome of a goal.
type verdict string

const (
	none   verdict = "" // there was no goal
	met    verdict = "met"
	missed verdict = "missed"
)

// Row is a row of the table, measured.
type Row struct {
	Line    string   `json:"line"`
	Group   string   `json:"group"`
	Title   string   `json:"title"`
	Metric  string   `json:"metric"`
	Unit    unit     `json:"unit"`
	Ours    figure   `json:"ours"`
	Against *figure  `json:"against,omitempty"`
	Own     bool     `json:"own,omitempty"`   // the other is copal, too
	Sense   sense    `json:"sense,omitempty"` // "": Compared is ours over theirs; "speed": theirs over ours; "value": ours
	Result  spread   `json:"result"`
	Reach   *float64 `json:"reach,omitempty"`
	Dream   *float64 `json:"dream,omitempty"`
	Verdict verdict  `json:"verdict,omitempty"`
	Dreamt  bool     `json:"dreamt,omitempty"` // the dream is met as well
	Close   bool     `json:"close,omitempty"`  // some rounds say otherwise than the median

	repeats bool // our figure is the same as in the row before
}

// judge makes the rows of a line from the measured figures.
func (l line) judge(s series) ([]Row, error) {
	var rows []Row
	for _, v := range l.rows {
		made, err := v.judge(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		for i := range made {
			made[i].Line, made[i].Group = l.name, l.group
		}
		rows = append(rows, made...)
	}
	return rows, nil
}

func (v versus) judge(s series) ([]Row, error) {
	if v.theirMetric == (metric{}) {
		v.theirMetric = v.metric
	}
	ours, err := s.figure(v.ours, v.metric)
	if err != nil {
		return nil, err
	}
	if v.goal.sense == value || len(v.theirs)+len(v.info) == 0 {
		v.goal.sense = value
		return []Row{v.row(ours, nil, v.goal)}, nil
	}
	var rivals []figure
	for _, name := range slices.Concat(v.theirs, v.info) {
		f, err := s.figure(name, v.theirMetric)
		if err != nil {
			return nil, err
		}
		rivals = append(rivals, f)
	}
	best := 0
	for i := range v.theirs {
		if rivals[i].Median < rivals[best].Median {
			best = i
		}
	}
	rivals[0], rivals[best] = rivals[best], rivals[0]
	var rows []Row
	for i := range rivals {
		g := v.goal
		if i > 0 {
			g.reach, g.dream = nil, nil
		}
		rows = append(rows, v.row(ours, &rivals[i], g))
	}
	return rows, nil
}

func (s series) figure(side string, m metric) (figure, error) {
	rounds := s[side][m]
	if len(rounds) == 0 {
		return figure{}, fmt.Errorf("%s yields no %s", side, m.name)
	}
	return figure{Side: side, Median: median(rounds), Rounds: rounds}, nil
}

func (v versus) row(ours figure, theirs *figure, g goal) Row {
	compared := ours.Rounds
	switch {
	case g.sense == more:
		compared = ratios(theirs.Rounds, ours.Rounds)
	case g.sense == less:
		compared = ratios(ours.Rounds, theirs.Rounds)
	}
	r := Row{
		Title: v.title, Metric: v.metric.name, Unit: v.metric.unit,
		Ours: ours, Against: theirs, Own: v.own, Sense: g.sense, Result: spreadOf(compared), Reach: g.reach, Dream: g.dream,
	}
	r.Verdict, r.Dreamt, r.Close = g.judge(r.Result)
	return r
}

// judge holds a result against the goal.
func (g goal) judge(s spread) (v verdict, dreamt, close bool) {
	dreamt = g.dream != nil && g.holds(s.Median, *g.dream)
	if g.reach == nil {
		return none, dreamt, false
	}
	v = missed
	if g.holds(s.Median, *g.reach) {
		v = met
	}
	close = g.holds(s.Min, *g.reach) != g.holds(s.Max, *g.reach)
	return v, dreamt, close
}

// env is the environment of a line's setup: a directory, and a list of functions that undo it.
type env struct {
	ctx  context.Context
	dir  string // empty and of this line alone
	undo []func() error
}

// path names a file or directory of the line.
func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

// after has f called when the line is done, in the reverse order of the calls.
func (e *env) after(f func() error) { e.undo = append(e.undo, f) }

func (e *env) close() error {
	var errs []error
	for _, f := range slices.Backward(e.undo) {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// run measures a line, in a directory of its own below dir.
func (l line) run(ctx context.Context, dir string, p pace) (rows []Row, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", l.name, err)
		}
	}()
	own, err := os.MkdirTemp(dir, "line-")
	if err != nil {
		return nil, err
	}
	e := &env{ctx: ctx, dir: own}
	defer func() { err = errors.Join(err, e.close()) }()
	sides, err := l.setup(e)
	if err != nil {
		return nil, err
	}
	if l.cold || l.once {
		p.warmUp = 0
	}
	if l.once {
		p.least, p.most = 1, 1
	}
	figures, err := compete(ctx, sides, p)
	if err != nil {
		return nil, err
	}
	return l.judge(figures)
}
