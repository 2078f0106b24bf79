package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/copaldb/copal/internal/crashtest"
	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// The entries that an earlier process left are in the page cache, and perhaps nowhere else: its
// sync has failed, or a write-back after its death, and the kernel cannot be made to drop pages
// that a reader has mapped. When something is said to be durable afterwards, all that was found
// before it survives a power cut, too.
func TestWhatWasFoundIsMadeDurable(t *testing.T) { bothWays(t, whatWasFoundIsMadeDurable) }

func whatWasFoundIsMadeDurable(t *testing.T, change func(*options)) {
	asks := map[string]func(l *Log) error{
		"a sync": (*Log).Sync,
		"a write, and a sync": func(l *Log) error {
			_, err := l.Append(text(99, 40))
			return joined(err, l.Sync)
		},
		"a write, and a closing": func(l *Log) error {
			_, err := l.Append(text(99, 40))
			return joined(err, l.Close)
		},
		"a trimming":   func(l *Log) error { return l.Trim(1) },
		"a compaction": (*Log).Compact,
	}
	for name, ask := range asks {
		for _, end := range []string{"killed", "sync failed", "killed, and the write-back failed"} {
			for _, drained := range []bool{false, true} {
				what := fmt.Sprintf("%s, drained %v, then %s", end, drained, name)
				mem := vfs.NewCrashMem()
				mem.LosePagesForGood()
				armed := false
				conf := func(o *options) { change(o); o.segmentBytes = 7000 }
				l := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}), conf)
				var want [][]byte
				for i := range 40 {
					want = append(want, text(i, 1+61*i%700))
					mustAppend(t, l, want[i])
					if i == 3 {
						if err := l.Sync(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if drained {
					if err := l.drain(l.tail); err != nil {
						t.Fatal(err)
					}
				}
				if end == "sync failed" {
					armed = true
					if err := l.Sync(); err == nil {
						t.Fatal("the sync has not failed")
					}
				}
				dead := mem.ProcessCrash()
				reader := mustOpen(t, dead, conf, func(o *options) { o.readOnly = true })
				if err := problem(reader, want, 0); err != nil { // it has everything mapped
					t.Fatalf("%s: a reader: %v", what, err)
				}
				if end != "killed" {
					crashtest.LoseUnsynced(dead, "log")
				}
				next := mustOpen(t, dead, conf)
				if err := problem(next, want, 0); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := ask(next); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := problem(reader, want, 0); err != nil {
					t.Fatalf("%s: the reader: %v", what, err)
				}
				for image := range dead.PowerCuts(40, rand.New(rand.NewPCG(1, 2))) {
					cut, err := open("log", testOptions(image, conf))
					if err != nil {
						t.Fatalf("%s, then a power cut: Open: %v", what, err)
					}
					found := want
					if strings.HasPrefix(name, "a write") {
						found = append(want[:len(want):len(want)], text(99, 40))
					}
					if err := problem(cut, found, next.First()); err != nil {
						t.Fatalf("%s, then a power cut: %v", what, err)
					}
					mustClose(t, cut)
				}
			}
		}
	}
}

// joined returns err, or else the result of then.
func joined(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// killedIn returns the disk of a process that dies within the last write of a long entry: frames of
// it, and not the last one.
func killedIn(t *testing.T, conf func(*options)) (dead *vfs.Mem, want [][]byte) {
	t.Helper()
	mem := vfs.NewCrashMem()
	l := mustOpen(t, mem, conf)
	for i := range 12 {
		want = append(want, text(i, 1+61*i%700))
		mustAppend(t, l, want[i])
	}
	mem.OnBoundary(func(op vfs.Op, p vfs.Phase) {
		stores := p == vfs.Before && op.Kind == vfs.OpStore && op.Off != tail.RingLine // the last is the frame's that makes the entry count
		if stores || l.tails.Ring == nil && p == vfs.Inside && strings.HasSuffix(op.Name, ".sum") {
			dead = mem.ProcessCrash()
		}
	})
	n := 600
	if l.tails.Ring == nil {
		n = 9000
	}
	mustAppend(t, l, text(12, n))
	if dead == nil {
		t.Fatal("there is no moment to die in")
	}
	return dead, want
}

// Wherever the copying is interrupted, between the two renames, too, the log has everything, and takes writes,
// after which nothing is left of the copies.
func TestCopiesInAnyCombination(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		dead, want := killedIn(t, change)
		l := mustOpen(t, dead, change)
		between, states := false, 0
		dead.OnBoundary(func(op vfs.Op, p vfs.Phase) {
			if p == vfs.Before {
				return
			}
			between = between || op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, ".sum")
			states++
			image := dead.ProcessCrash()
			found := mustOpen(t, image, change)
			if err := problem(found, want, 0); err != nil {
				t.Fatalf("killed after %v: %v", op, err)
			}
			mustAppend(t, found, text(50, 300))
			mustClose(t, found)
			for name := range filesOf(t, image) {
				if strings.HasSuffix(name, files.TempSuffix) {
					t.Errorf("killed after %v: %s is left", op, name)
				}
			}
			found = mustOpen(t, image, change)
			if err := problem(found, append(want[:len(want):len(want)], text(50, 300)), 0); err != nil {
				t.Errorf("killed after %v, and opened again: %v", op, err)
			}
			mustClose(t, found)
		})
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		dead.OnBoundary(nil)
		if !between || states < 5 {
			t.Errorf("%d states, between the renames: %v", states, between)
		}
		mustClose(t, l)
	})
}

// noCopies is a disk that has no room for the n-th copy of a file of a segment, and for those after it if
// forever is set.
func noCopies(mem *vfs.Mem, n int, forever bool) *vfs.Faulty {
	copied := func(name string) bool {
		_, segment := parseName(strings.TrimSuffix(filepath.Base(name), files.TempSuffix))
		return segment && strings.HasSuffix(name, files.TempSuffix)
	}
	return vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpCreate, N: n, Forever: forever, Match: copied, Err: vfs.ErrNoSpace})
}

// trimmedInPlace opens the log of a dead process on a disk that has no room for copies, trims all
// of it, and cuts the power at every step: durable entries are there, or trimmed. When Trim has
// returned, it is trimmed.
func trimmedInPlace(t *testing.T, left *vfs.Mem, disk vfs.FS, change func(*options), want [][]byte, durable int64) {
	t.Helper()
	total := int64(0)
	for _, p := range want {
		total += int64(len(p))
	}
	cuts, trimmed := 0, false
	check := func() {
		for cut := range left.PowerCuts(30, nil) {
			cuts++
			l, err := open("log", testOptions(cut, change))
			if err != nil {
				t.Fatalf("a power cut, trimmed %v: Open: %v", trimmed, err)
			}
			if l.First() == Address(total) && l.Size() == total {
				continue
			}
			n, size := 0, int64(0)
			for size < l.Size() && n < len(want) {
				size += int64(len(want[n]))
				n++
			}
			if err := problem(l, want[:n], 0); err != nil || size < durable || trimmed {
				t.Fatalf("a power cut, trimmed %v: %d bytes, %d were durable: %v", trimmed, l.Size(), durable, err)
			}
		}
	}
	l := mustOpen(t, disk, change)
	left.OnBoundary(func(op vfs.Op, p vfs.Phase) {
		if p == vfs.After {
			check()
		}
	})
	if err := l.Trim(Address(total)); err != nil {
		t.Fatal(err)
	}
	left.OnBoundary(nil)
	trimmed = true
	check()
	if st := l.Stats(); st.First != Address(total) || st.Durable != st.First {
		t.Errorf("it is trimmed up to %d, and %d are durable", st.First, st.Durable)
	}
	if l.tail != nil {
		t.Error("there was room for copies")
	}
	mustClose(t, l)
	if cuts < 30 {
		t.Errorf("%d power cuts", cuts)
	}
}

// killedBehindASync returns the disk of a process that has synced the first of two entries.
func killedBehindASync(t *testing.T, change func(*options)) (dead *vfs.Mem, want [][]byte) {
	t.Helper()
	mem := vfs.NewCrashMem()
	mem.LosePagesForGood()
	l := mustOpen(t, mem, change)
	want = [][]byte{text(0, 3000), text(1, 3000)}
	mustAppend(t, l, want[0])
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, want[1])
	return mem.ProcessCrash(), want
}

// A process is killed after one of the two renames. The next one has no room for copies, and trims
// the files that it finds. Their names are durable, too, before the manifest relies on them.
func TestNamesOfCopiesAreSyncedInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		dead, want := killedBehindASync(t, change)
		var left []*vfs.Mem
		dead.OnBoundary(func(op vfs.Op, p vfs.Phase) {
			if p == vfs.After && op.Kind == vfs.OpRename {
				left = append(left, dead.ProcessCrash())
			}
		})
		if err := mustOpen(t, dead, change).Sync(); err != nil {
			t.Fatal(err)
		}
		dead.OnBoundary(nil)
		if len(left) != 2 {
			t.Fatalf("%d renames", len(left))
		}
		for _, image := range left {
			trimmedInPlace(t, image, noCopies(image, 1, true), change, want, 3000)
		}
	})
}

// The same within one process, of which the second rename finds no room.
func TestNameOfOneCopyIsSyncedInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		dead, want := killedBehindASync(t, change)
		second := &vfs.Fault{Kinds: vfs.OpRename, N: 1, Err: vfs.ErrNoSpace, Match: func(name string) bool { return strings.Contains(name, ".log") }}
		trimmedInPlace(t, dead, vfs.Inject(dead, second), change, want, 3000)
	})
}

// The same with a write-back that has failed without a word, which has left shorter files on the
// disk: recovery needs the lengths of trimmed files.
func TestLengthsAreSetInPlace(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for _, drained := range []bool{false, true} {
			mem := vfs.NewCrashMem()
			mem.LosePagesForGood()
			l := mustOpen(t, mem, change)
			want := [][]byte{text(0, 3000), text(1, 300)}
			mustAppend(t, l, want[0])
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, want[1])
			if drained {
				if err := l.drain(l.tail); err != nil {
					t.Fatal(err)
				}
			}
			dead := mem.ProcessCrash()
			crashtest.LoseUnsynced(dead, "log")
			trimmedInPlace(t, dead, noCopies(dead, 1, true), change, want, 3000)
		}
	})
}

// A write-back has failed without a word, and there is no room for copies: no sync in place proves
// anything. So writes and syncs are refused until there is room, and Trim, which works, reports
// only the trimmed part as durable.
func TestWritesWaitForRoomForCopies(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for _, lost := range []bool{false, true} {
			dead, want := killedBehindASync(t, change)
			if lost {
				crashtest.LoseUnsynced(dead, "log")
			}
			l := mustOpen(t, noCopies(dead, 1, true), change)
			refuses := func() {
				t.Helper()
				for name, ask := range map[string]func() error{
					"Append":  func() error { _, err := l.Append([]byte("x")); return err },
					"Sync":    l.Sync,
					"Compact": l.Compact,
				} {
					if err := ask(); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
						t.Errorf("%s without room for copies: %v", name, err)
					}
				}
				if d := l.Stats().Durable; d != 3000 {
					t.Errorf("%d bytes are durable", d)
				}
			}
			refuses()
			if err := l.Trim(3000); err != nil {
				t.Fatal(err)
			}
			refuses()
			if err := problem(l, want, 3000); err != nil {
				t.Error(err)
			}
			mustClose(t, l)
			for cut := range dead.PowerCuts(40, nil) {
				l := mustOpen(t, cut, change)
				if err := problem(l, want, 3000); err != nil {
					if err := problem(l, want[:1], 3000); err != nil {
						t.Fatalf("a power cut, lost %v: %v", lost, err)
					}
				}
				mustAppend(t, l, []byte("x"))
				mustClose(t, l)
			}
			l = mustOpen(t, noCopies(dead, 1, false), change) // there is room for the second try
			if err := l.Trim(3000); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(); !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
			want = append(want, []byte("x"))
			mustAppend(t, l, want[2])
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
			for cut := range dead.PowerCuts(40, nil) {
				if err := problem(mustOpen(t, cut, change), want, 3000); err != nil {
					t.Fatalf("a power cut after a sync with room, lost %v: %v", lost, err)
				}
			}
			mustClose(t, l)
		}
	})
}

// Trim without room for copies gives back segments that hold nothing else, sealed ones and open
// ones, and the log goes on in the others.
func TestTrimInPlaceGivesBackSegments(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		conf := func(o *options) { change(o); o.segmentBytes = 5000 }
		mem := vfs.NewCrashMem()
		l := mustOpen(t, mem, conf)
		var want [][]byte
		for i := range 12 {
			want = append(want, text(i, 2000))
			mustAppend(t, l, want[i])
			if i == 5 {
				if err := errors.Join(l.Sync(), l.sealBehind()); err != nil {
					t.Fatal(err)
				}
			}
		}
		left := mem.ProcessCrash()
		for n := 1; n <= len(want); n++ {
			for _, cache := range []string{"", "another"} {
				dead, first := left.ProcessCrash(), Address(2000*n)
				if cache != "" {
					dead.SetCacheID(cache)
				}
				l := mustOpen(t, noCopies(dead, 1, true), conf)
				if err := l.Trim(first); err != nil {
					t.Fatalf("trimming up to %d: %v", first, err)
				}
				if err := problem(l, want, first); err != nil {
					t.Fatalf("trimmed up to %d: %v", first, err)
				}
				mustClose(t, l)
				for name := range filesOf(t, dead) {
					if id, segment := parseName(name); segment && id.Order() < 6 && Address(id.Order())*4000 <= first {
						t.Errorf("trimmed up to %d: %s is still there", first, name)
					}
				}
				l = mustOpen(t, dead.ProcessCrash(), conf)
				mustAppend(t, l, text(99, 100))
				if err := problem(l, append(want[:12:12], text(99, 100)), first); err != nil {
					t.Fatalf("trimmed up to %d, and written to: %v", first, err)
				}
				mustClose(t, l)
			}
		}
	})
}

// A full disk is no reason to refuse a Trim: the files of an earlier process are settled in place,
// also on a platform that cannot identify the page cache. Where the mark says that a sync has
// failed, that would prove nothing.
func TestTrimWithoutRoomForCopies(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		for _, cache := range []string{"known", ""} {
			for _, failed := range []bool{false, true} {
				mem := vfs.NewCrashMem()
				mem.SetCacheID(cache)
				armed := false
				l := mustOpen(t, vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpSync, N: 1, Match: func(string) bool { return armed }}), change)
				mustAppend(t, l, text(0, 3000))
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				mustAppend(t, l, text(1, 3000))
				if armed = failed; failed && l.Sync() == nil {
					t.Fatal("the sync has not failed")
				}
				l = mustOpen(t, noCopies(mem.ProcessCrash(), 1, true), change)
				if err := l.Trim(3000); errors.Is(err, ErrNoSpace) != failed {
					t.Errorf("cache %q, a sync has failed %v: %v", cache, failed, err)
				}
				l.Close()
			}
		}
	})
}

// Copies that a crash has left of a segment that is gone are removed.
func TestLeftoverCopiesAreRemoved(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	mustAppend(t, l, text(1, 300))
	mustClose(t, l)
	for _, name := range []string{"log/00000001.log.tmp", "log/00000007.sum.tmp"} {
		f, err := mem.Open(name, vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("half of a copy"), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	l = mustOpen(t, mem)
	mustAppend(t, l, text(2, 300))
	for name := range filesOf(t, mem) {
		if strings.HasSuffix(name, files.TempSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	mustClose(t, l)
}

// Under AlwaysSync the mark may include entries that are durable only in the ring. The files get
// them before the ring is removed.
func TestDurableInRingAlone(t *testing.T) {
	always := func(o *options) { o.policy = AlwaysSync }
	mem := vfs.NewCrashMem()
	mem.LosePagesForGood()
	l := mustOpen(t, mem, always)
	want := [][]byte{text(1, 300), text(2, 500)}
	mustAppend(t, l, want[0])
	mustAppend(t, l, want[1])
	needsRing(t, l)
	if err := l.drain(l.tail); err != nil {
		t.Fatal(err)
	}
	dead := mem.ProcessCrash()
	crashtest.LoseUnsynced(dead, "log")
	l = mustOpen(t, dead, always)
	want = append(want, text(3, 40))
	mustAppend(t, l, want[2])
	for image := range dead.PowerCuts(40, rand.New(rand.NewPCG(1, 2))) {
		cut := mustOpen(t, image, always)
		if err := problem(cut, want, 0); err != nil {
			t.Fatal(err)
		}
		mustClose(t, cut)
	}
}

// Damage before the mark prevents no write. It is found by the call that reads it.
func TestDamageBeforeTheMarkIsCopied(t *testing.T) {
	for _, name := range []string{"log/00000001.log", "log/00000001.sum"} {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, func(o *options) { o.dataRing = 0 })
		for i := range 8 {
			mustAppend(t, l, text(i, 900))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, text(8, 900))
		dead := mem.ProcessCrash()
		flip(t, dead, name, 8*(headerBytes+3*frameBytes+1))
		l = mustOpen(t, dead)
		mustAppend(t, l, text(9, 900))
		if _, err := l.ReadAt(make([]byte, 100), 100); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: a read of damaged bytes: %v", name, err)
		}
		mustClose(t, l)
	}
}

// Bytes that have changed between the opening and the copying are not called durable. The call that
// asks says so, and so does each later one, without a look at the files. The next opening judges
// the files again.
func TestChangedBeforeItIsCopied(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		mustAppend(t, l, text(1, 3000))
		if err := l.drain(l.tail); err != nil {
			t.Fatal(err)
		}
		dead := mem.ProcessCrash()
		disk := vfs.Inject(dead)
		l = mustOpen(t, disk, change)
		before := filesOf(t, dead)["00000001.sum"]
		flip(t, dead, "log/00000001.log", 80)
		if err := l.Sync(); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("Sync: %v", err)
		}
		looked := len(disk.Ops())
		if err := l.Sync(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Sync again: %v", err)
		}
		if _, err := l.Append(text(2, 10)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Append: %v", err)
		}
		if after := filesOf(t, dead); string(after["00000001.sum"]) != string(before) || len(after["00000001.log.tmp"])+len(after["00000001.sum.tmp"]) > 0 {
			t.Error("the files have changed")
		}
		if again := disk.Ops()[looked:]; len(again) > 0 {
			t.Errorf("the files are looked at again: %v", again)
		}
		l.Close()
		flip(t, dead, "log/00000001.log", 80)
		l = mustOpen(t, dead, change)
		mustAppend(t, l, text(2, 10))
		if err := problem(l, [][]byte{text(1, 3000), text(2, 10)}, 0); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
	})
}

// Readers from before the copying, in this process and in others, read the same after it; also
// trimmed entries, in a process that has opened the log before the trimming.
func TestReadersMeetCopies(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		var want [][]byte
		for i := range 12 {
			want = append(want, text(i, 700))
			mustAppend(t, l, want[i])
		}
		readOnly := func(o *options) { o.readOnly = true }
		other := mustOpen(t, mem, change, readOnly) // it has opened no segment yet
		if err := l.Trim(2000); err != nil {
			t.Fatal(err)
		}
		want = append(want, text(12, 700))
		mustAppend(t, l, want[12])
		dead := mem.ProcessCrash()
		other.opts.fsys = dead
		for _, s := range other.set.Load().segments {
			s.fsys = dead
		}
		open := mustOpen(t, dead, change, readOnly)
		if err := problem(open, want, 1400); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, dead, change)
		s := l.set.Load().find(1400)
		c, err := s.open()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if s.content.Load() == c {
			t.Error("the file that was replaced is read still")
		}
		b := make([]byte, len(want)*700-1400)
		if err := s.readAt(c, b, 1400); err != nil || string(b) != string(bytes.Join(want, nil)[1400:]) {
			t.Errorf("a reader from before: %v", err)
		}
		for name, err := range map[string]error{
			"this process":                      problem(l, want, 1400),
			"another, which has it open":        problem(open, want, 1400),
			"another, from before the trimming": problem(other, want[:12], 0),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		mustClose(t, l)
	})
}

// Many short entries that are only in the ring are one piece: copying reads each once.
func TestRingAloneIsOnePiece(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	var want [][]byte
	for i := range 100 {
		want = append(want, text(i, 5))
		mustAppend(t, l, want[i])
	}
	needsRing(t, l)
	l = mustOpen(t, mem.ProcessCrash())
	x := l.set.Load().find(0).patch.Load()
	if x == nil || len(x.bytes) != 1 || len(x.frames) != 1 || len(x.frames[0].Bytes) < 50*frameBytes {
		t.Errorf("the ring alone had %+v", x)
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustAppend(t, l, text(100, 5))
	if err := problem(l, append(want, text(100, 5)), 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// Under SyncEverySecond the entries found by Open are durable a second later, without a write.
func TestWhatWasFoundIsSyncedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashMem()
		want := [][]byte{text(1, 300)}
		mustAppend(t, mustOpen(t, mem), want[0])
		dead := mem.ProcessCrash()
		l := mustOpen(t, dead, func(o *options) { o.inline, o.policy = false, SyncEverySecond })
		if st := l.Stats(); st.Durable != 0 {
			t.Errorf("%d bytes are durable at once", st.Durable)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if st := l.Stats(); st.Durable != st.End {
			t.Errorf("%d bytes are durable", st.Durable)
		}
		for image := range dead.PowerCuts(40, nil) {
			cut := mustOpen(t, image)
			if err := problem(cut, want, 0); err != nil {
				t.Error(err)
			}
			mustClose(t, cut)
		}
		mustClose(t, l)
	})
}

// If there is no room to make the found entries durable, that is reported once, and tried again
// every second.
func TestNoRoomForCopiesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashMem()
		mustAppend(t, mustOpen(t, mem), text(1, 300))
		dead := mem.ProcessCrash()
		if err := dead.Remove("log/" + markName); err != nil { // so that nothing is settled in place
			t.Fatal(err)
		}
		const seconds = 5
		told, disk := 0, noCopies(dead, 1, true)
		l := mustOpen(t, disk, func(o *options) {
			o.inline, o.policy = false, SyncEverySecond
			o.report = func(err error) {
				if errors.Is(err, ErrNoSpace) {
					told++
				}
			}
		})
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		if told != 1 {
			t.Errorf("it is reported %d times", told)
		}
		tried := 0
		for _, op := range disk.Ops() {
			if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, files.TempSuffix) {
				tried++
			}
		}
		if tried < seconds-1 {
			t.Errorf("it is tried %d times", tried)
		}
		mustClose(t, l)
	})
}

// A copy of a log proves nothing about the page cache, and may lack the last writes. Nor does a
// manifest that Trim writes there.
func TestTrimInPlaceOfACopy(t *testing.T) {
	noRing := func(o *options) { o.dataRing = 0 }
	mem := vfs.NewMem()
	l := mustOpen(t, mem, noRing)
	want := [][]byte{text(0, 3000), text(1, 3000), text(2, 3000)}
	mustAppend(t, l, want[0])
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, want[1])
	mustAppend(t, l, want[2])
	image := logtest.Copy(t, mem, "log")
	f, err := image.Open("log/00000001.log", vfs.ReadWrite)
	if err == nil {
		err = errors.Join(f.Truncate(8000), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, noCopies(image, 1, true), noRing, accepted)
	if err := l.Trim(3000); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, image, noRing)
	if err := problem(l, want[:2], 3000); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}
