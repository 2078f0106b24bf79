package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/clock"
	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// The store under the fault injector of crashtest, with scripts of 500 operations. A script may have kills in
// it: the steps after one, the opening above all, run under the same fault. Besides what holds for every owner,
// whatever fails:
//
//   - an operation that returns nil has happened; one that returns ErrNoSpace has not;
//   - after a final error every later write is refused with its cause. After any other error except a lack of
//     room, the write has not happened or, if it was a durable one, is visible and may not be durable;
//   - the store shows the acknowledged writes meanwhile.

// faulted is a run of a script under a fault.
type faulted struct {
	*crashtest.Case
	script  []step
	random  *rand.Rand
	clock   clock.Clock
	oracle  *oracle
	refused bool // a write has failed for good
	unsync  bool // a sync may have failed: records in the cache alone may be gone
	found   int  // the last of the writes that the opening has found
	wrote   bool // something was written since
	groups  []*openGroup
	armed   int  // steps to come of those after a kill
	looking bool // at the content of the store, which is no step
	lasted  int  // writes in the end that the fault has refused
	store   *Store
}

// inject returns a run under a fault of an empty store.
func inject(c *crashtest.Case, script []step) *faulted {
	f := &faulted{Case: c, script: script, oracle: newOracle(nil), clock: logtest.NewClock()}
	f.random = rand.New(rand.NewPCG(5, 3))
	return f
}

func (f *faulted) Dir() string { return "db" }

func (f *faulted) Well() error {
	if f.oracle.Acked == 0 || f.refused || f.unsync {
		return fmt.Errorf("%d writes, refused %v, a sync failed %v", f.oracle.Acked, f.refused, f.unsync)
	}
	return nil
}

func (f *faulted) Open(fsys vfs.FS) (*Store, error) { return Open("db", testOptions(fsys, f.options)) }

func (f *faulted) Close(s *Store) error { return s.Close() }

func (f *faulted) Settle(s *Store) { f.settle(s) }

// Write is for a store on a disk that is well again.
func (f *faulted) Write(s *Store) {
	f.refused, f.unsync, f.store = false, false, s
	f.write()
}

func (f *faulted) write() {
	f.step(0, step{kind: "fsync", key: "afterwards", value: "1"})
	f.compare("afterwards")
}

func (f *faulted) Holds(s *Store, all bool) error {
	lo := f.oracle.Durable
	if all {
		lo = f.oracle.Acked
	}
	found, _, err := contentOf(s)
	if _, ok := f.oracle.find(found, lo, 0); !ok || err != nil {
		return fmt.Errorf("it holds\n\t%s\n\twant one of %q; %w", found, f.oracle.states[lo:], err)
	}
	return nil
}

func faultScript(seed uint64, n int) []step {
	script := randomScript(rand.New(rand.NewPCG(seed, 3)), n)
	for i := range script { // few reopenings: the steps after a failed one are a script of their own
		if script[i].kind == "reopen" && i%10 != 0 {
			script[i].kind = "set"
		}
	}
	return script
}

// options are those of a run. It takes as many operations as any other of the same script.
func (f *faulted) options(o *Options) {
	o.SegmentBytes, o.GroupBytes = 4000, 1000
	o.Random, o.Clock = f.random.Uint64, f.clock
}

// Run runs the script until its end, or until the store cannot be opened again.
func (f *faulted) Run() {
	if !f.open() {
		return
	}
	for i, st := range f.script {
		if f.armed > 0 && !(f.Fault.Forever && f.Fsys.Fired()) {
			f.armed--
		}
		switch st.kind {
		case "reopen":
			f.close()
			if !f.open() {
				return
			}
			continue
		case "die":
			if !f.die(st) {
				return
			}
			continue
		}
		f.step(i, st)
		f.compare(st.key)
		for _, change := range st.changes {
			f.compare(change.key) // of collections, which have sub-keys: no entry
		}
	}
	if f.Kind.Passing && !f.Fault.Forever {
		for f.write(); f.oracle.Durable < f.oracle.Acked || f.oracle.Acked < f.oracle.Started; f.write() {
			if f.lasted++; f.lasted > f.Kind.Times {
				f.Fatalf("the fault has passed, and no write is durable")
			}
		}
	}
	f.close()
}

// open opens the store and settles its content. It reports false if a lasting fault prevents that.
func (f *faulted) open() bool {
	return f.Reopen(func() (err error) {
		f.store, err = f.Open(f.Fsys)
		return err
	}, f.mayRefuse) && f.opened()
}

func (f *faulted) opened() bool {
	f.refused, f.wrote = false, false
	return f.settle(f.store)
}

func (f *faulted) mayRefuse(err error) {
	f.T.Helper()
	f.MayRefuse(err, seglog.ErrCorrupt, seglog.ErrVersion, fs.ErrNotExist)
}

// die kills the process, lets a reader look at the files, if the step is one of those, and opens
// the store again.
func (f *faulted) die(st step) bool {
	f.groups, f.armed = nil, afterKills
	f.Kill()
	if st.value != "look" {
		return f.open()
	}
	s, err := Open("db", testOptions(f.Fsys, f.options, func(o *Options) { o.ReadOnly = true }))
	if err != nil {
		f.mayRefuse(err)
		return f.open()
	}
	f.settle(s)
	if err := s.Close(); err != nil && f.readable(err) {
		f.Fatalf("closing a reader: %v", err)
	}
	return f.open()
}

func (f *faulted) close() {
	for _, g := range f.groups {
		g.group.End()
	}
	f.groups = nil
	err := f.store.Close()
	f.note(err)
	if err == nil && !f.refused && f.wrote {
		f.oracle.Durable = f.oracle.Acked
	}
	if again := f.store.Close(); again != nil {
		f.Fatalf("the second Close: %v", again)
	}
}

// acknowledged notes that a write has succeeded. The first one has made the records found by the
// opening durable.
func (f *faulted) acknowledged(power bool) {
	o := f.oracle
	o.Acked, f.wrote = o.Started, true
	if o.Durable = max(o.Durable, f.found); power {
		o.Durable = o.Acked
	}
}

// settle finds out which of the possible states a reopened store holds. It reports false if a
// lasting fault prevents reads.
func (f *faulted) settle(s *Store) bool {
	f.looking = true
	defer func() { f.looking = false }()
	lo := f.oracle.Acked
	if f.unsync {
		lo = f.oracle.Durable
	}
	content, ok := f.read(s)
	for range 1 + f.Kind.Times {
		if !ok && !f.Fault.Forever {
			content, ok = f.read(s)
		}
	}
	if !ok {
		return false
	}
	at, ok := f.oracle.find(render(content), lo, 0)
	if !ok {
		f.Fatalf("the reopened store holds\n\t%s\n\twant one of %q", render(content), f.oracle.states[lo:])
	}
	f.oracle.states = append(f.oracle.states[:at:at], f.oracle.states[at])
	f.oracle.Started, f.oracle.Acked, f.oracle.Durable = at, at, min(f.oracle.Durable, at)
	f.oracle.content = content
	f.unsync, f.found = false, at
	return true
}

// read reads all that a store holds. It reports false where the fault keeps it from that.
func (f *faulted) read(s *Store) (map[string]string, bool) {
	content := map[string]string{}
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if errors.Is(item.Err, ErrType) {
				item.Err = collectionItem(s, &item)
			}
			if item.Err != nil {
				if f.readable(item.Err) {
					f.Fatalf("after reopening: %v", item.Err)
				}
				return nil, false
			}
			content[string(item.Key)] = string(item.Value)
		}
	}
	return content, true
}

// readable reports whether an error of a read cannot come from an injected fault.
func (f *faulted) readable(err error) bool {
	return !crashtest.Refuses(err)
}

// step does one operation and holds its result against the rules.
func (f *faulted) step(i int, st step) {
	if strings.HasPrefix(st.kind, "h") || st.kind == "sweep" {
		f.collectionStep(i, st)
		return
	}
	if st.changes != nil {
		f.groupStep(i, st)
		return
	}
	var err error
	before, had := f.oracle.content[st.key]
	write := true
	switch st.kind {
	case "map":
		_, err = f.store.Map(st.key)
		write = false
	case "compact", "shrink", "snapshot":
		if f.compact(st); f.refused {
			return
		}
		write = false
	case "sync":
		err = f.store.Sync()
	case "set", "fsync":
		f.oracle.begin(st)
		err = f.store.Set(nil, []byte(st.key), []byte(st.value), 0, durabilityOf(st))
	default:
		f.oracle.begin(st)
		_, err = f.store.Delete(nil, []byte(st.key), durabilityOf(st))
	}
	switch {
	case err == nil && f.refused && write && st.kind != "sync":
		f.Fatalf("step %d, %s, succeeds after a failure", i, st.kind)
	case err == nil && st.kind == "set" || err == nil && st.kind == "fsync":
		f.acknowledged(durabilityOf(st) == Power)
		return
	case err == nil:
		f.oracle.Acked = f.oracle.Started
		if write && (st.kind == "sync" || durabilityOf(st) == Power) {
			f.oracle.Durable = f.oracle.Acked
		}
		return
	case st.kind == "map" || st.kind == "sync":
		f.note(err)
		return
	}
	var failed *seglog.FailedError
	final := errors.As(err, &failed)
	if !final && !errors.Is(err, seglog.ErrNoSpace) && f.readable(err) {
		f.Fatalf("step %d, %s: unexpected error %v", i, st.kind, err)
	}
	f.note(err)
	e, got := f.store.Get(nil, []byte(st.key))
	if got == nil && string(e.Value) == f.oracle.content[st.key] && st.kind == "fsync" || errors.Is(got, ErrNotFound) && st.kind == "deletefsync" {
		return // visible, and not known to be durable
	}
	// Else it was refused, or its key could not be looked up.
	f.undo(st, before, had, final || durabilityOf(st) == Power && got != nil && !f.readable(got))
}

// compact compacts. Only a sync, or the manifest, may make it fail.
func (f *faulted) compact(st step) {
	switch s := f.store; st.kind {
	case "compact":
		f.note(compactRun(s, len(st.value)))
	case "shrink":
		f.note(s.Compact(context.Background(), nil))
	default:
		s.housekeeping.Lock()
		defer s.housekeeping.Unlock()
		f.note(s.takeSnapshot(nil))
	}
}

func (f *faulted) note(err error) {
	var failed *seglog.FailedError
	if errors.As(err, &failed) {
		f.Final(err)
		f.refused, f.unsync = true, true
	}
}

// undo puts the model back to before a write that failed. When its outcome is not
// known, the state that it would have made stays possible.
func (f *faulted) undo(st step, before string, had, unknown bool) {
	if had {
		f.oracle.content[st.key] = before
	} else {
		delete(f.oracle.content, st.key)
	}
	if !unknown {
		f.oracle.Started--
		f.oracle.states = f.oracle.states[:f.oracle.Started+1]
		return
	}
	f.oracle.states = append(f.oracle.states, render(f.oracle.content))
	f.oracle.Started++
}

// compare reads a key and holds it against the model.
func (f *faulted) compare(key string) {
	want, ok := f.oracle.content[key]
	e, err := f.store.Get(nil, []byte(key))
	if errors.Is(err, ErrType) {
		var text string
		text, err = readHash(f.store.Collections(), key)
		e.Value = []byte(text)
	}
	switch {
	case err == nil && ok && string(e.Value) == want, errors.Is(err, ErrNotFound) && !ok:
	case err != nil && !f.readable(err):
	default:
		f.Fatalf("Get(%q) = %.60q, %v; want %.60q, %v", key, e.Value, err, want, ok)
	}
}

func TestEveryFault(t *testing.T) { logtest.BothWays(t, everyFault) }

func everyFault(t *testing.T) { everyFaultOf(t, faultScript(1, 500), 79) }

// TestEveryFaultInCompaction is the same for scripts with many compactions.
func TestEveryFaultInCompaction(t *testing.T) {
	logtest.BothWays(t, func(t *testing.T) {
		script := compactionScript(rand.New(rand.NewPCG(2, 23)), 120)
		for i := range script {
			if script[i].kind == "reopen" {
				script[i].kind = "set"
			}
		}
		everyFaultOf(t, script, 61)
	})
}

func everyFaultOf(t *testing.T, script []step, stride int) {
	if longTest() {
		stride = 1
	}
	tried, all := crashtest.Injector[*Store]{
		Kinds: crashtest.Faults(), Stride: func(ops int) int { return min(stride, max(ops/3, 1)) }, Least: 20 / stride,
		Disk:  vfs.NewCrashMem,
		Begin: func(c *crashtest.Case) crashtest.Faulted[*Store] { return inject(c, script) },
	}.Run(t)
	t.Logf("%d of %d cases", tried, all)
}
