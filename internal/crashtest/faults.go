package crashtest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// The fault injector. A script runs once to learn how many operations of a kind it takes. Then it
// runs again for each of them, which fails, once or for ever from then on. After each failure:
//
//   - the process lives, and every call returns;
//   - an opening succeeds, or returns the failure, and does not take it for damage; it succeeds
//     when the fault has passed;
//   - when the disk is well again the owner opens, with every acknowledged write; if a sync
//     failed, with every one that was acknowledged as durable;
//   - so it does, with those, when the power is cut before;
//   - it takes writes, which a sync makes durable, and leaves no unfinished file;
//   - a fault that lets nothing be attempted is never final: the owner takes writes as soon as it
//     has passed.
//
// The owner's Faulted checks its content while the script runs.

// Failing is a kind of fault.
type Failing struct {
	Name  string
	Ops   vfs.Kind
	Of    string // how the names of the files end
	Err   error
	Short bool

	Times   int  // how many operations fail after the first
	Passing bool // the operations are not attempted, so the owner must not refuse writes for good
}

// failing are the kinds of which Faults and RecoveryFaults are made.
var (
	eio       = Failing{Name: "EIO", Ops: vfs.Mutating | vfs.Reading, Err: syscall.EIO}
	noSpace   = Failing{Name: "ENOSPC", Ops: vfs.Mutating, Err: vfs.ErrNoSpace}
	short     = Failing{Name: "short write", Ops: vfs.OpWrite, Err: syscall.EIO, Short: true}
	shortFull = Failing{Name: "short write, disk full", Ops: vfs.OpWrite, Err: vfs.ErrNoSpace, Short: true}
	sync      = Failing{Name: "EIO of a sync", Ops: vfs.OpSync | vfs.OpSyncDir | vfs.OpMsync, Err: syscall.EIO}

	// The operations that a process without descriptors cannot do, and those of one that has lost
	// the rights to the directory.
	opening = vfs.OpOpen | vfs.OpCreate | vfs.OpList
	paths   = opening | vfs.OpRename | vfs.OpLink | vfs.OpRemove | vfs.OpNamed
	noFiles = Failing{Name: "EMFILE", Ops: opening, Err: syscall.EMFILE, Times: 7, Passing: true}
	noRight = Failing{Name: "EACCES", Ops: paths, Err: syscall.EACCES, Times: 7, Passing: true}
)

// Faults returns the kinds for scripts.
func Faults() []Failing { return append(Lacks(), eio, noSpace, short, shortFull, sync) }

// Lacks returns the kinds that fail an operation before it is attempted. In the long form they pass
// after one operation, too.
func Lacks() []Failing {
	list := []Failing{noFiles, noRight}
	if Long() {
		for _, once := range list[:2] {
			once.Name, once.Times = once.Name+" once", 0
			list = append(list, once)
		}
	}
	return list
}

// RecoveryFaults returns the kinds for openings after a kill. Among them are errors of reads alone,
// of looks at files and directories alone, which pass or stay: none is taken for the end of the
// log, or for a file that is not there.
func RecoveryFaults() []Failing {
	return append(Lacks(),
		eio,
		Failing{Name: "EIO of a read", Ops: vfs.OpRead | vfs.OpLoad, Err: syscall.EIO},
		Failing{Name: "EIO of a read of the ring", Ops: vfs.OpRead, Of: tail.RingName, Err: syscall.EIO},
		Failing{Name: "EIO of a look", Ops: vfs.OpOpen | vfs.OpList | vfs.OpSize | vfs.OpNamed, Err: syscall.EIO},
		Failing{Name: "EIO of a look at the ring", Ops: vfs.OpOpen | vfs.OpSize, Of: tail.RingName, Err: syscall.EIO},
		Failing{Name: "EIO of a copy", Ops: vfs.Mutating, Of: files.TempSuffix, Err: syscall.EIO},
		sync, noSpace, short)
}

// Long reports whether the long form of the tests is asked for.
func Long() bool { return os.Getenv("COPAL_LONG") == "1" }

// Faulted is a run of a script under a fault. S is an open owner.
type Faulted[S any] interface {
	Dir() string
	Run()                        // until the end, or until it cannot be opened again
	Well() error                 // of a run without a fault: why it says nothing
	Open(fsys vfs.FS) (S, error) // on a disk that is well
	Settle(s S)                  // finds which of the possible states s holds, from now on the only one
	Write(s S)                   // writes, and makes that durable
	Holds(s S, all bool) error   // whether s holds the durable writes; with all, every one
	Close(s S) error
}

// Case is a fault, and the disk beneath it.
type Case struct {
	T     *testing.T
	Name  string
	Kind  Failing
	Fault *vfs.Fault
	Mem   *vfs.Mem
	Fsys  *vfs.Faulty // Mem with the fault

	beneath *beneath
}

// beneath is the file system under the injector; a kill replaces it.
type beneath struct{ vfs.FS }

func newCase(t *testing.T, mem *vfs.Mem, k Failing, n int, forever bool) *Case {
	c := &Case{T: t, Kind: k, Mem: mem, beneath: &beneath{mem}}
	c.Name = fmt.Sprintf("%s at operation %d, for ever %v", k.Name, n, forever)
	c.Fault = &vfs.Fault{Kinds: k.Ops, N: n, Forever: forever, Times: k.Times, Err: k.Err, Short: k.Short}
	c.Fault.Match = func(name string) bool { return strings.HasSuffix(name, k.Of) }
	c.Fsys = vfs.Inject(c.beneath, c.Fault)
	return c
}

// Kill kills the process.
func (c *Case) Kill() {
	c.Mem = c.Mem.ProcessCrash()
	c.beneath.FS = c.Mem
}

// Fatalf ends the test, with the last operations.
func (c *Case) Fatalf(format string, args ...any) {
	c.T.Helper()
	var last strings.Builder
	ops := c.Fsys.Ops()
	for i := max(len(ops)-12, 0); i < len(ops); i++ {
		fmt.Fprintf(&last, "%4d %v\n", i+1, ops[i])
	}
	c.T.Fatalf("%s: %s\n%s", c.Name, fmt.Sprintf(format, args...), last.String())
}

// OfFault reports whether an error can come from an injected fault.
func OfFault(err error) bool { return Refuses(err) || vfs.IsNoSpace(err) }

// Refuses reports whether an error can come from an injected fault of another kind than a lack of
// room.
func Refuses(err error) bool {
	of := func(fault error) bool { return errors.Is(err, fault) }
	return slices.ContainsFunc([]error{syscall.EIO, vfs.ErrInjected, syscall.EMFILE, syscall.EACCES}, of)
}

// Final notes that the owner refuses writes for good. A fault that lets nothing be attempted is no
// reason to.
func (c *Case) Final(err error) {
	if c.Kind.Passing {
		c.Fatalf("refuses writes for good: %v", err)
	}
}

// MayRefuse holds the error of an opening against the rules: it is the fault's error, and no
// verdict on the files.
func (c *Case) MayRefuse(err error, verdicts ...error) {
	c.T.Helper()
	isErr := func(verdict error) bool { return errors.Is(err, verdict) }
	if !c.Fsys.Fired() || !OfFault(err) || slices.ContainsFunc(verdicts, isErr) {
		c.Fatalf("Open: %v", err)
	}
}

// Reopen opens under the fault. It reports false if a permanent fault prevents that; after one that
// has passed, opening again succeeds.
func (c *Case) Reopen(open func() error, refused func(error)) bool {
	for range 2 + c.Kind.Times {
		err := open()
		if err == nil {
			return true
		}
		if refused(err); c.Fault.Forever {
			return false
		}
	}
	c.Fatalf("it does not open, though the fault has passed")
	return false
}

// Injector tries faults.
type Injector[S any] struct {
	Kinds  []Failing
	Stride func(ops int) int // one in so many operations fails
	Vary   bool              // with which of them each kind begins; else the first
	Least  int               // of one kind that fail

	Disk  func() *vfs.Mem
	Begin func(c *Case) Faulted[S]
}

// Run runs the script for each fault. It returns how many there were, of how many.
func (x Injector[S]) Run(t *testing.T) (tried, all int) {
	for _, k := range x.Kinds {
		for _, forever := range []bool{false, true} {
			name := k.Name
			if forever {
				name += " for ever"
			}
			t.Run(name, func(t *testing.T) {
				run := func(n int) (*Case, Faulted[S]) {
					c := newCase(t, x.Disk(), k, n, forever)
					f := x.Begin(c)
					f.Run()
					return c, f
				}
				well, f := run(0)
				if err := f.Well(); err != nil {
					well.Fatalf("without a fault: %v", err)
				}
				ops := well.Fsys.Matched(0)
				stride, first := x.Stride(ops), 1
				if x.Vary {
					first += tried % stride
				}
				cases := 0
				for n := first; n <= ops; n += stride {
					c, f := run(n)
					if !c.Fsys.Fired() {
						c.Fatalf("it has not struck")
					}
					afterwards(c, f)
					cases++
				}
				if cases < x.Least {
					t.Errorf("only %d cases", cases)
				}
				tried, all = tried+cases, all+ops
			})
		}
	}
	return tried, all
}

// afterwards opens the owner on a disk that is well again, with the power cut before and after.
func afterwards[S any](c *Case, f Faulted[S]) {
	cutPower(c, f, c.Mem, false, "in the end")
	image := c.Mem.ProcessCrash()
	s, err := f.Open(image)
	if err != nil {
		c.Fatalf("opening it afterwards: %v", err)
	}
	f.Settle(s)
	f.Write(s)
	cutPower(c, f, image, true, "afterwards") // its present content is on the disk, even after an earlier sync has lost bytes
	if err := f.Close(s); err != nil {
		c.Fatalf("closing it afterwards: %v", err)
	}
	names, err := image.List(f.Dir())
	unfinished := func(name string) bool { return strings.HasSuffix(name, files.TempSuffix) }
	if err != nil || slices.ContainsFunc(names, unfinished) {
		c.Fatalf("it leaves %q behind, %v", names, err)
	}
}

// cutPower cuts the power, in a way or two.
func cutPower[S any](c *Case, f Faulted[S], mem *vfs.Mem, all bool, when string) {
	cuts := 1
	if Long() {
		cuts = 4
	}
	for cut := range mem.PowerCuts(cuts, nil) {
		s, err := f.Open(cut)
		if err != nil {
			c.Fatalf("opening it after a power cut %s: %v", when, err)
		}
		if err := f.Holds(s, all); err != nil {
			c.Fatalf("after a power cut %s: %v", when, err)
		}
		if err := f.Close(s); err != nil {
			c.Fatalf("closing it after a power cut %s: %v", when, err)
		}
		if cuts--; cuts == 0 {
			break
		}
	}
}
