package killtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
)

// lane is one child after the other, on one store after the other.
type lane struct {
	dir    string // for the stores
	seed   uint64
	bug    bug
	rng    *rand.Rand
	cycle  uint64
	mixes  func() (*mix, *atomic.Int64) // of the next store, and the kills of stores of this mix
	mix    *mix                         // of the present store
	kills  *atomic.Int64
	store  string  // the present one
	ledger *ledger // of the present store
	books  []*book // of the present store, one for each writer of a shape
	probed int     // how many probes were left in the present store
	opened bool    // a child has opened the present store
	left   int     // cycles until the next store
	total  tallies // of the stores before
}

func newLane(dir string, seed uint64, b bug, mixes func() (*mix, *atomic.Int64)) *lane {
	return &lane{dir: dir, seed: seed, bug: b, mixes: mixes, rng: rand.New(rand.NewPCG(seed, 0)), total: tallies{}}
}

// sum returns all that the lane has counted.
func (l *lane) sum() tallies {
	all := tallies{}
	all.add(l.total)
	if l.ledger != nil {
		all.add(tallies{l.mix: l.ledger.tally})
	}
	return all
}

// run starts a child, kills it and checks the store that it left. It returns the violations. The
// error means that the test itself cannot go on.
func (l *lane) run() (found []string, err error) {
	if l.left == 0 {
		if err := l.newStore(); err != nil {
			return nil, err
		}
	}
	l.left--
	l.cycle++
	l.ledger.cycles++
	l.kills.Add(1)
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
		found[i] = fmt.Sprintf("%s, store %s, cycle %d: %s", l.mix.name, name, l.cycle, f)
	}
	return found, nil
}

// maxLogBytes is where a store is left for a new one: all of it is read in each cycle, several
// times.
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
	l.mix, l.kills = l.mixes()
	l.ledger = newLedger()
	l.ledger.stores = 1
	l.books = nil
	for _, sh := range l.mix.writers {
		l.books = append(l.books, &book{shape: sh, content: content{}, doubted: l.bug != none})
	}
	l.opened, l.probed = false, 0
	l.left = 1 + l.rng.IntN(8)
	return nil
}

// moment says when to kill.
type moment struct {
	event what          // counted from this message on,
	count int           // when so many messages have come,
	delay time.Duration // and then so much later
}

// moment draws one: while the process starts, while it opens the store and recovers from the last
// kill, in an operation, while it closes the store or compacts, or at an acknowledgement and a
// little later.
func (l *lane) moment(o *order) moment {
	upTo := func(d time.Duration) time.Duration { return time.Duration(l.rng.Int64N(int64(d))) }
	switch n := l.rng.IntN(100); {
	case n < 3:
		return moment{delay: upTo(15 * time.Millisecond)} // from the start
	case n < 15:
		return moment{event: hello, count: 1, delay: upTo(4 * time.Millisecond)}
	case n < 25 && o.RestartEvery > 0:
		return moment{event: closing, count: 1 + l.rng.IntN(2), delay: upTo(3 * time.Millisecond)}
	case n < 60 && l.mix.shrinks:
		return moment{event: shrinking, count: 1 + l.rng.IntN(3), delay: upTo(5 * time.Millisecond)}
	case n < 70:
		return moment{event: announced, count: 1 + l.rng.IntN(8), delay: upTo(time.Millisecond << l.rng.IntN(4))}
	case n < 80:
		return moment{event: acked, count: 1 + l.rng.IntN(l.mix.acks)}
	}
	return moment{event: acked, count: 1 + l.rng.IntN(l.mix.acks), delay: upTo(2 * time.Millisecond)}
}

// kill lets a child work and kills it, and takes in all that it has said.
func (l *lane) kill() (found []string, err error) {
	o := order{
		Dir: l.store, Mix: l.mix.name, Seed: l.seed, Cycle: l.cycle, Bug: l.bug, Begin: time.Now().UnixMilli(),
		SyncInterval: time.Millisecond << l.rng.IntN(11),
		SegmentBytes: []int64{0, 4 << 10, 64 << 10}[l.rng.IntN(3)],
		RingBytes:    []int64{0, 0, 0, 64 << 10}[l.rng.IntN(4)],
		Lazy:         l.bug != noFlush && l.rng.IntN(3) == 0,
		RestartEvery: []int{0, 0, 7, 30}[l.rng.IntN(4)],
	}
	if l.bug != none {
		o.RestartEvery = 0 // so that nothing is refused, which some bugs have acknowledged
	}
	if o.Lazy {
		o.SyncInterval = time.Second
	}
	if l.mix.small {
		o.SegmentBytes = 8 << 10 << l.rng.IntN(4)
	}
	for w, b := range l.books {
		b.dice = newDice(&o, uint8(w))
	}
	when := l.moment(&o)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	noMap := 0 // in turns, three times with the mapped ring and once without
	if (l.cycle+l.seed)%4 == 0 {
		noMap = 1
	}
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
	alive := killed.Load() // this process ended the pipe
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

// heard is the progress of a child.
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
		if err := l.frame(f); err != nil {
			l.ledger.unsound++
			found = append(found, "unsound: "+err.Error())
		}
		if f.What == finished && when.event != shrinking {
			kill()
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

// frame takes in a message of a child. The error means that it contradicts earlier ones.
func (l *lane) frame(f frame) error {
	if f.Op.Kind != aStep {
		return l.ledger.frame(f)
	}
	b := l.books[f.Op.Writer]
	switch f.What {
	case announced:
		return b.announced(f)
	case acked:
		l.ledger.steps++
		return b.acked(f)
	}
	b.flying = nil
	l.ledger.refused++
	return nil
}

// examine examines the store after a death: a reader opens it, it is checked, and now and then it
// is opened for writing, written to, closed and opened again. Otherwise the next child finds it as
// the last one left it. The content that the first of these finds is the one that all later ones
// must find.
func (l *lane) examine() (found []string) {
	unsound := func(format string, args ...any) {
		l.ledger.unsound++
		found = append(found, "unsound: "+fmt.Sprintf(format, args...))
	}
	look := func(probe int, opts ...copal.Option) {
		if len(found) == 0 || l.bug != none {
			more := l.look(unsound, probe, opts...)
			found = append(found, more...)
		}
	}
	shut := l.ledger.shut
	defer func() { l.ledger.shut = min(l.ledger.shut, shut+1) }()
	if l.opened {
		look(0, copal.ReadOnly())
		if r, err := admin.Check(context.Background(), l.store, nil); err != nil || len(r.Problems) > 0 {
			unsound("check: %v, %v", r, err)
		}
	}
	if !l.opened || l.rng.IntN(2) == 0 {
		probe := l.rng.IntN(3)
		look(probe)
		if probe > 0 {
			look(probe)
		}
	}
	if l.ledger.logBytes > maxLogBytes {
		l.left = 0
	}
	if len(found) > 0 && l.bug == none {
		l.store, l.left = "", 0 // leave it to be looked at
	}
	return found
}

// probeKey holds a number that a look has left to the next.
const probeKey = "probe"

// look opens the store and compares its content. With a probe it looks for the previous one, and
// leaves it.
func (l *lane) look(unsound func(format string, args ...any), probe int, opts ...copal.Option) (found []string) {
	var mu sync.Mutex // guards the list of reported errors
	var told []error
	defer func() { // when the store is closed, and reports nothing more
		mu.Lock()
		defer mu.Unlock()
		for _, err := range told {
			unsound("reading: %v", err)
		}
	}()
	db, err := copal.Open(l.store, append(opts, copal.WithErrorHandler(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}))...)
	if err != nil {
		l.ledger.shut++
		unsound("open (options beside the error handler: %d): %v", len(opts), err)
		return nil
	}
	if s, err := l.mix.open(db); err != nil {
		unsound("%v", err)
	} else {
		found = l.verify(s, unsound)
	}
	stats := db.Stats()
	if stats.TornBytes > 0 {
		l.ledger.torn++
	}
	l.ledger.logBytes = stats.LogBytes
	l.ledger.maxSegments = max(l.ledger.maxSegments, int64(stats.Segments))
	if names, err := filepath.Glob(filepath.Join(l.store, "*-*.log")); err != nil {
		unsound("%v", err)
	} else if len(names) > 0 {
		l.ledger.compacted++
	}
	if err := l.probe(db, probe); err != nil {
		unsound("a write after a death: %v", err)
	}
	if err := db.Close(); err != nil {
		unsound("close: %v", err)
	}
	return found
}

// probe looks for the entry of the last probe, and leaves another.
func (l *lane) probe(db *copal.DB, probe int) error {
	was, err := db.Raw().Load([]byte(probeKey))
	if (err != nil || string(was) != fmt.Sprint(l.probed)) && !(l.probed == 0 && errors.Is(err, copal.ErrNotFound)) {
		return fmt.Errorf("the last one was %d, found %q, %v", l.probed, was, err)
	}
	if probe == 0 {
		return nil
	}
	l.probed++
	return db.Raw().Set([]byte(probeKey), fmt.Append(nil, l.probed))
}

// verify compares all that the store holds.
func (l *lane) verify(s *session, unsound func(format string, args ...any)) (found []string) {
	found = l.ledger.verify(s.shelves)
	for _, f := range found {
		if strings.HasPrefix(f, "unsound") {
			return found
		}
	}
	entries := min(l.probed, 1)
	for _, sh := range s.shelves {
		entries += sh.len()
	}
	expiring := false
	for w, h := range s.hands {
		b := l.books[w]
		if problem := b.verify(h, &l.ledger.tally); problem != "" {
			found = append(found, fmt.Sprintf("writer %d: %s", w, problem))
		}
		entries += b.content.top()
		expiring = expiring || b.content.mayExpire()
	}
	if n := s.db.Raw().Len(); n != entries && !expiring && len(found) == 0 {
		unsound("the store has %d entries, of which %d are known", n, entries)
	}
	return found
}
