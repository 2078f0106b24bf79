package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/keycodec"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// A store of which one or two files were removed, emptied or replaced opens with everything, or returns the
// precise cause and stays unchanged. It never opens with less, and no new store begins over an old one.

// swapped is a store, with replacements for its files.
type swapped struct {
	t       *testing.T
	image   *vfs.Mem
	content map[string]string
	synced  []map[string]string // its content at the last sync, and after each write since
	before  map[string][]byte   // the files when the process before had closed it
	older   map[string][]byte   // the files after the first writes of the last process
	other   map[string][]byte   // files of another store
	derived []string            // those that Check has found damaged, and not needed
}

// swappedStore makes a store in several lives, with an order, and a snapshot of the index. Of small segments
// each life adds some; one large segment has it all.
func swappedStore(t *testing.T, end ending, segmentBytes int64) *swapped {
	x := &swapped{t: t, content: map[string]string{}}
	make := func(mem *vfs.Mem, who string, keep bool) {
		small := func(o *Options) { o.SegmentBytes = segmentBytes }
		s := mustOpen(t, mem, small)
		set := func(s *Store, from, to int) {
			for i := from; i < to; i++ {
				key, value := fmt.Sprint("users:", i%9), fmt.Sprint(who, " value ", i, strings.Repeat("x", 5*i%40))
				mustSet(t, s, key, value)
				if keep {
					x.content[key] = value
				}
			}
		}
		set(s, 0, 30)
		users, err := s.Map("users")
		if err == nil {
			err = s.Order(users, keycodec.BytesOrder)
		}
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		if keep {
			x.before = logtest.Contents(t, mem)
		}
		s = mustOpen(t, mem, small)
		set(s, 30, 33)
		if keep {
			x.older = logtest.Contents(t, mem)
		}
		set(s, 33, 60)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		for i := 60; ; i++ {
			if keep {
				x.synced = append(x.synced, maps.Clone(x.content))
			}
			if i == 64 {
				break
			}
			set(s, i, i+1)
		}
		if end == closed {
			mustClose(t, s)
		}
	}
	other, mem := vfs.NewMem(), vfs.NewMem()
	make(other, "other", false)
	make(mem, "this", true)
	x.other, x.image = logtest.Contents(t, other), mem.ProcessCrash()
	return x
}

// newer makes a file of version 2 out of one of version 1.
func newer(name string, text []byte) []byte {
	two := func(line []byte) []byte {
		return record.Seal(bytes.Replace(line[:len(line)-10], []byte(" 1 "), []byte(" 2 "), 1))
	}
	switch {
	case name == seglog.ManifestName:
		return record.Seal(bytes.Replace(text[:len(text)-10], []byte("manifest 1"), []byte("manifest 2"), 1))
	case name == seglog.MarkName:
		var out []byte
		for ; len(text) >= files.SlotBytes; text = text[files.SlotBytes:] {
			out = append(out, two(text[:files.SlotBytes])...)
		}
		return out
	}
	end := bytes.IndexByte(text, '\n') + 1
	return append(two(text[:end]), text[end:]...)
}

// ways are the changes of a file. Each returns nil to remove the file.
var ways = map[string]func(x *swapped, name string, text []byte) []byte{
	"removed":               func(*swapped, string, []byte) []byte { return nil },
	"emptied":               func(*swapped, string, []byte) []byte { return []byte{} },
	"of the life before":    func(x *swapped, name string, _ []byte) []byte { return x.before[name] },
	"an older version":      func(x *swapped, name string, _ []byte) []byte { return x.older[name] },
	"of another store":      func(x *swapped, name string, _ []byte) []byte { return x.likeOf(name) },
	"of a newer version":    func(_ *swapped, name string, text []byte) []byte { return newer(name, text) },
	"copied, and put back":  func(_ *swapped, _ string, text []byte) []byte { return text },
	"replaced by its start": func(_ *swapped, _ string, text []byte) []byte { return text[:len(text)/2] },
}

// alone are ways that are tried with one file. A copy of the manifest loses the difference between a power cut
// and a kill, and then a second, short file may be the result of the cut. Without a ring only the file itself
// has records that were not synced.
var alone = map[string]bool{"copied, and put back": true, "replaced by its start": true}

// allThatKnew reports whether two files of a killed store are replaced that were all that knew of
// something: the segment itself and the mark, where there is no ring; and with the ring the
// manifest, of which a copy of the same bytes loses the difference between a kill and a power cut.
func (x *swapped) allThatKnew(name, way, other, too string) bool {
	if name == seglog.ManifestName && other == seglog.RingName {
		return way == "an older version" && (too == "an older version" || too == "emptied")
	}
	_, segment := record.ParseFileName(name)
	_, ring := x.older[seglog.RingName]
	return !ring && segment && other == seglog.MarkName && (way == "an older version" || way == "of the life before")
}

// likeOf returns the file of the other store with the role of this one; names of runs differ.
func (x *swapped) likeOf(name string) []byte {
	if text, ok := x.other[name]; ok || !strings.HasSuffix(name, ".order") {
		return text
	}
	for other, text := range x.other {
		if strings.HasSuffix(other, ".order") {
			return text
		}
	}
	return nil
}

// do returns an image on which a file has been replaced, by one that is made anew as a copy is.
func (x *swapped) do(image *vfs.Mem, name, way string) {
	path := filepath.Join("db", name)
	text, _, err := files.Read(image, path, 1<<20)
	if err == nil {
		err = image.Remove(path)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	if text = ways[way](x, name, text); text == nil {
		return
	}
	f, err := image.Open(path, vfs.Create)
	if err == nil {
		_, err = f.WriteAt(text, 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// judge opens an image, as a reader and as a writer.
func (x *swapped) judge(image *vfs.Mem, what string) (opened bool) {
	x.t.Helper()
	before := logtest.Contents(x.t, image)
	for _, readOnly := range []bool{true, false} {
		report, err := Check(context.Background(), "db", image, nil)
		if err != nil {
			x.t.Errorf("%s: Check: %v", what, err)
		}
		sound := len(report.Problems) == 0 && report.Version == nil
		for i, p := range report.Problems {
			if slices.Contains(report.Problems[:i], p) {
				x.t.Errorf("%s: Check finds twice: %v", what, p)
			}
		}
		x.derived = x.derived[:0]
		for _, d := range report.Derived {
			x.derived = append(x.derived, filepath.Base(d.File))
		}
		s, err := Open("db", testOptions(image, accepted, func(o *Options) { o.ReadOnly = readOnly }))
		if sound != (err == nil) {
			x.t.Errorf("%s: Check finds %v, %v, and Open, read-only %v, says %v", what, report.Problems, report.Version, readOnly, err)
		}
		if err != nil {
			var corrupt *seglog.CorruptError
			if !errors.Is(err, seglog.ErrVersion) && !(errors.As(err, &corrupt) && strings.HasPrefix(corrupt.File, "db") && corrupt.Reason != "") {
				x.t.Errorf("%s: Open, read-only %v, does not say what is wrong: %v", what, readOnly, err)
			}
			if after := logtest.Contents(x.t, image); !logtest.SameFiles(before, after) {
				x.t.Errorf("%s: a store that was refused has been changed", what)
			}
			opened = false
			continue
		}
		opened = true
		if got := x.read(s); !maps.Equal(got, x.content) {
			x.t.Errorf("%s: read-only %v: %v; want %v", what, readOnly, got, x.content)
			s.Close()
			return opened
		}
		if readOnly {
			mustClose(x.t, s)
			continue
		}
		mustSet(x.t, s, "again", "1")
		mustClose(x.t, s)
		s = mustOpen(x.t, image)
		wantValue(x.t, s, "again", "1")
		if n := int(s.Stats().Keys); n != len(x.content)+1 {
			x.t.Errorf("%s: %d keys are there after a write, want %d", what, n, len(x.content)+1)
		}
		mustClose(x.t, s)
	}
	return opened
}

// read returns the content of a store.
func (x *swapped) read(s *Store) map[string]string {
	x.t.Helper()
	got := map[string]string{}
	for _, t := range s.Tables() {
		for item := range s.Items(t) {
			if item.Err != nil {
				x.t.Errorf("reading: %v", item.Err)
			}
			got[string(item.Key)] = string(item.Value)
		}
	}
	return got
}

// shapes are those of stores whose files are replaced.
var shapes = []struct {
	end          ending
	segmentBytes int64
}{{closed, 900}, {closed, 1 << 16}, {killed, 900}, {killed, 1 << 16}}

// TestFilesReplaced replaces each file, and pairs of files: half of the pairs, without COPAL_LONG.
// TestFilesReplaced replaces each file, and pairs of files: half of the pairs, without COPAL_LONG.
func TestFilesReplaced(t *testing.T) { logtest.BothWays(t, filesReplaced) }

func filesReplaced(t *testing.T) {
	for _, shape := range shapes {
		end := shape.end
		x := swappedStore(t, end, shape.segmentBytes)
		if !x.judge(x.image.ProcessCrash(), end.String()) {
			t.Fatalf("%v: it does not open", shape)
		}
		names := logtest.Files(t, x.image)
		var list []string
		for way := range ways {
			list = append(list, way)
		}
		slices.Sort(list)
		opened, refused, rng := 0, 0, rand.New(rand.NewPCG(1, 2))
		count := func(ok bool) {
			if ok {
				opened++
			} else {
				refused++
			}
		}
		for i, name := range names {
			for _, way := range list {
				image := x.image.ProcessCrash()
				x.do(image, name, way)
				what := fmt.Sprintf("%v, %s %s", shape, name, way)
				ok := x.judge(image, what)
				count(ok)
				if isDerived(name) {
					damaged := slices.Contains([]string{"emptied", "of another store", "replaced by its start"}, way)
					if !ok || damaged != slices.Contains(x.derived, name) {
						t.Errorf("%s: a derived file is no reason not to open, and Check is to know of it: %v, %v", what, ok, x.derived)
					}
				}
				if alone[way] {
					continue
				}
				for _, other := range names[i+1:] {
					for _, too := range list {
						if alone[too] || x.allThatKnew(name, way, other, too) || !longTest() && rng.IntN(2) == 0 {
							continue
						}
						image := x.image.ProcessCrash()
						x.do(image, name, way)
						x.do(image, other, too)
						count(x.judge(image, fmt.Sprintf("%s, and %s %s", what, other, too)))
					}
				}
			}
		}
		t.Logf("%v: %d files, %d opened with everything, %d refused", shape, len(names), opened, refused)
	}
}

func isDerived(name string) bool {
	return logtest.IsIndex(name) || strings.HasSuffix(name, ".order")
}

// TestFilesReplacedBeforeAReboot is the same for one file, when the page cache has gone since:
// synced records are there, or an error names the fault.
func TestFilesReplacedBeforeAReboot(t *testing.T) { logtest.BothWays(t, filesReplacedBeforeAReboot) }

func filesReplacedBeforeAReboot(t *testing.T) {
	for _, shape := range shapes {
		end := shape.end
		x := swappedStore(t, end, shape.segmentBytes)
		for _, name := range logtest.Files(t, x.image) {
			for way := range ways {
				image := x.image.ProcessCrash()
				x.do(image, name, way)
				image.SetCacheID("after a reboot")
				what := fmt.Sprintf("%v, %s %s", shape, name, way)
				report, err := Check(context.Background(), "db", image, nil)
				if err != nil {
					t.Errorf("%s: Check: %v", what, err)
				}
				s, err := Open("db", testOptions(image, accepted))
				if sound := len(report.Problems) == 0 && report.Version == nil; sound != (err == nil) {
					t.Errorf("%s: Check finds %v, %v, and Open says %v", what, report.Problems, report.Version, err)
				}
				var corrupt *seglog.CorruptError
				switch {
				case errors.Is(err, seglog.ErrVersion) || errors.As(err, &corrupt):
					continue
				case err != nil:
					t.Errorf("%s: %v", what, err)
					continue
				}
				got := x.read(s)
				same := func(want map[string]string) bool { return maps.Equal(got, want) }
				foreign := name == seglog.RingName && way == "of another store"
				if !slices.ContainsFunc(x.synced, same) || foreign {
					t.Errorf("%s: it opens with %v", what, got)
				}
				mustClose(t, s)
			}
		}
	}
}

// TestDirectoryReplacedUnderAProcess: a process whose directory was replaced under it becomes
// read-only. It does not overwrite the manifest of the store that is there now.
func TestDirectoryReplacedUnderAProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	open := func() *Store {
		s, err := Open(dir, WithRooms(Options{SegmentBytes: 1000, Inline: true}))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := open()
	mustSet(t, a, "a", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Skipf("this system keeps open files: %v", err)
	}
	b := open()
	for i := range 10 {
		mustSet(t, b, fmt.Sprint("b", i), "acknowledged")
	}
	var err error
	for i := 0; i < 40 && err == nil; i++ {
		err = a.Set(nil, fmt.Append(nil, "a", i), []byte(strings.Repeat("x", 50)), 0, Process)
	}
	if !errors.Is(err, seglog.ErrReadOnly) {
		t.Errorf("the process without a directory writes on: %v", err)
	}
	a.Close()
	mustClose(t, b)
	b = open()
	for i := range 10 {
		wantValue(t, b, fmt.Sprint("b", i), "acknowledged")
	}
	mustClose(t, b)
}

// TestLockOutlivesItsFile: removing the lock file of an open store does not let a second writer
// in.
func TestLockOutlivesItsFile(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("only Unix lets an open file be removed")
	}
	dir := filepath.Join(t.TempDir(), "db")
	a, err := Open(dir, WithRooms(Options{Inline: true}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, seglog.LockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, WithRooms(Options{Inline: true})); !errors.Is(err, seglog.ErrLocked) {
		t.Errorf("the second Open: %v", err)
	}
	mustClose(t, a)
	b, err := Open(dir, WithRooms(Options{Inline: true}))
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, b)
}
