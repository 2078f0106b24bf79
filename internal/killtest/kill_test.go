package killtest

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		fmt.Fprintln(os.Stderr, runChild(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const lanes = 2 // children at a time

// TestKill: nothing acknowledged is lost, and nothing is wrong, whenever a process dies.
func TestKill(t *testing.T) {
	cycles := 60
	switch text := os.Getenv("COPAL_KILLS"); {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("COPAL_KILLS: %v", err)
		}
		cycles = n
	case os.Getenv("COPAL_LONG") != "":
		cycles = 10_000
	case testing.Short():
		cycles = 20
	}
	seed := seedOf(t)
	start := time.Now()
	sum, found := runLanes(t, seed, none, cycles, func(tally) bool { return false })
	t.Logf("seed %d: %v, %.0f cycles/s", seed, sum, float64(sum.cycles)/time.Since(start).Seconds())
	for _, f := range found {
		t.Error(f)
	}
	if len(found) > 0 || sum.failed() {
		t.Fatalf("run again with: COPAL_SEED=%d COPAL_KILLS=%d go test -v -artifacts ./internal/killtest", seed, cycles)
	}
	if sum.killsInWrite > 0 && (sum.acks == [kinds]int{} || sum.entries == 0) {
		t.Fatal("the children acknowledged nothing: this has tested nothing")
	}
}

// TestPlantedBugs: the code that finds nothing in TestKill finds each of these.
func TestPlantedBugs(t *testing.T) {
	const enough = 200 // cycles in which every bug must have shown
	seed := seedOf(t)
	for _, b := range allBugs {
		t.Run(string(b), func(t *testing.T) {
			sum, found := runLanes(t, seed, b, enough, tally.failed)
			if !sum.failed() || len(found) == 0 {
				t.Fatalf("not found in: %v; seed %d", sum, seed)
			}
			t.Logf("found in cycle %d: %s", sum.cycles, found[0])
		})
	}
}

// seedOf is that of COPAL_SEED, or a new one.
func seedOf(t *testing.T) uint64 {
	text := os.Getenv("COPAL_SEED")
	if text == "" {
		return rand.Uint64N(1_000_000)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("COPAL_SEED: %v", err)
	}
	return seed
}

// runLanes runs cycles in several lanes, until enough says so for one of them.
func runLanes(t *testing.T, seed uint64, b bug, cycles int, enough func(tally) bool) (sum tally, found []string) {
	dir := t.ArtifactDir()
	var mu sync.Mutex // guards sum and found
	var started atomic.Int64
	var stop atomic.Bool
	var wait sync.WaitGroup
	for n := range uint64(lanes) {
		wait.Go(func() {
			l := newLane(dir, seed*lanes+n, b)
			var mine []string
			for !stop.Load() && started.Add(1) <= int64(cycles) {
				f, err := l.run()
				mine = append(mine, f...)
				if err != nil {
					mine = append(mine, "the test cannot go on: "+err.Error())
					stop.Store(true)
				}
				if enough(l.sum()) || len(mine) > 20 {
					stop.Store(true)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(l.sum())
			found = append(found, mine...)
			if l.store != "" {
				if err := os.RemoveAll(l.store); err != nil {
					found = append(found, err.Error())
				}
			}
		})
	}
	wait.Wait()
	return sum, found
}

// frameReader reads frames.
type frameReader struct{ r *bufio.Reader }

func newFrameReader(r io.Reader) frameReader { return frameReader{bufio.NewReader(r)} }

func (r frameReader) next() (frame, error) { return readFrame(r.r) }

// TestLedger: what the checks say of each thing that can be found.
func TestLedger(t *testing.T) {
	at := slot{Shelf: 0, Writer: 1, Key: 2}
	older := op{slot: at, Kind: set, Count: 1, Size: 40}
	stood := op{slot: at, Kind: set, Count: 2, Size: 40}
	gone := op{slot: at, Kind: remove, Count: 2}
	next := op{slot: at, Kind: set, Count: 3, Size: 40}
	nextGone := op{slot: at, Kind: remove, Count: 3}
	never := op{slot: at, Kind: set, Count: 9, Size: 40}
	tests := []struct {
		name          string
		acked, flying op     // no Count: none
		found         *op    // nil: no entry
		want          string // "": right
	}{
		{"as acknowledged", stood, op{}, &stood, ""},
		{"the write in flight happened", stood, next, &next, ""},
		{"the write in flight did not happen", stood, next, &stood, ""},
		{"the delete in flight happened", stood, nextGone, nil, ""},
		{"the delete in flight did not happen", stood, nextGone, &stood, ""},
		{"deleted", gone, op{}, nil, ""},
		{"the first write in flight", op{}, next, &next, ""},
		{"nothing", stood, op{}, nil, "lost"},
		{"nothing, a write in flight", stood, next, nil, "lost"},
		{"older", stood, op{}, &older, "lost"},
		{"older, a write in flight", stood, next, &older, "lost"},
		{"deleted came back", gone, op{}, &older, "lost"},
		{"never written", stood, op{}, &never, "wrong"},
		{"never written, a write in flight", stood, next, &never, "wrong"},
		{"never announced", op{}, op{}, &older, "wrong"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			if test.acked.Count > 0 {
				l.last[at] = test.acked
			}
			if test.flying.Count > 0 {
				l.flying[at.Writer] = test.flying
			}
			var entries []entry
			if test.found != nil {
				entries = append(entries, entry{slot: at, value: newBlob(*test.found)})
			}
			found := strings.Join(l.verify([]shelf{fixedShelf{entries: entries}}), "\n")
			if !strings.HasPrefix(found, test.want) || (found == "") != (test.want == "") {
				t.Errorf("got %q, want %q", found, test.want)
			}
			if l.failed() != (test.want != "") {
				t.Errorf("counted %v", l.tally)
			}
			if len(l.flying) > 0 {
				t.Errorf("%v is still in flight", l.flying)
			}
		})
	}
}
