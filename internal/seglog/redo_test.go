package seglog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// Records that an earlier process left are in the page cache, and perhaps nowhere else: its sync
// has failed, or a write-back after its death. When a later record is reported durable, all earlier
// ones survive a power cut, too.
func TestWhatWasFoundIsMadeDurable(t *testing.T) { logtest.BothWays(t, whatWasFoundIsMadeDurable) }

func whatWasFoundIsMadeDurable(t *testing.T) {
	content := func(n int) map[string]string {
		want := map[string]string{"durable": "1"}
		for i := range n {
			want[fmt.Sprint("key ", i)] = strings.Repeat(string(rune('a'+i%26)), 30*i%700)
		}
		return want
	}
	for name, ask := range map[string]func(t *testing.T, s *logbook) error{
		"a sync":                 func(t *testing.T, s *logbook) error { return s.sync() },
		"a write":                func(t *testing.T, s *logbook) error { return s.setSync("new", "2") },
		"a write, and a closing": func(t *testing.T, s *logbook) error { setIn(t, s, "new", "2"); return s.close() },
	} {
		for _, end := range []string{"killed", "sync failed", "killed, and the sync failed"} {
			for _, drained := range []bool{false, true} {
				what := fmt.Sprintf("%s, drained %v, then %s", end, drained, name)
				mem := vfs.NewCrashMem()
				mem.LosePagesForGood()
				armed := false
				f := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }})
				s := mustLog(t, f, func(o *logSettings) { o.RingBytes = 64 << 10; o.SegmentBytes = 20_000 })
				setSyncIn(t, s, "durable", "1")
				want := content(60)
				for key, value := range want {
					if key != "durable" {
						setIn(t, s, key, value)
					}
				}
				if drained {
					if err := s.DrainTail(true); err != nil {
						t.Fatal(err)
					}
				}
				if end == "sync failed" {
					armed = true
					if err := s.sync(); err == nil {
						t.Fatal("the sync has not failed")
					}
				}
				dead := mem.ProcessCrash()
				if end != "killed" {
					crashtest.LoseUnsynced(dead, "db")
				}
				next := mustLog(t, dead, func(o *logSettings) { o.RingBytes = 64 << 10 })
				for key, value := range want {
					wantIn(t, next, key, value)
				}
				if err := ask(t, next); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for image := range dead.PowerCuts(40, rand.New(rand.NewPCG(1, 2))) {
					cut, err := openLog(image, inline)
					if err != nil {
						t.Fatalf("%s, then a power cut: Open: %v", what, err)
					}
					for key, value := range want {
						wantIn(t, cut, key, value)
					}
					closeLog(t, cut)
				}
			}
		}
	}
}

const foundValue = "what was found"

// killedWithFound returns the disk of a process that has synced a record, and written another.
func killedWithFound(t *testing.T, mem *vfs.Mem) *vfs.Mem {
	t.Helper()
	s := mustLog(t, mem)
	setSyncIn(t, s, "durable", "1")
	setIn(t, s, "found", foundValue)
	return mem.ProcessCrash()
}

// wantFoundAfterPowerCuts demands both records of it.
func wantFoundAfterPowerCuts(t *testing.T, mem *vfs.Mem, limit int) {
	t.Helper()
	for image := range mem.PowerCuts(limit, nil) {
		cut := mustLog(t, image)
		wantIn(t, cut, "durable", "1")
		wantIn(t, cut, "found", foundValue)
		closeLog(t, cut)
	}
}

// noRoomForCopies is a disk that is full for copies of segments.
func noRoomForCopies() *vfs.Fault {
	return &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Forever: true, Err: vfs.ErrNoSpace, Match: func(name string) bool { return strings.HasSuffix(name, files.TempSuffix) }}
}

// A kernel reports a failed write-back once. If it reports it to the first opening after a kill,
// which had no room for a copy and syncs the file in place, the next opening knows: it believes no
// sync of that file, though it succeeds, and waits for room.
func TestFailedSyncOfWhatWasFoundIsNoted(t *testing.T) {
	logtest.BothWays(t, failedSyncOfWhatWasFoundIsNoted)
}

func failedSyncOfWhatWasFoundIsNoted(t *testing.T) {
	mem := vfs.NewCrashMem()
	mem.LosePagesForGood()
	dead := killedWithFound(t, mem)
	told := &vfs.Fault{Kinds: vfs.OpSync, N: 1, Err: syscall.EIO, Match: logtest.IsLog}

	first := mustLog(t, vfs.Inject(dead, noRoomForCopies(), told))
	if err := first.sync(); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrReadOnly) {
		t.Errorf("a sync that the kernel says has failed: %v", err)
	}
	first.close()

	next := mustLog(t, vfs.Inject(dead, noRoomForCopies()))
	wantIn(t, next, "found", foundValue)
	if err := next.sync(); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
		t.Errorf("a sync of bytes that an earlier one has lost: %v", err)
	}
	closeLog(t, next)

	last := mustLog(t, dead)
	if err := last.sync(); err != nil {
		t.Errorf("a sync with room for a copy: %v", err)
	}
	wantFoundAfterPowerCuts(t, dead, 20)
	closeLog(t, last)
}

// A process is killed when it has renamed a copy. The next one has no room for another, and syncs
// the file with that name. The name is durable, too, when the file counts as durable.
func TestNameOfCopyIsSyncedInPlace(t *testing.T) { logtest.BothWays(t, nameOfCopyIsSyncedInPlace) }

func nameOfCopyIsSyncedInPlace(t *testing.T) {
	mem := vfs.NewCrashMem()
	dead := killedWithFound(t, mem)
	var left *vfs.Mem
	dead.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if phase == vfs.After && op.Kind == vfs.OpRename && strings.HasSuffix(op.Name, files.TempSuffix) && logtest.IsLog(op.NewName) && left == nil {
			left = dead.ProcessCrash()
		}
	})
	if err := mustLog(t, dead).sync(); err != nil {
		t.Fatal(err)
	}
	dead.OnBoundary(nil)
	if left == nil {
		t.Fatal("there is no moment to die in")
	}
	next := mustLog(t, vfs.Inject(left, noRoomForCopies()))
	syncLog(t, next)
	wantFoundAfterPowerCuts(t, left, 60)
	closeLog(t, next)
}

// A sync of the directory that fails after the renaming of a copy is noted, too.
func TestFailedSyncOfNameIsNoted(t *testing.T) { logtest.BothWays(t, failedSyncOfNameIsNoted) }

func failedSyncOfNameIsNoted(t *testing.T) {
	mem := vfs.NewCrashMem()
	dead := killedWithFound(t, mem)
	s := mustLog(t, vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpSyncDir, N: 1, Err: syscall.EIO}))
	if err := s.sync(); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrReadOnly) {
		t.Errorf("a sync of which that of the directory has failed: %v", err)
	}
	s.close()
	if m, err := ReadMark(dead, "db", s.StoreID); err != nil || m == nil || !m.Failed {
		t.Errorf("the mark does not say so: %+v, %v", m, err)
	}
}

// Any sync of the directory that fails is the end of the log, and the next opening knows of it: a new name may
// be in the cache alone. Only of a log that never had a record there is nothing to note.
func TestFailedSyncOfDirectoryIsNoted(t *testing.T) {
	logtest.BothWays(t, failedSyncOfDirectoryIsNoted)
}

func failedSyncOfDirectoryIsNoted(t *testing.T) {
	for what, begin := range map[string]func(mem *vfs.Mem) *vfs.Mem{
		"new":    func(mem *vfs.Mem) *vfs.Mem { return mem },
		"killed": func(mem *vfs.Mem) *vfs.Mem { return killedWithFound(t, mem) },
		"closed": func(mem *vfs.Mem) *vfs.Mem {
			dead := killedWithFound(t, mem)
			s := mustLog(t, dead)
			setIn(t, s, "closed", "1")
			closeLog(t, s)
			return dead
		},
	} {
		for n := 1; ; n++ {
			dead := begin(vfs.NewCrashMem())
			disk := vfs.Inject(dead, &vfs.Fault{Kinds: vfs.OpSyncDir, N: n, Err: syscall.EIO})
			s, err := openLog(disk, inline)
			if err != nil {
				t.Fatalf("%s, %d: %v", what, n, err)
			}
			written := what != "new"
			for i := range 2 {
				written = s.setSync(fmt.Sprint("key ", i), "1") == nil || written
				s.EndTail()
			}
			s.close()
			if disk.Matched(0) < n {
				if n < 8 {
					t.Errorf("%s: the directory was synced %d times", what, n-1)
				}
				break
			}
			if err := s.Failure(); !errors.Is(err, syscall.EIO) {
				t.Errorf("%s, sync %d of the directory: %v", what, n, err)
			}
			if m, err := ReadMark(dead, "db", s.StoreID); err != nil || written && (m == nil || !m.Failed) {
				t.Errorf("%s, sync %d of the directory: the mark does not say that it failed: %+v, %v", what, n, m, err)
			}
			next := mustLog(t, dead)
			if written && what != "new" {
				wantIn(t, next, "durable", "1")
			}
			setSyncIn(t, next, "next", "2")
			closeLog(t, next)
		}
	}
}

// Records that were found when the log was opened, and have changed before they were copied, are
// not reported durable: a kernel may drop pages that it could not write at any time. The call
// returns an error, and so does each later one, without reading the files; the next opening judges
// the files again. When the records are back, they are durable.
func TestChangedBeforeItIsCopied(t *testing.T) { logtest.BothWays(t, changedBeforeItIsCopied) }

func changedBeforeItIsCopied(t *testing.T) {
	for name, full := range map[string]bool{"copied": false, "no room for a copy": true} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashMem()
			s := mustLog(t, mem)
			setSyncIn(t, s, "durable", "1")
			setIn(t, s, "found", foundValue)
			if err := s.DrainTail(true); err != nil {
				t.Fatal(err)
			}
			dead := mem.ProcessCrash()
			var faults []*vfs.Fault
			if full {
				faults = append(faults, noRoomForCopies())
			}
			disk := vfs.Inject(dead, faults...)
			next := mustLog(t, disk)
			wantIn(t, next, "found", foundValue)
			path := next.doubtful[0].Path
			logtest.DamageIn(t, dead, path, foundValue)
			looked := 0
			for n, what := range []string{"the first time", "again"} {
				if err := next.sync(); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrReadOnly) {
					t.Errorf("a sync, %s: %v", what, err)
				}
				if err := next.setSync("new", "2"); !errors.Is(err, ErrCorrupt) {
					t.Errorf("a write, %s: %v", what, err)
				}
				if n == 0 {
					looked = len(disk.Ops())
				}
			}
			if again := disk.Ops()[looked:]; len(again) > 0 {
				t.Errorf("the files are looked at again: %v", again)
			}
			if names := logtest.Unfinished(t, dead); len(names) > 0 {
				t.Errorf("%q are left", names)
			}
			next.close()
			logtest.DamageIn(t, dead, path, "v"+foundValue[1:])
			next = mustLog(t, vfs.Inject(dead, faults...))
			syncLog(t, next)
			wantFoundAfterPowerCuts(t, dead, 40)
			closeLog(t, next)
		})
	}
}

// A crash in the middle of a copy, or while a ring is made, leaves no file for ever: the next
// process that writes removes it, though the segment may be no longer one that is copied, because
// the power cut has taken the records to copy.
func TestUnfinishedCopiesGo(t *testing.T) { logtest.BothWays(t, unfinishedCopiesGo) }

func unfinishedCopiesGo(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := mustLog(t, mem)
	setSyncIn(t, s, "durable", "1")
	setIn(t, s, "found", strings.Repeat("v", 1000))
	dead := mem.ProcessCrash()
	s = mustLog(t, dead)
	left := 0
	check := func(image *vfs.Mem, ringBytes int64) {
		left += len(logtest.Unfinished(t, image))
		next := mustLog(t, image, func(o *logSettings) { o.RingBytes = ringBytes })
		wantIn(t, next, "durable", "1")
		setIn(t, next, "after", "2")
		closeLog(t, next)
		if names := logtest.Unfinished(t, image); len(names) > 0 {
			t.Errorf("%q are left", names)
		}
	}
	dead.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if !strings.HasSuffix(op.Name, ".tmp") {
			return
		}
		check(dead.ProcessCrash(), logtest.TestRing)
		check(dead.ProcessCrash(), -1)
		n := 0
		for image := range dead.PowerCuts(20, nil) {
			if n++; n%7 == 1 {
				check(image, []int64{logtest.TestRing, -1}[n%2])
			}
		}
	})
	setIn(t, s, "new", "3")
	dead.OnBoundary(nil)
	closeLog(t, s)
	if left == 0 {
		t.Error("no crash has left anything")
	}
}
