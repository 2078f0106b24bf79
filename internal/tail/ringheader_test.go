package tail_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/tail"
)

var (
	onePart  = &tail.RingFormat{Title: "testring", Log: "store", ID: "id", Parts: []string{"size"}, Unit: tail.PartUnit, Most: 1 << 30, Acks: true}
	twoParts = &tail.RingFormat{Title: "testring", Log: "log", ID: "ring", Parts: []string{"bytes", "more"}, Unit: tail.PartUnit, Most: 1 << 30}
)

func TestRingHeader(t *testing.T) {
	for _, test := range []struct {
		format *tail.RingFormat
		header tail.RingHeader
		begins string
		head   int64
	}{
		{onePart, tail.RingHeader{Log: 0x77aa00000000beef, ID: 0x5f3a, Sizes: [2]int64{4 << 20}, File: "80f1-6921b3c0.1f"},
			"copal testring 1 store 77aa00000000beef id 0000000000005f3a size 400000 file 80f1-6921b3c0.1f ", 2 * tail.RingLine},
		{twoParts, tail.RingHeader{Log: 1, ID: 2, Sizes: [2]int64{4096, 1024}},
			"copal testring 1 log 0000000000000001 ring 0000000000000002 bytes 1000 more 400 file - ", tail.RingLine},
	} {
		text := test.format.Encode(&test.header)
		if len(text) != tail.RingLine || text[len(text)-1] != '\n' || test.format.Head() != test.head {
			t.Errorf("the header has %d bytes, of %d", len(text), test.format.Head())
		}
		if !strings.HasPrefix(string(text), test.begins) {
			t.Errorf("the header begins with %q", text[:100])
		}
		if h, err := test.format.Parse(text); h != test.header || err != nil {
			t.Errorf("read back: %+v, %v", h, err)
		}
	}
}

// Impossible values make no first line, though the checksum is right.
func TestImpossibleRings(t *testing.T) {
	for what, h := range map[string]tail.RingHeader{
		"no name":                {Log: 1, Sizes: [2]int64{4096, 4096}},
		"an empty part":          {Log: 1, ID: 2, Sizes: [2]int64{4096, 0}},
		"more than there can be": {Log: 1, ID: 2, Sizes: [2]int64{4096, 1<<30 + tail.PartUnit}},
		"no whole blocks":        {Log: 1, ID: 2, Sizes: [2]int64{4097, 4096}},
	} {
		if got, err := twoParts.Parse(twoParts.Encode(&h)); err == nil {
			t.Errorf("%s: read as %+v", what, got)
		}
	}
}

func FuzzRingHeader(f *testing.F) {
	f.Add(onePart.Encode(&tail.RingHeader{Log: 1, ID: 2, Sizes: [2]int64{4096}}))
	f.Add(twoParts.Encode(&tail.RingHeader{Log: 1, ID: 2, Sizes: [2]int64{4096, 8192}, File: "f"}))
	f.Add([]byte("copal testring 2 store 0000000000000001 id 0000000000000001 size 10 file - 00000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []*tail.RingFormat{onePart, twoParts} {
			h, err := format.Parse(text)
			if err == nil && len(text) == tail.RingLine && !bytes.Equal(text, format.Encode(&h)) {
				t.Errorf("there are two ways to write %q", text)
			}
		}
	})
}
