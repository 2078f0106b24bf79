package store

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/cache"
	"github.com/copaldb/copal/internal/seglog"
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

// A record stands across the end of a drained piece, and the next piece stalls. As long as an append need not
// wait for the drain, the file and the ring together have every record whole, or one of them.
func TestStraddlingRecord(t *testing.T) {
	needsRing(t)
	mem := vfs.NewMem()
	const ringBytes = 64 << 10
	f := &stallFS{FS: mem, from: ringBytes, stalled: make(chan struct{}, 1), release: make(chan struct{})}
	s, err := Open("db", Options{FS: f, RingBytes: ringBytes, SyncInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	set := func() { mustSet(t, s, fmt.Sprintf("k%05d", n), strings.Repeat("v", 100)); n++ }
	set()
	tail := s.log.tail
	f.on.Store(true)
	for tail.end.Load() < ringBytes+200 {
		set()
	}
	<-f.stalled
	if d := tail.drained.Load(); d != ringBytes {
		t.Fatalf("drained %d", d)
	}
	may := func(n int64) bool { return tail.drained.Load() >= s.log.ring.needs(tail.end.Load(), n) }
	for tail.end.Load() < 2*ringBytes-400 && may(300) {
		set()
	}
	if probe := tail.end.Load(); may(2*ringBytes - probe) { // one to the last byte before the place of what stalls
		mustSet(t, s, "probe", "")
		n++
		length := 2*ringBytes - 2*tail.end.Load() + probe - 2
		mustSet(t, s, "probf", strings.Repeat("w", int(length)))
		n++
	}
	if end := tail.end.Load(); end < ringBytes*3/2 {
		t.Errorf("an append would wait with %d bytes in a ring of %d", end-ringBytes, ringBytes)
	}
	follower := mustOpen(t, mem, func(o *Options) { o.ReadOnly = true })
	if keys := follower.Stats().Keys; keys != int64(n) {
		t.Errorf("a follower has %d of %d keys", keys, n)
	}
	mustClose(t, follower)
	killed := mustOpen(t, mem.ProcessCrash())
	if keys := killed.Stats().Keys; keys != int64(n) {
		t.Errorf("after a kill there are %d of %d keys", keys, n)
	}
	mustClose(t, killed)
	close(f.release)
	mustClose(t, s)
}

// A read of a map that was closed meanwhile gets a cell of the map that was opened in its place: with values
// of another type, which the caller casts.
func TestReadCellOfAnotherMap(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	first := attached(t, s, "m")
	mustSet(t, s, "m:k", "v")
	// Store.Read(first) has found a cell here, and has not taken the lock of the key yet
	if err := s.Detach(first); err != nil {
		t.Fatal(err)
	}
	second := attached(t, s, "m")
	cell := &cache.Cell{Holds: true}
	key := []byte("m:k")
	if _, err := s.Write(second.owner, &Write{Key: key, Cells: second, Durability: Memory, Cell: cell, Cost: 100}); err != nil {
		t.Fatal(err)
	}
	e, _, err := s.readCell(first, s.Hash("k"), key)
	if e.Cell == cell {
		t.Errorf("a read through the cells of the closed map got a cell of the new one (err %v)", err)
	}
}

// A failed sync is no reason not to read what is dirty.
func TestReadsGoOnAfterFailure(t *testing.T) {
	f := &vfs.Fault{Kinds: vfs.OpSync, N: 2, Forever: true, Err: errors.New("I/O error"), Match: func(n string) bool { return strings.HasSuffix(n, ".log") }}
	s := mustOpen(t, vfs.Inject(vfs.NewMem(), f), func(o *Options) { o.SyncInterval = time.Hour })
	c := attached(t, s, "m")
	mustSet(t, s, "m:k", "before")
	c.setAsync(t, s, "k", "v")
	if err := s.Set(nil, []byte("x"), nil, 0, Power); err == nil {
		t.Fatal("no failure")
	}
	if e, err := s.Get(nil, []byte("m:k")); err != nil {
		t.Errorf("Get after a failed sync: %q, %v", e.Value, err)
	}
}

// One asynchronous deletion in a batch lets all of it use what is kept for deletions.
func TestReserveForDeletions(t *testing.T) {
	disk := newSmallDisk(vfs.NewMem(), 1<<20)
	s := mustOpen(t, disk, func(o *Options) { o.SyncInterval = time.Hour })
	c := attached(t, s, "m")
	// keys of one shard
	var keys []string
	for i := 0; len(keys) < 60; i++ {
		if k := fmt.Sprint(i); s.Hash(k)%cache.Shards == 7 {
			keys = append(keys, k)
		}
	}
	mustSet(t, s, "m:"+keys[0], "v")
	for i := range 2000 {
		mustSet(t, s, fmt.Sprintf("victim%d", i), "x")
	}
	disk.setFree(0)
	for i := 0; ; i++ { // use up what is reserved ahead
		if err := s.Set(nil, []byte("fill"), make([]byte, 1000), 0, Process); err != nil {
			if !errors.Is(err, seglog.ErrNoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	for s.Set(nil, []byte("f"), nil, 0, Process) == nil {
	}
	for _, k := range keys[1:] {
		c.setAsync(t, s, k, strings.Repeat("v", 1000))
	}
	if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
		t.Fatalf("sets alone: %v", err)
	}
	w := Write{Key: []byte("m:" + keys[0]), Cells: c, Delete: true, Durability: Async}
	if _, err := s.Write(c.owner, &w); err != nil {
		t.Fatal(err)
	}
	before := s.log.tail.end.Load()
	if err := s.Flush(nil); !errors.Is(err, seglog.ErrNoSpace) {
		t.Errorf("sets and a deletion: %v", err)
	}
	if n := s.log.tail.end.Load() - before; n > 100 {
		t.Errorf("%d bytes were written, the deletion is shorter", n)
	}
	n := 0
	for i := range 2000 {
		if _, err := s.Delete(nil, []byte(fmt.Sprintf("victim%d", i)), Process); err != nil {
			break
		}
		n++
	}
	if n < 1000 {
		t.Errorf("only %d deletions on the full disk", n)
	}
}
