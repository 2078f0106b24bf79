package hybridlog

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// Segments that are full of short entries are no fragments.
func TestFullOfShortEntries(t *testing.T) {
	l := mustOpen(t, vfs.NewMem())
	var want [][]byte
	for i := range 2000 {
		want = append(want, text(i, 3))
		mustAppend(t, l, want[i])
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Fragments; n != 0 {
		t.Errorf("%d fragments of %d segments that are full", n, l.Stats().Segments)
	}
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.set.Load().segments {
		if s.slots() > l.opts.segmentSlots {
			t.Errorf("a segment has %d frames, and none was to have more than %d", s.slots(), l.opts.segmentSlots)
		}
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// Trim gives back a segment whose files have not been synced since it ended.
func TestTrimEndedSegment(t *testing.T) {
	mem := vfs.NewMem()
	disk := newDisk(mem, 250)
	l := mustOpen(t, disk)
	mustAppend(t, l, text(1, 15000))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	disk.SetFree(4)
	if _, err := l.Append(text(2, 12_000)); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	if err := l.Trim(Address(l.Size())); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Segments; n != 1 {
		t.Errorf("%d segments after all was trimmed", n)
	}
	if _, err := l.Append(text(2, 12_000)); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// Compact removes a segment all of which is trimmed, and goes on with the later ones.
func TestCompactTrimmedSegment(t *testing.T) {
	mem := vfs.NewMem()
	big := func(o *options) { o.policy = AlwaysSync }
	l := mustOpen(t, mem, big)
	mustAppend(t, l, text(1, 15000))
	if _, err := l.append(text(2, 9000)); err != nil {
		t.Fatal(err)
	}
	if err := l.Trim(15000); err != nil {
		t.Fatal(err)
	}
	want := [][]byte{text(1, 15000), text(2, 9000)}
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Segments; n != 1 {
		t.Errorf("%d segments", n)
	}
	for i := range 3 {
		mem = mem.ProcessCrash()
		l = mustOpen(t, mem, big)
		p := text(3+i, 300)
		want = append(want, p)
		mustAppend(t, l, p)
		if err := l.Compact(); err != nil {
			t.Fatal(err)
		}
		if err := problem(l, want, 15000); err != nil {
			t.Error(err)
		}
	}
	mustClose(t, l)
}

// Files that a crash in a compaction leaves are removed also when the tail goes on.
func TestLeftoversBesideACleanTail(t *testing.T) {
	mem := vfs.NewMem()
	bare := func(o *options) { o.dataRing = 0 }
	var want [][]byte
	for i := range 4 {
		l := mustOpen(t, mem, bare)
		want = append(want, text(i, 300))
		mustAppend(t, l, want[i])
		if i < 3 {
			mem = mem.ProcessCrash()
		} else {
			mustClose(t, l)
		}
	}
	mem.Record()
	var image *vfs.Mem
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if names, _ := mem.List("log"); image == nil && phase == vfs.After {
			for _, name := range names {
				if id, ok := parseName(name); ok && id.Generation() > 0 {
					image = mem.ProcessCrash()
				}
			}
		}
	})
	l := mustOpen(t, mem, bare)
	if err := l.Compact(); err != nil {
		t.Fatal(err)
	}
	if image == nil {
		t.Fatal("nothing was compacted")
	}
	l = mustOpen(t, image, bare)
	if err := l.Compact(); err != nil {
		t.Errorf("Compact: %v", err)
	}
	for _, name := range filesNamed(t, image) {
		if id, ok := parseName(name); ok && id.Order() < 4 && id.Generation() == 0 {
			t.Errorf("%s is still there", name)
		}
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// The compactor is woken as soon as there are as many fragments as it waits for.
func TestFragmentsWake(t *testing.T) {
	mem := vfs.NewMem()
	two := func(o *options) { o.fragments = 2 }
	for i := range 2 {
		l := mustOpen(t, mem, two)
		mustAppend(t, l, text(i, 300))
		mem = mem.ProcessCrash()
	}
	l := mustOpen(t, mem, two)
	mustAppend(t, l, text(3, 300))
	if n := l.Stats().Fragments; n != 2 {
		t.Fatalf("%d fragments", n)
	}
	if len(l.compact) != 1 {
		t.Error("the compactor has not been woken")
	}
	mustClose(t, l)
}

func filesNamed(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("log")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Damage in one run keeps no other from being compacted.
func TestCompactBesideDamage(t *testing.T) {
	mem := vfs.NewMem()
	var l *Log
	for i, n := range []int{300, 300, 15_000, 300, 300, 10} {
		l = mustOpen(t, mem)
		mustAppend(t, l, text(i, n))
		if i < 5 {
			mem = mem.ProcessCrash()
		}
	}
	flip(t, mem, "log/00000001.log", 80)
	if err := l.Compact(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Compact: %v", err)
	}
	if n := l.Stats().Segments; n != 5 {
		t.Errorf("%d segments, want the two that are damaged, a large one, one that was two, and the tail", n)
	}
	got := make([]byte, 300)
	if _, err := l.ReadAt(got, 15_600); err != nil || string(got) != string(text(3, 300)) {
		t.Errorf("compacted entries: %v", err)
	}
	mustClose(t, l)
}

// A segment that compaction reads is not closed meanwhile, even if it had no other reads for long.
func TestCompactionKeepsWhatItReads(t *testing.T) {
	mem := vfs.NewMem()
	var want [][]byte
	for i := range 3 {
		l := mustOpen(t, mem)
		want = append(want, text(i, 5000))
		mustAppend(t, l, want[i])
		mem = mem.ProcessCrash()
	}
	release := make(chan struct{})
	held := &vfs.Fault{Kinds: vfs.OpLoad | vfs.OpRead, Match: func(name string) bool { return strings.HasSuffix(name, ".log") }, N: 1 << 30, Hold: release}
	fsys := vfs.Inject(mem, held)
	l := mustOpen(t, fsys)
	want = append(want, []byte("new"))
	mustAppend(t, l, want[3])
	held.N = fsys.Matched(0) + 1
	var all sync.WaitGroup
	all.Go(func() {
		if err := l.Compact(); err != nil {
			t.Error(err)
		}
	})
	for fsys.Matched(0) < held.N { // compaction reads
		runtime.Gosched()
	}
	l.distrust()
	if len(l.retired) == 0 {
		t.Fatal("nothing is about to be closed")
	}
	all.Go(l.closeRetired)
	for range 2000 { // it would be closed by now
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}
