package engine

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

var testSnapshot = &snapshot{
	Coverage: seglog.Coverage{Store: 0x77aa00000000beef, Seq: 0x1f00, Time: 0x19a8c3d2e10, Tail: 1, TailCRC: 0x1f0c9a3e, Segments: []seglog.CoveredSegment{
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(1, 2), Salt: 0x5f3a91c2d4e5f607, Bytes: 4000321, Records: 0x1e00, First: 1, Last: 0x1e00}, Dead: 0x2f0},
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(2, 0), Salt: 1, Bytes: 300, Records: 0x100, First: 0x1e01, Last: 0x1f00}},
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(3, 0), Salt: 2}},
	}},
	Reach:   0x1f02,
	Schemas: []snapshotSchema{{1, Schema{Codec: "json", Text: `struct{"a b" string}`}}, {2, Schema{Codec: "x", Text: "\x00\xff\n ü"}}},
	Tables: []snapshotTable{
		{Kind: rawKind, Order: &snapshotOrder{By: "bytes", Declared: true}},
		{Kind: elementsKind},
		{Kind: mapKind, Declared: true, Name: "users", Order: &snapshotOrder{"int", false, true, 0x19a8c3d2e10, []uint64{1, 0x5f3a91c2d4e5f607}}, Due: []snapshotDue{{Shard: 0x2f, Offset: 0x80, Items: 3, First: 9, CRC: 5}}, Parts: []snapshotPart{
			{Shard: 0, Offset: 0xb0, Entries: 3, CRC: 7, Schemas: []index.SchemaCount{{Schema: 0, Entries: 1}, {Schema: 2, Entries: 2}}},
			{Shard: 63, Offset: 0xd4, Entries: 16, CRC: 0, Schemas: []index.SchemaCount{{Schema: 1, Entries: 16}}},
		}},
		{Space: 7, Kind: mapKind, Name: ""},
	},
	Other: []string{"something newer"},
}

const testSnapshotText = `copal index 1
store 77aa00000000beef seq 1f00 time 19a8c3d2e10 reach 1f02 tail 1 crc 1f0c9a3e
segment 1-2 salt 5f3a91c2d4e5f607 bytes 3d0a41 records 1e00 first 1 last 1e00 dead 2f0
segment 2 salt 0000000000000001 bytes 12c records 100 first 1e01 last 1f00 dead 0
segment 3 salt 0000000000000002 bytes 0 records 0 first 0 last 0 dead 0
schema 1 "json" "struct{\"a b\" string}"
schema 2 "x" "\x00\xff\n \u00fc"
table 0 raw declared 0 name ` + `
ordered bytes declared 1 built 0 clock 0 runs -
table 0 elements declared 0 name ` + `
table 0 map declared 1 name users
ordered int declared 0 built 1 clock 19a8c3d2e10 runs 0000000000000001,5f3a91c2d4e5f607
due 2f offset 80 items 3 first 9 crc 00000005
part 0 offset b0 entries 3 crc 00000007 schemas 0:1,2:2
part 3f offset d4 entries 10 crc 00000000 schemas 1:10
table 7 map declared 0 name ` + `
something newer
end `

func TestSnapshotText(t *testing.T) {
	b := testSnapshot.encode()
	if text := string(b[:len(b)-9]); text != testSnapshotText {
		t.Errorf("it is written\n%s", text)
	}
	if got, err := parseSnapshot(b); err != nil || !reflect.DeepEqual(got, testSnapshot) {
		t.Errorf("it reads %+v, %v", got, err)
	}
	title := snapshotTitle(0x77aa00000000beef, 0x1f00, 0x2f0)
	if want := "copal index 1 store 77aa00000000beef text 1f00 bytes 2f0  "; len(title) != snapshotHead || !bytes.HasPrefix(title, []byte(want)) {
		t.Errorf("%d bytes: %q", len(title), title)
	}
}

// TestImpossibleSnapshots gives texts with a valid checksum that no writer makes.
func TestImpossibleSnapshots(t *testing.T) {
	for old, now := range map[string]string{
		"reach 1f02":             "reach 1eff",
		"tail 1":                 "tail 3",
		"crc 1f0c9a3e":           "crc 1F0c9a3e",
		"segment 2 ":             "segment 1-2 ",
		"bytes 12c":              "bytes 100000001",
		"last 1f00 ":             "last 1f01 ",
		"schema 2 ":              "schema 1 ",
		`"x" `:                   `x `,
		`\u00fc"`:                `ü"`,
		"table 0 raw declared 0": "table 0 raw declared 1",
		"elements declared":      "other declared",
		"table 7 map":            "table 0 elements",
		"items 3":                "items 0",
		"due 2f offset 80":       "due 2f offset 7f",
		"due 2f offset 80 items 3 first 9 crc 00000005\n": "due 2f offset 80 items 3 first 9 crc 00000005\ndue 2f offset 80 items 3 first 9 crc 00000005\n",
		"built 0":         "built 2",
		"built 1":         "built 0",
		"runs -":          "runs ",
		"runs 0000":       "runs 000",
		"f607\n":          "f607,0000000000000003\n",
		"due 2f ":         "ordered int declared 0 built 0 clock 0 runs -\ndue 2f ",
		"part 0 ":         "ordered int declared 0 built 0 clock 0 runs -\npart 0 ",
		"part 3f":         "part 0",
		"part 3f ":        "part 40 ",
		"entries 10":      "entries 11",
		"schemas 1:10":    "schemas 1:0,2:10",
		"something newer": "Something newer",
		"end ":            "",
	} {
		text := strings.Replace(testSnapshotText, old, now, 1)
		if text == testSnapshotText {
			t.Fatalf("%q is not there", old)
		}
		if _, err := parseSnapshot(record.Seal([]byte(strings.TrimSuffix(text, " ")))); !errors.Is(err, record.ErrSyntax) && !errors.Is(err, record.ErrVersion) {
			t.Errorf("%q for %q: %v", now, old, err)
		}
	}
}

func FuzzSnapshotText(f *testing.F) {
	f.Add(testSnapshot.encode())
	f.Add([]byte(testSnapshotText + "x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} {
			x, err := parseSnapshot(b)
			if err != nil {
				continue
			}
			again, err := parseSnapshot(x.encode())
			if err != nil || !reflect.DeepEqual(again, x) {
				t.Fatalf("%q reads %+v and, written and read again, %+v, %v", b, x, again, err)
			}
		}
	})
}

// FuzzSnapshot opens a store with any bytes as its snapshot: it holds what it held, or with a text that somebody has sealed
// anew, whatever that says; but it returns.
func FuzzSnapshot(f *testing.F) {
	x := newIndexed(f, true)
	good := logtest.Read(f, x.mem, seglog.SnapshotName)
	f.Add(good)
	f.Add(x.old)
	f.Add([]byte("copal index 1"))
	_, at, _, err := parseSnapshotTitle(good[:snapshotHead])
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		image := x.mem.ProcessCrash()
		logtest.Write(t, image, seglog.SnapshotName, b)
		x.holds(t, image, "fuzzed")

		// The blocks as they were, and any text.
		text := record.Seal(append([]byte(record.Title("index")+"\n"), b...))
		forged := append(append(snapshotTitle(0, at, int64(len(text))), good[snapshotHead:at]...), text...)
		image = x.mem.ProcessCrash()
		logtest.Write(t, image, seglog.SnapshotName, forged)
		s, err := Open("db", testOptions(image))
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		for key := range x.content {
			s.Get(nil, []byte(key))
		}
		s.Close()
	})
}

// TestSnapshotKeepsDeadlines: what is to expire does so after the store was opened from a snapshot, at the same moment.
func TestSnapshotKeepsDeadlines(t *testing.T) {
	for _, died := range []bool{false, true} {
		mem, clock := vfs.NewMem(), logtest.NewClock()
		withClock := func(o *Options) { o.Clock = clock }
		s := mustOpen(t, mem, withClock)
		users, err := s.Map("users")
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string, life time.Duration) {
			t.Helper()
			w := &Write{Key: []byte("users:" + key), Value: []byte("x"), Durability: Process}
			if life > 0 {
				if w.Expiry, err = s.Deadline(life); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Write(users, w); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			put(fmt.Sprint(i), time.Duration(i)*time.Minute) // 0 stays
		}
		if died {
			snapshotNow(t, s)
			put("1", time.Hour*3)
			put("2", 0)
			put("new", 5*time.Minute)
			mem = mem.ProcessCrash()
		} else {
			mustClose(t, s)
		}
		clock.Advance(50*time.Minute - time.Millisecond)
		want := 51 // 0 and 50 to 99
		if died {
			want += 2
		}
		s = mustOpen(t, mem, withClock)
		users = s.spaces[0].maps["users"]
		if n := users.Len(); n != want {
			t.Errorf("died: %v: %d entries, want %d", died, n, want)
		}
		clock.Advance(time.Millisecond)
		if n := users.Len(); n != want-1 {
			t.Errorf("died: %v: %d entries after another, want %d", died, n, want-1)
		}
		recounted(t, s)
		mustClose(t, s)
		good := logtest.Read(t, mem, seglog.SnapshotName)
		for bit := 0; bit < len(good)*8; bit += 37 { // the queue included
			image, bad := mem.ProcessCrash(), bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			logtest.Write(t, image, seglog.SnapshotName, bad)
			s := mustOpen(t, image, withClock)
			if n := s.spaces[0].maps["users"].Len(); n != want-1 {
				t.Fatalf("died: %v: bit %d: %d entries, want %d", died, bit, n, want-1)
			}
			recounted(t, s)
			if n := s.spaces[0].maps["users"].Len(); n != want-1 {
				t.Fatalf("died: %v: bit %d: %d entries after a look at them, want %d", died, bit, n, want-1)
			}
			mustClose(t, s)
		}
	}
}
