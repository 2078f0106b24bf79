package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// The crash model. A script of writes runs on a file system that records what is
// durable. At every boundary of every file operation, and within every write, the
// process is killed and the power is cut in as many ways as the model knows; within
// every copy into the ring the process is killed with any part of it missing. Each
// time the store is opened on what is left, and what it holds is compared with the
// oracle of docs/durability.md:
//
//   - it is exactly what some prefix of the script had made;
//   - that prefix holds every write that was acknowledged at its durability;
//   - of it all is there, with its deadline, but for what has expired by the clock;
//   - the store takes writes, and opens again with them.
//
// A sample of the survivors is crashed once more, during its own recovery, and the power is cut of a sample of those that have been opened.

// step is one operation of a script.
type step struct {
	kind  string // set, fsync, delete, deletefsync, sync, reopen, and those of mortalScript
	key   string
	value string
	life  time.Duration // of the entry, or to pass

	changes []step // of a group
}

// oracle follows a script. states[i] is what the store holds after i writes, if nothing has expired.
type oracle struct {
	states    []string
	content   map[string]string
	deadlines map[string]uint64 // of what has one
	started   int               // writes begun
	acked     int               // writes acknowledged: safe from the death of the process
	durable   int               // writes acknowledged as synced, or covered by a sync: safe from a power cut
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
	o.started++
}

// find is the last of the states that may be found at this time after a crash that spares the writes up to lo.
func (o *oracle) find(found string, lo int, now uint64) (int, bool) {
	for i := o.started; i >= lo; i-- {
		if alive(o.states[i], now) == found {
			return i, true
		}
	}
	return 0, false
}

// crasher runs scripts and crashes them.
type crasher struct {
	t       *testing.T
	rng     *rand.Rand
	limit   int      // power cuts tried at one boundary, when there are too many to try all
	ring    int64    // its size, if not the usual
	plant   vfs.Bug  // for tests of the test
	states  int      // crash states opened so far
	torn    int      // and those of kills within a store to the ring, other than after its first half
	failure string   // the first violation
	again   int      // one in so many survivors is crashed in its recovery
	sparse  int      // one in so many boundaries is crashed at, if not all
	trail   []string // of steps, for messages
	options func(*Options)
	room    func(s *Store, o *oracle, st step) error // what a room above the engine does
	clock   *logtest.Clock                           // nil for that of the machine, with which nothing expires

	groups    []*openGroup // of the script itself
	compacted int64        // segments, in the script itself
	ordered   int          // survivors that were opened with an order in files
}

func (c *crasher) open(fsys vfs.FS) (*Store, error) {
	n := uint64(0)
	return Open("db", testOptions(fsys, func(o *Options) {
		o.SegmentBytes = 700
		if c.ring > 0 {
			o.RingBytes = c.ring
		}
		o.Random = func() uint64 { n++; return c.rng.Uint64() }
		if c.clock != nil {
			o.Clock = c.clock
		}
		if c.options != nil {
			c.options(o)
		}
	}))
}

// run runs a script on mem, crashing it at every boundary. It returns at the first violation.
func (c *crasher) run(mem *vfs.Mem, o *oracle, script []step, depth int) {
	var fsys vfs.FS = mem
	if c.plant != 0 {
		fsys = vfs.Inject(mem).Plant(c.plant)
	}
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if c.failure == "" && phase != vfs.Before && (c.sparse == 0 || c.rng.IntN(c.sparse) == 0) {
			c.crash(mem, o, fmt.Sprintf("%v, phase %v", op, phase), depth)
		}
		c.tear(mem, o, op, depth)
	})
	s, err := c.open(fsys)
	if err != nil {
		c.violation("the script's own Open: %v", err)
		return
	}
	found := o.acked
	for i, st := range script {
		if c.failure != "" {
			break
		}
		if depth == 0 {
			c.trail = append(c.trail[:i], fmt.Sprintf("%s %s %d", st.kind, st.key, len(st.value)))
		}
		if s, err = c.step(fsys, s, o, st); err != nil {
			c.violation("step %d, %s: %v", i, st.kind, err)
			return
		}
		o.durable = max(o.durable, found)    // the first append has made durable what was found
		if c.sparse > 0 && c.failure == "" { // else every boundary of the step was crashed at
			c.survive(mem.ProcessCrash(), o, o.acked, fmt.Sprintf("process crash after step %d, %s", i, st.kind), depth, true)
		}
	}
	c.giveUp(s)
	if err := s.Close(); err != nil && c.failure == "" {
		c.violation("Close: %v", err)
	}
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
		o.acked = o.started
	case "delete", "deletefsync":
		o.begin(st)
		if _, err = s.Delete(nil, []byte(st.key), durabilityOf(st)); err != nil {
			return s, err
		}
		o.acked = o.started
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
		c.giveUp(s)
		if err = s.Close(); err == nil {
			o.durable = o.acked
			s, err = c.open(fsys)
		}
		return s, err
	}
	if st.kind == "sync" || durabilityOf(st) == Power {
		o.durable = o.acked
	}
	return s, err
}

func durabilityOf(st step) Durability {
	if strings.HasSuffix(st.kind, "fsync") {
		return Power
	}
	return Process
}

// crash opens what every crash at this instant may leave.
func (c *crasher) crash(mem *vfs.Mem, o *oracle, where string, depth int) {
	c.states++
	c.survive(mem.ProcessCrash(), o, o.acked, "process crash at "+where, depth, true)
	for image := range mem.PowerCuts(c.limit, c.rng) {
		if c.failure != "" {
			return
		}
		c.states++
		c.survive(image, o, o.durable, "power cut at "+where, depth, false)
	}
}

// tear opens what a kill may leave that comes within a store. Where few boundaries are crashed at,
// each store is torn nevertheless, in one way or so.
func (c *crasher) tear(mem *vfs.Mem, o *oracle, op vfs.Op, depth int) {
	for image := range mem.TornStores(c.rng) {
		if c.failure != "" {
			return
		}
		if c.sparse > 0 && c.rng.IntN(5) > 0 {
			continue
		}
		c.torn++
		c.survive(image, o, o.acked, fmt.Sprintf("kill within %v", op), depth, true)
	}
}

// survive checks one crash state. After the death of the process alone, what was not
// durable still is not: such an image goes on recording.
func (c *crasher) survive(image *vfs.Mem, o *oracle, lo int, where string, depth int, records bool) {
	odds := c.again
	if records {
		odds /= 10 // there are far fewer of these
	}
	again := depth == 0 && c.again > 0 && c.rng.IntN(odds) == 0
	var twin *vfs.Mem
	if again {
		if twin = image.ProcessCrash(); !records {
			twin.Record()
		}
	}
	defer c.afterATime()()
	s, err := c.open(image)
	if err != nil {
		c.violation("%s: Open: %v", where, err)
		return
	}
	for _, t := range s.Tables() {
		if o := t.order.Load(); o != nil && o.base != nil && o.base.file != nil {
			c.ordered++
			break
		}
	}
	found, content := contentOf(c, s, where)
	deadlines := deadlinesOf(c, s, content)
	if records && c.rng.IntN(4) == 0 {
		if err := s.Sync(); err != nil {
			c.violation("%s: Sync: %v", where, err)
		}
		c.cutSynced(image, found, where)
	}
	if c.rng.IntN(4) == 0 {
		c.sweepSurvivor(s, where)
	}
	at, ok := o.find(found, lo, c.now())
	if !ok && c.failure == "" {
		c.violation("%s, at %d: found\n\t%s\n\tacked %d, durable %d, started %d; expected one of, but for what has expired\n\t%s", where, c.now(), found, o.acked, o.durable, o.started, strings.Join(o.states[lo:o.started+1], "\n\t"))
		return
	}
	if c.rng.IntN(4) == 0 {
		c.writeAndReopen(image, s, content, where)
	} else if err := s.Close(); err != nil {
		c.violation("%s: Close: %v", where, err)
	}
	if again && c.failure == "" {
		next := newOracle(content)
		next.deadlines = deadlines
		next.states = append([]string{}, o.states[:at+1]...)
		next.started, next.acked, next.durable = at, at, at
		if records {
			next.durable = o.durable // until the store is open
		}
		c.run(twin, next, []step{{kind: "set", key: "after", value: "1"}, {kind: "fsync", key: "a", value: "2"}, {kind: "reopen"}, {kind: "fsync", key: "users:1", value: "3"}}, depth+1)
		if c.failure != "" {
			c.failure = fmt.Sprintf("%s (survivor %d) and then: %s", where, at, c.failure)
		}
	}
}

// cutSynced cuts the power when a store has been opened and synced after the death of a process, and nothing has been written: what it shows is durable.
func (c *crasher) cutSynced(image *vfs.Mem, found, where string) {
	for cut := range image.PowerCuts(4, c.rng) {
		s, err := c.open(cut)
		if err != nil {
			c.violation("%s, and a power cut when it has been synced: Open: %v", where, err)
			return
		}
		if now, _ := contentOf(c, s, where); now != found {
			c.violation("%s, and a power cut when it has been synced: found\n\t%s\n\tafter it had shown\n\t%s", where, now, found)
		}
		if err := s.Close(); err != nil {
			c.violation("%s: Close: %v", where, err)
		}
	}
}

// contentOf reads everything in s.
func contentOf(c *crasher, s *Store, where string) (string, map[string]string) {
	content := map[string]string{}
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if errors.Is(item.Err, ErrType) {
				item.Err = collectionItem(s, &item)
			}
			if item.Err != nil {
				c.violation("%s: reading: %v", where, item.Err)
				continue
			}
			if _, twice := content[string(item.Key)]; twice {
				c.violation("%s: key %q twice", where, item.Key)
			}
			content[string(item.Key)] = string(item.Value)
			if schema, ok := s.Schema(item.Schema); item.Schema != 0 && (!ok || schema.Text != string(item.Key)) {
				c.violation("%s: key %q has schema %d, %+v", where, item.Key, item.Schema, schema)
			}
		}
	}
	var keys []string
	for key, err := range s.Scan(Span{}) {
		if err != nil {
			c.violation("%s: scanning: %v", where, err)
		}
		keys = append(keys, string(key))
	}
	if want := slices.Sorted(maps.Keys(content)); !slices.Equal(keys, want) {
		c.violation("%s: the order is %q, want %q", where, keys, want)
	}
	if n := s.Stats().Keys; int(n) != len(content) {
		c.violation("%s: %d keys counted, %d there", where, n, len(content))
	}
	return renderMortal(content, deadlinesOf(c, s, content)), content
}

// writeAndReopen writes to a survivor, compacts some of it, and opens it once more.
func (c *crasher) writeAndReopen(image *vfs.Mem, s *Store, content map[string]string, where string) {
	content = maps.Clone(content)
	deadlines := deadlinesOf(c, s, content)
	for _, k := range []string{"a", "after the crash"} {
		content[k] = "new"
		delete(deadlines, k)
		if err := s.Set(nil, []byte(k), []byte("new"), 0, Process); err != nil {
			c.violation("%s: Set in the survivor: %v", where, err)
			return
		}
	}
	if err := compactRun(s, c.rng.IntN(1000)); err != nil {
		c.violation("%s: compacting the survivor: %v", where, err)
		return
	}
	var err error
	if c.rng.IntN(2) == 0 {
		err = s.Close()
	} else {
		image = image.ProcessCrash() // die
	}
	var again *Store
	if err == nil {
		again, err = c.open(image)
	}
	if err != nil {
		c.violation("%s: opening the survivor again: %v", where, err)
		return
	}
	if found, _ := contentOf(c, again, where); found != renderMortal(content, deadlines) {
		c.violation("%s: the survivor holds after a write\n\t%s, want\n\t%s", where, found, renderMortal(content, deadlines))
	}
	if err := again.Close(); err != nil {
		c.violation("%s: closing the survivor: %v", where, err)
	}
}

func (c *crasher) violation(format string, args ...any) {
	if c.failure == "" {
		c.failure = fmt.Sprintf(format, args...) + "\n\tscript: " + strings.Join(c.trail, ", ")
	}
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

func longTest() bool { return os.Getenv("COPAL_LONG") == "1" }

func TestCrashModel(t *testing.T) { logtest.BothWays(t, crashModel) }

func crashModel(t *testing.T) {
	want, limit, sparse := 3_000, 8, 4
	if longTest() {
		want, limit, sparse = 2_500_000, 40, 0
	}
	if testing.Short() {
		want, sparse = 1_500, 8
	}
	if n, err := strconv.Atoi(os.Getenv("COPAL_STATES")); err == nil {
		want = n
	}
	states, torn := 0, 0
	for seed := uint64(1); states < want || seed <= 3; seed++ { // each size of the ring
		c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 2)), limit: limit, sparse: sparse, again: 2000, ring: []int64{256, 1 << 10, 4 << 10}[seed%3]}
		c.run(vfs.NewCrashMem(), newOracle(nil), randomScript(c.rng, 30), 0)
		states, torn = states+c.states, torn+c.torn
		if c.failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.failure)
		}
	}
	t.Logf("%d crash states and %d torn copies, 0 violations", states, torn)
}

// TestCrashModelFindsPlantedBugs proves that the test above can fail.
func TestCrashModelFindsPlantedBugs(t *testing.T) {
	for name, bug := range map[string]vfs.Bug{"no fsync": vfs.IgnoreSync, "no fsync of the directory": vfs.IgnoreSyncDir} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 2)), limit: 60, plant: bug}
				c.run(vfs.NewCrashMem(), newOracle(nil), randomScript(c.rng, 30), 0)
				if c.failure != "" {
					t.Logf("seed %d, after %d states: %.300s", seed, c.states, c.failure)
					return
				}
			}
			t.Error("the bug went unnoticed")
		})
	}
}

// TestCrashModelSeesRecordsInOneCopy plants the bug for which copies are torn: two records go into
// the ring in one, and a kill leaves the second of them whole behind the first, which has lost its
// beginning.
func TestCrashModelSeesRecordsInOneCopy(t *testing.T) {
	logtest.NeedsRing(t)
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		c := &crasher{t: t, rng: rand.New(rand.NewPCG(7, 2)), ring: 4 << 10}
		mem := vfs.NewCrashMem()
		s, err := c.open(mem)
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
		if err := s.log.Ring.Leave(); err != nil { // else it says what was acknowledged, and anything may stand behind that
			t.Fatal(err)
		}
		mem.OnBoundary(func(op vfs.Op, _ vfs.Phase) { c.tear(mem, o, op, 0) })
		if err := s.log.Ring.Parts[0].Store(&tail.Tail, text, end); err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(c.failure, "a whole one follows"); c.torn == 0 || found != (len(keys) > 1) || !found && c.failure != "" {
			t.Errorf("%d records, torn in %d ways: %q", len(keys), c.torn, c.failure)
		}
	}
}
