package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The crash model with deadlines. The script moves the clock, also between a crash and the next Open. The
// oracle of crash_test.go has the written entries; those whose deadline the clock has passed must be missing.
// As each state is compared in whole, no older entry may be in their place, and other entries have the
// acknowledged deadline.

// renderMortal returns a line for each entry.
func renderMortal(content map[string]string, deadlines map[string]uint64) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(content)) {
		fmt.Fprintf(&b, "%q=%d:%.40q ", k, len(content[k]), content[k])
		if d := deadlines[k]; d != 0 {
			fmt.Fprintf(&b, "until %d", d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// alive returns the lines of a rendering that have not expired at a time.
func alive(state string, now uint64) string {
	var b strings.Builder
	for line := range strings.Lines(state) {
		_, until, mortal := strings.Cut(line[strings.LastIndex(line, `"`):], "until ")
		if d, _ := strconv.ParseUint(strings.TrimSpace(until), 10, 64); !mortal || now < d {
			b.WriteString(line)
		}
	}
	return b.String()
}

// deadlinesOf returns the deadlines of a store's entries.
func deadlinesOf(s *Store, content map[string]string) (map[string]uint64, error) {
	deadlines := map[string]uint64{}
	for k := range content {
		d, err := s.DeadlineOf(nil, nil, []byte(k))
		if err != nil {
			return nil, fmt.Errorf("the deadline of %q: %w", k, err)
		}
		if d != 0 {
			deadlines[k] = d
		}
	}
	return deadlines, nil
}

func (c *crasher) now() uint64 {
	if c.clock == nil {
		return 0
	}
	return uint64(c.clock.Now().UnixMilli())
}

// afterATime sometimes lets time pass. The returned function sets the clock back for the other crashes.
func (c *crasher) afterATime() (back func()) {
	if c.clock == nil {
		return func() {}
	}
	before := c.clock.Now()
	if c.Rng.IntN(3) == 0 {
		c.clock.Advance(time.Duration(c.Rng.IntN(4000)) * time.Millisecond)
	}
	return func() { c.clock.Advance(before.Sub(c.clock.Now())) }
}

// mortalStep is a step of a script that is about deadlines.
func (c *crasher) mortalStep(s *Store, o *oracle, st step) error {
	if st.kind == "pass" {
		c.clock.Advance(st.life)
		return nil
	}
	deadline := uint64(0)
	if st.life > 0 {
		deadline = c.now() + uint64(st.life.Milliseconds())
	}
	key := []byte(st.key)
	var err error
	switch st.kind {
	case "async":
		return c.asyncStep(s, o, st, deadline)
	case "ttl", "ttlfsync":
		o.content[st.key] = st.value
		o.redate(st.key, deadline)
		_, err = s.Write(nil, &Write{Key: key, Value: []byte(st.value), Expiry: deadline, Durability: durabilityOf(st)})
	default: // expire, expirefsync, persist
		there := o.has(st.key, c.now())
		if there {
			o.redate(st.key, deadline)
		}
		err = s.Expire(nil, nil, key, deadline, durabilityOf(st))
		if !there && errors.Is(err, ErrNotFound) {
			return nil
		} else if !there {
			return fmt.Errorf("of what is not there: %v", err)
		}
	}
	if err == nil {
		o.Acked = o.Started
	}
	if err == nil && durabilityOf(st) == Power {
		o.Durable = o.Acked
	}
	return err
}

func (o *oracle) has(key string, now uint64) bool {
	_, ok := o.content[key]
	return ok && (o.deadlines[key] == 0 || now < o.deadlines[key])
}

// redate notes that a write has begun that gives an entry a deadline, or takes it away.
func (o *oracle) redate(key string, deadline uint64) {
	if delete(o.deadlines, key); deadline != 0 {
		o.deadlines[key] = deadline
	}
	o.began()
}

// asyncStep writes to the map users, where it is long enough before the log has it that the entry may have expired.
func (c *crasher) asyncStep(s *Store, o *oracle, st step, deadline uint64) error {
	table, err := s.Map("users")
	if err != nil {
		return err
	}
	cells := table.cells.Load()
	if cells == nil {
		cells = attached(c.t, s, "users")
	}
	o.content[st.key] = st.value
	first := deadline
	if redates := len(st.value)%2 == 0; redates {
		first = c.now() + 100
	}
	o.redate(st.key, deadline)
	w := Write{Key: []byte(st.key), Cells: cells, Value: []byte(st.value), Durability: Async, Cell: &cache.Cell{}, Cost: 100, Expiry: first}
	if _, err = s.Write(table, &w); err == nil && first != deadline {
		err = s.Expire(table, cells, w.Key, deadline, Async)
	}
	if err != nil {
		return err
	}
	c.clock.Advance(time.Duration(c.Rng.IntN(3)) * time.Second / 2)
	if err := s.Flush(cells); err != nil {
		return err
	}
	o.Acked = o.Started
	return nil
}

// mortalScript returns a script with many steps on deadlines, and some that move records.
func mortalScript(rng *rand.Rand, n int) []step {
	script := randomScript(rng, n)
	kinds := []string{"ttl", "ttl", "ttlfsync", "async", "async", "async", "expire", "expirefsync", "persist", "pass", "compact", "compact", "snapshot", "set"}
	for i := range script {
		st := &script[i]
		if st.kind == "reopen" || rng.IntN(3) == 0 {
			continue
		}
		st.kind = kinds[rng.IntN(len(kinds))]
		if rng.IntN(2) == 0 {
			st.key = fmt.Sprint("users:", 1+rng.IntN(2))
		}
		switch st.kind {
		case "ttl", "ttlfsync", "expire", "expirefsync", "pass":
			st.life = time.Duration(1+rng.IntN(3000)) * time.Millisecond
		case "async":
			st.key = fmt.Sprint("users:", 1+rng.IntN(2))
			st.life = time.Duration(1+rng.IntN(1000)) * time.Millisecond
		case "compact":
			st.value = strings.Repeat("n", rng.IntN(1000))
		}
	}
	return script
}

// TestCrashModelDeadlines is TestCrashModel for entries that expire. Each of these planted bugs was caught, within
// a default run:
//
//   - A replay leaves out a record that has expired, and the one before comes back.
//   - A flush forgets the deadline, or Expire does in the record that it writes.
//   - An entry that expires before it is written, over an older record, is not written as a
//     deletion.
//   - A snapshot of the index has no queue: expired entries are counted.
//   - Compaction drops the expired record of an entry in an index snapshot, and the index has an address of no
//     record.
func TestCrashModelDeadlines(t *testing.T) { logtest.BothWays(t, crashModelDeadlines) }

func crashModelDeadlines(t *testing.T) { crashDeadlines(t, 1_600, 12, nil) }

// TestCrashModelEnds is the same where the end of an entry is a record. Whatever survives, each of these belongs to
// the entry that its key had then, and no entry has two.
func TestCrashModelEnds(t *testing.T) { logtest.BothWays(t, crashModelEnds) }

func crashModelEnds(t *testing.T) {
	crashDeadlines(t, 800, 30, func(o *Options) { o.SegmentBytes, o.ExpiryEvents = 400, true })
}

func crashDeadlines(t *testing.T, want, sparse int, options func(*Options)) {
	if longTest() {
		want = 1_000_000
	}
	states, scripts := 0, 0
	for seed := uint64(1); states < want || seed <= 3; seed++ { // each size of the ring
		c := compactionCrasher(t, seed)
		c.clock, c.Again, c.Sparse = logtest.NewClock(), 500, sparse
		if options != nil {
			c.options, c.judge = options, wantEnds
		}
		c.Run(vfs.NewCrashMem(), newOracle(nil), mortalScript(c.Rng, 30))
		states, scripts = states+c.States, scripts+1
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states of %d scripts, 0 violations", states, scripts)
}

// wantEnds has a survivor write the ends that it owes, and compares the ends in its log with the records before
// them, as far as compaction has left these.
func wantEnds(s *Store) error {
	if err := s.log.Begin(); err != nil {
		return err
	}
	if _, err := s.expireDue(); err != nil {
		return err
	}
	now, there := map[string]uint64{}, map[string]bool{} // the deadline of each key's entry, and whether there is one, of those that are known
	var c seglog.Cursor
	defer c.Leave()
	c.Start(s.log, s.log.Floor()+1, seglog.Position{})
	members := map[uint64][]seglog.Record{}
	count := func(rec *seglog.Record) error {
		key := string(rec.Key)
		switch {
		case rec.Kind != record.Value || rec.Op == record.Part:
			return nil
		case rec.Op == record.Range:
			clear(now)
			clear(there)
			return nil
		case rec.Op == record.Expire:
			is, known := there[key]
			async := strings.HasPrefix(key, "users:") // it may be the end of a dirty value that would have replaced the entry
			if known && (!is || now[key] != rec.Expiry && !async) {
				return fmt.Errorf("record %d is the end of %q at %d, whose entry has the deadline %d, if there is one: %v", rec.Seq, key, rec.Expiry, now[key], is)
			}
		}
		now[key], there[key] = 0, rec.Op == record.Set
		if rec.Op == record.Set {
			now[key] = rec.Expiry
		}
		return nil
	}
	for c.Next <= s.log.Last() {
		rec, _, err := c.Read()
		if err == seglog.ErrHistoryLost {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case rec.Op == record.Commit:
			for _, m := range members[rec.Group] {
				if err := count(&m); err != nil {
					return err
				}
			}
		case rec.Group != 0:
			rec.Key = slices.Clone(rec.Key)
			members[rec.Group] = append(members[rec.Group], rec)
		default:
			if err := count(&rec); err != nil {
				return err
			}
		}
	}
	for key, deadline := range now {
		if s.Expired(deadline) {
			return fmt.Errorf("the end of %q at %d is missing", key, deadline)
		}
	}
	return nil
}
