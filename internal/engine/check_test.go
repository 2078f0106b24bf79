package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/tail"
	"github.com/copaldb/copal/internal/vfs"
)

// TestCheckOfRecordsFlippedInTheRing: a record that is not in the file yet is damaged in the ring,
// and a later record is not. Check reports damage in the ring.
func TestCheckOfRecordsFlippedInTheRing(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	for i := range 5 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	dead := mem.ProcessCrash()
	at := int64(bytes.Index(logtest.Read(t, dead, seglog.RingName), []byte("key 0")))
	logtest.Change(t, dead, "db/"+seglog.RingName, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
	if r, err := Check(context.Background(), "db", dead, nil); err != nil || len(r.Problems) != 1 || filepath.Base(r.Problems[0].File) != seglog.RingName {
		t.Errorf("Check: %+v, %v", r, err)
	}
}

// Check beside a writer that closes, between its looks at the manifest and at the ring, finds nothing damaged.
func TestCheckBesideAClose(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, noSnapshot)
	mustSet(t, s, "a", "1")
	closed := false
	report, err := Check(context.Background(), "db", &logtest.StepFS{FS: mem, Opening: func(name string) {
		if filepath.Base(name) == seglog.RingName && !closed {
			closed = true
			mustClose(t, s)
		}
	}}, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %v", report.Problems, err)
	}
	if !closed {
		mustClose(t, s)
	}
}

// A power cut may leave a new ring unwritten, though its name is durable. It is of no account then, for readers
// that look again and again as well, and the store is sound.
func TestRingThatAPowerCutLeftUnwritten(t *testing.T) {
	logtest.NeedsRing(t)
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	if err := s.Set(nil, []byte("k"), []byte("v"), 0, Power); err != nil {
		t.Fatal(err)
	}
	for _, left := range []func(size int64) []byte{
		func(size int64) []byte { return make([]byte, size) },
		func(int64) []byte { return nil },
		func(size int64) []byte { return make([]byte, size/2) },
	} {
		image := mem.ProcessCrash()
		image.SetCacheID("after the power cut")
		logtest.Change(t, image, "db/"+seglog.RingName, func(f vfs.File) error {
			size, err := f.Size()
			text := left(size)
			if err == nil {
				err = f.Truncate(int64(len(text)))
			}
			if err == nil {
				_, err = f.WriteAt(text, 0)
			}
			return err
		})
		var told []error
		r := mustOpen(t, image, func(o *Options) { o.ReadOnly = true; o.OnError = func(err error) { told = append(told, err) } })
		wantValue(t, r, "k", "v")
		for range 2 {
			if err := r.Refresh(); err != nil {
				t.Errorf("Refresh: %v", err)
			}
		}
		wantValue(t, r, "k", "v")
		mustClose(t, r)
		if len(told) > 0 {
			t.Errorf("the reader was told %v", told)
		}
		if report, err := Check(context.Background(), "db", image, nil); err != nil || len(report.Problems) > 0 {
			t.Errorf("Check: %v, %v", report.Problems, err)
		}
		w := mustOpen(t, image)
		wantValue(t, w, "k", "v")
		mustSet(t, w, "k", "w")
		mustClose(t, w)
	}
}

// The files of a disk snapshot, which is a power cut to whoever reads them, are copied to the mount that the
// store was written on, within the same boot. Nothing that the snapshot tore passes for damage.
func TestSnapshotOfTheDiskCopiedBack(t *testing.T) { logtest.BothWays(t, snapshotOfTheDiskCopiedBack) }

func snapshotOfTheDiskCopiedBack(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem)
	for i := range 20 {
		if err := s.Set(nil, fmt.Append(nil, "durable", i), make([]byte, 400), 0, Power); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		mustSet(t, s, fmt.Sprint("k", i), string(make([]byte, 900)))
	}
	id := mem.CacheID("db")
	for image := range mem.PowerCuts(200, rand.New(rand.NewPCG(1, 2))) {
		copied := logtest.Copy(t, image, "db")
		copied.SetCacheID(id)
		if report, err := Check(context.Background(), "db", copied, nil); err != nil || len(report.Problems) > 0 {
			t.Fatalf("Check: %v, %v", report.Problems, err)
		}
		s := mustOpen(t, copied, accepted)
		for i := range 20 {
			wantValue(t, s, fmt.Sprint("durable", i), string(make([]byte, 400)))
		}
		mustClose(t, s)
	}
}

// Records that only the ring has are not lost with the manifest: no store begins anew over them.
func TestManifestGoneFromAKilledStore(t *testing.T) {
	logtest.BothWays(t, manifestGoneFromAKilledStore)
}

func manifestGoneFromAKilledStore(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "k", "v")
	dead := mem.ProcessCrash()
	if err := dead.Remove("db/" + seglog.ManifestName); err != nil {
		t.Fatal(err)
	}
	before := logtest.Contents(t, dead)
	if report, err := Check(context.Background(), "db", dead, nil); err != nil || len(report.Problems) == 0 {
		t.Errorf("Check: %+v, %v", report, err)
	}
	if _, err := Open("db", testOptions(dead)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v", err)
	}
	if !logtest.SameFiles(before, logtest.Contents(t, dead)) {
		t.Error("opening has changed what is there")
	}
}

// A closed store is judged without its mark: the manifest says where the log ends.
func TestClosedStoreWithoutItsMark(t *testing.T) { logtest.BothWays(t, closedStoreWithoutItsMark) }

func closedStoreWithoutItsMark(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, noSnapshot)
	for i := range 10 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	mustClose(t, s)
	if err := mem.Remove("db/" + seglog.MarkName); err != nil {
		t.Fatal(err)
	}
	size := logtest.SizeOf(t, mem, "db/00000001.log")
	for at := int64(100); at < size; at += 7 {
		image := mem.ProcessCrash()
		logtest.Change(t, image, "db/00000001.log", func(f vfs.File) error {
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, at); err != nil {
				return err
			}
			_, err := f.WriteAt([]byte{b[0] ^ 1}, at)
			return err
		})
		if report, err := Check(context.Background(), "db", image, nil); err != nil || len(report.Problems) == 0 {
			t.Fatalf("byte %d of %d is flipped: Check: %+v, %v", at, size, report, err)
		}
		if _, err := Open("db", testOptions(image, noSnapshot)); !errors.Is(err, seglog.ErrCorrupt) {
			t.Fatalf("byte %d of %d is flipped: Open: %v", at, size, err)
		}
	}
	s = mustOpen(t, mem, noSnapshot)
	mustSet(t, s, "again", "1")
	if n := s.Stats().Segments; n != 1 {
		t.Errorf("a closed store goes on in segment %d", n)
	}
	mustClose(t, s)
}

// TestCheckOfAKilledCopy: a kill in the middle of a copy into the ring leaves nothing that Check cannot read,
// and a store that opens, with all of the unfinished group or nothing. A ring that was left does not name the
// last acknowledged record.
func TestCheckOfAKilledCopy(t *testing.T) {
	logtest.NeedsRing(t)
	for _, left := range []bool{false, true} {
		checkOfAKilledCopy(t, left)
	}
}

func checkOfAKilledCopy(t *testing.T, left bool) {
	mem := vfs.NewMem()
	mem.Record()
	s := mustOpen(t, mem, func(o *Options) { o.RingBytes = 64 << 10 })
	mustSet(t, s, "before", "1")
	var changes []*Change
	for n := range 20 {
		changes = append(changes, &Change{Write: Write{Key: fmt.Append(nil, "k", n), Value: []byte(strings.Repeat("v", 40*n))}})
	}
	stores := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Kind != vfs.OpStore || phase != vfs.After {
			return
		}
		stores++
		for _, lost := range [][2]int64{{0, min(32, op.Len)}, {0, op.Len / 2}, {op.Len / 2, op.Len}, {0, op.Len}} {
			image := mem.ProcessCrash()
			f, err := image.Open("db/"+seglog.RingName, vfs.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, lost[1]-lost[0]), op.Off+lost[0]); err != nil {
				t.Fatal(err)
			}
			if left {
				if _, err := f.WriteAt([]byte{1}, tail.RingLine+tail.AckedSize); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Check(context.Background(), "db", image, nil); err != nil {
				t.Fatalf("store %d of %d bytes, of which [%d, %d) are missing: Check: %v", stores, op.Len, lost[0], lost[1], err)
			}
			found := mustOpen(t, image)
			wantValue(t, found, "before", "1")
			there := 0
			for _, c := range changes {
				if has, err := found.Has(nil, c.Key); err != nil {
					t.Fatal(err)
				} else if has {
					there++
				}
			}
			if there != 0 && there != len(changes) {
				t.Fatalf("store %d: %d of %d members of the group are there", stores, there, len(changes))
			}
			mustSet(t, found, "after", "2")
			mustClose(t, found)
		}
	})
	if err := s.WriteAll(changes, Process); err != nil {
		t.Fatal(err)
	}
	if stores == 0 {
		t.Error("the group was not stored in the ring")
	}
	mem.OnBoundary(nil)
	mustClose(t, s)
}

// A torn tail may be full of imitations of records, too many for a search. Bytes that were not synced are torn
// all the same: Check reports the same as opening the store.
func TestCheckOfATornTailOfImitations(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.RingBytes = -1 })
	mustSet(t, s, "a", "1")
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	image := logtest.Copy(t, mem.ProcessCrash(), "db")
	image.SetCacheID("another life of the page cache")
	appendTo(t, image, filepath.Join("db", "00000001.log"), strings.Repeat("00000000 Sv 0 0 3 0 0 80000 ", 8<<20/28))
	mustClose(t, mustOpen(t, image, accepted, func(o *Options) { o.ReadOnly = true }))
	report, err := Check(context.Background(), "db", image, nil)
	if err != nil || len(report.Problems) > 0 || report.TornBytes == 0 {
		t.Errorf("Check: %v, %d torn bytes, %v", report.Problems, report.TornBytes, err)
	}
}

// TestCheckSaysWhatOpenSays appends bytes to each segment of a killed store that was copied, at each moment of
// its life: whether that is damage, or a torn tail, Check and Open agree.
func TestCheckSaysWhatOpenSays(t *testing.T) { logtest.BothWays(t, checkSaysWhatOpenSays) }

func checkSaysWhatOpenSays(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 900 })
	torn, damaged := 0, 0
	for i := range 60 {
		mustSet(t, s, fmt.Sprint("k", i%7), strings.Repeat("v", 10+i*13%150))
		switch i % 5 {
		case 2: // the mark is where a new tail begins
			if err := errors.Join(s.Inside(s.Log().EndTail), s.Sync()); err != nil {
				t.Fatal(err)
			}
		case 4:
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		killed := mem.ProcessCrash()
		for name := range logtest.Contents(t, killed) {
			if !strings.HasSuffix(name, ".log") {
				continue
			}
			image := logtest.Copy(t, killed, "db")
			image.SetCacheID("another life of the page cache")
			appendTo(t, image, filepath.Join("db", name), "bytes that are no record\n")
			report, err := Check(context.Background(), "db", image, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Open("db", testOptions(image, accepted))
			switch {
			case (err == nil) != (len(report.Problems) == 0):
				t.Fatalf("after %d writes, %s: Check says %v, Open %v", i+1, name, report.Problems, err)
			case err != nil:
				damaged++
				continue
			case report.TornBytes > 0:
				torn++
			}
			mustClose(t, r)
		}
	}
	if torn == 0 || damaged == 0 {
		t.Errorf("%d torn, %d damaged: this tests nothing", torn, damaged)
	}
}

// appendTo appends bytes to a file.
func appendTo(t *testing.T, image *vfs.Mem, path, text string) {
	t.Helper()
	f, err := image.Open(path, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err == nil {
		_, err = f.WriteAt([]byte(text), size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
