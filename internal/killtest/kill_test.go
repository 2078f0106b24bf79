package killtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
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
	if text := os.Getenv(countVariable); text != "" {
		fmt.Fprintln(os.Stderr, countUntilKilled(text))
		os.Exit(1)
	}
	if text := os.Getenv(consumerVariable); text != "" {
		fmt.Fprintln(os.Stderr, runConsumer(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const lanes = 3 // children at a time

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
	chosen := chosenMixes(t)
	all, found := runLanes(t, seed, none, chosen, cycles, func(tally) bool { return false })
	sum := all.sum()
	var by []string
	for _, m := range chosen {
		by = append(by, m.say(all[m]))
	}
	t.Logf("%s", strings.Join(by, "; "))
	t.Logf("seed %d: %v, %.0f cycles/s", seed, sum, float64(sum.cycles)/time.Since(start).Seconds())
	for _, f := range found {
		t.Error(f)
	}
	if len(found) > 0 || sum.failed() {
		t.Fatalf("run again with: COPAL_SEED=%d COPAL_KILLS=%d COPAL_SHAPES=%s go test -v -artifacts ./internal/killtest", seed, cycles, os.Getenv("COPAL_SHAPES"))
	}
	if sum.killsInWrite > 20 && (sum.ringless == 0 || sum.ringless == sum.killsInWrite) {
		t.Errorf("%d of %d children had no ring", sum.ringless, sum.killsInWrite)
	}
	if sum.killsInWrite > 0 && (sum.acks == [kinds]int{} && sum.steps == 0 || sum.entries == 0) {
		t.Fatal("the children acknowledged nothing: this has tested nothing")
	}
}

// TestPlantedBugs: the code that finds nothing in TestKill finds each of these.
func TestPlantedBugs(t *testing.T) {
	const enough = 200 // cycles in which every bug must have shown
	seed := seedOf(t)
	for _, b := range allBugs {
		t.Run(string(b), func(t *testing.T) {
			if b.ofTheRing() && (runtime.GOOS != "linux" || strconv.IntSize == 32) {
				t.Skip("there is no ring on this platform")
			}
			shown := func(sum tally) bool { return sum.lost+sum.wrong > 0 || b.ofTheLog() && sum.unsound > 0 }
			all, found := runLanes(t, seed, b, mixes[:1], enough, shown)
			sum := all.sum()
			if !shown(sum) || len(found) == 0 {
				t.Fatalf("not found in: %v; seed %d", sum, seed)
			}
			t.Logf("found in cycle %d: %s", sum.cycles, found[0])
		})
	}
}

// TestPlantedBugsOfShapes is TestPlantedBugs for batches, transactions, collections and streams.
func TestPlantedBugsOfShapes(t *testing.T) {
	const enough = 200
	seed := seedOf(t)
	for _, b := range shapeBugs {
		for _, name := range []string{"batch", "tx", "whole", "stream"} {
			if b.ofTheLog() && name != "batch" && name != "stream" {
				continue // the kind of log does not matter
			}
			t.Run(name+" "+string(b), func(t *testing.T) {
				if b.ofTheRing() && (runtime.GOOS != "linux" || strconv.IntSize == 32) {
					t.Skip("there is no ring on this platform")
				}
				shown := func(sum tally) bool { return sum.lost+sum.wrong > 0 || b.ofTheLog() && sum.unsound > 0 }
				all, found := runLanes(t, seed, b, []*mix{mixNamed(name)}, enough, shown)
				if sum := all.sum(); !shown(sum) || len(found) == 0 {
					t.Fatalf("not found in: %v; seed %d", sum, seed)
				} else {
					t.Logf("found in cycle %d: %s", sum.cycles, found[0])
				}
			})
		}
	}
}

// seedOf returns the seed in COPAL_SEED, or a new one.
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

// runLanes runs cycles in several lanes, as many with each mix, until enough says so for one of
// them.
func runLanes(t *testing.T, seed uint64, b bug, mixes []*mix, cycles int, enough func(tally) bool) (sum tallies, found []string) {
	dir := t.ArtifactDir()
	var mu sync.Mutex // guards sum and found
	var started atomic.Int64
	kills := make([]atomic.Int64, len(mixes))
	next := func() (*mix, *atomic.Int64) { // of which there were the fewest
		least := 0
		for i := range kills {
			if kills[i].Load() < kills[least].Load() {
				least = i
			}
		}
		return mixes[least], &kills[least]
	}
	var stop atomic.Bool
	var wait sync.WaitGroup
	sum = tallies{}
	for n := range uint64(lanes) {
		wait.Go(func() {
			l := newLane(dir, seed*lanes+n, b, next)
			var mine []string
			for !stop.Load() && started.Add(1) <= int64(cycles) {
				f, err := l.run()
				mine = append(mine, f...)
				if err != nil {
					mine = append(mine, "the test cannot go on: "+err.Error())
					stop.Store(true)
				}
				if enough(l.sum().sum()) || len(mine) > 20 {
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
