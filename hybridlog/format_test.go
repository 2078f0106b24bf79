package hybridlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/tail"
)

// The golden bytes of docs/hybridlog-format.md.
func TestGoldenFormat(t *testing.T) {
	m := &framer{seal: newSeal(0xd4e5f6071f0c9a3e, 0x2000)}
	frames := m.add(nil, []byte("hello"), nil)
	frames = m.add(frames, bytes.Repeat([]byte("x"), 5000), make([]uint32, 2))
	got := []string{hex.EncodeToString(frames[:16]), hex.EncodeToString(frames[16:32]), hex.EncodeToString(frames[32:48])}
	if golden := []string{"80000000000000059a71bb4cbd744b46", "00000000000010007707fba215dd090e", "800000000000138d8a1f3b049561a30d"}; !slices.Equal(got, golden) {
		t.Errorf("frames %q, want %q", got, golden)
	}
	id := record.NewSegmentID(2, 0)
	s := &segment{salt: 0xd4e5f6071f0c9a3e}
	s.begin(0x2000)
	if got := hex.EncodeToString(s.beginning()); got != "00000000000020000f868f1500000000" {
		t.Errorf("beginning %s", got)
	}
	sealed := manifestSegment{id: record.NewSegmentID(1, 0), salt: 0x1f0c9a3e5f3a91c2, sealed: true, bytes: 0x2000, frames: 0x12}
	texts := map[string]string{
		string((&manifest{log: 0x5f3a91c2d4e5f607, edit: 3, begin: 0, first: 0x10, trimmed: trimPlace{place{0x10, 1}, 0x1f0c9a3e}, running: true, ring: 0x77aa00000000beef, cache: "0f3c/2a", file: "1f-6f12.2a", segments: []manifestSegment{
			sealed, {id: id, salt: 0xd4e5f6071f0c9a3e, bytes: 0x138d, frames: 3, sum: 0x8a1f3b04}}}).encode()): "copal hybridlog 1 log 5f3a91c2d4e5f607 edit 3 begin 0 first 10 trimmed 10 frames 1 sum 1f0c9a3e running ring 77aa00000000beef spent 0000000000000000 cache 0f3c/2a file 1f-6f12.2a sealed 1 salt 1f0c9a3e5f3a91c2 start 0 bytes 2000 frames 12 open 2 salt d4e5f6071f0c9a3e bytes 138d frames 3 sum 8a1f3b04 end 6bc31def",
		string((&manifest{log: 0x5f3a91c2d4e5f607, edit: 4, begin: 0, spent: 0x77aa00000000beef, segments: []manifestSegment{sealed}}).encode()):       "copal hybridlog 1 log 5f3a91c2d4e5f607 edit 4 begin 0 first 0 trimmed 0 frames 0 sum 00000000 closed spent 77aa00000000beef sealed 1 salt 1f0c9a3e5f3a91c2 start 0 bytes 2000 frames 12 end 1c156803",
		string((&sumsHeader{log: 0x5f3a91c2d4e5f607, id: id, salt: 0xd4e5f6071f0c9a3e}).encode()):                                                      "copal hybridsums 1 log 5f3a91c2d4e5f607 segment 2 salt d4e5f6071f0c9a3e 1424dbb2",
		string(marks.Encode(&files.Mark{Log: 0x5f3a91c2d4e5f607, Edit: 5, Manifest: 3, Segment: id, Offset: 0x138d, Seq: 3})):                          "copal hybridmark 1 log 5f3a91c2d4e5f607 edit 5 manifest 3 segment 2 end 138d frames 3 sync good 831407e4",
		string(rings.Encode(&tail.RingHeader{Log: 0x5f3a91c2d4e5f607, ID: 0x77aa00000000beef, Sizes: [2]int64{4 << 20, 1 << 20}, File: "20-6f12.2b"})): "copal hybridring 1 log 5f3a91c2d4e5f607 ring 77aa00000000beef bytes 400000 frames 100000 file 20-6f12.2b 9ccd6cf6",
	}
	for text, want := range texts {
		if squeezed := strings.Join(strings.Fields(text), " "); squeezed != want {
			t.Errorf("got  %q\nwant %q", squeezed, want)
		}
	}
}

// Every flipped bit of a frame, and every other place, is no frame.
func TestFrameBits(t *testing.T) {
	s := newSeal(1, 2)
	f := frame{end: 4097, entry: true, sum: 0x12345678}
	b := s.appendFrame(nil, 7, f)
	if got, err := s.parseFrame(b, 7, 4096); err != nil || got != f {
		t.Fatalf("read back: %+v, %v", got, err)
	}
	for i := range len(b) * 8 {
		x := slices.Clone(b)
		x[i/8] ^= 1 << (i % 8)
		if _, err := s.parseFrame(x, 7, 4096); err == nil {
			t.Errorf("bit %d flipped: still a frame", i)
		}
	}
	for name, err := range map[string]error{
		"another number":  parseError(s, b, 8, 4096),
		"another segment": parseError(newSeal(2, 2), b, 7, 4096),
		"another start":   parseError(newSeal(1, 3), b, 7, 4096),
		"another block":   parseError(s, b, 7, 4000),
		"nothing in it":   parseError(s, b, 7, 4097),
		"cut":             parseError(s, b[:15], 7, 4096),
		"zeros":           parseError(s, make([]byte, 16), 0, 0),
		"no end":          parseError(s, s.appendFrame(nil, 7, frame{end: 4097, sum: 1}), 7, 4096),
	} {
		if err == nil {
			t.Errorf("%s: still a frame", name)
		}
	}
}

func parseError(s seal, b []byte, n, begin int64) error {
	_, err := s.parseFrame(b, n, begin)
	return err
}

// The frames of entries are the same however the bytes are summed, and the sums are those of the blocks.
func TestFramer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	m := &framer{seal: newSeal(9, 0)}
	sums := make([]uint32, 100)
	var all, frames []byte
	for len(all) < 90*blockBytes {
		p := text(len(all), 1+rng.IntN([]int{10, 300, 9000}[rng.IntN(3)]))
		before := m.slot
		frames = m.add(frames, p, sums)
		if n := m.slot - before; n > framesFor(int64(len(all)), len(p)) {
			t.Fatalf("%d frames for %d bytes at %d", n, len(p), len(all))
		}
		all = append(all, p...)
	}
	for b := range len(all) / blockBytes {
		if got := sumOf(all[b*blockBytes:][:blockBytes]); sums[b] != got {
			t.Fatalf("block %d has sum %x, want %x", b, sums[b], got)
		}
	}
	if int64(len(frames)) != m.slot*frameBytes {
		t.Errorf("%d bytes of %d frames", len(frames), m.slot)
	}
}

func sumOf(p []byte) uint32 {
	m := &framer{}
	m.part(nil, p[:len(p)-1], nil)
	b := m.add(nil, p[len(p)-1:], nil)
	f, _ := seal(0).parseFrame(b, 0, int64(len(p))-1)
	return f.sum
}

// A newer version is not taken for damage.
func TestNewerVersions(t *testing.T) {
	for what, parse := range map[string]func([]byte) error{
		"hybridlog":  func(b []byte) error { _, err := parseManifest(b); return err },
		"hybridsums": func(b []byte) error { _, err := parseSumsHeader(b); return err },
		"hybridmark": func(b []byte) error { _, err := marks.Parse(b); return err },
		"hybridring": func(b []byte) error { _, err := rings.Parse(b); return err },
	} {
		err := bad("file", 0, parse(record.Seal([]byte("copal "+what+" 2 and something new"))))
		if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if err := bad("file", 0, parse([]byte("copal "+what))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s cut: %v", what, err)
		}
	}
}

// The platform's name for a file may not fit into a line. Then it is unknown.
func TestNamesUnfitForALine(t *testing.T) {
	for _, name := range []string{"two words", "a line\n", strings.Repeat("x", tail.RingLine)} {
		line := manifestSegment{id: record.NewSegmentID(2, 0), salt: 2}
		m, err := parseManifest((&manifest{log: 1, edit: 2, running: true, cache: name, file: name, segments: []manifestSegment{line}}).encode())
		if err != nil || m.cache != "" || m.file != "" {
			t.Errorf("%.10q: the manifest reads %+v, %v", name, m, err)
		}
		text := rings.Encode(&tail.RingHeader{Log: 1, ID: 2, Sizes: [2]int64{4096, 4096}, File: name})
		if h, err := rings.Parse(text); err != nil || h.File != "" || len(text) != tail.RingLine {
			t.Errorf("%.10q: the first line of the ring reads %+v, %v", name, h, err)
		}
	}
}

// Impossible values make no manifest, though the checksum is right.
func TestImpossibleManifests(t *testing.T) {
	sealed := manifestSegment{id: record.NewSegmentID(1, 0), salt: 1, sealed: true, bytes: 5000, frames: 7}
	open := manifestSegment{id: record.NewSegmentID(2, 0), salt: 2, bytes: 4, frames: 1, sum: 9}
	good := func() *manifest {
		return &manifest{log: 1, edit: 2, first: 30, trimmed: trimPlace{place{30, 2}, 5}, running: true, segments: []manifestSegment{sealed, open}}
	}
	if _, err := parseManifest(good().encode()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *manifest){
		"no segment":                  func(m *manifest) { m.segments = nil },
		"closed with an open segment": func(m *manifest) { m.running = false },
		"running without one":         func(m *manifest) { m.segments = m.segments[:1] },
		"a segment twice":             func(m *manifest) { m.segments[1].id = sealed.id },
		"sealed after an open one":    func(m *manifest) { m.segments[0], m.segments[1] = m.segments[1], m.segments[0] },
		"a gap":                       func(m *manifest) { m.segments[0].start = 1 },
		"more frames than bytes":      func(m *manifest) { m.segments[0].frames = 5001 },
		"first before begin":          func(m *manifest) { m.begin, m.segments[0].start = 31, 31 },
		"trimmed behind first":        func(m *manifest) { m.trimmed.end = 31 },
		"trimmed without frames":      func(m *manifest) { m.trimmed.frames = 0 },
		"frames without trimmed":      func(m *manifest) { m.trimmed.end = 0 },
		"more frames than trimmed":    func(m *manifest) { m.trimmed.frames = 31 },
		"a sum of no block":           func(m *manifest) { m.first, m.trimmed.end = 4096, 4096 },
		"frames of nothing":           func(m *manifest) { m.segments[1].bytes = 0 },
		"a sum of no frame":           func(m *manifest) { m.segments[1].bytes = 4096 },
		"known behind an open one": func(m *manifest) {
			m.segments = append(m.segments, manifestSegment{id: open.id + 1, bytes: 1, frames: 1})
		},
		"more trimmed than there is": func(m *manifest) { m.first, m.trimmed.end = 6000, 5001 },
	} {
		m := good()
		change(m)
		if _, err := parseManifest(m.encode()); !errors.Is(err, record.ErrSyntax) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	s := newSeal(1, 2)
	f.Add(s.appendFrame(nil, 0, frame{end: 5, entry: true, sum: 1}), int64(0), int64(0))
	f.Add(s.appendFrame(nil, 3, frame{end: 4096, sum: 1}), int64(3), int64(4000))
	f.Fuzz(func(t *testing.T, b []byte, n, begin int64) {
		if begin < 0 || begin >= maxEnd {
			return
		}
		got, err := s.parseFrame(b, n, begin)
		if err == nil && (!bytes.Equal(b[:frameBytes], s.appendFrame(nil, n, got)) || got.end <= begin) {
			t.Errorf("% x is read as %+v", b, got)
		}
	})
}

// There is one way to write a text that parses.
func FuzzTexts(f *testing.F) {
	id := record.NewSegmentID(2, 1)
	f.Add((&manifest{log: 1, edit: 3, running: true, segments: []manifestSegment{{id: id, salt: 1, sealed: true, bytes: 3, frames: 2}, {id: id + 1, salt: 4}}}).encode())
	f.Add((&manifest{log: 1, edit: 3, running: true, ring: 5, spent: 6, cache: "x", file: "y", segments: []manifestSegment{{id: id, salt: 4, bytes: 20, frames: 3, sum: 5}}}).encode())
	f.Add((&manifest{log: 1, edit: 3, spent: 7, segments: []manifestSegment{{id: id, salt: 1, sealed: true, bytes: 3, frames: 2}}}).encode())
	f.Add((&manifest{log: 1, edit: 3, first: 9, trimmed: trimPlace{place{9, 2}, 8}, spent: 7, segments: []manifestSegment{{id: id, salt: 1, sealed: true, bytes: 30, frames: 4}}}).encode())
	f.Add((&sumsHeader{1, id, 2}).encode())
	f.Add(marks.Encode(&files.Mark{Log: 1, Edit: 2, Segment: id, Offset: 4, Seq: 3, Failed: true}))
	f.Add(marks.Encode(&files.Mark{Log: 1, Edit: 2, Segment: id}))
	f.Add(rings.Encode(&tail.RingHeader{Log: 1, ID: 2, Sizes: [2]int64{4096, 8192}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		if m, err := parseManifest(b); err == nil {
			again = m.encode()
		}
		if h, err := parseSumsHeader(b); err == nil && len(b) == lineBytes {
			again = h.encode()
		}
		if m, err := marks.Parse(b); err == nil && len(b) == files.SlotBytes {
			again = marks.Encode(m)
		}
		if h, err := rings.Parse(b); err == nil && len(b) == tail.RingLine {
			again = rings.Encode(&h)
		}
		if again != nil && !bytes.Equal(again, b) {
			t.Errorf("there are two ways to write %q", b)
		}
	})
}
