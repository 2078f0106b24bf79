package hybridlog

import (
	"bytes"
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/vfs"
)

// A reader that found the tail before the first write of a process meets what was appended since.
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

// A process that was killed within Close may have left a manifest whose name is not durable. The ring that the one before it names
// stays until it is.
func TestRingOutlivesTheManifestThatNamesIt(t *testing.T) {
	mem := vfs.NewCrashMem()
	l := mustOpen(t, mem)
	want := []byte("hello")
	mustAppend(t, l, want)
	if l.ring == nil {
		t.Skip("there is no ring here")
	}
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
