package table

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{5}, 5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{7, 7, 1, 100, 7}, 7},
	} {
		before := slices.Clone(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("median has sorted its argument: %v", c.values)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("nothing has a median")
	}
}

func TestSpread(t *testing.T) {
	if got, want := spreadOf([]float64{3, 1, 8}), (spread{Median: 3, Min: 1, Max: 8}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRatiosAreByRound(t *testing.T) {
	got := ratios([]float64{10, 100, 30}, []float64{5, 10, 60})
	if want := []float64{2, 10, 0.5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, i+1)
	}
	for _, c := range []struct {
		sorted []int
		p      float64
		want   int
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.9, 100}, {hundred, 100, 100}, {hundred, 0, 1},
		{[]int{7}, 50, 7}, {[]int{1, 2, 3}, 50, 2}, {[]int{1, 2, 3, 4}, 50, 2},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %v of %d = %d, want %d", c.p, len(c.sorted), got, c.want)
		}
	}
}

// Sides take turns in beginning, and warm-up rounds leave no figures.
func TestCompeteTakesTurns(t *testing.T) {
	var turns []string
	var parts []float64
	of := func(name string) side {
		return side{name, func(round int) (figures, error) {
			turns = append(turns, name)
			return figures{perOp: float64(10 * round)}, nil
		}}
	}
	got, err := compete(t.Context(), []side{of("a"), of("b")}, pace{warmUp: 1, least: 2, most: 2, told: func(part float64) { parts = append(parts, part) }})
	if err != nil {
		t.Fatal(err)
	}
	if order := strings.Join(turns, ""); order != "abbaab" {
		t.Errorf("order of turns: %s", order)
	}
	if !slices.IsSorted(parts) || len(parts) != 6 || parts[0] <= 0 || parts[5] >= 1 {
		t.Errorf("told: %v", parts)
	}
	for _, name := range []string{"a", "b"} {
		if rounds := got[name][perOp]; !slices.Equal(rounds, []float64{10, 20}) {
			t.Errorf("%s: figures %v", name, rounds)
		}
	}
}

// When there is no time for another round, there is none, beyond the least number.
func TestCompeteEndsInTime(t *testing.T) {
	none := []side{{"a", func(int) (figures, error) { return figures{perOp: 1}, nil }}}
	for _, c := range []struct {
		until time.Time
		want  int
	}{{time.Now().Add(-time.Hour), 2}, {time.Now().Add(time.Hour), 5}, {time.Time{}, 5}} {
		got, err := compete(t.Context(), none, pace{warmUp: 1, least: 2, most: 5, until: c.until, told: func(float64) {}})
		if n := len(got["a"][perOp]); err != nil || n != c.want {
			t.Errorf("until %v: %d rounds, %v", c.until, n, err)
		}
	}
}

func TestCompeteSaysWhoFailed(t *testing.T) {
	bad := errors.New("bad")
	sides := []side{
		{"good", func(int) (figures, error) { return nil, nil }},
		{"evil", func(int) (figures, error) { return nil, bad }},
	}
	if _, err := compete(t.Context(), sides, pace{most: 1, told: func(float64) {}}); !errors.Is(err, bad) || !strings.Contains(err.Error(), "evil") {
		t.Errorf("error %v", err)
	}
}

// Every entry of the order is handed to exactly one worker.
func TestParallelDivides(t *testing.T) {
	order := shuffled(1000, 1000)
	for _, workers := range []int{1, 7, 150, 2000} {
		var calls atomic.Int64
		seen := make([]atomic.Int64, len(order))
		_, err := parallel(workers, order, func(part []int32) error {
			calls.Add(1)
			for _, i := range part {
				seen[i].Add(1)
			}
			return nil
		})
		if err != nil || calls.Load() != int64(workers) {
			t.Errorf("%d workers: %d calls, %v", workers, calls.Load(), err)
		}
		for i := range seen {
			if n := seen[i].Load(); n != 1 {
				t.Fatalf("%d workers: entry %d was seen %d times", workers, i, n)
			}
		}
	}
	bad := errors.New("bad")
	if _, err := parallel(3, order, func(part []int32) error {
		if slices.Contains(part, 5) {
			return bad
		}
		return nil
	}); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
}

// The time of finish is in one figure and not in the other; a failed check is an error.
func TestWorkload(t *testing.T) {
	var steps []string
	tick := func(step string) error { // takes a time that the clock can measure
		for begin := time.Now(); time.Since(begin) <= 0; {
		}
		steps = append(steps, step)
		return nil
	}
	w := workload{
		name: "w", workers: 1, order: shuffled(10, 10),
		loop:   func(int, []int32) error { return tick("loop") },
		finish: func() error { return tick("finish") },
		check:  func(int) error { steps = append(steps, "check"); return nil },
	}
	f, err := w.measure(0)
	if err != nil || f[perOp] <= 0 || f[perOpSynced] <= f[perOp] {
		t.Errorf("figures %v, %v", f, err)
	}
	if got := strings.Join(steps, " "); got != "loop finish check" {
		t.Errorf("steps: %s", got)
	}
	bad := errors.New("bad")
	w.check = func(int) error { return bad }
	if _, err := w.measure(0); !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
	w.finish = func() error { return errors.New("worse") }
	if _, err := w.measure(0); err == nil || err.Error() != "worse" {
		t.Errorf("error %v", err)
	}
}

func TestShuffled(t *testing.T) {
	order := shuffled(100, 250)
	for from := 0; from < 200; from += 100 {
		sorted := slices.Sorted(slices.Values(order[from : from+100]))
		for i, v := range sorted {
			if int(v) != i {
				t.Fatalf("the keys from %d on are not each there once", from)
			}
		}
	}
	switch {
	case len(order) != 250:
		t.Errorf("%d entries", len(order))
	case slices.IsSorted(order[:100]):
		t.Error("nothing is shuffled")
	case slices.Equal(order[:100], order[100:200]):
		t.Error("it is the same order twice")
	case !slices.Equal(order, shuffled(100, 250)):
		t.Error("it is another order each time")
	}
}
