package study

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal/internal/bench/rivals"
)

// A Cell is one table at one size.
type Cell struct {
	Engine   string `json:"engine"`
	Strategy string `json:"strategy"`
	Together bool   `json:"together"` // all records are inserted in one transaction
	Durable  bool   `json:"durable"`  // every transaction is synced
	Records  int    `json:"records"`
}

func (c Cell) String() string {
	insert := "each"
	if c.Together {
		insert = "all in one"
	}
	return fmt.Sprintf("%s %s, %s, %s", c.Engine, c.Strategy, c.Size(), insert)
}

// Size returns the part of the cell that is not the table: the number of records, and whether they
// are synced.
func (c Cell) Size() string {
	sync := "not synced"
	if c.Durable {
		sync = "synced"
	}
	return count(c.Records) + " records, " + sync
}

// A Step is a measured part of a cell, in this order.
type Step string

// The steps.
const (
	Insert   Step = "insert"   // all records, each in a transaction or all in one
	Read     Step = "read"     // half of them at random, a transaction each
	ReadMany Step = "readmany" // a third of them in a row, from the middle, in one transaction
	FieldSum Step = "fieldsum" // a field of all, in one transaction
	Update   Step = "update"   // a field of half of them at random, a transaction each
)

// Steps are all of them.
var Steps = []Step{Insert, Read, ReadMany, FieldSum, Update}

// A Result is a step of one repetition of a cell. All figures are for a record.
type Result struct {
	Cell
	Repetition   int     `json:"repetition"`
	Step         Step    `json:"step"`
	Nanoseconds  float64 `json:"nanoseconds"`
	Allocations  float64 `json:"allocations"`
	AllocBytes   float64 `json:"allocBytes"`
	FileBytes    float64 `json:"fileBytes"`    // of all files once all records are inserted and the store is closed
	LogicalBytes float64 `json:"logicalBytes"` // of keys and values
}

// Options are the settings of a study.
type Options struct {
	Dir        string // the stores are made in a directory below, which is gone afterwards
	Sizes      []int
	Reps       int
	Engines    []rivals.Engine
	Strategies []string // all where it is nil
	Durable    []bool
	// Limit is how long a repetition of a cell may take. Cells that are expected to take longer are
	// left out.
	Limit    time.Duration
	Own      *Own // records of the user's own, in place of users
	Progress func(Progress)
	// LeftOut is called with a cell that is not measured, and the reason.
	LeftOut func(c Cell, why error)
}

// Progress is the progress of a study.
type Progress struct {
	Cell        Cell
	Done, Total int           // repetitions of cells
	Left        time.Duration // an estimate, from the times of smaller sizes and earlier repetitions
}

// Check says whether there is something to measure.
func (o Options) Check() error {
	_, err := (&run{Options: o}).tables()
	return err
}

// ErrLimit is why a cell is left out that would take longer than Limit.
var ErrLimit = errors.New("it would take too long")

// A LossError reports that a table does not give a record back unchanged.
type LossError struct {
	Number    uint64
	Got, Want any
}

func (e *LossError) Error() string {
	got, want := reflect.ValueOf(e.Got), reflect.ValueOf(e.Want)
	if got.Kind() == reflect.Struct && got.Type() == want.Type() {
		for i := range got.NumField() {
			if a, b := got.Field(i).Interface(), want.Field(i).Interface(); !reflect.DeepEqual(a, b) {
				return fmt.Sprintf("record %d: %s comes back as %s; written was %s", e.Number, got.Type().Field(i).Name, brief(a), brief(b))
			}
		}
	}
	return fmt.Sprintf("record %d comes back as %s; written was %s", e.Number, brief(e.Got), brief(e.Want))
}

// brief returns the beginning of a value as JSON.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return string(text)
}

// Strategies returns the names of all strategies, and a short description of each.
func Strategies() (names, says []string) {
	for _, s := range strategies {
		names, says = append(names, s.name), append(says, s.says)
	}
	return names, says
}

// A run is a study under way.
type run struct {
	Options
	subject subject
	journal *Journal
	cost    map[Cell]cost // by cell, with Records left out
	failed  map[Cell]bool
}

// cost is the time of a repetition at some size.
type cost struct {
	records int
	work    time.Duration // grows with the size
	rest    time.Duration // to make files, open and close
}

// Run measures the cells that the journal does not have yet, and adds them to it. When ctx is done
// it returns the reason; the journal has all repetitions that were whole by then.
func Run(ctx context.Context, o Options, j *Journal) error {
	r := &run{Options: o, subject: users{}, journal: j, cost: map[Cell]cost{}, failed: map[Cell]bool{}}
	if o.Own != nil {
		r.subject = o.Own
	}
	order, err := r.order()
	if err != nil {
		return err
	}
	if err := removeLeft(o.Dir); err != nil {
		return err
	}
	for _, t := range slices.SortedFunc(maps.Keys(j.work), func(a, b turn) int { return cmp.Compare(a.rep, b.rep) }) {
		r.learn(t.Cell, j.work[t], unknownRest)
	}
	for i, next := range order {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if j.Has(next.Cell, next.rep) || r.failed[next.Cell] {
			continue
		}
		if r.expected(next.Cell) > r.Limit && r.Limit > 0 && next.rep == 0 {
			r.leaveOut(next.Cell, ErrLimit)
			continue
		}
		if r.Progress != nil {
			r.Progress(Progress{Cell: next.Cell, Done: i, Total: len(order), Left: r.left(order[i:])})
		}
		start := time.Now()
		results, err := r.measure(ctx, next.Cell, next.rep)
		if loss := (*LossError)(nil); errors.As(err, &loss) || errors.Is(err, errNotKept) {
			r.leaveOut(next.Cell, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%v: %w", next.Cell, err)
		}
		took := time.Since(start)
		if err := j.Add(results); err != nil {
			return err
		}
		work := j.work[next]
		r.learn(next.Cell, work, took-work)
	}
	return nil
}

// removeLeft removes stores of a study that was killed.
func removeLeft(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, storeDir))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// turn is a repetition of a cell.
type turn struct {
	Cell
	rep int
}

// order returns all turns: small sizes first, and within a size all tables in turn in each
// repetition.
func (r *run) order() (order []turn, err error) {
	tables, err := r.tables()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Sorted(slices.Values(r.Sizes)) {
		for rep := range r.Reps {
			for i := range tables {
				c := tables[(i+rep)%len(tables)]
				c.Records = n
				order = append(order, turn{c, rep})
			}
		}
	}
	return order, nil
}

// tables returns the cells without sizes.
func (r *run) tables() (list []Cell, err error) {
	chosen := strategies
	if r.Strategies != nil {
		chosen = nil
		for _, name := range r.Strategies {
			i := slices.IndexFunc(strategies, func(s strategy) bool { return s.name == name })
			if i < 0 {
				return nil, fmt.Errorf("there is no strategy %q", name)
			}
			chosen = append(chosen, strategies[i])
		}
	}
	for _, durable := range r.Durable {
		for _, s := range chosen {
			for _, e := range r.Engines {
				if s.only != nil && !slices.Contains(s.only, e.Name) {
					continue
				}
				for _, together := range []bool{false, true} {
					list = append(list, Cell{Engine: e.Name, Strategy: s.name, Together: together, Durable: durable})
				}
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("none of these strategies is one of these engines")
	}
	return list, nil
}

func (r *run) leaveOut(c Cell, why error) {
	r.failed[c] = true
	if r.LeftOut != nil {
		r.LeftOut(c, why)
	}
}

func withoutSize(c Cell) Cell { c.Records = 0; return c }

func (r *run) learn(c Cell, work, rest time.Duration) {
	t := withoutSize(c)
	if known, ok := r.cost[t]; !ok || c.Records >= known.records {
		r.cost[t] = cost{c.Records, work, rest}
	}
}

// The estimates without earlier results: for all steps of a record together, and for the rest.
const (
	unknown        = 60 * time.Microsecond
	unknownDurable = 3 * time.Millisecond
	unknownRest    = 100 * time.Millisecond
)

// expected returns the expected time of a repetition of the cell.
func (r *run) expected(c Cell) time.Duration {
	known, ok := r.cost[withoutSize(c)]
	switch {
	case ok && known.records > 0:
		return known.rest + time.Duration(float64(known.work)*float64(c.Records)/float64(known.records))
	case c.Durable && !c.Together:
		return unknownRest + unknownDurable*time.Duration(c.Records)
	case c.Durable:
		return unknownRest + unknownDurable*time.Duration(c.Records)/2 // the updates
	}
	return unknownRest + unknown*time.Duration(c.Records)
}

// left returns the expected time of the turns that are not done yet.
func (r *run) left(order []turn) (sum time.Duration) {
	for _, t := range order {
		if r.journal.Has(t.Cell, t.rep) || r.failed[t.Cell] {
			continue
		}
		if e := r.expected(t.Cell); r.Limit <= 0 || e <= r.Limit {
			sum += e
		}
	}
	return sum
}

// count returns a number as people write it: 10 k, 1 M.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1_000 && n%1_000 == 0:
		return fmt.Sprintf("%d k", n/1_000)
	}
	return fmt.Sprint(n)
}

func compareBool(a, b bool) int { return int(flag(a)) - int(flag(b)) }
