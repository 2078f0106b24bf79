package seglog

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// stallFS is a file system whose drains of the segment stall from an offset on.
type stallFS struct {
	vfs.FS
	from    int64
	stalled chan struct{}
	release chan struct{}
	on      atomic.Bool
	fail    bool
}

// stallFile is a file of a stallFS.
type stallFile struct {
	vfs.File
	fs  *stallFS
	log bool
}

func (f *stallFS) Open(name string, mode vfs.Mode) (vfs.File, error) {
	file, err := f.FS.Open(name, mode)
	if err != nil {
		return nil, err
	}
	return &stallFile{file, f, strings.HasSuffix(name, ".log")}, nil
}

func (f *stallFile) WriteAt(p []byte, off int64) (int, error) {
	if f.log && f.fs.on.Load() && off >= f.fs.from {
		select {
		case f.fs.stalled <- struct{}{}:
		default:
		}
		<-f.fs.release
		if f.fs.fail {
			return 0, errors.New("I/O error")
		}
	}
	return f.File.WriteAt(p, off)
}

// TestNoRecordIsTornWhileADrainStalls: as long as appends need not wait for a drain, the file or
// the ring has every record whole. Here a record crosses the end of a drained piece, and the next
// piece stalls.
func TestNoRecordIsTornWhileADrainStalls(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	const ringBytes = 64 << 10
	f := &stallFS{FS: mem, from: ringBytes, stalled: make(chan struct{}, 1), release: make(chan struct{})}
	b, err := openLog(f, func(o *logSettings) { o.RingBytes, o.interval = ringBytes, time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	set := func() { setIn(t, b, fmt.Sprintf("k%05d", n), strings.Repeat("v", 100)); n++ }
	set()
	tail := b.Tail
	f.on.Store(true)
	for tail.End.Load() < ringBytes+200 {
		set()
	}
	<-f.stalled
	if d := tail.InFile(tail.End.Load()); d != ringBytes {
		t.Fatalf("drained %d", d)
	}
	may := func(n int64) bool { return tail.InFile(tail.End.Load()) >= b.part().Needs(tail.End.Load(), n) }
	for tail.End.Load() < 2*ringBytes-400 && may(300) {
		set()
	}
	if probe := tail.End.Load(); may(2*ringBytes - probe) { // one to the last byte before the place of the stalled piece
		setIn(t, b, "probe", "")
		n++
		length := 2*ringBytes - 2*tail.End.Load() + probe - 2
		setIn(t, b, "probf", strings.Repeat("w", int(length)))
		n++
	}
	if end := tail.End.Load(); end < ringBytes*3/2 {
		t.Errorf("an append would wait with %d bytes in a ring of %d", end-ringBytes, ringBytes)
	}
	follower := mustLog(t, mem, readsOnly)
	if keys := len(follower.keys()); keys != n {
		t.Errorf("a follower has %d of %d keys", keys, n)
	}
	closeLog(t, follower)
	killed := mustLog(t, mem.ProcessCrash())
	if keys := len(killed.keys()); keys != n {
		t.Errorf("after a kill there are %d of %d keys", keys, n)
	}
	closeLog(t, killed)
	close(f.release)
	closeLog(t, b)
}

// TestDrainThatIsOvertaken: draining a segment that is no longer the tail does not keep the
// drainer from draining the tail.
func TestDrainThatIsOvertaken(t *testing.T) {
	b := mustLog(t, vfs.NewMem())
	setIn(t, b, "a", "1")
	l := b.Log
	if l.Ring == nil {
		t.Skip("nothing is mapped")
	}
	l.Inline, l.Owner.Inline = false, false // as where there is a drainer
	old := l.Tail
	if err := l.EndTail(); err != nil {
		t.Fatal(err)
	}
	setIn(t, b, "b", "2")
	waits := func() bool { end := l.Tail.End.Load(); return l.Tail.InFile(end) < end }
	if err := l.Drain(&old.Tail, old.End.Load()); err != nil {
		t.Fatal(err)
	}
	if !l.Undrained() || !waits() {
		t.Error("bytes of the tail in the ring are forgotten")
	}
	if err := l.DrainTail(true); err != nil || l.Undrained() || waits() {
		t.Errorf("something is left: %v", err)
	}
	l.Inline, l.Owner.Inline = true, true
	closeLog(t, b)
}
