package table

import (
	"bytes"
	"testing"
)

const sampleRatios = `linux/amd64, 2 CPUs, go1.26, 2026-01-02 03:04:05, tmpfs, commit 0123456789ab with changes
xsync v4.5.0, bbolt v1.5.0
3 rounds each, in turn; medians
WARNING: tmpfs keeps files in memory: the durable figures mean nothing; choose a disk with --dir

ahead    min–max                             copal  beside

Reads of something, against others
1.67x  1.38–2.00        small, 1 goroutine  120 ns  sync.Map   200 ns
0.83x  0.69–0.86 LOSS                               xsync.Map   95 ns
0.71x  0.64–1.17 LOSS ~ close, 1 goroutine  140 ns  xsync.Map   95 ns
1.67x  1.38–2.00        quick, 1 goroutine  120 ns  sync.Map   200 ns
0.83x  0.69–0.86        with, 1 goroutine   120 ns  without     95 ns
                        alone               120 ns

copal is ahead in 2 of 4 comparisons, and behind in 2; in 1 of all, some rounds say otherwise.
ahead: how many times less time, memory or bytes copal takes, the median of the rounds; below 1 it is a LOSS.
~: some rounds say otherwise. Both sides are measured in turn, in one process.
`

// A loss is marked for each sense of the goal, unless copal loses to copal.
func TestRatios(t *testing.T) {
	l := line{name: "n", group: "Reads of something, against others", rows: []versus{
		{title: "small, 1 goroutine", ours: "copal", theirs: []string{"sync.Map"}, info: []string{"xsync.Map"}, metric: perOp, goal: atMost(0.7)},
		{title: "close, 1 goroutine", ours: "noisy", theirs: []string{"xsync.Map"}, metric: perOp, goal: goal{sense: more}},
		{title: "quick, 1 goroutine", ours: "copal", theirs: []string{"sync.Map"}, metric: perOp, goal: atLeast(3)},
		{title: "with, 1 goroutine", ours: "copal", theirs: []string{"without"}, own: true, metric: perOp},
		{title: "alone", ours: "copal", metric: perOp, goal: valueUpTo(5e6)},
	}}
	r := sample()
	var err error
	r.Rows, err = l.judge(rounds(map[string][]float64{
		"copal": {120, 130, 110}, "noisy": {140, 140, 81}, "sync.Map": {200, 180, 220}, "xsync.Map": {100, 90, 95}, "without": {100, 90, 95},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteRatios(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != sampleRatios {
		t.Errorf("got\n%s\nwant\n%s", got, sampleRatios)
	}
}

// Lines that time has ended had more or fewer rounds.
func TestRoundsEach(t *testing.T) {
	r := Report{Rounds: 9, Rows: []Row{{Ours: figure{Rounds: make([]float64, 5)}}, {Ours: figure{Rounds: make([]float64, 3)}}, {Ours: figure{Rounds: make([]float64, 1)}}}}
	if got := r.roundsEach(); got != "3 to 5 rounds each" {
		t.Errorf("got %q", got)
	}
}
