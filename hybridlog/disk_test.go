package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/vfs"
)

// newDisk is a disk with few small blocks, of which a write that finds none may leave a part.
func newDisk(fsys vfs.FS, blocks int) *logtest.SmallDisk {
	d := logtest.NewSmallDisk(fsys, blocks)
	d.Block, d.ShortWrites = 512, true
	return d
}

// TestFullDisk fills a disk again and again. The write for which there is no room is refused and has not
// happened, nothing is lost, Trim works on the full disk and makes room, and writes go on.
func TestFullDisk(t *testing.T) { bothWays(t, fullDisk) }

func fullDisk(t *testing.T, change func(*options)) {
	for _, reserves := range []bool{true, false} {
		mem := vfs.NewMem()
		disk := newDisk(mem, 250)
		disk.CannotKeep = !reserves
		l := mustOpen(t, disk, change)
		var want [][]byte
		refused := 0
		for i := range 600 {
			p := text(i, 1+i*37%1500)
			_, err := l.Append(p)
			if err == nil {
				want = append(want, p)
				continue
			}
			if !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
				t.Fatalf("reserves %v: write %d on a full disk: %v", reserves, i, err)
			}
			refused++
			if err := problem(l, want, l.First()); err != nil {
				t.Fatalf("reserves %v: on a full disk: %v", reserves, err)
			}
			switch refused % 3 {
			case 0:
				if !reserves {
					disk.SetFree(60) // somebody has removed something
				}
				if err := l.Trim(Address(l.Size() * 3 / 4)); err != nil {
					t.Fatal(err)
				}
			case 1:
				disk.SetFree(40)
			case 2:
				disk.SetFree(20)
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if refused < 5 {
			t.Fatalf("reserves %v: only %d writes were refused", reserves, refused)
		}
		first := l.First()
		mustClose(t, l)
		l = mustOpen(t, disk, change)
		if err := problem(l, want, first); err != nil {
			t.Errorf("reserves %v: opened again: %v", reserves, err)
		}
		mustClose(t, l)
	}
}

// TestMendOnFullDisk: after a crash on a full disk the log opens and is read, writes are refused, and go on
// when there is room.
func TestMendOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem)
	var want [][]byte
	for i := range 20 {
		want = append(want, text(i, 60))
		mustAppend(t, l, want[i])
	}
	disk := newDisk(mem.ProcessCrash(), 0)
	l = mustOpen(t, disk)
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	if _, err := l.Append([]byte("new")); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	disk.SetFree(1000)
	want = append(want, []byte("new"))
	mustAppend(t, l, want[20])
	if err := problem(l, want, 0); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// TestReadOnlyBesideAWriter opens the log again and again while it is written, trimmed and compacted, and finds
// everything that was acknowledged before, and nothing that was not written.
func TestReadOnlyBesideAWriter(t *testing.T) { bothWays(t, besideAWriter) }

func besideAWriter(t *testing.T, change func(*options)) {
	dir := t.TempDir() + "/log"
	o := testOptions(vfs.OS(), change, func(o *options) {
		o.inline, o.segmentBytes, o.segmentSlots = false, 50_000, 3000
		o.dataRing, o.frameRing = min(o.dataRing, 1)*(64<<10), 16<<10
		o.report = func(err error) { t.Error(err) }
	})
	l, err := open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var acked atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if _, err := l.Append(self(8 + i*i%900)); err != nil {
				t.Error(err)
				return
			}
			acked.Store(l.Size())
			if i%500 == 499 {
				if err := errors.Join(l.Trim(l.First()+Address(l.Size()-int64(l.First()))/4), l.Compact()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 25 {
		least := acked.Load()
		r, err := open(dir, testOptions(vfs.OS(), func(o *options) { o.readOnly = true; o.report = func(err error) { t.Error(err) } }))
		if err != nil {
			t.Error(err)
			break
		}
		if r.Size() < least {
			t.Errorf("it has %d bytes, %d were acknowledged before", r.Size(), least)
		}
		at := r.First()
		for e, err := range r.Entries(0) {
			if e.Address > at && e.Address <= r.First() {
				at = e.Address // the writer has trimmed the entries before it
			}
			if err != nil || e.Address != at || !bytes.Equal(e.Data, self(len(e.Data))) {
				t.Errorf("entry at %d: %v", e.Address, err)
				break
			}
			at += Address(len(e.Data))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	all.Wait()
	mustClose(t, l)
}

// FuzzRecovery opens a log of which any file has been changed anywhere. It opens with all entries,
// or a prefix of them, or with ErrCorrupt.
func FuzzRecovery(f *testing.F) {
	f.Add(uint8(0), uint32(3), []byte{1}, false)
	f.Add(uint8(3), uint32(130), bytes.Repeat([]byte{0}, 40), true)
	t := &testing.T{}
	type left struct {
		image *vfs.Mem
		want  [][]byte
		names []string
	}
	var images [2]left
	for i, closed := range []bool{false, true} {
		image, want := damaged(t, func(*options) {}, closed)
		names, err := image.List("log")
		if err != nil {
			f.Fatal(err)
		}
		images[i] = left{image, want, names}
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint32, with []byte, closed bool) {
		x := images[0]
		if closed {
			x = images[1]
		}
		dead := x.image.ProcessCrash()
		name := "log/" + x.names[int(file)%len(x.names)]
		g, err := dead.Open(name, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		size, err := g.Size()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.WriteAt(with, int64(at)%(size+1)); err != nil {
			t.Fatal(err)
		}
		l, err := open("log", testOptions(dead))
		if _, bad := found(l, err, x.want); bad != nil {
			t.Errorf("%s: %v", name, bad)
		}
	})
}

// TestIdsAreNotUsedAgain: whatever is removed, a new segment has a name that none had.
func TestIdsAreNotUsedAgain(t *testing.T) {
	mem := vfs.NewMem()
	seen := map[string]string{}
	for i := range 30 {
		l := mustOpen(t, mem)
		mustAppend(t, l, text(i, 3000))
		if i%5 == 4 {
			if err := errors.Join(l.Trim(Address(l.Size()-10)), l.Compact()); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range l.set.Load().segments {
			name, what := s.id.FileName(), fmt.Sprint(s.salt)
			if seen[name] != "" && seen[name] != what {
				t.Fatalf("round %d: %s was another segment before", i, name)
			}
			seen[name] = what
		}
		if i%2 == 0 {
			mustClose(t, l)
		} else {
			mem = mem.ProcessCrash()
		}
	}
}

// TestCloseWithoutRoomForTheManifest: a log that could not be said to be closed is opened as one whose process
// was killed, with its ring.
func TestCloseWithoutRoomForTheManifest(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		full := &vfs.Fault{Kinds: vfs.OpCreate, Match: func(name string) bool { return strings.HasSuffix(name, manifestName+files.TempSuffix) }, Err: vfs.ErrNoSpace}
		fsys := vfs.Inject(mem, full)
		var told []error
		l := mustOpen(t, fsys, change, func(o *options) { o.report = func(err error) { told = append(told, err) } })
		want := [][]byte{text(1, 300), text(2, 40)}
		mustAppend(t, l, want[0])
		mustAppend(t, l, want[1])
		full.N, full.Forever = fsys.Matched(0)+1, true
		mustClose(t, l)
		if len(told) != 1 || !errors.Is(told[0], ErrNoSpace) {
			t.Errorf("reported: %v", told)
		}
		if whole, err := everything(mem, want, change); !whole {
			t.Errorf("opened again: %v", err)
		}
	})
}

// TestBeginOnFullDisk: a log that was closed on a disk that is full now takes a write, though the manifest has
// to be written before that: a little was kept for it.
func TestBeginOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	disk := newDisk(mem, 250)
	l := mustOpen(t, disk)
	want := [][]byte{text(1, 15_000)}
	mustAppend(t, l, want[0])
	mustClose(t, l)
	disk.SetFree(0)
	l = mustOpen(t, disk)
	want = append(want, text(2, 10))
	mustAppend(t, l, want[1])
	if err := l.Trim(15_000); err != nil {
		t.Error(err)
	}
	if err := problem(l, want, 15_000); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
}

// TestBeginWithLittleRoom: whatever room there is, the first write is accepted, or refused, and nothing is
// lost. The ring is given up for the manifest.
func TestBeginWithLittleRoom(t *testing.T) {
	bare := func(o *options) { o.roomKept = 0 }
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, bare)
		want := [][]byte{text(1, 3000)}
		mustAppend(t, l, want[0])
		if closed {
			mustClose(t, l)
		}
		for free := range 60 {
			image := mem.ProcessCrash()
			disk := newDisk(image, free)
			l := mustOpen(t, disk, bare)
			got := want
			if _, err := l.Append([]byte("new")); err == nil {
				got = append(want[:1:1], []byte("new"))
			} else if !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
				t.Errorf("closed %v, %d blocks are free: %v", closed, free, err)
			}
			l.Close()
			if whole, err := everything(image, got, func(*options) {}); !whole {
				t.Errorf("closed %v, with %d blocks free: %v", closed, free, err)
			}
		}
		image := mem.ProcessCrash()
		temp := func(name string) bool { return strings.HasSuffix(name, manifestName+files.TempSuffix) }
		nth := map[bool]int{true: 1, false: 2}[closed] // a log that was killed gets its segment first
		l = mustOpen(t, vfs.Inject(image, &vfs.Fault{Kinds: vfs.OpCreate, Match: temp, N: nth, Err: vfs.ErrNoSpace}), bare)
		mustAppend(t, l, []byte("new"))
		if _, there := filesOf(t, image)[ringName]; there {
			t.Errorf("closed %v: there is a ring, and was no room for the manifest", closed)
		}
		mustClose(t, l)
	}
}
