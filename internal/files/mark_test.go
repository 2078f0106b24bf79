package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// errBad is the log's error for a mark that it cannot use.
var errBad = errors.New("bad")

var format = &files.MarkFormat{
	Title: "testmark", Log: "log", Offset: "end", Seq: "frames",
	Possible: func(m *files.Mark) bool { return m.Offset >= 0 && m.Offset < 1<<20 },
	Bad: func(path string, offset int64, err error) error {
		return fmt.Errorf("%w: %s at %d: %w", errBad, path, offset, err)
	},
}

func testMark() *files.Mark {
	return &files.Mark{Log: 0x77aa00000000beef, Edit: 5, Segment: record.NewSegmentID(2, 0), Offset: 0x1f00, Seq: 0x2f, Manifest: 3}
}

func TestMarkText(t *testing.T) {
	m := testMark()
	b := format.Encode(m)
	if want := "copal testmark 1 log 77aa00000000beef edit 5 manifest 3 segment 2 end 1f00 frames 2f sync good  "; len(b) != files.SlotBytes || !bytes.HasPrefix(b, []byte(want)) {
		t.Errorf("%d bytes: %q", len(b), b)
	}
	if got, err := format.Parse(b); err != nil || *got != *m {
		t.Errorf("reads %+v, %v", got, err)
	}
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := format.Parse(b); err == nil {
			t.Fatalf("bit %d of byte %d flipped reads %+v", bit%8, bit/8, got)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	m.Failed = true
	if got, err := format.Parse(format.Encode(m)); err != nil || *got != *m {
		t.Errorf("of a failed sync: reads %+v, %v", got, err)
	}
	m.Offset = 1 << 20
	if got, err := format.Parse(format.Encode(m)); !errors.Is(err, record.ErrSyntax) {
		t.Errorf("one that cannot be: reads %+v, %v", got, err)
	}
	text := strings.Replace(string(format.Encode(testMark())[:files.SlotBytes-10]), "sync good", "sync fine", 1)
	if got, err := format.Parse(record.Seal([]byte(text))); !errors.Is(err, record.ErrSyntax) {
		t.Errorf("a sync that is neither good nor failed: reads %+v, %v", got, err)
	}
}

// put writes marks as earlier processes would have, each after the existing ones.
func put(t *testing.T, fsys vfs.FS, marks ...*files.Mark) {
	t.Helper()
	for _, m := range marks {
		w, err := format.Open(fsys, "SYNCED", m.Log)
		check(t, err)
		check(t, errors.Join(w.Write(m), w.File.Close()))
	}
}

// overwrite puts text into the file of marks.
func overwrite(t *testing.T, fsys vfs.FS, text []byte, at int64) {
	t.Helper()
	f, err := fsys.Open("SYNCED", vfs.ReadWrite)
	check(t, err)
	_, err = f.WriteAt(text, at)
	check(t, errors.Join(err, f.Close()))
}

// Marks are numbered, and the newest counts, whoever wrote the one before. When it is torn, that one does.
func TestMarksTakeTurns(t *testing.T) {
	mem := vfs.NewMem()
	if m, err := format.Read(mem, "SYNCED", 7); m != nil || err != nil {
		t.Fatalf("without a file: %+v, %v", m, err)
	}
	for i := range uint64(5) {
		put(t, mem, &files.Mark{Log: 7, Segment: record.NewSegmentID(1, 0), Offset: 100, Manifest: i})
		if m, err := format.Read(mem, "SYNCED", 7); err != nil || m.Manifest != i || m.Edit != i+1 {
			t.Fatalf("mark %d reads %+v, %v", i, m, err)
		}
		torn := mem.ProcessCrash()
		overwrite(t, torn, []byte("torn"), int64(i%2)*files.SlotBytes+20)
		if m, err := format.Read(torn, "SYNCED", 7); err != nil || i > 0 && (m == nil || m.Manifest != i-1) {
			t.Fatalf("with mark %d torn: %+v, %v", i, m, err)
		}
	}
}

// A mark of another log is passed over beside one of this log, and overwritten next. Where no slot has one of
// this log, it is not: files of two logs are mixed.
func TestMarksOfAnotherLog(t *testing.T) {
	other := testMark()
	other.Log++
	for slot := range int64(2) {
		mem := vfs.NewMem()
		put(t, mem, testMark(), testMark())
		overwrite(t, mem, format.Encode(other), slot*files.SlotBytes)
		if m, err := format.Read(mem, "SYNCED", testMark().Log); err != nil || m == nil || m.Log != testMark().Log || m.Edit != 2-uint64(slot) {
			t.Errorf("in slot %d, beside one of this log: %+v, %v", slot, m, err)
		}
		put(t, mem, testMark())
		if m, err := format.Read(mem, "SYNCED", other.Log); !errors.Is(err, errBad) {
			t.Errorf("in slot %d, it was not overwritten: %+v, %v", slot, m, err)
		}
		for what, beside := range map[string][]byte{"one that is torn": []byte("torn"), "another": format.Encode(other)} {
			overwrite(t, mem, format.Encode(other), slot*files.SlotBytes)
			overwrite(t, mem, beside, (1-slot)*files.SlotBytes)
			if m, err := format.Read(mem, "SYNCED", testMark().Log); !errors.Is(err, errBad) {
				t.Errorf("in slot %d, beside %s: %+v, %v", slot, what, m, err)
			}
			if _, err := format.Open(mem, "SYNCED", testMark().Log); !errors.Is(err, errBad) {
				t.Errorf("in slot %d, beside %s: to be overwritten, %v", slot, what, err)
			}
		}
	}
}

// A mark of a newer version is not passed over, beside one of this log neither.
func TestMarksOfANewerVersion(t *testing.T) {
	for slot := range int64(2) {
		mem := vfs.NewMem()
		put(t, mem, testMark(), testMark())
		overwrite(t, mem, record.SealPadded("copal testmark 2 and something new", files.SlotBytes), slot*files.SlotBytes)
		if m, err := format.Read(mem, "SYNCED", testMark().Log); !errors.Is(err, errBad) {
			t.Errorf("in slot %d: %+v, %v", slot, m, err)
		}
		if _, err := format.Open(mem, "SYNCED", testMark().Log); !errors.Is(err, errBad) {
			t.Errorf("in slot %d: to be overwritten, %v", slot, err)
		}
	}
}

// An error of a read is not taken for a mark that is not there: numbered anew, the next would count as the older one.
func TestMarksReturnErrorsOfReads(t *testing.T) {
	for n := 1; n <= 2; n++ {
		mem := vfs.NewMem()
		put(t, mem, testMark())
		failing := func() vfs.FS { return vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpRead, N: n, Err: errTest}) }
		if m, err := format.Read(failing(), "SYNCED", testMark().Log); !errors.Is(err, errTest) {
			t.Errorf("read %d fails: %+v, %v", n, m, err)
		}
		if _, err := format.Open(failing(), "SYNCED", testMark().Log); !errors.Is(err, errTest) {
			t.Errorf("read %d fails, to write: %v", n, err)
		}
	}
}

// After a write that failed, the next goes to the same slot: the other one has the newest mark.
func TestMarkIsNotLostByAFailedWrite(t *testing.T) {
	mem := vfs.NewMem()
	put(t, mem, testMark())
	w, err := format.Open(vfs.Inject(mem, &vfs.Fault{Kinds: vfs.OpWrite, N: 1, Short: true, Err: errTest}), "SYNCED", testMark().Log)
	check(t, err)
	if err := w.Write(testMark()); !errors.Is(err, errTest) {
		t.Fatal(err)
	}
	if m, err := format.Read(mem, "SYNCED", testMark().Log); err != nil || m == nil || m.Edit != 1 {
		t.Errorf("the write failed, and the mark is %+v, %v", m, err)
	}
	check(t, w.Write(testMark()))
	if m, err := format.Read(mem, "SYNCED", testMark().Log); err != nil || m == nil || m.Edit != 2 {
		t.Errorf("the mark is %+v, %v", m, err)
	}
}

func TestFarther(t *testing.T) {
	near, far := testMark(), testMark()
	far.Offset++
	next := testMark()
	next.Segment, next.Offset = record.NewSegmentID(3, 0), 0
	var none *files.Mark
	for i, pair := range [][2]*files.Mark{{none, near}, {near, far}, {far, next}} {
		if a, b := pair[0].Farther(pair[1]), pair[1].Farther(pair[0]); a != pair[1] || b != pair[1] {
			t.Errorf("pair %d: %+v, %+v", i, a, b)
		}
	}
}

func FuzzMark(f *testing.F) {
	f.Add(format.Encode(testMark()))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} {
			if m, err := format.Parse(b); err == nil {
				if again, err := format.Parse(format.Encode(m)); err != nil || *again != *m {
					t.Fatalf("%q reads %+v and, written and read again, %+v, %v", b, m, again, err)
				}
			}
		}
	})
}
