package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A process dies in Close, when the manifest that says so has its name and the directory was not synced. The next process
// removes the ring, and the power is cut: the disk may have the manifest before, which names that ring.
func TestTwoCrashesAroundAClose(t *testing.T) {
	needsRing(t)
	mem := vfs.NewCrashMem()
	steps := &stepFS{FS: mem}
	s := mustOpen(t, steps, noSnapshot)
	if err := s.Set(nil, []byte("a"), []byte("1"), 0, Power); err != nil {
		t.Fatal(err)
	}
	var dead *vfs.Mem
	steps.syncing = func() {
		if dead == nil {
			dead = mem.ProcessCrash()
		}
	}
	mustClose(t, s)
	cuts := 0
	next := mustOpen(t, &stepFS{FS: dead, removed: func(name string) {
		if filepath.Base(name) != seglog.RingName {
			return
		}
		for image := range dead.PowerCuts(60, rand.New(rand.NewPCG(1, 2))) {
			cuts++
			found := mustOpen(t, image, noSnapshot)
			wantValue(t, found, "a", "1")
			mustClose(t, found)
		}
	}}, noSnapshot)
	mustSet(t, next, "b", "2")
	if cuts == 0 {
		t.Error("no ring was removed")
	}
	mustClose(t, next)
}

// killedAfterAFailedSync is a store of which the last sync has failed.
func killedAfterAFailedSync(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	armed := false
	s := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}), noSnapshot)
	mustSet(t, s, "a", "1")
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "b", "2")
	armed = true
	if err := s.Sync(); err == nil {
		t.Fatal("the sync has not failed")
	}
	return mem.ProcessCrash()
}

// Where the disk has no room for the copy of what recovery has found, writes and syncs are refused, and succeed when
// there is room again.
func TestNoRoomForWhatWasFound(t *testing.T) {
	for name, ask := range map[string]func(s *Store) error{
		"a sync":  (*Store).Sync,
		"a write": func(s *Store) error { return s.Set(nil, []byte("c"), []byte("3"), 0, Process) },
	} {
		dead := killedAfterAFailedSync(t)
		full := func(name string) bool { return strings.HasSuffix(name, redoTemp) }
		s := mustOpen(t, vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Err: vfs.ErrNoSpace, Match: full}), noSnapshot)
		if err := ask(s); !errors.Is(err, seglog.ErrNoSpace) || errors.Is(err, seglog.ErrReadOnly) {
			t.Errorf("%s without room: %v", name, err)
		}
		wantValue(t, s, "b", "2")
		if err := ask(s); err != nil {
			t.Errorf("%s with room again: %v", name, err)
		}
		wantValue(t, s, "b", "2")
		mustClose(t, s)
	}
}

// A mark that says that a sync has failed is not followed by one that says that all is well.
func TestFailedSyncStaysNoted(t *testing.T) {
	mem := vfs.NewMem()
	armed := false
	s := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}), noSnapshot)
	s.log.inline = false // marks come every 100 ms at most, as outside of tests
	for range 3 {
		if err := s.Set(nil, []byte("a"), []byte("1"), 0, Power); err != nil {
			t.Fatal(err)
		}
	}
	mustSet(t, s, "b", "2")
	armed = true
	if err := s.Sync(); err == nil {
		t.Fatal("the sync has not failed")
	}
	s.log.noteSynced() // by the keeper, whose own sync had ended well before
	if m, err := seglog.ReadMark(mem, "db", s.log.storeID); err != nil || !m.Failed {
		t.Errorf("the mark is %+v, %v", m, err)
	}
}

// Check beside a writer that closes, between its looks at the manifest and at the ring, finds nothing damaged.
func TestCheckBesideAClose(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, noSnapshot)
	mustSet(t, s, "a", "1")
	closed := false
	report, err := Check(context.Background(), "db", &stepFS{FS: mem, opening: func(name string) {
		if filepath.Base(name) == seglog.RingName && !closed {
			closed = true
			mustClose(t, s)
		}
	}}, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %v", report.Problems, err)
	}
	if !closed {
		mustClose(t, s)
	}
}

// TestManifestNamesTheCacheOfANewStore: the manifest names the page cache before the first record
// is written, also in a directory that Open has just made.
func TestManifestNamesTheCacheOfANewStore(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.NewMem()} {
		dir := filepath.Join(t.TempDir(), "new")
		s, err := Open(dir, Options{FS: fsys, Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		mustSet(t, s, "a", "1")
		cache := fsys.CacheID(dir)
		if m, err := seglog.ReadManifest(fsys, dir); err != nil || m.Writing == nil || m.Writing.Cache != cache || m.SameCache(cache) != (cache != "") {
			t.Errorf("%s: the manifest is %+v, %v", name, m, err)
		}
		mustClose(t, s)
	}
}

// TestNewDirectoryIsDurable: the name of the store's directory is synced before the first write is
// acknowledged.
func TestNewDirectoryIsDurable(t *testing.T) {
	f := vfs.Inject(vfs.NewMem())
	s, err := Open("parent/db", Options{FS: f, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "a", "1")
	for _, op := range f.Ops() {
		if op.Kind == vfs.OpSyncDir && op.Name == "parent" {
			return
		}
	}
	t.Errorf("nobody has synced the parent directory:\n%s", f)
}
