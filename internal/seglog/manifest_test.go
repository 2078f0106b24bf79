package seglog

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

var testManifest = Manifest{
	Store: 0x77aa00000000beef, Created: 0x19a8c3d2e10, Edit: 3, Floor: 9,
	Segments: []ManifestSegment{
		{ID: record.NewSegmentID(1, 2), Salt: 5, Sealed: true, Bytes: 0x4000321, Records: 0x1f00, First: 1, Last: 0x1f00},
		{ID: record.NewSegmentID(3, 0), Salt: 6, Sealed: true, Bytes: 99},
		{ID: record.NewSegmentID(4, 0), Salt: 7, Bytes: 0x1f00, Records: 2, First: 0x1f01, Last: 0x1f02},
		{ID: record.NewSegmentID(5, 0), Salt: 8, Bytes: 0x5a},
	},
	Writing: &Writing{Ring: 0x9a3e, Cache: "boot/2a", File: "80f1-6920.1f"},
	Other:   []string{"later something"},
}

const testManifestText = `copal manifest 1
store 77aa00000000beef created 19a8c3d2e10 edit 3 floor 9
sealed 1-2 salt 0000000000000005 bytes 4000321 records 1f00 first 1 last 1f00
sealed 3 salt 0000000000000006 bytes 63 records 0 first 0 last 0
open 4 salt 0000000000000007 bytes 1f00 records 2 first 1f01 last 1f02
open 5 salt 0000000000000008 bytes 5a records 0 first 0 last 0
writing 0000000000009a3e cache boot/2a file 80f1-6920.1f
later something
end `

func TestManifestText(t *testing.T) {
	text := testManifest.Encode()
	if !bytes.HasPrefix(text, []byte(testManifestText)) || len(text) != len(testManifestText)+9 {
		t.Errorf("the manifest is\n%s\nwant\n%s", text, testManifestText)
	}
	m, err := parseManifest(text)
	if err != nil || !reflect.DeepEqual(m, &testManifest) {
		t.Errorf("reads %+v, %v", m, err)
	}
}

// TestManifestRefuses gives manifests with a valid checksum that no writer makes.
func TestManifestRefuses(t *testing.T) {
	head := "copal manifest 1\nstore 77aa00000000beef created 1 edit 1 floor 0\n"
	for text, want := range map[string]error{
		"copal manifest 2\nanything at all\nend":                                       record.ErrVersion,
		head + "Later something\nend":                                                  record.ErrVersion,
		head + "open 1 salt 5 bytes 63 records 0 first 0 last 0\nend":                  record.ErrSyntax,
		head + "open 1 salt 0000000000000005 bytes 63 records 0 first 0 last 0 x\nend": record.ErrSyntax,
		head + "open 2 salt 0000000000000005 bytes 63 records 0 first 0 last 0\nopen 1 salt 0000000000000005 bytes 63 records 0 first 0 last 0\nend":   record.ErrSyntax,
		head + "open 1 salt 0000000000000005 bytes 63 records 0 first 0 last 0\nsealed 2 salt 0000000000000005 bytes 63 records 0 first 0 last 0\nend": record.ErrSyntax,
		head + "sealed 2 salt 0000000000000005 bytes 0 records 0 first 0 last 0\nend":                                                                  record.ErrSyntax,
		head + "sealed 2 salt 0000000000000005 bytes ffffffffffffffff records 0 first 0 last 0\nend":                                                   record.ErrSyntax,
		head + "sealed 2 salt 0000000000000005 bytes 63 records 1 first 2 last 1\nend":                                                                 record.ErrSyntax,
		head + "open 1 salt 0000000000000005 bytes 63 records 0 first 0 last 0":                                                                        record.ErrSyntax,
		head + "open 1 salt 0000000000000005\nend":                                                                                                     record.ErrSyntax,
		head + "writing 0000000000009a3e cache - file -\nwriting 0000000000009a3e cache - file -\nend":                                                 record.ErrSyntax,
		head + "writing 9a3e cache - file -\nend":                                                                                                      record.ErrSyntax,
		"copal manifest 1\nend": record.ErrSyntax,
		"copal log 1 x":         record.ErrSyntax,
	} {
		if m, err := parseManifest(record.Seal([]byte(text))); !errors.Is(err, want) {
			t.Errorf("%q reads %+v, %v; want %v", text, m, err, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(testManifest.Encode())
	f.Add(record.Seal([]byte(testManifestText + "x")))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} { // as it is, and with a checksum
			m, err := parseManifest(b)
			if err != nil {
				continue
			}
			again, err := parseManifest(m.Encode())
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%q reads %+v and, written and read again, %+v, %v", b, m, again, err)
			}
		}
	})
}

func TestMarkText(t *testing.T) {
	m := Mark{Store: 0x77aa00000000beef, Edit: 5, Segment: record.NewSegmentID(2, 0), Offset: 0x1f00, Seq: 0x2f, Manifest: 3}
	b := m.encode()
	if want := "copal synced 1 store 77aa00000000beef edit 5 manifest 3 segment 2 offset 1f00 seq 2f sync good  "; len(b) != MarkSlot || !bytes.HasPrefix(b, []byte(want)) {
		t.Errorf("%d bytes: %q", len(b), b)
	}
	if got, err := parseMark(b); err != nil || *got != m {
		t.Errorf("reads %+v, %v", got, err)
	}
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := parseMark(b); err == nil {
			t.Fatalf("bit %d of byte %d flipped reads %+v", bit%8, bit/8, got)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	m.Failed = true
	if got, err := parseMark(m.encode()); err != nil || *got != m {
		t.Errorf("of a failed sync: reads %+v, %v", got, err)
	}
}

// TestMarksTakeTurns writes marks and damages the newest: the one before it counts.
func TestMarksTakeTurns(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		w, err := OpenMarker(mem, "db") // each time anew: what is on the disk decides
		if err == nil {
			err = w.Write(&Mark{Store: 7, Segment: record.NewSegmentID(1, 0), Offset: 100, Seq: 9, Manifest: i})
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, err := ReadMark(mem, "db", 7); err != nil || m.Manifest != i || m.Edit != i+1 {
			t.Fatalf("mark %d reads %+v, %v", i, m, err)
		}
		if m, err := ReadMark(mem, "db", 8); m != nil || !errors.Is(err, ErrCorrupt) {
			t.Fatalf("the mark of another store: %+v, %v", m, err)
		}
		torn := mem.ProcessCrash()
		f, err := torn.Open("db/"+MarkName, vfs.ReadWrite)
		if err == nil {
			_, err = f.WriteAt([]byte("torn"), int64(i%2)*MarkSlot+20)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := ReadMark(torn, "db", 7); i > 0 && (m == nil || m.Manifest != i-1) {
			t.Fatalf("with mark %d torn: %+v", i, m)
		}
	}
}

func FuzzMark(f *testing.F) {
	m := Mark{Store: 1, Segment: record.NewSegmentID(1, 0), Offset: 9, Seq: 3, Manifest: 7}
	f.Add(m.encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} {
			if m, err := parseMark(b); err == nil {
				if again, err := parseMark(m.encode()); err != nil || *again != *m {
					t.Fatalf("%q reads %+v and, written and read again, %+v, %v", b, m, again, err)
				}
			}
		}
	})
}
