package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/logtest"

	"github.com/copaldb/copal/internal/vfs"
)

// mappedLog opens a log without goroutines on the machine's disk, because only there are files mapped.
func mappedLog(t *testing.T, change ...func(*logSettings)) *logbook {
	t.Helper()
	if os.Getenv("COPAL_NO_MMAP") == "1" {
		t.Skip("nothing is mapped: COPAL_NO_MMAP=1")
	}
	dir := t.TempDir()
	s := mustLog(t, vfs.OS(), append([]func(*logSettings){func(o *logSettings) { o.Dir = dir }}, change...)...)
	if v, err := vfs.OS().Open(filepath.Join(dir, LockName), vfs.ReadOnly); err == nil {
		defer v.Close()
		if _, err := v.View(1); errors.Is(err, errors.ErrUnsupported) {
			s.close()
			t.Skip("nothing is mapped on this platform")
		}
	}
	return s
}

// inPlaceIn reads a value in place.
func inPlaceIn(s *logbook, key string) (value []byte, ok bool, err error) {
	slot, offset := SplitAddress(s.places[key].address)
	seg := s.Segment(slot)
	defer vfs.Caught(vfs.Catch(), seg.mapped, &err)
	var e Record
	ok = seg.InPlace(&e, offset, s.Clock)
	return bytes.Clone(e.Value), ok, nil
}

// TestLongTailIsReadInPlace: records of a tail that has become many times its nominal length,
// because the next segment is not ready, are read in place, too; and a segment that does not grow
// any more is mapped up to its end.
func TestLongTailIsReadInPlace(t *testing.T) {
	s := mappedLog(t, func(o *logSettings) { o.SegmentBytes = 64 << 10 })
	s.Inline = false // so that the next segment is asked for, and not made
	for i := range 100 {
		key := fmt.Sprint("key ", i)
		setIn(t, s, key, strings.Repeat("x", 10<<10))
		if err := s.Drain(&s.Tail.Tail, s.Tail.End.Load()); err != nil {
			t.Fatal(err)
		}
		if value, ok, err := inPlaceIn(s, key); !ok || err != nil || len(value) != 10<<10 {
			t.Fatalf("%d bytes into a segment that should have %d: %d bytes in place, %v, %v", s.Tail.End.Load(), s.SegmentBytes, len(value), ok, err)
		}
	}
	if s.Tail.Slot != 0 {
		t.Error("there is another segment")
	}
	s.Inline = true
	closeLog(t, s)
	s = mustLog(t, vfs.OS(), func(o *logSettings) { o.Dir = s.Dir; o.readOnly = true })
	defer s.close()
	for _, seg := range s.Readable() {
		if seg.State() != Grows && seg.viewed != seg.End.Load() {
			t.Errorf("%d bytes of a segment are mapped that has %d", seg.viewed, seg.End.Load())
		}
	}
}

// TestSegmentInPlaceIsReading: records of every length, except the longest, are read in place with
// the same result, as soon as the file has them.
func TestSegmentInPlaceIsReading(t *testing.T) {
	s := mappedLog(t)
	defer closeLog(t, s)
	sizes := []int{0, 1, 100, 191, 192, 193, 1023, 1024, 4000, 4096, 5000, 40 << 10, longRead - 200, longRead, 70 << 10, PartBytes}
	check := func(when string, inFile bool) {
		t.Helper()
		for i, n := range sizes {
			key, want := fmt.Sprint("key", n), strings.Repeat(string(rune('a'+i)), n)
			wantIn(t, s, key, want)
			switch value, ok, err := inPlaceIn(s, key); {
			case err != nil || ok && string(value) != want:
				t.Errorf("%s: %d bytes are %d in place, %v", when, n, len(value), err)
			case inFile && ok != (n < longRead-100):
				t.Errorf("%s: %d bytes in place: %v", when, n, ok)
			}
		}
	}
	for i, n := range sizes {
		setIn(t, s, fmt.Sprint("key", n), strings.Repeat(string(rune('a'+i)), n))
	}
	setIn(t, s, "last", "in the ring")
	if _, ok, _ := inPlaceIn(s, "last"); ok && s.Ring != nil {
		t.Error("bytes that the file does not have are read in place")
	}
	check("partly in the ring", false)
	syncLog(t, s)
	check("in the file", true)
}

// TestSegmentInPlaceFindsDamage: a record of a page at most is verified each time, a longer one once a minute.
func TestSegmentInPlaceFindsDamage(t *testing.T) {
	c := logtest.NewClock()
	for _, n := range []int{10, trustPage - 200, trustPage, 50 << 10} {
		s := mappedLog(t, func(o *logSettings) { o.Clock = c })
		value := strings.Repeat("v", n)
		setIn(t, s, "key", value)
		syncLog(t, s)
		path := s.Tail.Path
		look := func(when string, want bool) {
			t.Helper()
			if _, ok, err := inPlaceIn(s, "key"); ok != want || err != nil {
				t.Errorf("%d bytes, %s: read in place %v, %v, want %v", n, when, ok, err, want)
			}
		}
		turn := func() {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := vfs.OS().Open(path, vfs.ReadWrite)
			if err == nil {
				err = logtest.Flip(f, int64(bytes.Index(text, []byte("key "))+4+n/2), 0)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		turn()
		look("damaged before it was read", false)
		turn()
		look("mended", true)
		turn()
		look("damaged", n >= trustPage)
		c.Advance(time.Minute)
		look("damaged, after a minute", false)
		turn()
		look("mended again", true)
		turn()
		c.Advance(-time.Hour)
		look("damaged, and the clock was set back", false)
		closeLog(t, s)
	}
}

// TestSegmentUnmapsLast: a segment that is pinned when the log is closed is unmapped afterwards, one that is
// not at once.
func TestSegmentUnmapsLast(t *testing.T) {
	s := mappedLog(t)
	setIn(t, s, "key", strings.Repeat("v", 3000))
	syncLog(t, s)
	if err := s.EndTail(); err != nil {
		t.Fatal(err)
	}
	pinned, other := s.segments()[0], s.segments()[1]
	if !pinned.Pin() {
		t.Fatal("it cannot be pinned")
	}
	closeLog(t, s)
	if other.view.Bytes() != nil {
		t.Error("an unpinned segment is still mapped")
	}
	if b := pinned.view.Bytes(); !bytes.Contains(b, []byte("vvv")) {
		t.Errorf("%d bytes of a pinned segment are mapped", len(b))
	}
	pinned.Unpin()
	if pinned.view.Bytes() != nil || pinned.Pin() {
		t.Errorf("it is still mapped, or can be pinned again, with %d pins", pinned.Pins.Load())
	}
}

// TestSegmentInPlaceOfACutFile: a file that is cut under the map is an error of the read, not the end of the program.
func TestSegmentInPlaceOfACutFile(t *testing.T) {
	s := mappedLog(t)
	defer s.close()
	for i := range 4 {
		setIn(t, s, fmt.Sprint("key", i), strings.Repeat("v", 9000))
	}
	syncLog(t, s)
	slot, offset := SplitAddress(s.places["key3"].address)
	seg := s.Segment(slot)
	var e Record
	if !seg.InPlace(&e, offset, s.Clock) {
		t.Fatal("it is not read in place")
	}
	if err := os.Truncate(seg.Path, 4096); err != nil {
		t.Fatal(err)
	}
	err := seg.Lend(func() error {
		b := e.Value
		t.Errorf("%d of the bytes that were cut off", bytes.Count(b, []byte("v")))
		return nil
	})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("a record that was cut off is lent: %v", err)
	}
	if _, ok, err := inPlaceIn(s, "key3"); ok || !errors.Is(err, syscall.EIO) {
		t.Errorf("a record that was cut off is read in place: %v, %v", ok, err)
	}
	if _, err := s.read("key3"); err == nil {
		t.Error("a record that was cut off is read")
	}
}
