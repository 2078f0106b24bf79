package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// Tests of reads in place use a real disk, because only there are files mapped.

// onDisk opens a store without goroutines in a directory of the test.
func onDisk(t testing.TB, dir string, change ...func(*Options)) *Store {
	t.Helper()
	if os.Getenv("COPAL_NO_MMAP") == "1" {
		t.Skip("nothing is mapped: COPAL_NO_MMAP=1")
	}
	s, err := Open(dir, testOptions(vfs.OS(), change...))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	if v, err := s.log.FS.Open(filepath.Join(dir, seglog.LockName), vfs.ReadOnly); err == nil {
		defer v.Close()
		if _, err := v.View(1); errors.Is(err, errors.ErrUnsupported) {
			t.Skip("nothing is mapped on this platform")
		}
	}
	return s
}

func filled(n int, c byte) []byte { return bytes.Repeat([]byte{c}, n) }

// viewOf is the value that View shows, and whether it was in place.
func viewOf(t testing.TB, s *Store, key string) (value []byte, inPlace bool) {
	t.Helper()
	err := s.ViewValue([]byte(key), nil, func(b []byte, _ uint64) error {
		value = bytes.Clone(b)
		inPlace = len(b) > 0 && standsInFile(t, s, key, b)
		return nil
	})
	if err != nil {
		t.Fatalf("View(%q): %v", key, err)
	}
	return value, inPlace
}

// standsInFile reports whether b, the value of the key, is the bytes of the file of a segment: for a moment one is
// changed in the file.
func standsInFile(t testing.TB, s *Store, key string, b []byte) bool {
	t.Helper()
	line := fmt.Appendf(nil, " %s %s\n", key, b)
	for _, seg := range s.log.Readable() {
		text, err := os.ReadFile(seg.Path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(text, line)
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(seg.Path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		was := b[0]
		put := func(c byte) {
			if _, err := f.WriteAt([]byte{c}, int64(at+len(line)-1-len(b))); err != nil {
				t.Fatal(err)
			}
		}
		put(was ^ 1)
		defer put(was)
		return b[0] != was
	}
	return false
}

// longest is the length of the longest record that is read in place, and trusted the length of the longest that is
// verified each time.
const (
	longest = 64 << 10
	trusted = 4 << 10
)

var inPlaceSizes = []int{0, 1, 100, 191, 192, 193, 1023, 1024, 4000, 4096, 5000, 40 << 10, longest - 200, longest, 70 << 10, seglog.PartBytes, 3 * seglog.PartBytes / 2}

// Every length, in the ring and in the file, is read alike in each way, and appended to the buffer.
func TestReadInPlaceIsReading(t *testing.T) {
	s := onDisk(t, t.TempDir())
	check := func(when string, wantInPlace bool) {
		t.Helper()
		for i, n := range inPlaceSizes {
			key, want := fmt.Sprintf("key%d", n), filled(n, byte('a'+i))
			dst := append(make([]byte, 0, n+10), "before"...)
			got, _, err := s.AppendGet(dst, []byte(key), nil)
			if err != nil || string(got) != "before"+string(want) {
				t.Fatalf("%s: AppendGet of %d bytes: %d bytes, %v", when, n, len(got), err)
			}
			got, _, err = s.AppendGet(nil, []byte(key), nil)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: AppendGet(nil) of %d bytes: %d bytes, %v", when, n, len(got), err)
			}
			seen, inPlace := viewOf(t, s, key)
			if !bytes.Equal(seen, want) {
				t.Fatalf("%s: View of %d bytes shows %d", when, n, len(seen))
			}
			if wantInPlace && n > 0 && n < longest-100 && !inPlace {
				t.Errorf("%s: %d bytes were copied", when, n)
			}
		}
		if _, _, err := s.AppendGet(nil, []byte("none"), nil); err != ErrNotFound {
			t.Errorf("AppendGet of what is not there: %v", err)
		}
		if err := s.ViewValue([]byte("none"), nil, nil); err != ErrNotFound {
			t.Errorf("View of what is not there: %v", err)
		}
	}
	for i, n := range inPlaceSizes {
		mustSet(t, s, fmt.Sprintf("key%d", n), string(filled(n, byte('a'+i))))
		if got, _, err := s.AppendGet(nil, fmt.Appendf(nil, "key%d", n), nil); err != nil || len(got) != n {
			t.Fatalf("%d bytes just written: %d, %v", n, len(got), err)
		}
	}
	check("partly in the ring", false)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	check("in the file", true)
}

// damageValue changes a byte of a value in the file of an open store.
func damageValue(t *testing.T, s *Store, value []byte) {
	t.Helper()
	for _, seg := range s.log.Readable() {
		text, err := os.ReadFile(seg.Path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(text, value)
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(seg.Path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{value[0] ^ 1}, int64(at+len(value)/2)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the value is in no file")
}

// A short value is verified by every read, a long one by the first, and after a minute again.
func TestReadInPlaceFindsDamage(t *testing.T) {
	c := logtest.NewClock()
	for _, n := range []int{10, 3000, 6000, 50 << 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := onDisk(t, t.TempDir(), func(o *Options) { o.Clock = c })
			for i := range 3 { // damage of one is no business of the others
				mustSet(t, s, fmt.Sprint("key", i), string(filled(n, byte('a'+i))))
			}
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			long := n > trusted
			damageValue(t, s, filled(n, 'a'))
			wantCorrupt(t, s, "key0")
			viewOf(t, s, "key1")
			damageValue(t, s, filled(n, 'b'))
			if long {
				viewOf(t, s, "key1") // a minute it is trusted
				c.Advance(time.Minute)
			}
			wantCorrupt(t, s, "key1")
			viewOf(t, s, "key2")
			if long { // the clock was set back
				damageValue(t, s, filled(n, 'c'))
				c.Advance(-time.Hour)
				wantCorrupt(t, s, "key2")
			}
		})
	}
}

func wantCorrupt(t *testing.T, s *Store, key string) {
	t.Helper()
	if _, _, err := s.AppendGet(nil, []byte(key), nil); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("AppendGet of a damaged value: %v", err)
	}
	err := s.ViewValue([]byte(key), nil, func([]byte, uint64) error { t.Error("View shows a damaged value"); return nil })
	if !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("View of a damaged value: %v", err)
	}
}

// A viewed value stays whatever happens to the entry and to the store while f runs.
func TestViewOutlivesEverything(t *testing.T) {
	s := onDisk(t, t.TempDir(), func(o *Options) { o.SegmentBytes, o.NoCompaction = 32<<10, true })
	want := string(filled(3000, 'v'))
	for i := range 30 {
		mustSet(t, s, fmt.Sprint("key", i), want)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	err := s.ViewValue([]byte("key1"), nil, func(b []byte, _ uint64) error {
		for i := range 30 {
			mustSet(t, s, fmt.Sprint("key", i), "other")
		}
		if err := s.Compact(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if string(b) != want {
			t.Error("compaction has changed what is viewed")
		}
		if got, _ := viewOf(t, s, "key1"); string(got) != "other" {
			t.Errorf("a view within the view shows %.10q", got)
		}
		if _, err := s.Map("m"); err != nil { // which waits for everybody inside
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if string(b) != want {
			t.Error("Close has changed what is viewed")
		}
		return errors.New("f's own")
	})
	if err == nil || err.Error() != "f's own" {
		t.Errorf("View returned %v", err)
	}
	if err := s.ViewValue([]byte("key1"), nil, nil); err != seglog.ErrClosed {
		t.Errorf("View after Close: %v", err)
	}
}

// A segment that was viewed when the store was closed is unmapped afterwards, one that was not at once.
func TestViewUnmapsLast(t *testing.T) {
	s := onDisk(t, t.TempDir())
	mustSet(t, s, "key", strings.Repeat("v", 3000))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var seg *seglog.Segment
	err := s.ViewValue([]byte("key"), nil, func(b []byte, _ uint64) error {
		seg = s.log.Readable()[0]
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if seg.Pins.Load() != 0 { // no other user, not even the log, has it open
			t.Errorf("%d pins while it is viewed", seg.Pins.Load())
		}
		return nil
	})
	if err != nil || seg.Pins.Load() != -1 {
		t.Errorf("it is still mapped: %v, %d pins", err, seg.Pins.Load())
	}
}

// A file that is cut under the map is an error of the read, not the end of the program.
func TestReadInPlaceOfACutFile(t *testing.T) {
	s := onDisk(t, t.TempDir())
	for i := range 4 {
		mustSet(t, s, fmt.Sprint("key", i), string(filled(9000, 'v')))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	seg := s.log.Readable()[0]
	cut := func() {
		if err := os.Truncate(seg.Path, 4096); err != nil {
			t.Fatal(err)
		}
	}
	err := s.ViewValue([]byte("key3"), nil, func(b []byte, _ uint64) error {
		cut()
		t.Errorf("%d bytes of what was cut off", bytes.Count(b, []byte("v")))
		return nil
	})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("View of a file that is cut meanwhile: %v", err)
	}
	if seg.Pins.Load() != 0 {
		t.Errorf("%d pins are left", seg.Pins.Load())
	}
	if _, _, err := s.AppendGet(nil, []byte("key3"), nil); err == nil {
		t.Error("AppendGet of what was cut off succeeds")
	}
	if err := s.ViewValue([]byte("key3"), nil, func([]byte, uint64) error { return nil }); err == nil {
		t.Error("View of what was cut off succeeds")
	}
	defer func() {
		if cause := recover(); cause != "own" {
			t.Errorf("the panic of f came out as %v", cause)
		}
		if seg.Pins.Load() != 0 {
			t.Errorf("%d pins are left by a panic", seg.Pins.Load())
		}
	}()
	mustSet(t, s, "short", "v")
	s.ViewValue([]byte("short"), nil, func([]byte, uint64) error { panic("own") })
}

// TestViewReadsLargeValues: the list of a large value, which is short, is not taken for one.
func TestViewReadsLargeValues(t *testing.T) {
	s, err := Open(t.TempDir(), testOptions(vfs.OS()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := strings.Repeat("large ", seglog.PartBytes/5)
	mustSet(t, s, "large", want)
	if err := s.Sync(); err != nil { // so that it is in the mapped file
		t.Fatal(err)
	}
	v := mustView(t, s)
	defer v.Close()
	e, err := v.Get(nil, []byte("large"))
	if err != nil || string(e.Value) != want {
		t.Errorf("%d bytes, %v", len(e.Value), err)
	}
}

// TestViewOfCollectionsInPlace: a view returns an error with the key of an entry that is no value, and finds
// the elements of a hash, if the records are in the mapped file.
func TestViewOfCollectionsInPlace(t *testing.T) {
	s := onDisk(t, t.TempDir())
	mustChange(t, s, "hash", hset("a", "1"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	v := mustView(t, s)
	defer v.Close()
	if _, err := v.Get(nil, []byte("hash")); !errors.Is(err, ErrType) || !strings.Contains(err.Error(), `"hash"`) {
		t.Errorf("a hash, read as a value: %v", err)
	}
	wantHash(t, v.Collections(), "hash", "a", "1")
}

// TestLentBytesStandStill: lent bytes do not change while others are lent, wherever they are, until they are
// given back.
func TestLentBytesStandStill(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	defer mustClose(t, s)
	c := attached(t, s, "m")
	values := map[string]string{}
	set := func(key string) string { values[key] = strings.Repeat(key+" ", 20); return values[key] }
	mustSet(t, s, "drained", set("drained"))
	mustSet(t, s, "drained too", set("drained too"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "ring", set("ring"))
	mustSet(t, s, "ring too", set("ring too"))
	c.setAsync(t, s, "dirty", set("m:dirty"))
	c.setAsync(t, s, "dirty too", set("m:dirty too"))
	mustSet(t, s, "m:cell", set("m:cell"))
	mustSet(t, s, "m:cell too", set("m:cell too"))
	var lend func(depth int, outer string)
	lend = func(depth int, outer string) {
		for key, want := range values {
			err := s.ViewValue([]byte(key), nil, func(value []byte, _ uint64) error {
				if depth < 2 {
					lend(depth+1, key)
				}
				if string(value) != want {
					t.Errorf("%q, lent within the loan of %q, is %.40q", key, outer, value)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	lend(0, "nothing")
}
