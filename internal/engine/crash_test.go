package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/keyrange"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The store as an owner for the crash model of crashtest. The oracle is in docs/durability.md. A found entry has its
// deadline; only an entry that has expired by the clock may be missing.

// step is one operation of a script.
type step struct {
	kind  string // set, fsync, delete, deletefsync, sync, reopen, and those of mortalScript
	key   string
	value string
	life  time.Duration // of the entry, or to pass

	changes  []step   // of a group
	prefixes []string // of ranges that the group deletes before
}

func (s step) String() string { return fmt.Sprintf("%s %s %d", s.kind, s.key, len(s.value)) }

func (s step) Death() crashtest.Death {
	switch s.kind {
	case "die":
		return crashtest.Dies
	case "die unsynced":
		return crashtest.DiesUnsynced
	}
	return crashtest.Lives
}

// oracle follows a script. states[i] is the content of the store after i writes, if nothing has expired.
type oracle struct {
	crashtest.Count
	found     int // of them the opening has found; the first append makes them durable
	states    []string
	content   map[string]string
	deadlines map[string]uint64 // of keys with one
}

func newOracle(content map[string]string) *oracle {
	o := &oracle{content: map[string]string{}, deadlines: map[string]uint64{}}
	maps.Copy(o.content, content)
	o.states = []string{render(o.content)}
	return o
}

func render(content map[string]string) string { return renderMortal(content, nil) }

// begin notes that a write has begun which will make the store hold the new content.
func (o *oracle) begin(s step) {
	delete(o.deadlines, s.key)
	if strings.HasPrefix(s.kind, "delete") {
		delete(o.content, s.key)
	} else {
		o.content[s.key] = s.value
	}
	o.began()
}

func (o *oracle) began() {
	o.states = append(o.states, renderMortal(o.content, o.deadlines))
	o.Started++
}

// find is the last of the states that may be found at this time after a crash that spares the writes up to lo.
func (o *oracle) find(found string, lo int, now uint64) (int, bool) {
	for i := o.Started; i >= lo; i-- {
		if alive(o.states[i], now) == found {
			return i, true
		}
	}
	return 0, false
}

// crasher runs scripts and crashes them.
type crasher struct {
	crashtest.Crasher[*Store, *oracle, step]

	t        *testing.T
	ring     int64 // its size, if not the usual
	options  func(*Options)
	room     func(s *Store, o *oracle, st step) error // the step of a package above the engine
	finishes bool                                     // compaction works at Close, as in a store with goroutines
	judge    func(s *Store) error                     // of a survivor, nil for no more than of others
	clock    *logtest.Clock                           // nil for the machine's, with which nothing expires

	groups    []*openGroup // of the script itself
	compacted int64        // segments, in the script itself
	ordered   int          // survivors that were opened with an order in files
}

func newCrasher(t *testing.T, plan crashtest.Plan) *crasher {
	c := &crasher{t: t}
	c.Plan, c.Owner, c.Surviving = plan, c, c.afterATime
	return c
}

func (c *crasher) Dir() string { return "db" }

func (c *crasher) Sync(s *Store) error { return s.Sync() }

func (c *crasher) Close(s *Store) error {
	c.giveUp(s)
	if c.finishes {
		before := s.log.Compacted.Load()
		s.compaction.Finish()
		c.compacted += s.log.Compacted.Load() - before
	}
	return s.Close()
}

func (c *crasher) Reborn(_ *Store, o *oracle) { c.groups, o.found = nil, o.Acked }

func (c *crasher) After() []step {
	return []step{{kind: "set", key: "after", value: "1"}, {kind: "fsync", key: "a", value: "2"}, {kind: "reopen"}, {kind: "fsync", key: "users:1", value: "3"}}
}

// Step does a step. Once the log has taken an append, the records found by the opening are durable.
func (c *crasher) Step(fsys vfs.FS, s *Store, o *oracle, st step) (*Store, error) {
	s, err := c.step(fsys, s, o, st)
	if err == nil && s.log.Tail != nil {
		o.Durable = max(o.Durable, o.found)
	}
	return s, err
}

func (c *crasher) Open(fsys vfs.FS) (*Store, error) {
	n := uint64(0)
	return Open("db", testOptions(fsys, func(o *Options) {
		o.SegmentBytes = 700
		if c.ring > 0 {
			o.RingBytes = c.ring
		}
		o.Random = func() uint64 { n++; return c.Rng.Uint64() }
		if c.clock != nil {
			o.Clock = c.clock
		}
		if c.options != nil {
			c.options(o)
		}
	}))
}

func (c *crasher) step(fsys vfs.FS, s *Store, o *oracle, st step) (*Store, error) {
	var err error
	switch st.kind {
	case "set", "fsync":
		o.begin(st)
		schema := uint64(0)
		if len(st.value)%2 == 1 {
			if schema, err = s.SchemaNumber(Schema{Codec: "json", Text: st.key}); err != nil {
				return s, err
			}
		}
		if err = s.Set(nil, []byte(st.key), []byte(st.value), schema, durabilityOf(st)); err != nil {
			return s, err
		}
		o.Acked = o.Started
	case "delete", "deletefsync":
		o.begin(st)
		if _, err = s.Delete(nil, []byte(st.key), durabilityOf(st)); err != nil {
			return s, err
		}
		o.Acked = o.Started
	case "range", "rangefsync":
		o.deleteAll(st.key)
		o.began()
		if err = s.DeleteRange(keyrange.Prefix([]byte(st.key)), durabilityOf(st)); err != nil {
			return s, err
		}
		o.Acked = o.Started
	case "map":
		_, err = s.Map(st.key)
		return s, err
	case "order":
		for _, t := range s.Tables() {
			if err = s.Order(t, keycodec.BytesOrder); err != nil {
				return s, err
			}
		}
		return s, nil
	case "snapshot":
		s.housekeeping.Lock()
		err = s.takeSnapshot(nil)
		s.housekeeping.Unlock()
		return s, err
	case "compact", "shrink":
		before := s.log.Compacted.Load()
		if st.kind == "shrink" {
			err = s.Compact(context.Background(), nil)
		} else {
			err = compactRun(s, len(st.value))
		}
		c.compacted += s.log.Compacted.Load() - before
		return s, err
	case "sync":
		if err = s.Sync(); err != nil {
			return s, err
		}
	case "hset", "hsetfsync", "htx", "htxfsync", "hclear", "hrename", "hexpire", "sweep":
		return s, c.collectionStep(s, o, st)
	case "room", "roomfsync":
		return s, c.room(s, o, st)
	case "group", "groupfsync", "begin", "commit", "give up":
		return s, c.groupStep(s, o, st)
	case "ttl", "ttlfsync", "async", "expire", "expirefsync", "persist", "pass":
		return s, c.mortalStep(s, o, st)
	case "reopen":
		wrote := s.log.Tail != nil // else the store stays as it was found
		if err = c.Close(s); err == nil {
			if wrote {
				o.Durable = o.Acked
			}
			s, err = c.Open(fsys)
		}
		return s, err
	}
	if st.kind == "sync" || durabilityOf(st) == Power {
		o.Durable = o.Acked
	}
	return s, err
}

func durabilityOf(st step) Durability {
	if strings.HasSuffix(st.kind, "fsync") {
		return Power
	}
	return Process
}

// shown is the content that a survivor shows.
type shown struct {
	c         *crasher
	oracle    *oracle
	at        int // of its states
	content   map[string]string
	deadlines map[string]uint64
}

func (c *crasher) Judge(s *Store, o *oracle, lo int) (crashtest.Shown[*Store, *oracle], error) {
	for _, t := range s.Tables() {
		if o := t.order.Load(); o != nil && o.base != nil && o.base.file != nil {
			c.ordered++
			break
		}
	}
	found, content, err := contentOf(s)
	if err != nil {
		return nil, err
	}
	deadlines, err := deadlinesOf(s, content)
	if err != nil {
		return nil, err
	}
	if c.Rng.IntN(4) == 0 {
		if err := sweepSurvivor(s); err != nil {
			return nil, err
		}
	}
	at, ok := o.find(found, lo, c.now())
	if !ok {
		return nil, fmt.Errorf("at %d: found\n\t%s\n\tacked %d, durable %d, started %d; expected one of, but for what has expired\n\t%s",
			c.now(), found, o.Acked, o.Durable, o.Started, strings.Join(o.states[lo:o.Started+1], "\n\t"))
	}
	if c.judge != nil {
		if err := c.judge(s); err != nil {
			return nil, err
		}
	}
	return &shown{c, o, at, content, deadlines}, nil
}

func (x *shown) Compare(s *Store) error {
	found, _, err := contentOf(s)
	if want := renderMortal(x.content, x.deadlines); err == nil && found != want {
		return fmt.Errorf("found\n\t%s, want\n\t%s", found, want)
	}
	return err
}

// Write writes, and compacts some of the store.
func (x *shown) Write(s *Store) error {
	for _, k := range []string{"a", "after the crash"} {
		x.content[k] = "new"
		delete(x.deadlines, k)
		if err := s.Set(nil, []byte(k), []byte("new"), 0, Process); err != nil {
			return err
		}
	}
	return compactRun(s, x.c.Rng.IntN(1000))
}

func (x *shown) Book(allDurable bool) *oracle {
	next := newOracle(x.content)
	maps.Copy(next.deadlines, x.deadlines)
	next.states = slices.Clone(x.oracle.states[:x.at+1])
	next.Count, next.found = crashtest.Count{Started: x.at, Acked: x.at, Durable: x.at}, x.at
	if !allDurable {
		next.Durable = min(x.oracle.Durable, x.at)
	}
	return next
}

// contentOf reads everything in s. It returns faults as its error, and the rest nevertheless.
func contentOf(s *Store) (string, map[string]string, error) {
	content := map[string]string{}
	var wrong []error
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if errors.Is(item.Err, ErrType) {
				item.Err = collectionItem(s, &item)
			}
			if item.Err != nil {
				wrong = append(wrong, fmt.Errorf("reading: %w", item.Err))
				continue
			}
			if _, twice := content[string(item.Key)]; twice {
				wrong = append(wrong, fmt.Errorf("key %q twice", item.Key))
			}
			content[string(item.Key)] = string(item.Value)
			if schema, ok := s.Schema(item.Schema); item.Schema != 0 && (!ok || schema.Text != string(item.Key)) {
				wrong = append(wrong, fmt.Errorf("key %q has schema %d, %+v", item.Key, item.Schema, schema))
			}
		}
	}
	var keys []string
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("scanning: %w", err))
		}
		keys = append(keys, string(key))
	}
	if want := slices.Sorted(maps.Keys(content)); !slices.Equal(keys, want) {
		wrong = append(wrong, fmt.Errorf("the order is %q, want %q", keys, want))
	}
	if n := s.Stats().Keys; int(n) != len(content) {
		wrong = append(wrong, fmt.Errorf("%d keys counted, %d there", n, len(content)))
	}
	deadlines, err := deadlinesOf(s, content)
	return renderMortal(content, deadlines), content, errors.Join(append(wrong, err)...)
}

// randomScript is n steps over few keys, in and out of maps, of every size that takes another way.
func randomScript(rng *rand.Rand, n int) []step {
	keys := []string{"a", "b", "", "users:1", "users:2", "users:", "x\ny z", "\x00\xff"}
	kinds := []string{"set", "set", "set", "fsync", "delete", "deletefsync", "sync", "set", "set", "reopen", "map"}
	script := make([]step, n)
	for i := range script {
		st := step{kind: kinds[rng.IntN(len(kinds))], key: keys[rng.IntN(len(keys))]}
		switch rng.IntN(8) {
		case 0:
			st.value = ""
		case 1:
			st.value = strings.Repeat(fmt.Sprint(i, "\n"), rng.IntN(300))
		default:
			st.value = fmt.Sprintf("value %d of %s", i, st.key)
		}
		if st.kind == "map" {
			st.key = "users"
		}
		script[i] = st
	}
	return script
}

// mortally lets the process die at some steps, with and without a write-back that fails.
func mortally(rng *rand.Rand, script []step) []step {
	for i := range script {
		if script[i].kind == "reopen" {
			script[i].kind = []string{"reopen", "die", "die unsynced"}[rng.IntN(3)]
		}
	}
	return script
}

func longTest() bool { return crashtest.Long() }

func TestCrashModel(t *testing.T) { logtest.BothWays(t, crashModel) }

func crashModel(t *testing.T) {
	want, limit, sparse := 3_000, 8, 6
	if longTest() {
		want, limit, sparse = 2_500_000, 40, 0
	}
	states, torn := 0, 0
	for seed := uint64(1); states < want || seed <= 3; seed++ { // each size of the ring
		c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 2)), Limit: limit, Sparse: sparse, Again: 2000})
		c.ring = []int64{256, 1 << 10, 4 << 10}[seed%3]
		c.Run(vfs.NewCrashMem(), newOracle(nil), mortally(c.Rng, randomScript(c.Rng, 30)))
		states, torn = states+c.States, torn+c.Torn
		if c.Failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.Failure)
		}
	}
	t.Logf("%d crash states and %d torn copies, 0 violations", states, torn)
}

// TestCrashModelFindsPlantedBugs proves that the test above can fail.
func TestCrashModelFindsPlantedBugs(t *testing.T) {
	for name, bug := range map[string]vfs.Bug{"no fsync": vfs.IgnoreSync, "no fsync of the directory": vfs.IgnoreSyncDir} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 2)), Limit: 60, Plant: bug})
				c.Run(vfs.NewCrashMem(), newOracle(nil), randomScript(c.Rng, 30))
				if c.Failure != "" {
					t.Logf("seed %d, after %d states: %.300s", seed, c.States, c.Failure)
					return
				}
			}
			t.Error("the bug went unnoticed")
		})
	}
}

// TestCrashModelSeesRecordsInOneCopy plants the bug for which copies are torn: two records go into
// the ring in one, and a kill leaves the second of them whole after the first, which has lost its
// beginning.
func TestCrashModelSeesRecordsInOneCopy(t *testing.T) {
	logtest.NeedsRing(t)
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		c := newCrasher(t, crashtest.Plan{Rng: rand.New(rand.NewPCG(7, 2))})
		c.ring = 4 << 10
		mem := vfs.NewCrashMem()
		s, err := c.Open(mem)
		if err != nil {
			t.Fatal(err)
		}
		o := newOracle(nil)
		if _, err = c.step(mem, s, o, step{kind: "set", key: "before", value: "13"}); err != nil {
			t.Fatal(err)
		}
		var text []byte
		tail, end := s.log.Tail, s.log.Tail.End.Load()
		for i, key := range keys {
			o.begin(step{kind: "set", key: key, value: "new"})
			h := record.Head{Op: record.Set, Kind: record.Value, Seq: s.log.NextSeq + uint64(i), Time: s.log.LastTime - tail.Start}
			text = tail.Salt.Append(text, end+int64(len(text)), &h, []byte(key), []byte("new"))
		}
		if err := s.log.Ring.Leave(); err != nil { // else it names the last acknowledged record, and any bytes may follow that
			t.Fatal(err)
		}
		mem.OnBoundary(func(op vfs.Op, _ vfs.Phase) { c.Tear(mem, o, op, 0) })
		if err := s.log.Ring.Parts[0].Store(&tail.Tail, text, end); err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(c.Failure, "a whole one follows"); c.Torn == 0 || found != (len(keys) > 1) || !found && c.Failure != "" {
			t.Errorf("%d records, torn in %d ways: %q", len(keys), c.Torn, c.Failure)
		}
	}
}
