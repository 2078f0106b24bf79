package killtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/copaldb/copal"
)

// Counters that several goroutines of a process add to until it is killed, and those of the next
// process go on. Each announces an addition, and acknowledges it afterwards. A counter has the
// additions of each goroutine, so the check is exact: acknowledged additions are there, unannounced
// ones are not, and the sum is right.

// countVariable holds the directory of a counting process, and its bug.
const countVariable = "COPAL_KILLTEST_COUNT"

const (
	counting = 8   // goroutines
	countTo  = 800 // of each counter, all processes together
)

// counter is the stored form of a counter.
type counter struct {
	Sum int
	By  [counting]int
}

func (c *counter) add(g int) { c.Sum++; c.By[g]++ }

// ways to count: each changes a counter, atomically, in the store.
var ways = []string{"Map.Update", "Update of a map", "Update of a raw key"}

// count changes a counter in a store, in one of the ways.
func count(db *copal.DB, counters *copal.Map[string, counter], way string, change func(*counter)) error {
	switch way {
	case "Map.Update":
		_, _, err := counters.Update(way, func(u *copal.Entry[counter]) error { change(&u.Value); return nil })
		return err
	case "Update of a map":
		return db.Update(func(tx *copal.Tx) error {
			c, _ := counters.In(tx).Get(way)
			change(&c)
			return counters.In(tx).Set(way, c)
		})
	}
	return db.Update(func(tx *copal.Tx) error {
		var c counter
		if text, err := tx.Raw().Load([]byte(way)); err == nil {
			if err := json.Unmarshal(text, &c); err != nil {
				return err
			}
		}
		change(&c)
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return tx.Raw().Set([]byte(way), text)
	})
}

// countOrder is the work of a child.
type countOrder struct {
	Dir  string
	Bug  bool
	Most int // additions, of all counters: however late the parent hears of them, it kills before the counters are full
}

// countUntilKilled is the main function of the child. It adds until each counter is full, or it has
// added so often, and waits to be killed.
func countUntilKilled(text string) error {
	var o countOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	db, err := copal.Open(o.Dir)
	if err != nil {
		return err
	}
	counters, err := copal.OpenMap[string, counter](db, "counters")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	added := 0
	say := func(what string, way, g int) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s %d %d\n", what, way, g)
		if what == "added" {
			if added++; added == o.Most {
				select {}
			}
		}
	}
	var adding sync.WaitGroup
	failed := make(chan error, counting)
	for g := range counting {
		adding.Go(func() {
			for i := range countTo {
				for w, way := range ways {
					full := false
					say("add", w, g)
					var err error
					if o.Bug && i%10 == 9 { // in two steps, with another between them
						var c counter
						err = count(db, counters, way, func(now *counter) { c = *now })
						if full = c.Sum >= countTo; err == nil && !full {
							err = count(db, counters, way, func(now *counter) { now.add(g) })
							say("added", w, g)
							say("add", w, g)
						}
						if err == nil && !full {
							c.add(g)
							err = count(db, counters, way, func(now *counter) { *now = c })
						}
					} else {
						err = count(db, counters, way, func(c *counter) {
							if full = c.Sum >= countTo; !full {
								c.add(g)
							}
						})
					}
					if err != nil {
						failed <- err
						return
					}
					if full {
						say("full", w, g)
					} else {
						say("added", w, g)
					}
				}
			}
		})
	}
	adding.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	say("done", 0, 0)
	select {}
}

// counted is the announced and acknowledged additions of one way.
type counted struct {
	announced, added [counting]int
}

// runCount lets a child count until so many additions were acknowledged, and kills it. It reports
// whether the child was through.
func runCount(dir string, bug bool, kills int, books []counted) (done bool, err error) {
	order, err := json.Marshal(countOrder{Dir: dir, Bug: bug, Most: kills + counting})
	if err != nil {
		return false, err
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), countVariable+"="+string(order))
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := child.Start(); err != nil {
		return false, err
	}
	acks := 0
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF { // all that it has said before its death
			break
		}
		if err != nil {
			return done, err
		}
		var what string
		var w, g int
		if _, err := fmt.Sscan(line, &what, &w, &g); err != nil {
			return done, fmt.Errorf("%q: %w", line, err)
		}
		switch what {
		case "add":
			books[w].announced[g]++
		case "full":
			books[w].announced[g]--
		case "added":
			books[w].added[g]++
			acks++
		case "done":
			done = true
		}
		if acks == kills || done {
			kills = -1
			child.Process.Kill()
		}
	}
	child.Wait() // which says that it was killed
	return done, nil
}

// audit compares the counters with the books, which are those of the counters from then on.
func audit(dir string, books []counted) error {
	db, err := copal.Open(dir)
	if err != nil {
		return err
	}
	defer db.Close()
	counters, err := copal.OpenMap[string, counter](db, "counters")
	if err != nil {
		return err
	}
	for w, way := range ways {
		var c counter
		if err := count(db, counters, way, func(now *counter) { c = *now }); err != nil {
			return err
		}
		sum := 0
		for g, n := range c.By {
			sum += n
			if b := &books[w]; n < b.added[g] || n > b.announced[g] {
				return fmt.Errorf("%s: goroutine %d has added %d times, of which %d are there; %d were begun", way, g, b.added[g], n, b.announced[g])
			}
			books[w].added[g], books[w].announced[g] = n, n
		}
		if c.Sum != sum || sum > countTo {
			return fmt.Errorf("%s: the counter says %d, and %d were added, of %d", way, c.Sum, sum, countTo)
		}
	}
	return nil
}

// countThrough counts to the end, through some deaths. The error is the finding of an audit.
func countThrough(t *testing.T, bug bool) (deaths int, err error) {
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	dir := t.TempDir()
	books := make([]counted, len(ways))
	for done := false; !done; deaths++ {
		if done, err = runCount(dir, bug, 1+rng.IntN(countTo), books); err != nil {
			t.Fatal(err)
		}
		if err := audit(dir, books); err != nil {
			return deaths, err
		}
		if deaths > 500 {
			t.Fatal("it never comes to an end")
		}
	}
	for w, way := range ways {
		n := 0
		for _, by := range books[w].added {
			n += by
		}
		if n != countTo {
			return deaths, fmt.Errorf("%s: %d were counted, of %d", way, n, countTo)
		}
	}
	return deaths, nil
}

// TestCount: 800 increments by 8 goroutines count 800, by Map.Update and in transactions of maps
// and of raw keys, through kill -9: acknowledged increments are there, and none twice.
func TestCount(t *testing.T) {
	deaths, err := countThrough(t, false)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d deaths", deaths); deaths < 2 {
		t.Errorf("only %d deaths: this has tested nothing", deaths)
	}
}

// TestCountFindsLostUpdates: increments in two steps are found to be lost.
func TestCountFindsLostUpdates(t *testing.T) {
	if _, err := countThrough(t, true); err == nil {
		t.Error("increments in two steps are not found")
	} else {
		t.Log(err)
	}
}
