package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

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
		if st.kind == "reopen" {
			if f.log.Close() != nil {
				f.failed = true // its sync may be what has failed
			}
			if f.log, err = open("log", testOptions(f.fsys, f.change)); err != nil {
				f.log = nil
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
		f.trims = max(f.trims, sum) // one that failed may be in place
		if err = f.log.Trim(at); err == nil {
			f.first = sum
			f.durable = max(f.durable, n)
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
				script = slices.DeleteFunc(script, func(st step) bool { return st.kind == "die" })
				fault := func(x ...*vfs.Fault) *faulted {
					mem := vfs.NewMem()
					mem.Record()
					f := &faulted{t: t, mem: mem, fsys: vfs.Inject(mem, x...), change: func(o *options) { change(o); o.policy = policy }}
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
