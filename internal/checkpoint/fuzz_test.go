package checkpoint

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/index"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
)

var testSnapshot = &Index{
	Coverage: seglog.Coverage{Store: 0x77aa00000000beef, Seq: 0x1f00, Time: 0x19a8c3d2e10, Tail: 1, TailCRC: 0x1f0c9a3e, Segments: []seglog.CoveredSegment{
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(1, 2), Salt: 0x5f3a91c2d4e5f607, Bytes: 4000321, Records: 0x1e00, First: 1, Last: 0x1e00}, Dead: 0x2f0},
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(2, 0), Salt: 1, Bytes: 300, Records: 0x100, First: 0x1e01, Last: 0x1f00}},
		{ManifestSegment: seglog.ManifestSegment{ID: record.NewSegmentID(3, 0), Salt: 2}},
	}},
	Reach:   0x1f02,
	Schemas: []Schema{{1, "json", `struct{"a b" string}`}, {2, "x", "\x00\xff\n ü"}},
	Tables: []Table{
		{Kind: Raw, Declared: true, Keys: "bytes", Ordered: true, Order: &Order{By: "bytes"}},
		{Kind: Elements},
		{Kind: Map, Declared: true, Keys: "int", Expiry: true, Name: "users", Order: &Order{"int", true, 0x19a8c3d2e10, []uint64{1, 0x5f3a91c2d4e5f607}}, Due: []Due{{Shard: 0x2f, Offset: 0x100, Items: 3, First: 9, CRC: 5}}, Parts: []Part{
			{Shard: 0, Offset: 0x130, Entries: 3, CRC: 7, Schemas: []index.SchemaCount{{Schema: 0, Entries: 1}, {Schema: 2, Entries: 2}}},
			{Shard: 63, Offset: 0x154, Entries: 16, CRC: 0, Schemas: []index.SchemaCount{{Schema: 1, Entries: 16}}},
		}},
		{Space: 7, Kind: Map, Name: ""},
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
table 0 raw declared 1 keys bytes ordered 1 expiry 0 name ` + `
ordered bytes built 0 clock 0 runs -
table 0 elements declared 0 keys - ordered 0 expiry 0 name ` + `
table 0 map declared 1 keys int ordered 0 expiry 1 name users
ordered int built 1 clock 19a8c3d2e10 runs 0000000000000001,5f3a91c2d4e5f607
due 2f offset 100 items 3 first 9 crc 00000005
part 0 offset 130 entries 3 crc 00000007 schemas 0:1,2:2
part 3f offset 154 entries 10 crc 00000000 schemas 1:10
table 7 map declared 0 keys - ordered 0 expiry 0 name ` + `
something newer
end `

func TestText(t *testing.T) {
	b := testSnapshot.Encode()
	if text := string(b[:len(b)-9]); text != testSnapshotText {
		t.Errorf("it is written\n%s", text)
	}
	if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, testSnapshot) {
		t.Errorf("it reads %+v, %v", got, err)
	}
	title := Title(0x77aa00000000beef, 0x1f00, 0x2f0)
	if want := "copal index 1 store 77aa00000000beef text 1f00 bytes 2f0  "; len(title) != Head || !bytes.HasPrefix(title, []byte(want)) {
		t.Errorf("%d bytes: %q", len(title), title)
	}
}

// TestImpossibleTexts gives texts with a valid checksum that no writer makes.
func TestImpossibleTexts(t *testing.T) {
	for old, now := range map[string]string{
		"reach 1f02":         "reach 1eff",
		"tail 1":             "tail 3",
		"crc 1f0c9a3e":       "crc 1F0c9a3e",
		"segment 2 ":         "segment 1-2 ",
		"bytes 12c":          "bytes 100000001",
		"last 1f00 ":         "last 1f01 ",
		"schema 2 ":          "schema 1 ",
		`"x" `:               `x `,
		`\u00fc"`:            `ü"`,
		"raw declared 1":     "raw declared 0",
		"keys bytes ordered": "keys - ordered",
		"keys int ordered 0": "keys int ordered 2",
		"elements declared":  "other declared",
		"table 7 map":        "table 0 elements",
		"items 3":            "items 0",
		"due 2f offset 100":  "due 2f offset ff",
		"due 2f offset 100 items 3 first 9 crc 00000005\n": "due 2f offset 100 items 3 first 9 crc 00000005\ndue 2f offset 100 items 3 first 9 crc 00000005\n",
		"built 0":         "built 2",
		"built 1":         "built 0",
		"runs -":          "runs ",
		"runs 0000":       "runs 000",
		"f607\n":          "f607,0000000000000003\n",
		"due 2f ":         "ordered int built 0 clock 0 runs -\ndue 2f ",
		"part 0 ":         "ordered int built 0 clock 0 runs -\npart 0 ",
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
		if _, err := Parse(record.Seal([]byte(strings.TrimSuffix(text, " ")))); !errors.Is(err, record.ErrSyntax) && !errors.Is(err, record.ErrVersion) {
			t.Errorf("%q for %q: %v", now, old, err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(testSnapshot.Encode())
	f.Add([]byte(testSnapshotText + "x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range [][]byte{text, record.Seal(bytes.Clone(text))} {
			x, err := Parse(b)
			if err != nil {
				continue
			}
			again, err := Parse(x.Encode())
			if err != nil || !reflect.DeepEqual(again, x) {
				t.Fatalf("%q reads %+v and, written and read again, %+v, %v", b, x, again, err)
			}
		}
	})
}
