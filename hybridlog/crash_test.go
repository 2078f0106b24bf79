package hybridlog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// The crash model. A script runs on a file system that records what is durable. At every boundary of every file
// operation, and within every write, the process is killed and the power is cut in as many ways as the model
// knows; each time the log is opened on what is left:
//
//   - it holds what some prefix of the script had written, entry by entry;
//   - that prefix has every write that was acknowledged at its durability;
//   - it begins where it was trimmed, or was being trimmed;
//   - it takes writes, and opens again with them.
//
// A death may come with a write-back that fails: the cache then shows what the disk never gets.
// A sample of the survivors is crashed once more, during their recovery.

// step is one operation of a script.
type step struct {
	kind string // append, sync, seal, reopen, die, trim, compact
	n    int    // bytes; of a trim, per mille of the log; of a death, whether the write-back fails then
}

// oracle follows a script.
type oracle struct {
	entries [][]byte // that were begun
	acked   int      // of them acknowledged: safe from the death of the process
	durable int      // safe from a power cut
	first   Address
	trims   Address // being trimmed
}

func (o *oracle) end(n int) (sum Address) {
	for _, e := range o.entries[:n] {
		sum += Address(len(e))
	}
	return sum
}

type crasher struct {
	t       *testing.T
	rng     *rand.Rand
	limit   int // power cuts at one boundary
	plant   vfs.Bug
	change  func(*options)
	policy  SyncPolicy
	states  int
	sparse  int // one in so many boundaries is crashed at
	again   int // one in so many survivors is crashed in its recovery
	failure string
	trail   []string
}

func (c *crasher) open(fsys vfs.FS) (*Log, error) {
	return open("log", testOptions(fsys, c.change, func(o *options) {
		o.policy = c.policy
		o.random = c.rng.Uint64
	}))
}

func (c *crasher) violation(format string, args ...any) {
	if c.failure == "" {
		c.failure = fmt.Sprintf(format, args...) + "\n\tscript: " + strings.Join(c.trail, ", ")
	}
}

// run runs a script on mem, crashing it at every boundary.
func (c *crasher) run(mem *vfs.Mem, o *oracle, script []step, depth int) {
	fsys := c.watch(mem, o, depth)
	l, err := c.open(fsys)
	if err != nil {
		c.violation("the script's own Open: %v", err)
		return
	}
	for i, st := range script {
		if c.failure != "" {
			break
		}
		if depth == 0 {
			c.trail = append(c.trail[:i], fmt.Sprint(st.kind, " ", st.n))
		}
		if st.kind == "die" {
			mem = mem.ProcessCrash()
			if st.n > 0 {
				loseUnsynced(c.t, mem)
			}
			fsys = c.watch(mem, o, depth)
			if l, err = c.open(fsys); err == nil {
				o.told(l)
			}
		} else {
			l, err = c.step(fsys, l, o, st)
		}
		if err != nil {
			c.violation("step %d, %v: %v", i, st, err)
			return
		}
	}
	if err := l.Close(); err != nil {
		c.violation("Close: %v", err)
	}
}

// watch crashes mem at its boundaries from now on.
func (c *crasher) watch(mem *vfs.Mem, o *oracle, depth int) vfs.FS {
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if c.failure == "" && phase != vfs.Before && c.rng.IntN(c.sparse) == 0 {
			c.crash(mem, o, fmt.Sprintf("%v, phase %v", op, phase), depth)
		}
	})
	if c.plant != 0 {
		return vfs.Inject(mem).Plant(c.plant)
	}
	return mem
}

func (c *crasher) step(fsys vfs.FS, l *Log, o *oracle, st step) (*Log, error) {
	var err error
	switch st.kind {
	case "append":
		o.entries = append(o.entries, text(len(o.entries), st.n))
		if _, err = l.Append(o.entries[len(o.entries)-1]); err == nil {
			o.acked = len(o.entries)
		}
		if c.policy == AlwaysSync {
			o.durable = o.acked
		}
	case "sync":
		if err = l.Sync(); err == nil {
			o.durable = o.acked
		}
	case "seal": // what the log does by itself when a segment has ended
		if l.tail != nil {
			err = l.sealBehind()
		}
	case "trim":
		at := Address(l.Size() * int64(st.n) / 1000)
		n := 0
		for n < len(o.entries) && o.end(n+1) <= at {
			n++
		}
		o.trims = max(o.end(n), o.first)
		if err = l.Trim(at); err == nil {
			o.first = o.trims
			o.durable = max(o.durable, n)
		}
	case "compact":
		if err = l.Compact(); err == nil {
			o.durable = o.acked
		}
	case "reopen":
		wrote := l.tail != nil // else the log stays as it was found
		if err = l.Close(); err == nil {
			if wrote {
				o.durable = o.acked
			}
			l, err = c.open(fsys)
		}
	}
	if err == nil {
		o.told(l)
	}
	return l, err
}

// told takes the log at its word for what is durable.
func (o *oracle) told(l *Log) {
	for o.durable < o.acked && o.end(o.durable+1) <= l.Stats().Durable {
		o.durable++
	}
}

// crash opens what every crash at this instant may leave.
func (c *crasher) crash(mem *vfs.Mem, o *oracle, where string, depth int) {
	c.survive(mem.ProcessCrash(), o, o.acked, "process crash at "+where, depth, true)
	for image := range mem.PowerCuts(c.limit, c.rng) {
		if c.failure != "" {
			return
		}
		c.survive(image, o, o.durable, "power cut at "+where, depth, false)
	}
}

func (c *crasher) survive(image *vfs.Mem, o *oracle, lo int, where string, depth int, records bool) {
	c.states++
	odds := c.again
	if records {
		odds = max(odds/10, 1)
	}
	var twin *vfs.Mem
	if depth == 0 && c.again > 0 && c.rng.IntN(odds) == 0 {
		if twin = image.ProcessCrash(); !records {
			twin.Record()
		} else if c.rng.IntN(2) == 0 {
			loseUnsynced(c.t, twin)
		}
		twin.LosePagesForGood()
	}
	l, err := c.open(image)
	if err != nil {
		c.violation("%s: Open: %v", where, err)
		return
	}
	found := -1
	for n := len(o.entries); n >= lo; n-- {
		if Address(l.Size()) == o.end(n) {
			found = n
			break
		}
	}
	first := o.first
	if l.First() == o.trims {
		first = o.trims
	}
	if found < 0 {
		c.violation("%s: it has %d bytes; %d entries were acknowledged, with %d", where, l.Size(), lo, o.end(lo))
		return
	}
	if err := problem(l, o.entries[:found], first); err != nil {
		c.violation("%s: %v", where, err)
		return
	}
	if c.rng.IntN(4) == 0 {
		c.writeAndReopen(image, l, o.entries[:found:found], first, where)
	} else if err := l.Close(); err != nil {
		c.violation("%s: Close: %v", where, err)
	}
	if twin == nil || c.failure != "" {
		return
	}
	next, sparse := &oracle{entries: o.entries[:found:found], acked: found, durable: found, first: first, trims: first}, c.sparse
	c.sparse = 3
	defer func() { c.sparse = sparse }()
	if records { // a power cut may take back what it shows
		next.durable, next.first = min(o.durable, found), o.first
	}
	c.run(twin, next, []step{{"append", 30}, {"sync", 0}, {"append", 5000}, {"reopen", 0}, {"append", 3}, {"compact", 0}, {"sync", 0}}, depth+1)
	if c.failure != "" {
		c.failure = fmt.Sprintf("%s (survivor with %d entries), and then: %s", where, found, c.failure)
	}
}

// writeAndReopen writes to a survivor and opens it once more.
func (c *crasher) writeAndReopen(image *vfs.Mem, l *Log, want [][]byte, first Address, where string) {
	for i := range 2 {
		p := text(1000+i, 10+3000*i)
		want = append(want, p)
		if _, err := l.Append(p); err != nil {
			c.violation("%s: Append to the survivor: %v", where, err)
			return
		}
	}
	if c.rng.IntN(2) == 0 {
		if err := l.Close(); err != nil {
			c.violation("%s: closing the survivor: %v", where, err)
			return
		}
	} else {
		image = image.ProcessCrash() // die
	}
	again, err := c.open(image)
	if err != nil {
		c.violation("%s: opening the survivor again: %v", where, err)
		return
	}
	if err := problem(again, want, first); err != nil {
		c.violation("%s: the survivor after two writes: %v", where, err)
	}
	if err := again.Close(); err != nil {
		c.violation("%s: closing the survivor: %v", where, err)
	}
}

// randomScript is n steps, with writes of every size that takes another way.
func randomScript(rng *rand.Rand, n int) []step {
	kinds := []string{"append", "append", "append", "append", "append", "append", "sync", "seal", "reopen", "die", "die", "trim", "compact"}
	sizes := []int{1, 20, 200, 600, 1000, 5000, 9000, 25_000}
	script := make([]step, n)
	for i := range script {
		st := step{kind: kinds[rng.IntN(len(kinds))]}
		switch st.kind {
		case "append":
			st.n = 1 + rng.IntN(sizes[rng.IntN(len(sizes))])
		case "trim":
			st.n = rng.IntN(700)
		case "die":
			st.n = rng.IntN(2)
		}
		script[i] = st
	}
	return script
}

// roundAndRound goes round the ring, and from segment to segment.
func roundAndRound(rng *rand.Rand, n int) []step {
	script := make([]step, n)
	for i := range script {
		script[i] = step{"append", 100 + rng.IntN(600)}
		if rng.IntN(20) == 0 {
			script[i] = step{[]string{"sync", "seal", "seal", "reopen", "die"}[rng.IntN(5)], rng.IntN(2)}
		}
	}
	return script
}

func TestCrashModel(t *testing.T) {
	want := 2_400
	if longTest() {
		want = 1_000_000
	}
	if testing.Short() {
		want = 2_000
	}
	if n, err := strconv.Atoi(os.Getenv("COPAL_STATES")); err == nil {
		want = n
	}
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			states := 0
			for seed := uint64(1); states < want/4; seed++ {
				c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, uint64(policy))), limit: 8, sparse: 20, again: 100, change: change, policy: policy}
				mem := vfs.NewMem()
				mem.Record()
				mem.LosePagesForGood()
				script := randomScript(c.rng, 14)
				if seed%2 == 0 {
					script = roundAndRound(c.rng, 45)
					c.change = func(o *options) { change(o); o.segmentBytes = 7000 }
				}
				c.run(mem, &oracle{}, script, 0)
				if c.failure != "" {
					t.Fatalf("policy %d, seed %d: %s", policy, seed, c.failure)
				}
				states += c.states
			}
			t.Logf("policy %d: %d states", policy, states)
		})
	}
}

// TestCrashModelSeesBugs plants the classic ones beneath the log.
func TestCrashModelSeesBugs(t *testing.T) {
	for name, bug := range map[string]vfs.Bug{"IgnoreSync": vfs.IgnoreSync, "IgnoreSyncDir": vfs.IgnoreSyncDir} {
		found := slices.ContainsFunc([]uint64{1, 2, 3, 4, 5, 6, 7, 8}, func(seed uint64) bool {
			c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 0)), limit: 8, sparse: 1, change: func(*options) {}, policy: AlwaysSync, plant: bug}
			mem := vfs.NewMem()
			mem.Record()
			c.run(mem, &oracle{}, randomScript(c.rng, 8), 0)
			return c.failure != ""
		})
		if !found {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// What is durable in the ring alone keeps its place there until the files are synced, on each lap and into the next segment.
func TestClaimedPlacesAreKept(t *testing.T) {
	c := &crasher{t: t, rng: rand.New(rand.NewPCG(3, 3)), limit: 6, sparse: 4, change: func(o *options) { o.segmentBytes = 11_000 }, policy: AlwaysSync}
	mem := vfs.NewMem()
	mem.Record()
	c.run(mem, &oracle{}, slices.Repeat([]step{{"append", 650}}, 24), 0)
	if c.failure != "" {
		t.Fatal(c.failure)
	}
	t.Logf("%d states", c.states)
}

// What is sealed, and what Stats says, is durable, whatever the policy is.
func TestSealedIsDurable(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		c := &crasher{t: t, rng: rand.New(rand.NewPCG(5, 5)), limit: 6, sparse: 40, change: func(o *options) { change(o); o.segmentBytes = 2000 }}
		mem := vfs.NewMem()
		mem.Record()
		script := slices.Repeat([]step{{"append", 600}, {"append", 600}, {"append", 900}, {"append", 500}, {"seal", 0}, {"append", 300}}, 3)
		c.run(mem, &oracle{}, script, 0)
		if c.failure != "" {
			t.Fatal(c.failure)
		}
		t.Logf("%d states", c.states)
	})
}

// A sync covers what another writer has put into the segment before, too.
func TestSyncAcrossSegments(t *testing.T) {
	mem := vfs.NewMem()
	mem.Record()
	small := func(o *options) { o.policy, o.segmentBytes = AlwaysSync, 1000 }
	l := mustOpen(t, mem, small)
	want := [][]byte{text(1, 300), text(2, 400), text(3, 500)}
	for _, p := range want { // by writers that have not come to wait for their sync yet
		if _, err := l.append(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.syncTo(1200); err != nil {
		t.Fatal(err)
	}
	for image := range mem.PowerCuts(200, nil) {
		if err := problem(mustOpen(t, image, small), want, 0); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
}
