package table

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The sides are measured in turn: in each round every side runs once, the side that begins changes
// from round to round, and garbage is collected before each. A ratio is taken within a round,
// between runs that are seconds apart, and the result is the median of these ratios; so a passing
// slowdown of the machine slows both sides, and a disturbed round is outvoted. Single operations
// are timed only for latency.

// A metric is one number that a side yields in each round; less is better.
type metric struct {
	name string
	unit unit
}

type unit string

const (
	nanoseconds unit = "ns"
	bytesUnit   unit = "B"
	allocations unit = "allocs"
)

var (
	perOp       = metric{"time per operation", nanoseconds}
	perOpSynced = metric{"time per operation, to the end of Sync", nanoseconds}
)

// figures are the results of a side in a round.
type figures map[metric]float64

// A side is one of those compared. measure runs its work once, checks the results, and returns the
// figures; round counts from 0 and only distinguishes rounds.
type side struct {
	name    string
	measure func(round int) (figures, error)
}

// series holds the figures of all rounds: by side, by metric, in the order of the rounds.
type series map[string]map[metric][]float64

func (s series) add(side string, f figures) {
	if s[side] == nil {
		s[side] = map[metric][]float64{}
	}
	for m, v := range f {
		s[side][m] = append(s[side][m], v)
	}
}

// pace is how many rounds there are.
type pace struct {
	warmUp      int // rounds that do not count, before the others
	least, most int
	until       time.Time          // no round should end later, of those beyond the least number; zero for all of them
	told        func(part float64) // how much of the rounds that there may be is done
}

// compete lets the sides run in turn.
func compete(ctx context.Context, sides []side, p pace) (series, error) {
	result, all := series{}, p.warmUp+p.most
	for round := range all {
		began := time.Now()
		for i := range sides {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s := sides[(i+round)%len(sides)]
			runtime.GC()
			f, err := s.measure(round)
			if err != nil {
				return nil, &sideError{s.name, err}
			}
			if round >= p.warmUp {
				result.add(s.name, f)
			}
			p.told(float64(round*len(sides)+i+1) / float64(all*len(sides)+1)) // the end of the line is left
		}
		if round+1 >= p.warmUp+p.least && !p.until.IsZero() && time.Now().Add(time.Since(began)).After(p.until) {
			break
		}
	}
	return result, nil
}

// sideError says whose run went wrong.
type sideError struct {
	side string
	err  error
}

func (e *sideError) Error() string { return e.side + ": " + e.err.Error() }
func (e *sideError) Unwrap() error { return e.err }

// spread is a median and its values.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	return spread{Median: median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// median returns the median, which of an even number is the mean of the two in the middle.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// percentile returns the smallest of the sorted values that is not exceeded by p of 100 of them.
func percentile[T cmp.Ordered](sorted []T, p float64) T {
	rank := int(math.Ceil(float64(len(sorted)) * p / 100))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// workload is a side whose figure is the time of a batch of operations: one for each entry
// of order, divided among workers.
type workload struct {
	name    string
	workers int
	order   []int32
	before  func(round int) error               // not timed; may be nil
	loop    func(round int, part []int32) error // the work of one worker
	finish  func() error                        // timed as well, for perOpSynced; may be nil
	check   func(round int) error               // checks the work of loop, not timed; may be nil
}

func (w workload) side() side { return side{w.name, w.measure} }

func (w workload) measure(round int) (figures, error) {
	if w.before != nil {
		if err := w.before(round); err != nil {
			return nil, err
		}
	}
	took, err := parallel(w.workers, w.order, func(part []int32) error { return w.loop(round, part) })
	if err != nil {
		return nil, err
	}
	n := float64(len(w.order))
	f := figures{perOp: float64(took) / n}
	if w.finish != nil {
		start := time.Now()
		if err := w.finish(); err != nil {
			return nil, err
		}
		f[perOpSynced] = float64(took+time.Since(start)) / n
	}
	if w.check != nil {
		err = w.check(round)
	}
	return f, err
}

// parallel divides order among workers, lets them begin at once, and returns the time
// until the last has ended.
func parallel(workers int, order []int32, work func(part []int32) error) (time.Duration, error) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, workers)
	for w := range workers {
		part := order[len(order)*w/workers : len(order)*(w+1)/workers]
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			errs[w] = work(part)
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	return time.Since(start), errors.Join(errs...)
}
