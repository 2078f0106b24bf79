package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/collection"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// snapshotHook calls a function when the file of an index snapshot is made: what the snapshot covers is decided
// then, and nothing is copied yet.
type snapshotHook struct {
	*vfs.Mem
	call func()
}

func (h *snapshotHook) Open(path string, mode vfs.Mode) (vfs.File, error) {
	if f := h.call; f != nil && filepath.Base(path) == seglog.IndexTemp {
		h.call = nil
		f()
	}
	return h.Mem.Open(path, mode)
}

// TestCollectionGoesDuringASnapshot: an index snapshot that has the elements of a collection, and neither its
// meta nor a record of kind m or e behind it, does not say that there is nothing to sweep.
func TestCollectionGoesDuringASnapshot(t *testing.T) {
	clock := logtest.NewClock()
	for name, goes := range map[string]func(s *Store) error{
		"deleted":  func(s *Store) error { _, err := s.Delete(nil, []byte("h"), Process); return err },
		"replaced": func(s *Store) error { return s.Set(nil, []byte("h"), []byte("v"), 0, Process) },
		"expired":  func(s *Store) error { clock.Advance(2000 * 1e6); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashMem()
			hook := &snapshotHook{Mem: mem}
			s := mustOpen(t, hook, func(o *Options) { o.Clock = clock })
			mustChange(t, s, "h", hset("a", "1", "b", "2"))
			mustChange(t, s, "stays", hset("a", "1"))
			if err := s.Expire(nil, nil, []byte("h"), s.now()+1000, Process); err != nil {
				t.Fatal(err)
			}
			hook.call = func() {
				if err := goes(s); err != nil {
					t.Error(err)
				}
				s.spaces[0].raw.reap()
			}
			s.housekeeping.Lock()
			err := s.takeSnapshot(nil)
			s.housekeeping.Unlock()
			if err != nil || hook.call != nil {
				t.Fatalf("the snapshot: %v", err)
			}
			s = mustOpen(t, mem.ProcessCrash(), func(o *Options) { o.Clock = clock })
			if s.snapshot == nil {
				t.Fatal("the snapshot is not read")
			}
			wantNoLeft(t, s)
			wantHash(t, s.Collections(), "stays", "a", "1")
			mustClose(t, s)
		})
	}
}

// TestSweepGoesOnBehindWhatIsDamaged: an owner that cannot be read keeps the elements of no other collection.
func TestSweepGoesOnBehindWhatIsDamaged(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustChange(t, s, "key of what is damaged", hset("a", "1"))
	c, err := s.Collections().Find([]byte("key of what is damaged"), HashType)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		mustChange(t, s, fmt.Sprint("h", i), hset("a", "1", "b", "2"))
	}
	for i := range 2 {
		if _, err := s.Clear(fmt.Append(nil, "h", i), HashType, Process); err != nil {
			t.Fatal(err)
		}
	}
	mustSet(t, s, "later", strings.Repeat("x", 4<<10)) // the end of the log is compared when the store is opened
	elements := s.spaces[0].elements
	owner, err := elements.find(elements.hash(collection.OwnerKey(c.ID)), collection.OwnerKey(c.ID))
	if err != nil {
		t.Fatal(err)
	}
	_, offset := seglog.SplitAddress(owner.address)
	mustClose(t, s)
	file, err := mem.Open("db/00000001.log", vfs.ReadWrite)
	if err == nil {
		err = logtest.Flip(file, offset+owner.bytes-3, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	var reported []error
	s = mustOpen(t, mem, func(o *Options) { o.OnError = func(err error) { reported = append(reported, err) } })
	if _, err := s.Clear([]byte("h2"), HashType, Process); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(); err != nil {
		t.Error(err)
	}
	if n := s.spaces[0].elements.index.Len(); n != 2 {
		t.Errorf("%d elements are left, want that of the living collection and its owner", n)
	}
	wantHash(t, s.Collections(), "key of what is damaged", "a", "1")
	if s.allSwept() {
		t.Error("nothing is left to be looked at")
	}
	mustClose(t, s) // which returns when all has been reported
	if len(reported) != 1 || !errors.Is(reported[0], seglog.ErrCorrupt) {
		t.Errorf("reported: %v", reported)
	}
}

// TestCompactAllThatMeetsClose: a Compact that finds the store being closed while it sweeps says so by ErrClosed.
func TestCompactAllThatMeetsClose(t *testing.T) {
	for name, stop := range map[string]func(s *Store){
		"at a batch":        func(s *Store) { s.closing.Store(true) },
		"before the search": func(s *Store) { s.sweeper.before, s.stop = 1000, make(chan struct{}); close(s.stop) },
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, vfs.NewMem())
			mustChange(t, s, "h", hset("a", "1", "b", "2"))
			if _, err := s.Clear([]byte("h"), HashType, Process); err != nil {
				t.Fatal(err)
			}
			stop(s)
			if err := s.Compact(context.Background(), nil); !errors.Is(err, seglog.ErrClosed) {
				t.Errorf("Compact returned %v", err)
			}
		})
	}
}

// TestElementsWithoutAnOwner: of elements whose owner is missing those are taken out whose collection no meta names.
func TestElementsWithoutAnOwner(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	if _, err := s.declareNew("map"); err != nil {
		t.Fatal(err)
	}
	elements := s.spaces[0].elements
	for _, key := range []string{"gone", "stays", "map:stays", "expired"} {
		mustChange(t, s, key, hset("a", "1"))
		c, err := s.Collections().Find([]byte(key), HashType)
		if err != nil {
			t.Fatal(err)
		}
		owner := collection.OwnerKey(c.ID)
		h, err := elements.find(elements.hash(owner), owner)
		if err != nil || h.address == 0 {
			t.Fatal(err)
		}
		elements.remove(elements.hash(owner), string(owner), h, 0)
	}
	s.sweeper.tracking.Store(false) // the ids that go now are not noted
	mustRemove(t, s, "gone")
	s.opts.Clock = &still{now: s.now}
	if err := s.Expire(nil, nil, []byte("expired"), 1000, Process); err != nil {
		t.Fatal(err)
	}
	s.opts.Clock.(*still).advance(1000)
	s.sweeper.tracking.Store(true)
	s.sweeper.before = s.log.Last() + 1
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if n := elements.index.Len(); n != 2 {
		t.Errorf("%d elements are left, want 2", n)
	}
	wantHash(t, s.Collections(), "stays", "a", "1")
	wantHash(t, s.Collections(), "map:stays", "a", "1")
}
