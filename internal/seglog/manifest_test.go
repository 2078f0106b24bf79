package seglog

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/copaldb/copal/internal/files"
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
	Indexes: []ManifestIndex{{Number: 2, Seq: 0x1f00, Time: 0x19a8c3d2e10, Bytes: 0x4021, CRC: 0x1f0c9a3e}},
	Writing: &Writing{Ring: 0x9a3e, Cache: "boot/2a", File: "80f1-6920.1f"},
	History: &History{Seq: 0x1f, Time: 0x19a8c3d2e11, Keep: 0x240c8400, Bytes: 0x40000000},
	Other:   []string{"later something"},
}

const testManifestText = `copal manifest 1
store 77aa00000000beef created 19a8c3d2e10 edit 3 floor 9
sealed 1-2 salt 0000000000000005 bytes 4000321 records 1f00 first 1 last 1f00
sealed 3 salt 0000000000000006 bytes 63 records 0 first 0 last 0
open 4 salt 0000000000000007 bytes 1f00 records 2 first 1f01 last 1f02
open 5 salt 0000000000000008 bytes 5a records 0 first 0 last 0
index 2 seq 1f00 time 19a8c3d2e10 bytes 4021 crc 1f0c9a3e
writing 0000000000009a3e cache boot/2a file 80f1-6920.1f
history 1f time 19a8c3d2e11 for 240c8400 bytes 40000000
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
		head + "writing 0000000000009a3e cache  file -\nend":                                                                                           record.ErrSyntax,
		head + "writing 9a3e cache - file -\nend":                                                                                                      record.ErrSyntax,
		head + "history 1 time 1 for ever\nhistory 1 time 1 for ever\nend":                                                                             record.ErrSyntax,
		head + "history 1 time 1 for ffffffffffffffff\nend":                                                                                            record.ErrSyntax,
		head + "history 1 time 1 for ever bytes 0\nend":                                                                                                record.ErrSyntax,
		head + "history 1 time 1 for ever bytes 8000000000000000\nend":                                                                                 record.ErrSyntax,
		head + "history 1 time 1 for ever bytes ever\nend":                                                                                             record.ErrSyntax,
		head + "history 1 time 1 for ever bytes 05\nend":                                                                                               record.ErrSyntax,
		head + "history 1 time 1 bytes 5 for ever\nend":                                                                                                record.ErrSyntax,
		head + "index 1 seq 1 time 1 bytes 1 crc 0000001\nend":                                                                                         record.ErrSyntax,
		head + "index 1 seq 1 time 1 bytes 0 crc 00000001\nend":                                                                                        record.ErrSyntax,
		head + "index 1 seq 1 time 1 bytes ffffffffffffffff crc 00000001\nend":                                                                         record.ErrSyntax,
		head + "index 0 seq 1 time 1 bytes 1 crc 00000001\nend":                                                                                        record.ErrSyntax,
		head + "index 2 seq 1 time 1 bytes 1 crc 00000001\nend":                                                                                        record.ErrSyntax,
		head + "index 1 time 1 bytes 1 crc 00000001\nend":                                                                                              record.ErrSyntax,
		head + "index 1 seq 1 time 1 bytes 1 crc 00000001\nindex 1 seq 1 time 1 bytes 1 crc 00000001\nend":                                             record.ErrSyntax,
		head + "history 1 time 1\nend":                                                                                                                 record.ErrSyntax,
		"copal manifest 1\nend":                                                                                                                        record.ErrSyntax,
		"copal log 1 x":                                                                                                                                record.ErrSyntax,
	} {
		if m, err := parseManifest(record.Seal([]byte(text))); !errors.Is(err, want) {
			t.Errorf("%q reads %+v, %v; want %v", text, m, err, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(testManifest.Encode())
	f.Add(record.Seal([]byte(testManifestText + "x")))
	forever := testManifest
	for _, forever.History = range []*History{{Keep: Forever}, {Keep: Forever, Bytes: 1}, {Bytes: math.MaxInt64}} {
		f.Add(forever.Encode())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} { // unchanged, and with a checksum
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
	m := files.Mark{Log: 0x77aa00000000beef, Edit: 5, Segment: record.NewSegmentID(2, 0), Offset: 0x1f00, Seq: 0x2f, Manifest: 3}
	b := marks.Encode(&m)
	if want := "copal synced 1 store 77aa00000000beef edit 5 manifest 3 segment 2 offset 1f00 seq 2f sync good  "; len(b) != files.SlotBytes || !bytes.HasPrefix(b, []byte(want)) {
		t.Errorf("%d bytes: %q", len(b), b)
	}
	for offset, want := range map[int64]error{0: nil, MaxSegmentBytes: nil, MaxSegmentBytes + 1: record.ErrSyntax, -1: record.ErrSyntax} {
		m.Offset = offset
		if got, err := marks.Parse(marks.Encode(&m)); !errors.Is(err, want) {
			t.Errorf("at offset %x: reads %+v, %v", offset, got, err)
		}
	}
}

// Marks of other stores are damage, unless one is of this store.
func TestMarkOfAnotherStore(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	w, err := marks.Open(mem, "db/"+MarkName, 7)
	if err == nil {
		err = errors.Join(w.Write(&files.Mark{Log: 7, Segment: 1 << 32}), w.Write(&files.Mark{Log: 8, Segment: 1 << 32}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []uint64{7, 8} {
		if m, err := ReadMark(mem, "db", store); err != nil || m == nil || m.Log != store {
			t.Errorf("of store %d: %+v, %v", store, m, err)
		}
	}
	var where *CorruptError
	if m, err := ReadMark(mem, "db", 9); m != nil || !errors.As(err, &where) || where.File != "db/"+MarkName {
		t.Errorf("of store 9: %+v, %v", m, err)
	}
}

// A file that the platform does not name may be a copy, which knows nothing of the cache.
func TestSameCache(t *testing.T) {
	for _, x := range []struct {
		writing    Writing
		file, life string
		want       bool
	}{
		{Writing{Cache: "life", File: "a"}, "a", "life", true},
		{Writing{Cache: "life", File: "a"}, "b", "life", false},
		{Writing{Cache: "life", File: "a"}, "a", "other", false},
		{Writing{Cache: "", File: "a"}, "a", "", false},
		{Writing{Cache: "life", File: ""}, "", "life", false},
	} {
		if m := (&Manifest{Writing: &x.writing, file: x.file}); m.SameCache(x.life) != x.want {
			t.Errorf("%+v, read from file %q in life %q: %v", x.writing, x.file, x.life, !x.want)
		}
	}
}
