package killtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/seglog"
)

// A consumer keeps a copy of a store by its changes: each is applied to the copy together with its
// number, in one transaction, and the next life of the consumer goes on from there. It reads beside
// the process that writes. Both are killed at any moment. In the end the copy is the store.
//
// Each transaction of the writer adds one to a chain, so the consumer notices at once a change that
// it has missed or got twice, though another may have replaced the change's value.

// consumerVariable holds the work of a process: to write or to consume.
const consumerVariable = "COPAL_KILLTEST_CONSUMER"

const (
	atKey    = "at"     // of the copy: the number of the last change that it has
	chainKey = "chain:" // begins keys with counters, which only grow
	dataKey  = "data:"  // begins all other keys
)

// consumerBug is a planted bug of a consumer.
type consumerBug string

const (
	numberFirst  consumerBug = "the number first"
	changesFirst consumerBug = "the changes first"
)

type consumerOrder struct {
	Store, Copy string // Copy is "" for the writer
	Seed        uint64
	Window      bool // of history
	Bug         consumerBug
}

func (o *consumerOrder) open() (*copal.DB, error) {
	var opts []copal.Option
	if o.Window {
		opts = append(opts, copal.WithHistory(time.Hour))
	}
	return copal.Open(o.Store, opts...)
}

// runConsumer is the main function of the child. It prints a line for each step, and does not end.
func runConsumer(text string) error {
	var o consumerOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	seglog.DefaultSegmentBytes = 8 << 10
	if o.Copy == "" {
		return o.write()
	}
	db, err := copal.Open(o.Store, copal.ReadOnly(), copal.WithFollowInterval(time.Millisecond))
	if err != nil {
		return err
	}
	c, err := openConsumer(o.Copy, o.Bug)
	if err != nil {
		return err
	}
	return c.consume(context.Background(), db, func() bool { fmt.Println("told"); return false })
}

// write changes the store, step by step.
func (o *consumerOrder) write() error {
	db, err := o.open()
	if err != nil {
		return err
	}
	chain, err := copal.OpenMap[string, int](db, "chain")
	if err != nil {
		return err
	}
	data, err := copal.OpenMap[string, string](db, "data", copal.ExpiryEvents())
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 2))
	for step := 0; ; step++ {
		key := fmt.Sprint(rng.IntN(20))
		value := strings.Repeat("v", rng.IntN(300))
		switch n := rng.IntN(200); {
		case n == 0:
			err = data.Clear()
		case n == 1:
			err = data.DeleteRange("3", "7")
		case n < 5:
			err = db.Compact(context.Background(), nil)
		case n < 40:
			err = data.SetTTL(key, value, time.Duration(1+rng.IntN(30))*time.Millisecond)
		default:
			err = db.Update(func(tx *copal.Tx) error {
				now, _ := chain.In(tx).Get(key)
				if err := chain.In(tx).Set(key, now+1); err != nil {
					return err
				}
				if n < 80 {
					_, err := data.In(tx).Delete(key)
					return err
				}
				return data.In(tx).Set(key, value)
			})
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		fmt.Println("written")
	}
}

// consumer is a copy and its progress.
type consumer struct {
	copy   *copal.DB
	raw    *copal.Raw
	at     uint64
	chains map[string]int
	bug    consumerBug
	anew   int // times that it had to start over
}

func openConsumer(dir string, bug consumerBug) (*consumer, error) {
	db, err := copal.Open(dir)
	if err != nil {
		return nil, err
	}
	c := &consumer{copy: db, raw: db.Raw(), chains: map[string]int{}, bug: bug}
	for key, value := range c.raw.All() {
		switch n, err := strconv.ParseUint(string(value), 10, 64); {
		case string(key) == atKey && err == nil:
			c.at = n
		case strings.HasPrefix(string(key), chainKey) && err == nil:
			c.chains[string(key)] = int(n)
		case !strings.HasPrefix(string(key), dataKey):
			return nil, fmt.Errorf("the copy has %q: %q", key, value)
		}
	}
	return c, nil
}

// consume applies changes to the copy until stop, which is asked after each transaction.
func (c *consumer) consume(ctx context.Context, db *copal.DB, stop func() bool) error {
	for {
		err := c.follow(ctx, db, stop)
		if !errors.Is(err, copal.ErrHistoryLost) {
			return err
		}
		for err = c.begin(db); errors.Is(err, copal.ErrSnapshotLost); {
			err = c.begin(db)
		}
		if err != nil {
			return err
		}
		if fmt.Println("anew"); stop() {
			return nil
		}
	}
}

// begin starts the copy over.
func (c *consumer) begin(db *copal.DB) error {
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	c.anew++
	chains := map[string]int{}
	err = c.copy.Update(func(tx *copal.Tx) error {
		if err := tx.Raw().Clear(); err != nil {
			return err
		}
		for key, err := range admin.Keys(s, admin.Selection{}) {
			if err != nil {
				return err
			}
			value, err := db.Raw().At(s).Load(key)
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(key), chainKey) {
				n, err := strconv.Atoi(string(value))
				if err != nil {
					return err
				}
				if n < c.chains[string(key)] {
					return fmt.Errorf("%q is %d in the store, and was %d", key, n, c.chains[string(key)])
				}
				chains[string(key)] = n
			}
			if err := tx.Raw().Set(key, value); err != nil {
				return err
			}
		}
		return note(tx, s.Seq())
	})
	c.at, c.chains = s.Seq(), chains
	return err
}

func note(tx *copal.Tx, at uint64) error {
	return tx.Raw().Set([]byte(atKey), strconv.AppendUint(nil, at, 10))
}

// told is a change that the copy does not have yet.
type told struct {
	copal.Change
	value []byte
}

func (c *consumer) follow(ctx context.Context, db *copal.DB, stop func() bool) error {
	var list []told
	for change, err := range db.Watch(ctx, copal.WithAfter(c.at)) {
		if err != nil {
			return err
		}
		if change.Seq <= c.at {
			return fmt.Errorf("%q is told with the number %d after %d", change.Key, change.Seq, c.at)
		}
		t := told{Change: change}
		if !change.Deleted {
			if t.value, err = change.Value(); err != nil {
				return err
			}
		}
		if list = append(list, t); change.More {
			continue
		}
		if err := c.apply(list); err != nil {
			return err
		}
		c.at, list = change.Seq, list[:0]
		if stop() {
			return nil
		}
	}
	return ctx.Err()
}

// apply makes changes to the copy that count together.
func (c *consumer) apply(list []told) error {
	at := list[len(list)-1].Seq
	steps := []func(*copal.Tx) error{
		func(tx *copal.Tx) error { return c.change(tx, list) },
		func(tx *copal.Tx) error { return note(tx, at) },
	}
	switch c.bug {
	case numberFirst:
		return errors.Join(c.copy.Update(steps[1]), c.copy.Update(steps[0]))
	case changesFirst:
		return errors.Join(c.copy.Update(steps[0]), c.copy.Update(steps[1]))
	}
	return c.copy.Update(func(tx *copal.Tx) error {
		if err := steps[0](tx); err != nil {
			return err
		}
		return steps[1](tx)
	})
}

func (c *consumer) change(tx *copal.Tx, list []told) error {
	for _, t := range list {
		key := string(t.Key)
		switch {
		case t.Range:
			for k := range tx.Raw().Keys() {
				if string(k) == atKey || !t.Covers(k) {
					continue
				}
				if _, err := tx.Raw().Delete(k); err != nil {
					return err
				}
			}
		case t.Deleted:
			if _, err := tx.Raw().Delete(t.Key); err != nil {
				return err
			}
		default:
			if strings.HasPrefix(key, chainKey) {
				n, err := strconv.Atoi(string(t.value))
				if err != nil {
					return err
				}
				if now := c.chains[key]; n != now+1 {
					return fmt.Errorf("record %d says that %q is %d, and the copy has %d", t.Seq, key, n, now)
				}
				c.chains[key] = n
			}
			if err := tx.Raw().Set(t.Key, t.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// life is a child that says lines.
type life struct {
	cmd   *exec.Cmd
	lines chan string // closed at its end
	anew  int
}

func begin(o consumerOrder, noMap bool) (*life, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	l := &life{cmd: exec.Command(os.Args[0]), lines: make(chan string)}
	l.cmd.Env = append(os.Environ(), consumerVariable+"="+string(text))
	if noMap {
		l.cmd.Env = append(l.cmd.Env, "COPAL_NO_MMAP=1")
	}
	pipe, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.cmd.Stderr = l.cmd.Stdout // a failure comes as a line
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			l.lines <- s.Text()
		}
		close(l.lines)
	}()
	return l, nil
}

// hear waits for so many steps of one of two lives, and hears the other meanwhile. The error is a
// line of one that is no step.
func hear(of, beside *life, steps int) error {
	for steps > 0 {
		line, open, l := "", false, of
		select {
		case line, open = <-of.lines:
			steps--
		case line, open = <-beside.lines:
			l = beside
		}
		if err := l.take(line, open); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) take(line string, open bool) error {
	switch {
	case !open:
		return errors.New("a child has ended by itself")
	case line == "anew":
		l.anew++
	case line != "told" && line != "written":
		return errors.New(line)
	}
	return nil
}

// kill kills the child, and reads its earlier lines.
func (l *life) kill() (err error) {
	l.cmd.Process.Kill()
	for line := range l.lines {
		err = errors.Join(err, l.take(line, true))
	}
	l.cmd.Wait() // which says that it was killed
	return err
}

// live runs a consumer so often beside a writer, and compares the copy with the store. The error is
// the first difference; anew is how often the log did not reach back to the place of the copy.
func live(t *testing.T, seed uint64, lives int, bug consumerBug) (anew int, err error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	o := consumerOrder{Store: t.TempDir(), Copy: t.TempDir(), Window: seed%2 == 0, Bug: bug}
	db, err := o.open()
	if err == nil {
		err = errors.Join(db.Raw().Set([]byte(dataKey), nil), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	next := func(writes bool) (*life, error) {
		o := o
		if o.Seed = rng.Uint64(); writes {
			o.Copy = ""
		}
		return begin(o, rng.IntN(4) == 0)
	}
	writer, err := next(true)
	if err != nil {
		t.Fatal(err)
	}
	for range lives {
		consumer, err := next(false)
		if err != nil {
			t.Fatal(err)
		}
		of, beside := consumer, writer
		if rng.IntN(3) == 0 {
			of, beside = writer, consumer
		}
		err = hear(of, beside, rng.IntN(1+rng.IntN(300)))
		err = errors.Join(err, consumer.kill())
		anew += consumer.anew
		if err == nil && rng.IntN(2) == 0 {
			if err = writer.kill(); err == nil {
				if writer, err = next(true); err != nil {
					t.Fatal(err)
				}
			}
		} else if err == nil && rng.IntN(2) == 0 { // it goes on alone, with compaction
			err = hear(writer, &life{}, rng.IntN(400))
		}
		if err != nil {
			writer.kill()
			return anew, err
		}
	}
	if err := writer.kill(); err != nil {
		return anew, err
	}
	more, err := catchUp(t, &o)
	if anew += more; err == nil && o.Window && anew > 0 {
		err = fmt.Errorf("a window of an hour was lost %d times", anew)
	}
	return anew, err
}

// catchUp lets the consumer hear the rest, until the copy is the store.
func catchUp(t *testing.T, o *consumerOrder) (anew int, err error) {
	db, err := o.open()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if err := db.Raw().Set([]byte(dataKey), []byte("the end")); err != nil { // expiries are changes from now on
		return 0, err
	}
	c, err := openConsumer(o.Copy, o.Bug)
	if err != nil {
		return 0, err
	}
	defer c.copy.Close()
	s, err := db.Snapshot()
	if err != nil {
		return 0, err
	}
	last := s.Seq()
	if err := s.Close(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a missed change does not come again
	defer cancel()
	different := ""
	err = c.consume(ctx, db, func() bool {
		if c.at < last {
			return false
		}
		different = difference(db, c.copy) // after the last come the ends of expired entries
		return different == ""
	})
	if err != nil && different != "" {
		err = fmt.Errorf("%w: %s", err, different)
	}
	return c.anew, err
}

// difference describes the first difference between the copy and the store.
func difference(db, copied *copal.DB) string {
	have := map[string]string{}
	for key, value := range copied.Raw().All() {
		if string(key) != atKey {
			have[string(key)] = string(value)
		}
	}
	for key, value := range db.Raw().All() {
		got, ok := have[string(key)]
		if !ok || got != string(value) {
			return fmt.Sprintf("%q is %q in the store, and %q, %v in the copy", key, value, got, ok)
		}
		delete(have, string(key))
	}
	for key, value := range have {
		return fmt.Sprintf("the copy has %q: %q, and the store has not", key, value)
	}
	return ""
}

const livesOfAStore = 25

// TestConsumers: a copy that follows a store misses no change and gets none twice, or gets an error
// that the log does not reach back, through kill -9 of consumer and writer.
func TestConsumers(t *testing.T) {
	lives := 25
	if os.Getenv("COPAL_LONG") != "" {
		lives = 10_000
	}
	seed, anew := seedOf(t), 0
	for n := 0; n < lives; n += livesOfAStore {
		again, err := live(t, seed, livesOfAStore, "")
		if err != nil {
			t.Fatalf("seed %d, after %d lives: %v", seed, n, err)
		}
		anew += again
		seed++
	}
	t.Logf("%d lives, %d times begun anew", lives, anew)
}

// TestConsumersFindsBugs: a consumer that notes the number of a change in a step of its own misses
// changes, or makes them twice.
func TestConsumersFindsBugs(t *testing.T) {
	for _, bug := range []consumerBug{numberFirst, changesFirst} {
		t.Run(string(bug), func(t *testing.T) {
			seed := seedOf(t) &^ 1 // with a window, since a consumer that starts over heals
			for try := range uint64(20) {
				if _, err := live(t, seed+2*try, livesOfAStore, bug); err != nil {
					t.Logf("found in store %d: %v", try+1, err)
					return
				}
			}
			t.Errorf("not found; seed %d", seed)
		})
	}
}
