package seglog

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// A process dies in Close, when the manifest that says so has its name and the directory was not synced. The
// next process removes the ring, and the power is cut: the disk may have the manifest before, which names that
// ring.
func TestTwoCrashesAroundAClose(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewCrashMem()
	steps := &logtest.StepFS{FS: mem}
	s := mustLog(t, steps)
	setSyncIn(t, s, "a", "1")
	var dead *vfs.Mem
	steps.Syncing = func() {
		if dead == nil {
			dead = mem.ProcessCrash()
		}
	}
	closeLog(t, s)
	cuts := 0
	next := mustLog(t, &logtest.StepFS{FS: dead, Removed: func(name string) {
		if filepath.Base(name) != RingName {
			return
		}
		for image := range dead.PowerCuts(60, rand.New(rand.NewPCG(1, 2))) {
			cuts++
			found := mustLog(t, image)
			wantIn(t, found, "a", "1")
			closeLog(t, found)
		}
	}})
	setIn(t, next, "b", "2")
	if cuts == 0 {
		t.Error("no ring was removed")
	}
	closeLog(t, next)
}

// killedAfterAFailedSync is a store of which the last sync has failed.
func killedAfterAFailedSync(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	armed := false
	s := mustLog(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}))
	setIn(t, s, "a", "1")
	syncLog(t, s)
	setIn(t, s, "b", "2")
	armed = true
	if err := s.sync(); err == nil {
		t.Fatal("the sync has not failed")
	}
	return mem.ProcessCrash()
}

// If the disk has no room for the copy of the records that recovery has found, writes and syncs are
// refused, and succeed when there is room again.
func TestNoRoomForWhatWasFound(t *testing.T) {
	for name, ask := range map[string]func(s *logbook) error{
		"a sync":  (*logbook).sync,
		"a write": func(s *logbook) error { return s.setKey("c", "3") },
	} {
		dead := killedAfterAFailedSync(t)
		full := func(name string) bool { return strings.HasSuffix(name, files.TempSuffix) }
		s := mustLog(t, vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Err: vfs.ErrNoSpace, Match: full}))
		if err := ask(s); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
			t.Errorf("%s without room: %v", name, err)
		}
		wantIn(t, s, "b", "2")
		if err := ask(s); err != nil {
			t.Errorf("%s with room again: %v", name, err)
		}
		wantIn(t, s, "b", "2")
		closeLog(t, s)
	}
}

// A mark that says that a sync has failed is not followed by one that says that all is well.
func TestFailedSyncStaysNoted(t *testing.T) {
	mem := vfs.NewMem()
	armed := false
	s := mustLog(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}))
	s.Inline, s.Owner.Inline = false, false // marks come every 100 ms at most, as outside of tests
	for range 3 {
		setSyncIn(t, s, "a", "1")
	}
	setIn(t, s, "b", "2")
	armed = true
	if err := s.sync(); err == nil {
		t.Fatal("the sync has not failed")
	}
	s.Note() // by the keeper, whose own sync had ended well before
	if m, err := ReadMark(mem, "db", s.StoreID); err != nil || !m.Failed {
		t.Errorf("the mark is %+v, %v", m, err)
	}
}

// TestManifestNamesTheCacheOfANewStore: the manifest names the page cache before the first record
// is written, also in a directory that Open has just made.
func TestManifestNamesTheCacheOfANewStore(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.NewMem()} {
		dir := filepath.Join(t.TempDir(), "new")
		s, err := openLog(fsys, inline, func(o *logSettings) { o.Dir = dir })
		if err != nil {
			t.Fatal(err)
		}
		setIn(t, s, "a", "1")
		cache := fsys.CacheID(dir)
		if m, err := ReadManifest(fsys, dir); err != nil || m.Writing == nil || m.Writing.Cache != cache || m.SameCache(cache) != (cache != "") {
			t.Errorf("%s: the manifest is %+v, %v", name, m, err)
		}
		closeLog(t, s)
	}
}

// TestNewDirectoryIsDurable: the name of the store's directory is synced before the first write is
// acknowledged.
func TestNewDirectoryIsDurable(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s, err := openLog(f, inline, func(o *logSettings) { o.Dir = "parent/db" })
	if err != nil {
		t.Fatal(err)
	}
	setIn(t, s, "a", "1")
	for _, op := range f.Ops() {
		if op.Kind == vfs.OpSyncDir && op.Name == "parent" {
			return
		}
	}
	t.Errorf("the parent directory is not synced:\n%s", f)
}

// A sync of the directory that fails is final, whatever has got a name, and the mark says so: it is
// unknown which names are on the disk, and another sync may succeed without them.
func TestFailedSyncOfTheDirectoryIsNoted(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		armed := false
		f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSyncDir, N: n, Match: func(name string) bool { return armed && name == "db" }})
		s := mustLog(t, f)
		setSyncIn(t, s, "a", "1")
		armed = true
		err := s.EndTail() // makes the next segment, and swaps the manifest
		if !f.Fired() {
			if n < 3 {
				t.Errorf("the directory is synced %d times", n-1)
			}
			closeLog(t, s)
			return
		}
		if !errors.Is(err, vfs.ErrInjected) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("sync %d of the directory: %v", n, err)
		}
		if m, err := ReadMark(mem, "db", s.StoreID); err != nil || m == nil || !m.Failed {
			t.Errorf("sync %d of the directory: the mark is %+v, %v", n, m, err)
		}
		s.close()
	}
}

// TestNoMarkBeforeTheManifest: where the directory cannot be synced from some moment on, however many processes try,
// nothing is made that a power cut could leave without the manifest.
func TestNoMarkBeforeTheManifest(t *testing.T) {
	for n := 1; n <= 3; n++ {
		mem, processes := vfs.NewCrashMem(), 0
		for first := n; processes < 3; first = 1 {
			f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSyncDir, N: first, Forever: true, Match: func(name string) bool { return name == "db" }})
			s, err := openLog(f, inline)
			if err == nil {
				err = s.setKey("a", "1")
				s.close()
			}
			if !f.Fired() {
				break // so many syncs are for later than the first write
			}
			if err == nil {
				t.Error("a write succeeds in a directory that cannot be synced")
			}
			processes++
			for cut := range mem.PowerCuts(1000, nil) {
				s, err := openLog(cut, inline)
				if err != nil {
					t.Fatalf("sync %d of the directory, a power cut after %d processes: %v", n, processes, err)
				}
				setIn(t, s, "a", "2")
				closeLog(t, s)
			}
		}
		if n < 3 && processes == 0 {
			t.Errorf("the directory is not synced %d times before the first write", n)
		}
	}
}
