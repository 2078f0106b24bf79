package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/vfs"
)

// The fault injector. A script runs once to learn how many file operations it takes. Then it runs again for each of them,
// which fails, once or for ever from then on. Whatever fails:
//
//   - the process lives, and every call returns;
//   - a write that returns nil has happened; one that returns ErrNoSpace has not;
//   - after any other error of a write or a sync every later write is refused, and says why;
//   - what the log shows meanwhile is what was acknowledged;
//   - when the disk is well again the log opens, with every acknowledged write; if a sync failed, with every one
//     that was acknowledged as durable.
type faulted struct {
	name    string
	t       *testing.T
	mem     *vfs.Mem
	disk    *disk // mem, for the injector
	at      int   // the operation that fails
	forever bool  // and all after it
	fsys    *vfs.Faulty
	change  func(*options)
	want    [][]byte // acknowledged
	unsure  []byte   // one that may be there besides
	durable int
	failed  bool // a write was refused for good
	first   Address
	trims   Address
	log     *Log
}

// disk is what the injector sees; a kill puts another file system there.
type disk struct{ vfs.FS }

func (f *faulted) fatalf(format string, args ...any) {
	f.t.Helper()
	ops := f.fsys.Ops()
	f.t.Fatalf("%s: %s\n%v", f.name, fmt.Sprintf(format, args...), ops[max(len(ops)-12, 0):])
}

func (f *faulted) run(script []step) {
	var err error
	if f.log, err = open("log", testOptions(f.fsys, f.change)); err != nil {
		return // nothing was acknowledged
	}
	for i, st := range script {
		if st.kind == "reopen" || st.kind == "die" {
			if st.kind == "die" {
				f.mem = f.mem.ProcessCrash()
				f.disk.FS = f.mem
			} else if f.log.Close() != nil {
				f.failed = true // its sync may be what has failed
			}
			if f.log, err = open("log", testOptions(f.fsys, f.change)); err != nil {
				f.refused(err)
				return
			}
			f.settle(f.log)
			f.failed = false
			continue
		}
		f.step(i, st)
		f.compare()
	}
	switch err := f.log.Close(); {
	case err != nil:
		f.failed = true
	case !f.failed && !f.fsys.Fired():
		f.durable = len(f.want)
	}
	if err := f.log.Close(); err != nil {
		f.fatalf("the second Close: %v", err)
	}
}

// refused is for an Open that has failed: it says why, and it loses nothing, unless what failed was a sync.
func (f *faulted) refused(err error) {
	if !f.mayFail(err) {
		f.fatalf("Open: %v", err)
	}
	f.log = nil
	f.failed = f.failed || f.syncFailed()
}

// syncFailed reports whether the fault has struck a sync of a file.
func (f *faulted) syncFailed() bool {
	seen, struck := 0, false
	for _, op := range f.fsys.Ops() {
		seen++
		due := seen == f.at || f.forever && seen > f.at
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
		} else if !errors.Is(err, ErrNoSpace) {
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
		sum = max(sum, f.first)
		if !f.failed {
			f.trims = max(f.trims, sum) // one that failed may be in place, one that was refused is not
		}
		if err = f.log.Trim(at); err == nil {
			f.first = sum
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
		f.fatalf("step %d: a write succeeds after one has failed", i)
	case err != nil && f.failed && !errors.Is(err, ErrReadOnly):
		f.fatalf("step %d, %v, after a failure: %v", i, st, err)
	}
	f.failed = f.failed || errors.Is(err, ErrReadOnly)
}

// compare compares what the log shows with what was acknowledged. A read may fail, and never shows anything else.
func (f *faulted) compare() {
	first := f.first
	if f.log.First() == f.trims {
		first = f.trims
	}
	err := problem(f.log, f.want, first)
	if err != nil && !f.mayFail(err) {
		f.fatalf("the log shows: %v", err)
	}
}

func (f *faulted) mayFail(err error) bool {
	return errors.Is(err, vfs.ErrInjected) || vfs.IsNoSpace(err)
}

// settle finds out which of the possible states a log holds that was opened again.
func (f *faulted) settle(l *Log) {
	lo := len(f.want)
	if f.failed {
		lo = f.durable
	}
	states := f.want
	if f.unsure != nil {
		states = append(f.want[:len(f.want):len(f.want)], f.unsure)
	}
	first := f.first
	if l.First() == f.trims {
		first = f.trims
	}
	var err error
	for n := len(states); n >= lo; n-- {
		if err = problem(l, states[:n], first); err == nil || f.mayFail(err) {
			f.want, f.unsure, f.first, f.trims, f.durable = states[:n], nil, first, first, min(f.durable, n)
			return
		}
	}
	f.fatalf("opened again: %v; it has %d bytes; %d entries were acknowledged, %d durable", err, l.Size(), len(f.want), f.durable)
}

func TestEveryFault(t *testing.T) {
	runs, most := 0, 700
	if longTest() {
		most = 1 << 30
	}
	seeds := uint64(2)
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			for seed := range seeds {
				script := randomScript(rand.New(rand.NewPCG(seed, 7)), 30)
				fault := func(x ...*vfs.Fault) *faulted {
					mem := vfs.NewMem()
					mem.Record()
					beneath := &disk{mem}
					f := &faulted{t: t, mem: mem, disk: beneath, fsys: vfs.Inject(beneath, x...), change: func(o *options) { change(o); o.policy = policy }}
					f.fsys.Trace(vfs.Mutating | vfs.Reading)
					return f
				}
				f := fault()
				f.run(script)
				if len(f.want) == 0 || f.failed {
					t.Fatalf("without a fault: %d entries, failed %v", len(f.want), f.failed)
				}
				ops := f.fsys.Seen()
				kinds := []error{vfs.ErrInjected, vfs.ErrNoSpace}
				stride := max(ops*4*2*2*2*len(kinds)/most, 1)
				for n := 1; n <= ops; n += stride {
					for i, err := range append(kinds, nil) {
						for _, forever := range []bool{false, true} {
							f := fault(&vfs.Fault{Kinds: vfs.Mutating | vfs.Reading, N: n, Forever: forever, Err: err, Short: i == 2})
							f.at, f.forever = n, forever
							f.name = fmt.Sprintf("policy %d, seed %d, operation %d fails, %v, forever %v", policy, seed, n, err, forever)
							f.run(script)
							f.reopenWell()
							runs++
						}
					}
				}
			}
		})
	}
	t.Logf("%d runs", runs)
}

// reopenWell opens the log when the disk is well again.
func (f *faulted) reopenWell() {
	well := f.mem
	l, err := open("log", testOptions(well, f.change))
	if err != nil {
		f.fatalf("opened on a disk that is well again: %v", err)
	}
	f.settle(l)
	p := text(999, 40)
	if _, err := l.Append(p); err != nil {
		f.fatalf("a write on a disk that is well again: %v", err)
	}
	if err := problem(l, append(f.want, p), f.first); err != nil {
		f.fatalf("after another write: %v", err)
	}
	if err := l.Close(); err != nil {
		f.fatalf("Close on a disk that is well again: %v", err)
	}
}

// TestEveryFaultAfterAKill fails every operation of the opening of a log whose process was killed, once and for ever, and of the
// first write then, which mends it. Open says so, or the log has everything; and so it has on a disk that is well again. Only
// when a sync fails may what was not durable be lost.
func TestEveryFaultAfterAKill(t *testing.T) {
	for _, policy := range []SyncPolicy{NoSync, AlwaysSync} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			conf := func(o *options) { change(o); o.policy, o.segmentBytes = policy, 6000 }
			for _, synced := range []int{0, 7} {
				mem := vfs.NewMem()
				mem.Record()
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
				run := func(n int, forever bool) *faulted {
					f := &faulted{t: t, mem: mem.ProcessCrash(), change: conf, want: slices.Clone(want), durable: synced, at: n, forever: forever}
					f.fsys = vfs.Inject(f.mem, &vfs.Fault{Kinds: vfs.Mutating | vfs.Reading, N: n, Forever: forever})
					f.name = fmt.Sprintf("policy %d, %d synced, operation %d fails, forever %v", policy, synced, n, forever)
					f.openAndMend()
					f.reopenWell()
					return f
				}
				ops := run(0, false).fsys.Seen()
				for n := 1; n <= ops; n++ {
					run(n, false)
					run(n, true)
				}
				t.Logf("policy %d, %d synced: %d operations", policy, synced, ops)
			}
		})
	}
}

// openAndMend opens a log, and writes to it if that is possible.
func (f *faulted) openAndMend() {
	l, err := open("log", testOptions(f.fsys, f.change))
	if err != nil {
		f.refused(err)
		return
	}
	f.log = l
	f.compare()
	f.step(99, step{"append", 40})
	if l.Close() != nil {
		f.failed = true
	}
}

// Where there is no room for copies, a Trim syncs what was found where it stands. When that fails
// it is noted: when the cache has forgotten what it could not write, that is no damage.
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
		// In the same life of the cache there is no room again: what was found does not become durable by another sync.
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

// A sync of the directory that fails is final, and the mark says so: of the names it is not known
// what is on the disk, and a second sync may succeed without them.
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

// After an error of a rename the new manifest may be in place. The log does not go on as if the old one were: what
// the new one names must stay.
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

// A drain that fails is no failed sync: what the cache holds is not in doubt, and the next opening may trust it.
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
