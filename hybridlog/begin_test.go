package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// A reader that found the tail before the first write of a process reads the later entries.
func TestReaderMeetsFirstWrite(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		old := text(1, 6000)
		mustAppend(t, l, old)
		mustClose(t, l)
		l = mustOpen(t, mem, change)
		s := l.set.Load().find(0)
		c, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			mustAppend(t, l, text(2, 3000))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(old))
		if err := s.readAt(c, got, 0); err != nil || !bytes.Equal(got, old) {
			t.Errorf("a reader from before the first write: %v", err)
		}
		mustClose(t, l)
	})
}

// A sync that comes too late begins nothing.
func TestLateSync(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	mustAppend(t, l, []byte("hello"))
	mem = mem.ProcessCrash()
	l = mustOpen(t, mem)
	if st := l.Stats(); st.Durable == st.End {
		t.Skip("nothing is left to be synced where there is no ring")
	}
	mustClose(t, l)
	before, _ := mem.List("log")
	if err := l.sync(false); !errors.Is(err, ErrClosed) {
		t.Errorf("a sync after Close: %v", err)
	}
	after, _ := mem.List("log")
	if len(before) != len(after) {
		t.Errorf("it was %v, and is %v", before, after)
	}
}

// No segment length makes Append panic.
func TestSegmentBytesOfAnySize(t *testing.T) {
	for _, n := range []int64{-1, 1 << 62} {
		o := testOptions(vfs.NewMem())
		SegmentBytes(n).apply(o)
		l, err := open("log", o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append([]byte("hello")); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		mustClose(t, l)
	}
}

// A process that was killed within Close may have left a manifest whose name is not durable. The
// ring that the one before it names stays until it is.
func TestRingOutlivesTheManifestThatNamesIt(t *testing.T) {
	mem := vfs.NewCrashMem()
	l := mustOpen(t, mem)
	want := []byte("hello")
	mustAppend(t, l, want)
	needsRing(t, l)
	var dead *vfs.Mem
	mem.OnBoundary(func(op vfs.Op, p vfs.Phase) {
		if op.Kind == vfs.OpRename && p == vfs.After {
			dead = mem.ProcessCrash()
		}
	})
	mustClose(t, l)
	l = mustOpen(t, dead)
	cuts := 0
	dead.OnBoundary(func(op vfs.Op, p vfs.Phase) {
		if op.Kind != vfs.OpRemove || p != vfs.After {
			return
		}
		for image := range dead.PowerCuts(60, nil) {
			cuts++
			cut, err := open("log", testOptions(image))
			if err == nil {
				err = errors.Join(problem(cut, [][]byte{want}, 0), cut.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	mustAppend(t, l, []byte("more"))
	dead.OnBoundary(nil)
	if cuts == 0 {
		t.Error("no ring was removed")
	}
	mustClose(t, l)
}

// Damage in the tail of a log that was closed prevents no write, and hides nothing else: intact
// entries are read, before a write, after it, and after a kill, with the old cache and a new one,
// with the mark and without.
func TestDamageInTheTailOfAClosedLog(t *testing.T) {
	flips := map[string]struct {
		name string
		bit  int
	}{
		"a frame":            {"log/00000001.sum", 8 * (headerBytes + 3*frameBytes + 1)},
		"the last frame":     {"log/00000001.sum", 8 * (headerBytes + 8*frameBytes + 1)},
		"bytes":              {"log/00000001.log", 8 * 1000},
		"bytes near the end": {"log/00000001.log", 8 * 7000},
	}
	for what, damage := range flips {
		for _, cache := range []string{"", "another"} {
			for _, marked := range []bool{true, false} {
				for _, late := range []bool{true, false} { // the damage comes when a process has begun to write
					name := fmt.Sprintf("%s, cache %q, mark %v, late %v", what, cache, marked, late)
					bothWays(t, func(t *testing.T, change func(*options)) {
						mem := vfs.NewMem()
						l := mustOpen(t, mem, change)
						var want []byte
						add := func(i, n int) {
							want = append(want, text(i, n)...)
							if _, err := l.Append(text(i, n)); err != nil {
								t.Fatalf("%s: %v", name, err)
							}
						}
						for i := range 8 {
							add(i, 900)
						}
						mustClose(t, l)
						spoil := func() { flip(t, mem, damage.name, damage.bit) }
						reopen := func() {
							if !marked {
								mem.Remove("log/SYNCED")
							}
							if cache != "" {
								mem.SetCacheID(cache + string(rune('a'+len(want)%26)))
							}
							var err error
							if l, err = open("log", testOptions(mem, change)); err != nil {
								t.Fatalf("%s: Open: %v", name, err)
							}
							if l.Size() != int64(len(want)) {
								t.Fatalf("%s: it has %d bytes, want %d", name, l.Size(), len(want))
							}
						}
						if !late {
							spoil()
						}
						reopen()
						add(8, 5000)
						first := l
						if err := l.Sync(); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						mem = mem.ProcessCrash()
						if late {
							spoil()
						}
						reopen()
						add(9, 300)
						mustClose(t, l)
						reopen()
						since := 5300
						if late { // one damaged frame, in a segment that is not read
							since = 300
						}
						tail := make([]byte, since)
						if n, err := l.ReadAt(tail, int64(len(want)-since)); n < since || string(tail) != string(want[len(want)-since:]) {
							t.Errorf("%s: later entries: %v", name, err)
						}
						all := make([]byte, len(want))
						if _, err := l.ReadAt(all, 0); !errors.Is(err, ErrCorrupt) {
							t.Errorf("%s: a read of damaged bytes: %v", name, err)
						}
						mustClose(t, l)
						first.Close()
					})
				}
			}
		}
	}
}

// Before it writes to the tail of a closed log, the manifest still says where that was closed: a kill leaves it so.
func TestKilledBehindAClosedTail(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewCrashMem()
		l := mustOpen(t, mem, change)
		want := [][]byte{text(0, 5000)}
		mustAppend(t, l, want[0])
		mustClose(t, l)
		mem.Remove("log/SYNCED")
		l = mustOpen(t, mem, change)
		mustAppend(t, l, text(1, 300))
		dead := mem.ProcessCrash()
		for image := range dead.PowerCuts(60, nil) {
			cut := mustOpen(t, image, change)
			if d := cut.Stats().Durable; d < 5000 {
				t.Fatalf("%d bytes are durable, and the log was closed with 5000", d)
			}
			if err := problem(cut, want, 0); err != nil {
				if err := problem(cut, append(want[:1:1], text(1, 300)), 0); err != nil {
					t.Fatal(err)
				}
			}
			mustClose(t, cut)
		}
		cutOff := dead.ProcessCrash()
		f, err := cutOff.Open("log/00000001.log", vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(4000), f.Close()); err != nil {
			t.Fatal(err)
		}
		cutOff.SetCacheID("another")
		if _, err := open("log", testOptions(cutOff, change)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a file that is shorter than when the log was closed: %v", err)
		}
	})
}

// noSegments is a disk that has no room for new segments.
func noSegments(mem *vfs.Mem) vfs.FS {
	made := func(name string) bool { _, segment := parseName(filepath.Base(name)); return segment }
	return vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpCreate, N: 1, Forever: true, Match: made, Err: vfs.ErrNoSpace})
}

// On a full disk torn tails are cut off while the manifest does not state their ends yet. A kill
// between the two files, or a failure of the first, leaves no frame without its bytes.
func TestTornTailIsCutInOrder(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		left, _ := killedIn(t, change)
		size := mustOpen(t, left, change).Size()
		for _, fails := range []bool{false, true} {
			dead := left.ProcessCrash()
			var disk vfs.FS = noSegments(dead)
			if fails {
				disk = vfs.Inject(disk, &vfs.Fault{Kinds: vfs.OpTruncate, N: 1})
			}
			l := mustOpen(t, disk, change)
			cuts := 0
			check := func(image *vfs.Mem) {
				next, err := open("log", testOptions(image, change))
				if err != nil {
					t.Fatalf("killed after a cut, failing %v: %v", fails, err)
				}
				if next.Size() != size {
					t.Errorf("%d bytes are left of %d", next.Size(), size)
				}
			}
			dead.OnBoundary(func(op vfs.Op, p vfs.Phase) {
				if p == vfs.After && op.Kind == vfs.OpTruncate {
					if cuts++; cuts == 1 && !strings.HasSuffix(op.Name, ".sum") {
						t.Errorf("%v comes first", op)
					}
					check(dead.ProcessCrash())
				}
			})
			if _, err := l.Append([]byte("x")); !errors.Is(err, ErrNoSpace) {
				t.Errorf("an append to a full disk: %v", err)
			}
			dead.OnBoundary(nil)
			if fails != (cuts == 0) {
				t.Errorf("%d cuts, failing %v", cuts, fails)
			}
			check(dead.ProcessCrash())
		}
	})
}

// A write that is refused leaves a segment that has not begun. A power cut may bring back the
// manifest from before the segment was made, under which it must not pass for one with entries.
func TestSegmentThatHasNotBegunStaysEmpty(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewCrashMem()
		l := mustOpen(t, mem, change)
		want := [][]byte{text(0, 12000)}
		mustAppend(t, l, want[0])
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		var dead *vfs.Mem
		mem.OnBoundary(func(op vfs.Op, p vfs.Phase) {
			if dead == nil && p == vfs.After && op.Kind == vfs.OpRename {
				dead = mem.ProcessCrash()
			}
		})
		mustAppend(t, l, text(1, 12000)) // which makes a segment
		mem.OnBoundary(nil)
		if dead == nil {
			t.Fatal("there is no moment to die in")
		}
		l = mustOpen(t, noSegments(dead), change)
		if _, err := l.Append([]byte("x")); !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		}
		mustClose(t, l)
		for image := range dead.PowerCuts(100, nil) {
			if err := problem(mustOpen(t, image, change), want, 0); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(filesOf(t, dead)["00000002.sum"]); n != lineBytes {
			t.Errorf("the segment that has not begun has %d bytes of frames", n)
		}
	})
}

// A file of frames that is longer than its line, and does not say where its segment begins, belongs to a
// segment that has not begun.
func TestZerosAreNoBeginning(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	mustAppend(t, l, []byte("hello"))
	mustClose(t, l)
	h := sumsHeader{log: l.logID, id: record.NewSegmentID(7, 0), salt: 9}
	f, err := mem.Open("log/00000007.sum", vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(append(h.encode(), make([]byte, headerBytes-lineBytes)...), 0); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, mem))
	s := &segment{salt: 9}
	s.begin(5)
	if _, err := f.WriteAt(s.beginning(), lineBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := open("log", testOptions(mem)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a segment that has begun, and that the manifest does not know: %v", err)
	}
}

// Entries after the end of a closed log, in its segment and in the next one, are not known to be
// durable before a sync.
func TestDurableBehindAClosedTail(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		mustAppend(t, l, text(0, 5000))
		mustClose(t, l)
		l = mustOpen(t, mem, change)
		mustAppend(t, l, text(1, 12_000))
		mustAppend(t, l, text(2, 9000)) // in the next segment
		l = mustOpen(t, mem.ProcessCrash(), change)
		if st := l.Stats(); st.Segments != 2 || st.Durable != 5000 {
			t.Errorf("%+v", st)
		}
		mustClose(t, l)
	})
}

// A process that was killed while it made the ring leaves the beginning of one. The next first write removes
// it, also when that makes none.
func TestUnfinishedRingIsRemoved(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for _, manifest := range []bool{true, false} {
			mem := vfs.NewMem()
			l := mustOpen(t, mem, change)
			if manifest {
				mustAppend(t, l, text(0, 300))
			}
			mustClose(t, l)
			f, err := mem.Open("log/RING.tmp", vfs.Create)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(100); err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, mem, change)
			mustAppend(t, l, text(1, 300))
			if _, left := filesOf(t, mem)["RING.tmp"]; left {
				t.Errorf("there was a manifest %v: it is left", manifest)
			}
			mustClose(t, l)
		}
	})
}

// The process that made the directory may have died before its name was durable. The next one, for
// which it is there, makes it so before it acknowledges a write, or fails.
func TestDirectoryIsDurable(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for n := range 2 {
			mem := vfs.NewMem()
			if err := mem.MkdirAll("log"); err != nil {
				t.Fatal(err)
			}
			fsys := vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSyncDir, Match: func(name string) bool { return name == "." }, N: n})
			l := mustOpen(t, fsys, change)
			if _, err := l.Append(text(0, 300)); errors.Is(err, ErrReadOnly) != (n == 1) || fsys.Matched(0) == 0 {
				t.Errorf("Append: %v; its name was synced %d times", err, fsys.Matched(0))
			}
			l.Close()
		}
	})
}
