package hybridlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/vfs"
)

// The log as an owner for the crash model of crashtest. It begins where it was trimmed, or was being trimmed.

// step is one operation of a script.
type step struct {
	kind string // append, sync, seal, reopen, die, trim, compact
	n    int    // bytes; of a trim, per mille of the log; of a death, whether the write-back fails then
}

func (s step) String() string { return fmt.Sprint(s.kind, " ", s.n) }

func (s step) Death() crashtest.Death {
	switch {
	case s.kind != "die":
		return crashtest.Lives
	case s.n > 0:
		return crashtest.DiesUnsynced
	}
	return crashtest.Dies
}

// oracle follows a script. Its writes are entries.
type oracle struct {
	crashtest.Count
	entries [][]byte
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
	crashtest.Crasher[*Log, *oracle, step]
	change func(*options)
	policy SyncPolicy
}

func newCrasher(change func(*options), policy SyncPolicy, plan crashtest.Plan) *crasher {
	c := &crasher{change: change, policy: policy}
	c.Plan, c.Owner = plan, c
	return c
}

func (c *crasher) Dir() string { return "log" }

func (c *crasher) Open(fsys vfs.FS) (*Log, error) {
	return open("log", testOptions(fsys, c.change, func(o *options) {
		o.policy = c.policy
		o.random = c.Rng.Uint64
	}))
}

func (c *crasher) Close(l *Log) error { return l.Close() }

func (c *crasher) Sync(l *Log) error { return l.Sync() }

func (c *crasher) Reborn(l *Log, o *oracle) { o.told(l) }

func (c *crasher) After() []step {
	return []step{{"append", 30}, {"sync", 0}, {"append", 5000}, {"reopen", 0}, {"append", 3}, {"compact", 0}, {"sync", 0}}
}

func (c *crasher) Step(fsys vfs.FS, l *Log, o *oracle, st step) (*Log, error) {
	var err error
	switch st.kind {
	case "append":
		o.entries = append(o.entries, text(len(o.entries), st.n))
		o.Started++
		if _, err = l.Append(o.entries[len(o.entries)-1]); err == nil {
			o.Acked = len(o.entries)
		}
		if c.policy == AlwaysSync {
			o.Durable = o.Acked
		}
	case "sync":
		if err = l.Sync(); err == nil {
			o.Durable = o.Acked
		}
	case "seal": // as the log does by itself when a segment has ended
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
			o.Durable = max(o.Durable, n)
		}
	case "compact":
		if err = l.Compact(); err == nil {
			o.Durable = o.Acked
		}
	case "reopen":
		wrote := l.tail != nil // else the log stays as it was found
		if err = l.Close(); err == nil {
			if wrote {
				o.Durable = o.Acked
			}
			l, err = c.Open(fsys)
		}
	}
	if err == nil {
		o.told(l)
	}
	return l, err
}

// told believes the log which entries are durable.
func (o *oracle) told(l *Log) {
	for o.Durable < o.Acked && o.end(o.Durable+1) <= l.Stats().Durable {
		o.Durable++
	}
}

// shown is the content of a log after a crash.
type shown struct {
	oracle *oracle
	want   [][]byte
	first  Address
}

func (c *crasher) Judge(l *Log, o *oracle, lo int) (crashtest.Shown[*Log, *oracle], error) {
	first := o.first
	if l.First() == o.trims {
		first = o.trims
	}
	for n := o.Started; n >= lo; n-- {
		if Address(l.Size()) == o.end(n) {
			x := &shown{o, o.entries[:n:n], first}
			return x, x.Compare(l)
		}
	}
	return nil, fmt.Errorf("it has %d bytes; %d entries were acknowledged, with %d", l.Size(), lo, o.end(lo))
}

func (x *shown) Compare(l *Log) error { return problem(l, x.want, x.first) }

func (x *shown) Write(l *Log) error {
	for i := range 2 {
		x.want = append(x.want, text(1000+i, 10+3000*i))
		if _, err := l.Append(x.want[len(x.want)-1]); err != nil {
			return err
		}
	}
	return nil
}

func (x *shown) Book(allDurable bool) *oracle {
	n := len(x.want)
	next := &oracle{Count: crashtest.Count{Started: n, Acked: n, Durable: n}, entries: x.want, first: x.first, trims: x.first}
	if !allDurable { // a power cut may take shown entries away
		next.Durable, next.first = min(x.oracle.Durable, n), x.oracle.first
	}
	return next
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
	want := 3_000
	if longTest() {
		want = 1_000_000
	}
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			states, torn := 0, 0
			for seed := uint64(1); states < want/4 || seed <= 2; seed++ {
				rng := rand.New(rand.NewPCG(seed, uint64(policy)))
				c := newCrasher(change, policy, crashtest.Plan{Rng: rng, Limit: 8, Sparse: 20, Again: 400, Nested: 6})
				script := randomScript(c.Rng, 14)
				if seed%2 == 0 {
					script = roundAndRound(c.Rng, 45)
					c.change = func(o *options) { change(o); o.segmentBytes = 7000 }
				}
				c.Run(vfs.NewCrashMem(), &oracle{}, script)
				if c.Failure != "" {
					t.Fatalf("policy %d, seed %d: %s", policy, seed, c.Failure)
				}
				states, torn = states+c.States, torn+c.Torn
			}
			t.Logf("policy %d: %d states and %d torn copies", policy, states, torn)
		})
	}
}

// TestCrashModelSeesBugs plants the classic ones beneath the log.
func TestCrashModelSeesBugs(t *testing.T) {
	for name, bug := range map[string]vfs.Bug{"IgnoreSync": vfs.IgnoreSync, "IgnoreSyncDir": vfs.IgnoreSyncDir} {
		found := slices.ContainsFunc([]uint64{1, 2, 3, 4, 5, 6, 7, 8}, func(seed uint64) bool {
			c := newCrasher(func(*options) {}, AlwaysSync, crashtest.Plan{Rng: rand.New(rand.NewPCG(seed, 0)), Limit: 8, Plant: bug})
			c.Run(vfs.NewCrashMem(), &oracle{}, randomScript(c.Rng, 8))
			return c.Failure != ""
		})
		if !found {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// Bytes that are durable only in the ring keep their place there until the files are synced, on
// each lap and into the next segment.
func TestClaimedPlacesAreKept(t *testing.T) {
	small := func(o *options) { o.segmentBytes = 11_000 }
	c := newCrasher(small, AlwaysSync, crashtest.Plan{Rng: rand.New(rand.NewPCG(3, 3)), Limit: 6, Sparse: 4})
	c.Run(vfs.NewCrashMem(), &oracle{}, slices.Repeat([]step{{"append", 650}}, 24))
	if c.Failure != "" {
		t.Fatal(c.Failure)
	}
	t.Logf("%d states", c.States)
}

// Sealed segments are durable, and so is everything up to Stats.Durable, under each policy.
func TestSealedIsDurable(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		small := func(o *options) { change(o); o.segmentBytes = 2000 }
		c := newCrasher(small, NoSync, crashtest.Plan{Rng: rand.New(rand.NewPCG(5, 5)), Limit: 6, Sparse: 40})
		script := slices.Repeat([]step{{"append", 600}, {"append", 600}, {"append", 900}, {"append", 500}, {"seal", 0}, {"append", 300}}, 3)
		c.Run(vfs.NewCrashMem(), &oracle{}, script)
		if c.Failure != "" {
			t.Fatal(c.Failure)
		}
		t.Logf("%d states", c.States)
	})
}

// A sync covers the earlier entries of another writer in the segment, too.
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
