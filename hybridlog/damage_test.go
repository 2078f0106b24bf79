package hybridlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// damaged is a log with three segments, left by a process that was killed or that closed it.
func damaged(t *testing.T, change func(*options), closed bool) (*vfs.Mem, [][]byte) {
	t.Helper()
	mem := vfs.NewMem()
	small := func(o *options) { o.segmentBytes = 3000; o.dataRing, o.frameRing = 4096, 4096 }
	l := mustOpen(t, mem, small, change)
	var want [][]byte
	for i, n := range []int{5, 900, 1500, 700, 2100, 30, 40, 1200} {
		want = append(want, text(i, n))
		mustAppend(t, l, want[i])
		if i == 5 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if closed {
		mustClose(t, l)
		return mem, want
	}
	return mem.ProcessCrash(), want
}

func filesOf(t *testing.T, fsys vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fsys.List("log")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{}
	for _, name := range names {
		if name == lockName {
			continue
		}
		b, _, err := files.Read(fsys, "log/"+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = b
	}
	return texts
}

// found checks a log after damage: it has an error of corruption, or all entries, or a prefix of
// them.
func found(l *Log, err error, want [][]byte) (whole bool, bad error) {
	if err != nil {
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
			return false, nil
		}
		return false, err
	}
	defer l.Close()
	n, end := 0, int64(0)
	for n < len(want) && end < l.Size() {
		end += int64(len(want[n]))
		n++
	}
	err = problem(l, want[:n], l.First())
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil && n == len(want), err
}

// TestDamagedAtEveryBit: whichever bit of whichever file is flipped, no wrong byte is read; and a
// flip in a place that matters is reported as corruption or, after the synced part, taken for a
// torn tail if the platform cannot know better.
func TestDamagedAtEveryBit(t *testing.T) {
	for _, closed := range []bool{true, false} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			image, want := damaged(t, change, closed)
			lost := 0
			for name, b := range filesOf(t, image) {
				step := 29
				if longTest() {
					step = 1
				}
				if name == ringName {
					step *= 37 // most of it holds nothing
				}
				for bit := 0; bit < len(b)*8; bit += step {
					dead := image.ProcessCrash()
					flip(t, dead, "log/"+name, bit)
					l, err := open("log", testOptions(dead, change))
					whole, bad := found(l, err, want)
					if bad != nil {
						t.Fatalf("closed %v, %s, bit %d: %v", closed, name, bit, bad)
					}
					if whole && (strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".sum") || name == manifestName) && !inRing(image, name, bit) {
						t.Fatalf("closed %v: bit %d of %s is flipped, unnoticed", closed, bit, name)
					}
					if !whole {
						lost++
					}
				}
			}
			t.Logf("closed %v: %d flips noticed", closed, lost)
		})
	}
}

// TestFlippedBitLosesNothing: while the page cache has been there all the time, a flipped bit,
// wherever it is, is an error, or does not matter. Nothing is taken for a torn tail: neither the
// end of a segment before others, nor the newest frame.
func TestFlippedBitLosesNothing(t *testing.T) {
	for _, closed := range []bool{true, false} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			image, want := damaged(t, change, closed)
			for name, b := range filesOf(t, image) {
				step := 29
				if longTest() {
					step = 1
				}
				if name == ringName {
					step *= 37 // most of it holds nothing
				}
				bits := everyBit(len(b)*8, step)
				if name == ringName { // the frame of the last entry, which is the first of its segment, is nowhere else
					at := int(tail.RingLine+4096) * 8
					for bit := at; bit < at+8*frameBytes; bit++ {
						bits = append(bits, bit)
					}
				}
				for _, bit := range bits {
					dead := image.ProcessCrash()
					flip(t, dead, "log/"+name, bit)
					if whole, err := everything(dead, want, change); !whole && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
						t.Fatalf("closed %v: bit %d of %s is flipped: less is there, %v", closed, bit, name, err)
					}
				}
			}
		})
	}
}

// everyBit are so many bits, or each of so many.
func everyBit(n, step int) (bits []int) {
	for bit := 0; bit < n; bit += step {
		bits = append(bits, bit)
	}
	return bits
}

// TestOlderManifest: files that are newer than a manifest from a backup are not taken for leftovers
// of a crash.
func TestOlderManifest(t *testing.T) {
	mem := vfs.NewMem()
	small := func(o *options) { o.segmentBytes = 3000 }
	l := mustOpen(t, mem, small)
	var want [][]byte
	var old []byte
	for i := range 30 {
		want = append(want, text(i, 500))
		mustAppend(t, l, want[i])
		if i == 0 {
			old = filesOf(t, mem)[manifestName]
		}
	}
	mustClose(t, l)
	for _, marked := range []bool{true, false} {
		dead := mem.ProcessCrash()
		replacement{"older", manifestName, old}.do(t, dead)
		if !marked {
			replacement{"removed", markName, nil}.do(t, dead)
		}
		before := filesOf(t, dead)
		_, err := open("log", testOptions(dead, small, accepted))
		var c *CorruptError
		if !errors.As(err, &c) || c.File != "log/"+manifestName || !strings.Contains(c.Reason, "older") {
			t.Errorf("marked %v: Open: %v", marked, err)
		}
		if !maps.EqualFunc(filesOf(t, dead), before, bytes.Equal) {
			t.Errorf("marked %v: it is refused, and changed", marked)
		}
	}
	if whole, err := everything(mem, want, small); !whole {
		t.Error(err)
	}
}

// inRing reports whether the flipped bit is still in a ring, which then has it right.
func inRing(image *vfs.Mem, name string, bit int) bool {
	_, err := sizeOf(image, "log/"+ringName)
	return err == nil
}

func flip(t *testing.T, fsys vfs.FS, path string, bit int) {
	t.Helper()
	f, err := fsys.Open(path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], int64(bit/8)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], int64(bit/8)); err != nil {
		t.Fatal(err)
	}
}

// TestTruncatedAtEveryByte: a file that was cut is noticed, or only bytes after the synced part are
// missing.
func TestTruncatedAtEveryByte(t *testing.T) {
	for _, closed := range []bool{true, false} {
		bothWays(t, func(t *testing.T, change func(*options)) {
			image, want := damaged(t, change, closed)
			for name, b := range filesOf(t, image) {
				step := 29
				if longTest() {
					step = 1
				}
				if name == ringName {
					step *= 7
				}
				for size := 0; size < len(b); size += step {
					dead := image.ProcessCrash()
					f, err := dead.Open("log/"+name, vfs.ReadWrite)
					if err == nil {
						err = errors.Join(f.Truncate(int64(size)), f.Close())
					}
					if err != nil {
						t.Fatal(err)
					}
					l, err := open("log", testOptions(dead, change))
					whole, bad := found(l, err, want)
					if bad != nil {
						t.Fatalf("closed %v, %s cut to %d: %v", closed, name, size, bad)
					}
					if whole && closed && name != markName {
						t.Fatalf("%s is cut to %d, unnoticed", name, size)
					}
				}
			}
		})
	}
}

// TestMissingFiles: without one of its files a log does not open, or a read names the missing file.
func TestMissingFiles(t *testing.T) {
	image, want := damaged(t, func(*options) {}, true)
	for name := range filesOf(t, image) {
		dead := image.ProcessCrash()
		if err := dead.Remove("log/" + name); err != nil {
			t.Fatal(err)
		}
		l, err := open("log", testOptions(dead))
		whole, bad := found(l, err, want)
		if bad != nil || whole != (name == markName) {
			t.Errorf("without %s: whole %v, %v", name, whole, bad)
		}
	}
}

// TestTornTailIsNotGlued: the rest that a crash has left after the last whole entry is never part
// of the next one.
func TestTornTailIsNotGlued(t *testing.T) { bothWays(t, tornTail) }

func tornTail(t *testing.T, change func(*options)) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem, change)
	want := [][]byte{text(1, 50), text(2, 60)}
	for _, p := range want {
		mustAppend(t, l, p)
	}
	mem = mem.ProcessCrash()
	f, err := mem.Open("log/00000001.log", vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("torn"), 110); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		l := mustOpen(t, mem, change)
		if err := problem(l, want, 0); err != nil {
			t.Fatalf("opening %d: %v", i, err)
		}
		want = append(want, text(10+i, 20))
		mustAppend(t, l, want[len(want)-1])
		mem = mem.ProcessCrash()
	}
}

// TestHoleAfterPowerCut: bytes that did not reach the disk, before others that did, end the log after a power
// cut, and are damage when the cache has been there all the time.
func TestHoleAfterPowerCut(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem, func(o *options) { o.dataRing = 0 })
	want := [][]byte{text(1, 5000), text(2, 5000), text(3, 5000)}
	mustAppend(t, l, want[0])
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, want[1])
	mustAppend(t, l, want[2])
	dead := mem.ProcessCrash()
	flip(t, dead, "log/00000001.log", 7000*8)
	var corrupt *CorruptError
	if _, err := open("log", testOptions(dead)); !errors.As(err, &corrupt) || corrupt.File != "log/00000001.log" || corrupt.Offset != 5000 {
		t.Errorf("in the same cache: %v", err)
	}
	dead.SetCacheID("another life")
	l = mustOpen(t, dead)
	if err := problem(l, want[:1], 0); err != nil {
		t.Errorf("in another cache: %v", err)
	}
	mustClose(t, l)
}

// The error of damage says where it is, and why.
func TestCorruptErrorSays(t *testing.T) {
	err := fmt.Errorf("reading: %w", corrupt("dir/x.log", 17, "why"))
	if !errors.Is(err, ErrCorrupt) || err.Error() != "reading: hybridlog: dir/x.log is corrupt at offset 17: why" {
		t.Error(err)
	}
}

// TestSyncedIsMissed: a log that ends before the synced end is damaged, also when it ends between
// two entries.
func TestSyncedIsMissed(t *testing.T) { bothWays(t, syncedIsMissed) }

func syncedIsMissed(t *testing.T, change func(*options)) {
	mem := vfs.NewMem()
	l := mustOpen(t, mem, change)
	for i := range 100 {
		mustAppend(t, l, text(i, 100)) // round the ring
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	dead := mem.ProcessCrash()
	dead.SetCacheID("another life")
	for name, size := range map[string]int64{"log/00000001.log": 4000, "log/00000001.sum": 0} {
		f, err := dead.Open(name, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 { // 40 entries, and the end of no block
			size = headerBytes + 40*frameBytes
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open("log", testOptions(dead)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
}

// TestCloseCutsOff: bytes that another program has written after the tail are no part of the log,
// and removed when the log is closed.
func TestCloseCutsOff(t *testing.T) {
	mem := vfs.NewMem()
	mem.Record()
	l := mustOpen(t, mem)
	want := [][]byte{text(1, 300)}
	mustAppend(t, l, want[0])
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"log/00000001.log", "log/00000001.sum"} {
		f, err := mem.Open(name, vfs.ReadWrite)
		if err == nil {
			_, err = f.WriteAt([]byte("0123456789abcdef0123456789abcdef"), 300)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	for image := range mem.PowerCuts(100, nil) {
		if err := problem(mustOpen(t, image), want, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyOnTheSameMount: the files of a disk snapshot, in the state after a power cut, are no
// damage on the same machine, though its page cache has the name in the manifest: the manifest is a
// copy.
func TestCopyOnTheSameMount(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		mem.Record()
		l := mustOpen(t, mem, change)
		for i := range 30 {
			mustAppend(t, l, text(i, 900))
			if i == 5 {
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		id, n := mem.CacheID("log"), 0
		for image := range mem.PowerCuts(100, nil) {
			image.SetCacheID(id)
			l, err := open("log", testOptions(logtest.Copy(t, image, "log"), change, accepted))
			if err != nil {
				t.Fatal(err)
			}
			if l.Size() < 6*900 {
				t.Errorf("%d bytes", l.Size())
			}
			mustClose(t, l)
			n++
		}
		t.Logf("%d copies", n)
	})
}

// A mark is written when a manifest is there. A mark without a manifest means that the log was
// lost, not that it is new.
func TestMarkWithoutAManifest(t *testing.T) {
	bothWays(t, func(t *testing.T, change func(*options)) {
		mem := vfs.NewMem()
		l := mustOpen(t, mem, change)
		mustAppend(t, l, text(0, 300))
		mustClose(t, l)
		for name := range filesOf(t, mem) {
			if name != markName {
				replacement{"removed", name, nil}.do(t, mem)
			}
		}
		var c *CorruptError
		if _, err := open("log", testOptions(mem, change)); !errors.As(err, &c) || c.File != "log/"+manifestName {
			t.Errorf("Open: %v", err)
		}
	})
}
