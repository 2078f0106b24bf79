package killtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
)

// lane is one child after the other, on one store after the other.
type lane struct {
	dir    string // for the stores
	seed   uint64
	bug    bug
	rng    *rand.Rand
	cycle  uint64
	store  string  // the present one
	ledger *ledger // of the present store
	opened bool    // a child has opened the present store
	left   int     // cycles until the next store
	total  tally   // of the stores before
}

func newLane(dir string, seed uint64, b bug) *lane {
	return &lane{dir: dir, seed: seed, bug: b, rng: rand.New(rand.NewPCG(seed, 0))}
}

// sum is all that the lane has counted.
func (l *lane) sum() tally {
	t := l.total
	if l.ledger != nil {
		t.add(l.ledger.tally)
	}
	return t
}

// run starts a child, kills it and checks what it left. It returns what must not be.
// The error says that the test itself cannot go on.
func (l *lane) run() (found []string, err error) {
	if l.left == 0 {
		if err := l.newStore(); err != nil {
			return nil, err
		}
	}
	l.left--
	l.cycle++
	l.ledger.cycles++
	name := filepath.Base(l.store)
	died, err := l.kill()
	if err != nil {
		return nil, err
	}
	if err := l.bug.afterDeath(l.store, l.rng); err != nil {
		return nil, err
	}
	found = append(died, l.examine()...)
	for i, f := range found {
		found[i] = fmt.Sprintf("store %s, cycle %d: %s", name, l.cycle, f)
	}
	return found, nil
}

// maxLogBytes is where a store is left for a new one: all of it is read in each cycle, thrice.
const maxLogBytes = 8 << 20

// newStore leaves the present store for a new one.
func (l *lane) newStore() error {
	l.total = l.sum()
	if l.store != "" {
		if err := os.RemoveAll(l.store); err != nil {
			return err
		}
	}
	l.store = filepath.Join(l.dir, fmt.Sprintf("seed%d-cycle%d", l.seed, l.cycle+1))
	l.ledger = newLedger()
	l.ledger.stores = 1
	l.opened = false
	l.left = 1 + l.rng.IntN(24)
	return nil
}

// moment says when to kill.
type moment struct {
	event what          // counted from this message on,
	count int           // when so many messages have come,
	delay time.Duration // and then so much later
}

// moment draws one: while the process starts, while it opens the store, or at an
// acknowledgement, from the first to the three hundredth.
func (l *lane) moment() moment {
	upTo := func(d time.Duration) time.Duration { return time.Duration(l.rng.Int64N(int64(d))) }
	switch n := l.rng.IntN(100); {
	case n < 5:
		return moment{delay: upTo(15 * time.Millisecond)} // from the start
	case n < 20:
		return moment{event: hello, count: 1, delay: upTo(4 * time.Millisecond)}
	case n < 30:
		return moment{event: announced, count: 1 + l.rng.IntN(8)}
	case n < 40:
		return moment{event: opened, count: 1, delay: upTo(40 * time.Millisecond)}
	}
	return moment{event: acked, count: 1 + l.rng.IntN(300)}
}

// kill lets a child work and kills it, and takes in all that it has said.
func (l *lane) kill() (found []string, err error) {
	o := order{
		Dir: l.store, Seed: l.seed, Cycle: l.cycle, Bug: l.bug,
		SyncInterval: time.Millisecond << l.rng.IntN(11),
		SegmentBytes: []int64{0, 4 << 10, 64 << 10}[l.rng.IntN(3)],
		RingBytes:    []int64{0, 64 << 10}[l.rng.IntN(2)],
		Lazy:         l.bug != noFlush && l.rng.IntN(3) == 0,
		RestartEvery: []int{0, 0, 7, 30}[l.rng.IntN(4)],
	}
	if l.bug != none {
		o.RestartEvery = 0 // so that nothing is refused, which some bugs have acknowledged
	}
	if o.Lazy {
		o.SyncInterval = time.Second
	}
	when := l.moment()
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	noMap := int(l.cycle+l.seed) % 2 // in turns, with the mapped ring and without
	cmd.Env = append(os.Environ(), childVariable+"="+string(text), fmt.Sprint("COPAL_NO_MMAP=", noMap))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var killed atomic.Bool
	kill := func() {
		killed.Store(true)
		cmd.Process.Kill()
	}
	heard, found, err := l.listen(pipe, when, kill)
	alive := killed.Load() // what ended the pipe was we
	kill()
	cmd.Wait() // its error is that it was killed
	switch {
	case err != nil:
		return found, err
	case !alive || stderr.Len() > 0:
		l.ledger.unsound++
		found = append(found, fmt.Sprintf("unsound: the child ended or complained: %s", bytes.TrimSpace(stderr.Bytes())))
	}
	if heard.opened {
		l.opened = true
		l.ledger.killsInWrite++
		l.ledger.ringless += noMap
	} else {
		l.ledger.killsInOpen++
	}
	return found, nil
}

// heard is what a child has come to.
type heard struct{ opened bool }

// listen reads the pipe to its end, and kills when the moment has come.
func (l *lane) listen(pipe io.Reader, when moment, kill func()) (h heard, found []string, err error) {
	if when.count == 0 {
		defer time.AfterFunc(when.delay, kill).Stop()
	}
	in := bufio.NewReader(pipe)
	for n := 0; ; {
		f, err := readFrame(in)
		if err == io.EOF {
			return h, found, nil
		}
		if err != nil {
			kill()
			return h, found, fmt.Errorf("reading from the child: %w", err)
		}
		if f.What == opened {
			if h.opened {
				l.ledger.restarts++
			}
			h.opened = true
		}
		if err := l.ledger.frame(f); err != nil {
			l.ledger.unsound++
			found = append(found, "unsound: "+err.Error())
		}
		if f.What == when.event {
			if n++; n == when.count && when.delay == 0 {
				kill()
			} else if n == when.count {
				defer time.AfterFunc(when.delay, kill).Stop()
			}
		}
	}
}

// examine opens the store and compares what it holds. Now and then only a reader
// opens it, so that the next child finds it as the last one left it.
func (l *lane) examine() (found []string) {
	unsound := func(format string, args ...any) {
		l.ledger.unsound++
		found = append(found, "unsound: "+fmt.Sprintf(format, args...))
	}
	readOnly, checkFirst := l.opened && l.rng.IntN(3) == 0, l.opened && l.rng.IntN(2) == 0
	if checkFirst {
		l.check(unsound)
	}
	opts := []copal.Option{copal.WithErrorHandler(func(err error) { unsound("reading: %v", err) })}
	if readOnly {
		opts = append(opts, copal.ReadOnly())
	}
	db, err := copal.Open(l.store, opts...)
	if err != nil {
		unsound("open (read-only: %t): %v", readOnly, err)
		l.left = 0
		return found
	}
	if shelves, err := openShelves(db); err != nil {
		unsound("%v", err)
	} else {
		found = append(found, l.ledger.verify(shelves)...)
	}
	stats := db.Stats()
	if stats.TornBytes > 0 {
		l.ledger.torn++
	}
	l.ledger.maxSegments = max(l.ledger.maxSegments, int64(stats.Segments))
	if names, err := filepath.Glob(filepath.Join(l.store, "*-*.log")); err != nil {
		unsound("%v", err)
	} else if len(names) > 0 {
		l.ledger.compacted++
	}
	if err := db.Close(); err != nil {
		unsound("close: %v", err)
	}
	if !checkFirst && l.opened {
		l.check(unsound)
	}
	l.ledger.logBytes = stats.LogBytes
	if stats.LogBytes > maxLogBytes {
		l.left = 0
	}
	if len(found) > 0 && l.bug == none {
		l.store, l.left = "", 0 // leave it to be looked at
	}
	return found
}

// check runs Check on the store.
func (l *lane) check(unsound func(format string, args ...any)) {
	if r, err := copal.Check(l.store); err != nil || len(r.Problems) > 0 {
		unsound("check: %v, %v", r, err)
	}
}
