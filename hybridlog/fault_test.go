package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// The log under the fault injector of crashtest. In addition to the rules for every owner, whatever
// fails:
//
//   - a write that returns nil has happened; one that returns an error that is not final has not, or is not durable;
//   - after an error that is final every later write is refused, and says why;
//   - the log shows the acknowledged entries meanwhile.
type faulted struct {
	*crashtest.Case
	script  []step
	change  func(*options)
	want    [][]byte // acknowledged
	unsure  []byte   // one that may be there besides
	durable int
	failed  bool // a write was refused for good
	first   Address
	trims   Address
	trimmed Address // by a trim that has succeeded
	log     *Log
}

func (f *faulted) Dir() string { return "log" }

func (f *faulted) Well() error {
	if len(f.want) == 0 || f.failed {
		return fmt.Errorf("%d entries, failed %v", len(f.want), f.failed)
	}
	return nil
}

func (f *faulted) Open(fsys vfs.FS) (*Log, error) { return open("log", testOptions(fsys, f.change)) }

func (f *faulted) Close(l *Log) error { return l.Close() }

func (f *faulted) Settle(l *Log) { f.settle(l) }

// Write is for a log on a disk that is well again.
func (f *faulted) Write(l *Log) {
	p := text(999, 40)
	if _, err := l.Append(p); err != nil {
		f.Fatalf("a write on a disk that is well again: %v", err)
	}
	f.want = append(f.want, p)
	if err := problem(l, f.want, f.first); err != nil {
		f.Fatalf("after another write: %v", err)
	}
	if err := l.Sync(); err != nil {
		f.Fatalf("a sync on a disk that is well again: %v", err)
	}
}

// Holds: a trim that failed may be in place, even if it was seen to be, or not.
func (f *faulted) Holds(l *Log, all bool) error {
	states, lo := f.states(), f.durable
	if all {
		states, lo = f.want, len(f.want)
	}
	first := f.trimmed
	if at := l.First(); at == f.first || at == f.trims {
		first = at
	}
	var err error
	for n := len(states); n >= lo; n-- {
		if err = problem(l, states[:n], first); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w; it has %d bytes; %d entries were acknowledged, %d durable", err, l.Size(), len(f.want), f.durable)
}

// states are the entries, with the one that may be there besides.
func (f *faulted) states() [][]byte {
	if f.unsure != nil {
		return append(f.want[:len(f.want):len(f.want)], f.unsure)
	}
	return f.want
}

// Run runs the script until its end, or until the log cannot be opened again.
func (f *faulted) Run() {
	if !f.open() {
		return
	}
	for i, st := range f.script {
		if st.kind == "reopen" || st.kind == "die" {
			if st.kind == "die" {
				f.Kill()
			} else if f.log.Close() != nil {
				f.failed = true // its sync may have failed
			}
			if !f.open() {
				return
			}
			continue
		}
		f.step(i, st)
		f.compare()
	}
	if f.Kind.Passing && !f.Fault.Forever {
		for n := 0; n == 0 || f.durable < len(f.want); n++ {
			if n > 1+f.Kind.Times {
				f.Fatalf("the fault has passed, and %d entries of %d are durable", f.durable, len(f.want))
			}
			f.step(len(f.script), step{"append", 40})
			f.step(len(f.script), step{"sync", 0})
		}
	}
	f.end()
}

// end closes the log.
func (f *faulted) end() {
	switch err := f.log.Close(); {
	case err != nil:
		f.failed = true
	case !f.failed && !f.Fsys.Fired():
		f.durable = len(f.want)
	}
	if err := f.log.Close(); err != nil {
		f.Fatalf("the second Close: %v", err)
	}
}

// open opens the log and finds the entries that it holds. It reports false if a permanent fault
// prevents that.
func (f *faulted) open() bool {
	ok := f.Reopen(func() (err error) {
		f.log, err = f.Open(f.Fsys)
		return err
	}, f.refused)
	if ok {
		f.settle(f.log)
		f.failed = false
	}
	return ok
}

// refused is for an Open that has failed: it has the reason, and it loses nothing, unless a sync
// has failed.
func (f *faulted) refused(err error) {
	f.T.Helper()
	f.MayRefuse(err, ErrCorrupt, ErrVersion, fs.ErrNotExist)
	f.log = nil
	f.failed = f.failed || f.syncFailed()
}

// syncFailed reports whether the fault has struck a sync of a file.
func (f *faulted) syncFailed() bool {
	seen, struck := 0, false
	for _, op := range f.Fsys.Ops() {
		if f.Fault.Kinds&op.Kind == 0 || !f.Fault.Match(op.Name) {
			continue
		}
		seen++
		due := f.Fault.N > 0 && seen >= f.Fault.N && (f.Fault.Forever || seen <= f.Fault.N+f.Fault.Times)
		struck = struck || due && op.Kind&(vfs.OpSync|vfs.OpMsync) != 0
	}
	return struck
}

func (f *faulted) step(i int, st step) {
	var err error
	switch st.kind {
	case "append":
		p := text(i, st.n)
		if _, err = f.log.Append(p); err == nil {
			f.want = append(f.want, p)
		} else if f.log.Size() > int64(len(bytes.Join(f.want, nil))) {
			f.want, f.unsure = append(f.want, p), nil // it is there, and was not made durable
		} else if errors.Is(err, ErrReadOnly) {
			f.unsure = p
		}
		if err == nil && f.log.opts.policy == AlwaysSync {
			f.durable = len(f.want)
		}
	case "sync":
		if err = f.log.Sync(); err == nil {
			f.durable = len(f.want)
		}
	case "trim":
		at := Address(f.log.Size() * int64(st.n) / 1000)
		sum, n := Address(0), 0
		for n < len(f.want) && sum+Address(len(f.want[n])) <= at {
			sum += Address(len(f.want[n]))
			n++
		}
		asked := sum
		sum = max(sum, f.first)
		if !f.failed {
			f.trims = max(f.trims, sum) // one that failed may be in place, one that was refused is not
		}
		if err = f.log.Trim(at); err == nil {
			f.first, f.trimmed = sum, max(f.trimmed, asked)
			f.durable = max(f.durable, n)
		}
	case "seal":
		if f.log.tail != nil {
			err = f.log.sealBehind()
		}
	case "compact":
		if err = f.log.Compact(); err == nil {
			f.durable = len(f.want)
		}
	}
	switch {
	case err == nil && f.failed && st.kind == "append":
		f.Fatalf("step %d: a write succeeds after one has failed", i)
	case err != nil && f.failed && !errors.Is(err, ErrReadOnly):
		f.Fatalf("step %d, %v, after a failure: %v", i, st, err)
	}
	if errors.Is(err, ErrReadOnly) {
		f.Final(err)
		f.failed = true
	}
}

// compare compares the entries of the log with the acknowledged ones. A read may fail, and never
// shows anything else.
func (f *faulted) compare() {
	first := f.first
	if f.log.First() == f.trims {
		first = f.trims
	}
	err := problem(f.log, f.want, first)
	if err != nil && !crashtest.OfFault(err) {
		f.Fatalf("the log shows: %v", err)
	}
}

// settle finds out which of the possible states a log holds that was opened again.
func (f *faulted) settle(l *Log) {
	lo := len(f.want)
	if f.failed {
		lo = f.durable
	}
	states := f.states()
	first := f.first
	if l.First() == f.trims {
		first = f.trims
	}
	var err error
	for n := len(states); n >= lo; n-- {
		if err = problem(l, states[:n], first); err == nil || crashtest.OfFault(err) {
			f.want, f.unsure, f.first, f.trims, f.durable = states[:n], nil, first, first, min(f.durable, n)
			return
		}
	}
	f.Fatalf("opened again: %v; it has %d bytes; %d entries were acknowledged, %d durable", err, l.Size(), len(f.want), f.durable)
}

func TestEveryFault(t *testing.T) {
	tried, most := 0, 250
	if longTest() {
		most = 1 << 30
	}
	all := vfs.Mutating | vfs.Reading
	kinds := append(crashtest.Faults(),
		crashtest.Failing{Name: "any operation", Ops: all},
		crashtest.Failing{Name: "no space for any operation", Ops: all, Err: vfs.ErrNoSpace},
		crashtest.Failing{Name: "any operation, short", Ops: all, Short: true})
	seeds := uint64(2)
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			for seed := range seeds {
				t.Run(fmt.Sprintf("policy %d, seed %d", policy, seed), func(t *testing.T) {
					script := randomScript(rand.New(rand.NewPCG(seed, 7)), 30)
					begin := func(c *crashtest.Case) crashtest.Faulted[*Log] {
						return &faulted{Case: c, script: script, change: func(o *options) { change(o); o.policy = policy }}
					}
					stride := func(ops int) int { return max(ops*4*2*2*2*2/most, 1) }
					runs, _ := crashtest.Injector[*Log]{Kinds: kinds, Stride: stride, Disk: vfs.NewCrashMem, Begin: begin}.Run(t)
					tried += runs
				})
			}
		})
	}
	t.Logf("%d runs", tried)
}

// TestEveryFaultAfterAKill fails every operation of the opening of a log whose process was killed,
// once and for ever, and of the first write then, which mends it. Open says so, or the log has
// everything; and so it has on a disk that is well again. Only when a sync fails may entries be
// lost that were not durable.
func TestEveryFaultAfterAKill(t *testing.T) {
	stride := 11
	if longTest() {
		stride = 1
	}
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			conf := func(o *options) { change(o); o.policy, o.segmentBytes = policy, 6000 }
			for _, synced := range []int{0, 7} {
				mem := vfs.NewCrashMem()
				l := mustOpen(t, mem, conf)
				var want [][]byte
				for i := range 24 {
					want = append(want, text(i, 200+40*i))
					mustAppend(t, l, want[i])
					if i+1 == synced {
						if err := l.Sync(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if synced == 0 {
					mem.SetCacheID("another life, in which holes are no damage")
				}
				if policy == AlwaysSync {
					synced = len(want)
				}
				t.Run(fmt.Sprintf("policy %d, %d synced", policy, synced), func(t *testing.T) {
					tried, _ := crashtest.Injector[*Log]{
						Kinds: crashtest.RecoveryFaults(), Stride: func(int) int { return stride }, Vary: true, Disk: mem.ProcessCrash,
						Begin: func(c *crashtest.Case) crashtest.Faulted[*Log] {
							script := []step{{"append", 40}}
							return &faulted{Case: c, script: script, change: conf, want: slices.Clone(want), durable: synced}
						},
					}.Run(t)
					t.Logf("%d runs", tried)
				})
			}
		})
	}
}

// Where there is no room for copies, a Trim syncs the found files in place. A failure is noted:
// when the cache then loses bytes that it could not write, that is no damage.
func TestFailedSyncInPlaceIsNoted(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		mem.Record()
		l := mustOpen(t, mem, change)
		want := [][]byte{text(0, 3000)}
		mustAppend(t, l, want[0])
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, text(1, 3000))
		f, err := mem.Open("log/00000001.sum", vfs.ReadWrite) // the frames are on the disk, the bytes are not
		if err == nil {
			err = errors.Join(l.drain(l.tail), f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		dead := mem.ProcessCrash()
		log := func(name string) bool { return strings.HasSuffix(name, ".log") }
		temp := func(name string) bool { return strings.HasSuffix(name, files.TempSuffix) }
		l = mustOpen(t, vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpSync, Match: log, N: 1}, &vfs.Fault{Kinds: vfs.OpCreate, Match: temp, N: 1, Err: vfs.ErrNoSpace}), change)
		if err := l.Trim(3000); !errors.Is(err, vfs.ErrInjected) || !errors.Is(err, ErrReadOnly) {
			t.Fatalf("a sync fails: %v", err)
		}
		if l.Close() == nil {
			t.Error("Close says nothing of it")
		}
		if m, err := readMark(dead, "log", l.logID); err != nil || !m.Failed {
			t.Errorf("the mark is %+v, %v", m, err)
		}
		// With the same cache there is no room again: the found entries do not become durable by
		// another sync.
		l = mustOpen(t, vfs.Inject(dead.ProcessCrash(), &vfs.Fault{Kinds: vfs.OpCreate, Match: temp, N: 1, Err: vfs.ErrNoSpace}), change)
		if err := l.Sync(); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
			t.Errorf("no room for copies: %v", err)
		}
		if err := l.Sync(); err != nil {
			t.Errorf("with room again: %v", err)
		}
		mustClose(t, l)
		id := dead.CacheID("log")
		for image := range dead.PowerCuts(20, nil) { // but for the mark, which was written
			m, err := readMark(image, "log", l.logID)
			if err != nil || m == nil || !m.Failed {
				continue
			}
			image.SetCacheID(id)
			l = mustOpen(t, image, change)
			if err := problem(l, want, 0); err != nil && problem(l, append(want[:1:1], text(1, 3000)), 0) != nil {
				t.Error(err)
			}
			mustClose(t, l)
		}
	})
}

// A sync of the directory that fails is final, and the mark says so: it is unknown which names are
// on the disk, and a second sync may succeed without them.
func TestFailedSyncOfTheDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewCrashMem()
		l := mustOpen(t, mem, change)
		mustAppend(t, l, text(0, 3000))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, text(1, 3000))
		killed := mem.ProcessCrash()
		for _, marked := range []bool{true, false} {
			n := 1
			for ; ; n++ { // of copies, segments, manifests and the ring
				dead := killed.ProcessCrash()
				if !marked {
					dead.Remove("log/" + markName)
				}
				fsys := vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpSyncDir, N: n})
				l := mustOpen(t, fsys, change)
				before := l.Size()
				script := []func() error{
					l.Sync,
					func() error { _, err := l.Append(text(2, 300)); return err },
					func() error { _, err := l.Append(text(3, 19_000)); return err },
					l.Compact,
				}
				var err error
				for _, step := range script {
					if err = step(); err != nil {
						break
					}
				}
				if err == nil {
					err = l.Close()
				} else if _, again := l.Append([]byte("x")); !errors.Is(again, ErrReadOnly) || !errors.Is(l.Close(), ErrReadOnly) {
					t.Errorf("sync %d of the directory: then %v", n, again)
				}
				if !fsys.Fired() {
					break
				}
				if !errors.Is(err, ErrReadOnly) {
					t.Errorf("sync %d of the directory fails: %v", n, err)
				}
				m, err := readMark(dead, "log", l.logID)
				if err != nil || m == nil || !m.Failed {
					t.Errorf("sync %d of the directory has failed, and the mark says %+v, %v", n, m, err)
				}
				next := mustOpen(t, dead.ProcessCrash(), change)
				if next.Size() < before {
					t.Errorf("sync %d of the directory has failed, and %d bytes are left of %d", n, next.Size(), before)
				}
			}
			if n < 5 {
				t.Errorf("the directory is synced %d times", n-1)
			}
		}
	})
}

// renamer is a file system whose n-th rename to a name is done, and fails.
type renamer struct {
	vfs.FS
	to   string
	n    int
	done int
}

func (r *renamer) Rename(from, to string) error {
	if err := r.FS.Rename(from, to); err != nil || to != r.to {
		return err
	}
	if r.done++; r.done == r.n {
		return vfs.ErrInjected
	}
	return nil
}

// After an error of a rename the new manifest may be in place. The log does not go on as if the old
// one were: the files that the new one names must stay.
func TestManifestRenamedWithAnError(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for n := 1; ; n++ {
			mem := vfs.NewMem()
			fsys := &renamer{FS: mem, to: "log/" + manifestName, n: n}
			l := mustOpen(t, fsys, change)
			var want [][]byte
			var failed error
			for i := 0; i < 40 && failed == nil; i++ {
				p := text(i, 1500)
				if _, failed = l.Append(p); failed == nil {
					want = append(want, p)
				}
			}
			if failed == nil {
				failed = l.tails.Failure()
			}
			if closed := l.Close(); failed == nil {
				failed = closed
			}
			if fsys.done < n {
				if n < 5 {
					t.Errorf("there are %d renames", n-1)
				}
				return
			}
			if !errors.Is(failed, ErrReadOnly) {
				t.Errorf("rename %d: %v", n, failed)
			}
			l, err := open("log", testOptions(mem, change))
			if err != nil {
				t.Fatalf("rename %d: Open: %v", n, err)
			}
			if err := problem(l, want, 0); err != nil {
				t.Errorf("rename %d: %v", n, err)
			}
			mustClose(t, l)
		}
	})
}

// A drain that fails is no failed sync: the cache is not in doubt, and the next opening may trust
// it.
func TestFailedDrainIsNoFailedSync(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpWrite, N: 2, Match: func(name string) bool { return strings.HasSuffix(name, ".log") }}))
	want := [][]byte{text(0, 300), text(1, 300)}
	mustAppend(t, l, want[0])
	needsRing(t, l)
	if err := l.sync(true); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, want[1])
	if err := l.sync(true); !errors.Is(err, vfs.ErrInjected) || !errors.Is(err, ErrReadOnly) {
		t.Fatalf("the drain fails: %v", err)
	}
	if m, err := readMark(mem, "log", l.logID); err != nil || m == nil || m.Failed {
		t.Errorf("the mark is %+v, %v", m, err)
	}
	if err := l.Close(); !errors.Is(err, vfs.ErrInjected) {
		t.Errorf("Close: %v", err)
	}
	l = mustOpen(t, mem)
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}
