package vfs

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Faulty is a file system whose n-th operation of some kind fails, once or from
// then on. A test runs its script without a fault to learn how many operations
// there are (Seen), then once for each of them.
//
// It can also plant the classic bugs of a store beneath the store, so that a test
// of crash safety can prove that it would have noticed.
//
// A failing operation does nothing beneath, except a short write, which writes half, and a failing
// sync of a recorded file, which loses the writes that it should have saved (LoseUnsynced).
type Faulty struct {
	fs     FS
	faults []*Fault
	bugs   Bug
	traced Kind

	mu  sync.Mutex // guards ops and the counters of all faults
	ops []Op
}

// Fault selects the operation that fails, and the way in which it fails. Its counters belong to the
// Faulty it was given to.
type Fault struct {
	Kinds   Kind                   // 0: Mutating
	Match   func(name string) bool // nil: every file
	N       int                    // the N-th matching operation fails, counted from 1; 0: none
	Forever bool                   // and all that follow
	Times   int                    // and so many that follow
	Err     error                  // the error that is wrapped; nil: ErrInjected
	Short   bool                   // a write first writes half of its bytes; Err defaults to io.ErrShortWrite
	Hold    <-chan struct{}        // the operation first waits until this is closed, and then fails only if Err is set

	seen, fired int
}

// ErrInjected is the error of a Fault that names none.
var ErrInjected = errors.New("injected fault")

// Bug is a mistake to plant, or by | several.
type Bug int

const (
	IgnoreSync      Bug = 1 << iota // File.Sync and Region.Sync do nothing and succeed
	IgnoreSyncDir                   // SyncDir does nothing and succeeds
	IgnoreSyncError                 // a sync that fails beneath, or by a Fault, says that it succeeded
)

// Inject wraps fs. Several faults count independently; the first that fires wins.
func Inject(fs FS, faults ...*Fault) *Faulty {
	f := &Faulty{fs: fs, faults: faults, traced: Mutating}
	for _, fault := range faults {
		f.traced |= fault.kinds()
	}
	return f
}

// Plant adds bugs; it must be called before f is used.
func (f *Faulty) Plant(bugs Bug) *Faulty {
	f.bugs |= bugs
	return f
}

// Trace adds kinds of operation to Ops and Seen, which otherwise know the
// Mutating ones and those that a Fault names. It must be called before f is used.
func (f *Faulty) Trace(kinds Kind) *Faulty {
	f.traced |= kinds
	return f
}

// Ops are the operations seen so far, whether they failed or not.
func (f *Faulty) Ops() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// Seen is the number of Ops.
func (f *Faulty) Seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ops)
}

// Fired reports whether any fault has struck.
func (f *Faulty) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.faults, func(x *Fault) bool { return x.fired > 0 })
}

// Matched returns the number of operations for which the i-th fault was a candidate.
func (f *Faulty) Matched(i int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults[i].seen
}

// String is the trace, an operation a line, for failure messages.
func (f *Faulty) String() string {
	var b strings.Builder
	for i, op := range f.Ops() {
		fmt.Fprintf(&b, "%4d %v\n", i+1, op)
	}
	return b.String()
}

func (x *Fault) kinds() Kind {
	if x.Kinds == 0 {
		return Mutating
	}
	return x.Kinds
}

func (x *Fault) matches(op Op) bool {
	return x.kinds()&op.Kind != 0 && (x.Match == nil || x.Match(op.Name))
}

// strikes counts op and reports whether it is the one.
func (x *Fault) strikes(op Op) bool {
	if !x.matches(op) {
		return false
	}
	x.seen++
	due := x.N > 0 && x.seen >= x.N && (x.Forever || x.seen <= x.N+x.Times)
	if due {
		x.fired++
	}
	return due
}

func (x *Fault) err(op Op) error {
	err := x.Err
	switch {
	case err != nil:
	case x.Hold != nil:
		return nil
	case x.Short && op.Kind == OpWrite:
		err = io.ErrShortWrite
	default:
		err = ErrInjected
	}
	return pathError(op.Kind.String(), op.Name, err)
}

// enter traces op and returns the fault that strikes it with its error.
func (f *Faulty) enter(op Op) (*Fault, error) {
	x := f.count(op)
	if x == nil {
		return nil, nil
	}
	if x.Hold != nil {
		<-x.Hold
	}
	return x, x.err(op)
}

func (f *Faulty) count(op Op) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.traced&op.Kind != 0 {
		f.ops = append(f.ops, op)
	}
	var struck *Fault
	for _, x := range f.faults {
		if x.strikes(op) && struck == nil {
			struck = x
		}
	}
	return struck
}

// run does the operation unless a fault strikes it.
func (f *Faulty) run(op Op, do func() error) error {
	if _, err := f.enter(op); err != nil {
		return err
	}
	return do()
}

func (f *Faulty) Open(name string, mode Mode) (File, error) {
	op := Op{Kind: OpOpen, Name: name}
	if mode == Create {
		op.Kind = OpCreate
	}
	var file File
	err := f.run(op, func() (err error) {
		file, err = f.fs.Open(name, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyFile{file: file, fs: f, name: name}, nil
}

func (f *Faulty) Rename(oldName, newName string) error {
	return f.run(Op{Kind: OpRename, Name: oldName, NewName: newName}, func() error {
		return f.fs.Rename(oldName, newName)
	})
}

func (f *Faulty) Remove(name string) error {
	return f.run(Op{Kind: OpRemove, Name: name}, func() error { return f.fs.Remove(name) })
}

func (f *Faulty) Link(oldName, newName string) error {
	return f.run(Op{Kind: OpLink, Name: oldName, NewName: newName}, func() error { return f.fs.Link(oldName, newName) })
}

func (f *Faulty) List(dir string) (names []string, err error) {
	err = f.run(Op{Kind: OpList, Name: dir}, func() (err error) {
		names, err = f.fs.List(dir)
		return err
	})
	return names, err
}

func (f *Faulty) MkdirAll(dir string) error {
	return f.run(Op{Kind: OpMkdir, Name: dir}, func() error { return f.fs.MkdirAll(dir) })
}

func (f *Faulty) SyncDir(dir string) error {
	if _, err := f.enter(Op{Kind: OpOpen, Name: dir}); err != nil {
		return err
	}
	return f.syncDir(dir, func() error { return f.fs.SyncDir(dir) })
}

func (f *Faulty) syncDir(dir string, do func() error) error {
	err := f.run(Op{Kind: OpSyncDir, Name: dir}, func() error {
		if f.bugs&IgnoreSyncDir != 0 {
			return nil
		}
		return do()
	})
	return f.admit(err)
}

func (f *Faulty) Lock(name string) (Lock, error) {
	l := &faultyLock{fs: f, dir: filepath.Dir(name)}
	err := f.run(Op{Kind: OpLock, Name: name}, func() (err error) {
		l.Lock, err = f.fs.Lock(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

type faultyLock struct {
	Lock
	fs  *Faulty
	dir string
}

func (l *faultyLock) SyncDir() error { return l.fs.syncDir(l.dir, l.Lock.SyncDir) }

func (f *Faulty) CacheID(dir string) string { return f.fs.CacheID(dir) }

func (f *Faulty) Free(dir string) (bytes int64, known bool) { return f.fs.Free(dir) }

// admit returns the reported outcome of a sync.
func (f *Faulty) admit(err error) error {
	if f.bugs&IgnoreSyncError != 0 {
		return nil
	}
	return err
}

// loser is a file or region that knows how a failed sync loses data.
type loser interface{ LoseUnsynced() }

// sync is the sync of a file or region, target, that do performs.
func (f *Faulty) sync(op Op, target any, do func() error) error {
	_, err := f.enter(op)
	switch l, canLose := target.(loser); {
	case err != nil && canLose:
		l.LoseUnsynced()
	case err == nil && f.bugs&IgnoreSync == 0:
		err = do()
	}
	return f.admit(err)
}

type faultyFile struct {
	file File
	fs   *Faulty
	name string
}

func (f *faultyFile) op(k Kind, off, n int64) Op { return Op{Kind: k, Name: f.name, Off: off, Len: n} }

func (f *faultyFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.run(f.op(OpRead, off, int64(len(p))), func() (err error) {
		n, err = f.file.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	x, err := f.fs.enter(f.op(OpWrite, off, int64(len(p))))
	if err == nil {
		return f.file.WriteAt(p, off)
	}
	if !x.Short {
		return 0, err
	}
	n, beneath := f.file.WriteAt(p[:len(p)/2], off)
	if beneath != nil {
		err = beneath
	}
	return n, err
}

// Close closes the file even when it says that it failed, as the kernel does.
func (f *faultyFile) Close() error {
	_, err := f.fs.enter(f.op(OpClose, 0, 0))
	if beneath := f.file.Close(); beneath != nil {
		return beneath
	}
	return err
}

func (f *faultyFile) Size() (size int64, err error) {
	err = f.fs.run(f.op(OpSize, 0, 0), func() (err error) {
		size, err = f.file.Size()
		return err
	})
	return size, err
}

func (f *faultyFile) HasName(name string) (has bool, err error) {
	err = f.fs.run(f.op(OpNamed, 0, 0), func() (err error) {
		has, err = f.file.HasName(name)
		return err
	})
	return has, err
}

func (f *faultyFile) Truncate(size int64) error {
	return f.fs.run(f.op(OpTruncate, size, 0), func() error { return f.file.Truncate(size) })
}

func (f *faultyFile) Sync() error { return f.fs.sync(f.op(OpSync, 0, 0), f.file, f.file.Sync) }

func (f *faultyFile) Allocate(off, n int64) error {
	return f.fs.run(f.op(OpAllocate, off, n), func() error { return f.file.Allocate(off, n) })
}

func (f *faultyFile) ID() string { return f.file.ID() }

func (f *faultyFile) Map(off int64, n int) (Region, error) {
	op := f.op(OpMap, off, int64(n))
	var r Region
	err := f.fs.run(op, func() (err error) {
		r, err = f.file.Map(off, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyRegion{Region: r, fs: f.fs, at: op}, nil
}

func (f *faultyFile) View(n int64) (View, error) {
	op := f.op(OpMap, 0, n)
	var v View
	err := f.fs.run(op, func() (err error) {
		v, err = f.file.View(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyView{View: v, fs: f.fs, at: op}, nil
}

type faultyView struct {
	View
	fs *Faulty
	at Op
}

func (v *faultyView) Load(off int64, p []byte) error {
	op := Op{Kind: OpLoad, Name: v.at.Name, Off: off, Len: int64(len(p))}
	return v.fs.run(op, func() error { return v.View.Load(off, p) })
}

// Bytes is nil, so that each load is one that can fail.
func (v *faultyView) Bytes() []byte { return nil }

type faultyRegion struct {
	Region
	fs *Faulty
	at Op
}

func (r *faultyRegion) op(k Kind, off, n int) Op {
	return Op{Kind: k, Name: r.at.Name, Off: r.at.Off + int64(off), Len: int64(n)}
}

func (r *faultyRegion) Load(off int, p []byte) error {
	return r.fs.run(r.op(OpLoad, off, len(p)), func() error { return r.Region.Load(off, p) })
}

func (r *faultyRegion) Store(off int, p []byte) error {
	return r.fs.run(r.op(OpStore, off, len(p)), func() error { return r.Region.Store(off, p) })
}

func (r *faultyRegion) Populate(off, n int) error {
	return r.fs.run(r.op(OpPopulate, off, n), func() error { return r.Region.Populate(off, n) })
}

func (r *faultyRegion) Sync() error {
	op := r.at
	op.Kind = OpMsync
	return r.fs.sync(op, r.Region, r.Region.Sync)
}

// A Faulty may wrap another.

func (f *faultyFile) LoseUnsynced() { lose(f.file) }

func (r *faultyRegion) LoseUnsynced() { lose(r.Region) }

func lose(target any) {
	if l, can := target.(loser); can {
		l.LoseUnsynced()
	}
}
