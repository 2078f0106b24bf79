package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everyOp calls each operation once on its own, so that the error of one does not
// hide another, and returns the errors by kind.
func everyOp(t *testing.T, fsys FS, beneath *Mem) map[Kind]error {
	t.Helper()
	errs := map[Kind]error{}
	g := create(t, beneath, "g", "")
	check(t, g.Close())
	_, errs[OpCreate] = fsys.Open("new", Create)
	_, errs[OpList] = fsys.List("/")
	errs[OpMkdir] = fsys.MkdirAll("/d")
	errs[OpSyncDir] = fsys.SyncDir("/")
	_, errs[OpLock] = fsys.Lock("LOCK")
	errs[OpRename] = fsys.Rename("g", "h")
	errs[OpRemove] = fsys.Remove("f")
	return errs
}

func everyFileOp(f File) map[Kind]error {
	errs := map[Kind]error{}
	_, errs[OpRead] = f.ReadAt(make([]byte, 4), 0)
	_, errs[OpWrite] = f.WriteAt([]byte("text"), 0)
	_, errs[OpSize] = f.Size()
	_, errs[OpNamed] = f.HasName("f")
	errs[OpTruncate] = f.Truncate(4)
	errs[OpAllocate] = f.Allocate(0, 8)
	if r, err := f.Map(0, 4); err != nil {
		errs[OpMap] = err
	} else {
		errs[OpMap] = nil
		errs[OpPopulate] = r.Populate(0, 4)
		errs[OpStore] = r.Store(0, []byte("x"))
		errs[OpLoad] = r.Load(0, make([]byte, 1))
		errs[OpMsync] = r.Sync()
	}
	errs[OpSync] = f.Sync()
	errs[OpClose] = f.Close()
	return errs
}

func TestEachKindFails(t *testing.T) {
	all := Mutating | Reading
	kinds := []Kind{OpNamed}
	for k := Kind(1); k <= OpClose; k <<= 1 {
		kinds = append(kinds, k)
	}
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			if all&k == 0 {
				t.Fatal("neither mutating nor reading")
			}
			m := NewMem()
			check(t, create(t, m, "f", "text").Close())
			fault := &Fault{Kinds: k, N: 1, Err: syscall.EIO}
			f := Inject(m, fault)
			errs := map[Kind]error{}
			file, err := f.Open("f", ReadWrite)
			errs[OpOpen] = err
			if err == nil {
				for k, err := range everyFileOp(file) {
					errs[k] = err
				}
			}
			for k, err := range everyOp(t, f, m) {
				errs[k] = err
			}
			for other, err := range errs {
				if failed := errors.Is(err, syscall.EIO); failed != (other == k) || err != nil && !failed {
					t.Errorf("%v: %v", other, err)
				}
			}
			want := 1
			if k == OpOpen {
				want = 2 // SyncDir opens the directory
			}
			if !f.Fired() || f.Matched(0) != want {
				t.Errorf("fired %v, matched %d", f.Fired(), f.Matched(0))
			}
			var named *fs.PathError
			if !errors.As(errs[k], &named) {
				t.Errorf("%v does not say where", errs[k])
			}
		})
	}
}

func TestFaultStrikesTheNth(t *testing.T) {
	run := func(x *Fault) string {
		f := Inject(NewMem(), x)
		a, b := create(t, f.fs, "a", ""), File(nil)
		a.Close()
		a, err := f.Open("a", ReadWrite)
		check(t, err)
		b, err = f.Open("b", Create)
		if err != nil {
			return "b: " + err.Error()
		}
		var out strings.Builder
		for range 3 {
			for _, file := range []File{a, b} {
				if _, err := file.WriteAt([]byte("x"), 0); err != nil {
					out.WriteString("!")
				} else {
					out.WriteString(".")
				}
			}
		}
		return out.String()
	}
	onlyB := func(name string) bool { return name == "b" }
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{Fault{}, "......"},
		{Fault{N: 1}, "b: create b: injected fault"},
		{Fault{N: 2}, "!....."},
		{Fault{N: 7}, ".....!"},
		{Fault{N: 8}, "......"},
		{Fault{Kinds: OpWrite, N: 3}, "..!..."},
		{Fault{Kinds: OpWrite, N: 3, Forever: true}, "..!!!!"},
		{Fault{Kinds: OpWrite, Match: onlyB, N: 2}, "...!.."},
		{Fault{Kinds: OpWrite, Match: onlyB, N: 2, Forever: true}, "...!.!"},
		{Fault{Kinds: OpSync | OpWrite, N: 4}, "...!.."},
		{Fault{Kinds: OpSync, N: 1, Forever: true}, "......"},
	} {
		if got := run(&c.fault); got != c.want {
			t.Errorf("%+v: %s, want %s", c.fault, got, c.want)
		}
		if fired := strings.Contains(c.want, "!") || strings.HasPrefix(c.want, "b"); fired != (c.fault.fired > 0) {
			t.Errorf("%+v: fired %d times", c.fault, c.fault.fired)
		}
	}
}

func TestErrorsOfFaults(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  error
		text  string
	}{
		{Fault{Kinds: OpWrite, N: 1}, ErrInjected, "--------"},
		{Fault{Kinds: OpWrite, N: 1, Err: syscall.EINTR}, syscall.EINTR, "--------"},
		{Fault{Kinds: OpWrite, N: 1, Err: ErrNoSpace}, ErrNoSpace, "--------"},
		{Fault{Kinds: OpWrite, N: 1, Short: true}, io.ErrShortWrite, "abcd----"},
		{Fault{Kinds: OpWrite, N: 1, Short: true, Err: ErrNoSpace}, ErrNoSpace, "abcd----"},
	} {
		m := NewMem()
		create(t, m, "f", "--------")
		f, err := Inject(m, &c.fault).Open("f", ReadWrite)
		check(t, err)
		n, err := f.WriteAt([]byte("abcdefgh"), 0)
		wantErr(t, err, c.want)
		if want := strings.Count(c.text, "") - 1 - strings.Count(c.text, "-"); n != want {
			t.Errorf("%v: wrote %d, want %d", c.want, n, want)
		}
		wantText(t, f, c.text)
		if IsNoSpace(err) != (c.want == ErrNoSpace) {
			t.Errorf("%v: IsNoSpace is %v", err, IsNoSpace(err))
		}
	}
}

func TestTrace(t *testing.T) {
	f := Inject(NewMem(), &Fault{Kinds: OpSize}).Trace(OpStore)
	file := create(t, f, "f", "1234")
	file.ReadAt(make([]byte, 1), 0)
	file.Size()
	r, err := file.Map(0, 4)
	check(t, err)
	r.Store(1, []byte("xy"))
	check(t, r.Sync())
	check(t, file.Truncate(2))
	check(t, f.Rename("f", "g"))
	const want = "   1 create f\n   2 write f [0,4)\n   3 size f\n   4 store f [1,3)\n" +
		"   5 msync f [0,4)\n   6 truncate f at 2\n   7 rename f to g\n"
	if f.String() != want {
		t.Errorf("trace\n%s", f)
	}
	if f.Seen() != 7 || len(f.Ops()) != 7 || f.Fired() {
		t.Errorf("seen %d, ops %d, fired %v", f.Seen(), len(f.Ops()), f.Fired())
	}
}

func TestInjectedSyncFailureLosesTheWrites(t *testing.T) {
	for _, wrap := range []func(FS) FS{
		func(m FS) FS { return Inject(m, &Fault{Kinds: OpSync, N: 1, Err: syscall.EIO}) },
		func(m FS) FS { return Inject(Inject(m), &Fault{Kinds: OpSync, N: 1, Err: syscall.EIO}) },
	} {
		m, _ := script(t, "....")
		f, err := wrap(m).Open("f", ReadWrite)
		check(t, err)
		put(t, f, 0, "A")
		wantErr(t, f.Sync(), syscall.EIO)
		check(t, f.Sync())
		wantText(t, f, "A...")
		wantCuts(t, m, "f=....")
	}
}

func TestInjectedRegionSyncFailure(t *testing.T) {
	m, _ := script(t, "....")
	f, err := Inject(m, &Fault{Kinds: OpMsync, N: 1, Err: syscall.EIO}).Open("f", ReadWrite)
	check(t, err)
	r, err := f.Map(0, 4)
	check(t, err)
	r.Store(0, []byte("A"))
	wantErr(t, r.Sync(), syscall.EIO)
	check(t, r.Sync())
	wantCuts(t, m, "f=....")
}

func TestPlantedBugs(t *testing.T) {
	setup := func(bugs Bug, faults ...*Fault) (*Mem, *Faulty) {
		m := NewCrashMem()
		return m, Inject(m, faults...).Plant(bugs)
	}
	// save is the shortest correct way to a durable file.
	save := func(f *Faulty) error {
		file := create(t, f, "f", "A")
		return errors.Join(file.Sync(), f.SyncDir("/"))
	}
	m, f := setup(0)
	check(t, save(f))
	wantCuts(t, m, "f=A")

	m, f = setup(IgnoreSync)
	check(t, save(f))
	wantCuts(t, m, "f=", "f=.", "f=A")

	m, f = setup(IgnoreSyncDir)
	check(t, save(f))
	wantCuts(t, m, "", "f=A")

	m, f = setup(IgnoreSyncError, &Fault{Kinds: OpSync, N: 1})
	check(t, save(f))
	wantCuts(t, m, "f=")
	if !f.Fired() {
		t.Error("the fault was not reported as fired")
	}

	m, f = setup(0, &Fault{Kinds: OpSync, N: 1})
	wantErr(t, save(f), ErrInjected)
	wantCuts(t, m, "f=")
}

func TestHold(t *testing.T) {
	release := make(chan struct{})
	f := Inject(NewMem(), &Fault{Kinds: OpSync, N: 1, Hold: release})
	file := create(t, f, "f", "A")
	done := make(chan error, 1)
	go func() { done <- file.Sync() }()
	select {
	case err := <-done:
		t.Fatalf("sync did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	put(t, file, 0, "B")
	close(release)
	check(t, <-done)
}

// The loop that a store's tests are built on: fail each operation in turn.
func TestEnumeration(t *testing.T) {
	script := func(f *Faulty) error {
		file, err := f.Open("f", Create)
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := file.WriteAt([]byte("A"), 0); err != nil {
			return err
		}
		return errors.Join(file.Sync(), f.SyncDir("/"))
	}
	clean := Inject(NewMem())
	check(t, script(clean))
	var failed []string
	for n := 1; n <= clean.Seen(); n++ {
		f := Inject(NewMem(), &Fault{N: n})
		wantErr(t, script(f), ErrInjected)
		ops := f.Ops()
		failed = append(failed, fmt.Sprint(ops[n-1].Kind))
	}
	if want := []string{"create", "write", "sync", "syncdir"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
}
