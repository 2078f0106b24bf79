package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/vfs"
)

// hintAll writes all hints that can be.
func hintAll(t testing.TB, s *Store) {
	t.Helper()
	if err := s.log.syncEnded(); err != nil {
		t.Fatal(err)
	}
	for s.hintOnce(noPause) {
	}
}

// hintsOf are the names of the hints that there are.
func hintsOf(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(n string) bool { _, ok := parseHintName(n); return !ok })
}

func noHints(o *Options) { o.NoHints = true }

// known is all that recovery has found out, as text.
func known(t testing.TB, s *Store) string {
	t.Helper()
	var b strings.Builder
	l := s.log
	fmt.Fprintf(&b, "next %d time %d records %d floor %d torn %d\n", l.nextSeq, l.lastTime, l.records.Load(), l.manifest.Floor, s.torn)
	for _, seg := range l.set.Load().ordered {
		fmt.Fprintf(&b, "segment %s end %d dead %d records %d %d to %d\n", seg.id, seg.end.Load(), seg.dead.Load(), seg.records, seg.first, seg.last)
	}
	for n := range uint64(100) {
		if schema, ok := s.schemas[n]; ok {
			fmt.Fprintf(&b, "schema %d %v\n", n, schema)
		}
	}
	var lines []string
	for _, table := range s.Tables() {
		lines = append(lines, fmt.Sprintf("table %q %v %v\n", table.name, table.declared.Load(), table.Schemas()))
		for a, err := range table.addresses() {
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.readAt(a, nil)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%q %d %x %d\n", e.key, e.Seq, a, e.Expiry))
		}
	}
	slices.Sort(lines)
	return b.String() + strings.Join(lines, "")
}

// TestHintsSayWhatTheLogSays opens the same store from hints and from the log.
func TestHintsSayWhatTheLogSays(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		clock := newTestClock()
		m := &compactModel{t: t, rng: rand.New(rand.NewPCG(seed, 31)), mem: vfs.NewMem(), content: map[string]string{}}
		m.open()
		for n := range 400 {
			m.step(n)
		}
		for n := range 100 { // some of these come to an end, some have
			w := &Write{Key: fmt.Append(nil, "mortal", n%20), Value: []byte("x"), Durability: Process, Expiry: uint64(clock.Now().UnixMilli()) + uint64(m.rng.IntN(3))*1e12}
			if _, err := m.s.Write(m.s.spaces[0].raw, w); err != nil {
				t.Fatal(err)
			}
			if n%30 == 0 {
				if _, err := m.s.SchemaNumber(Schema{Codec: "json", Text: fmt.Sprint(n)}); err != nil {
					t.Fatal(err)
				}
				compactSome(t, m.s, m.rng)
			}
		}
		if err := m.s.sealTail(); err != nil {
			t.Fatal(err)
		}
		mustSet(t, m.s, "last", "1")
		if err := m.s.sealTail(); err != nil {
			t.Fatal(err)
		}
		hintAll(t, m.s)
		mustClose(t, m.s)
		m.mem.Remove("db/" + snapshotName)
		if err := mustCheck(t, m.mem); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, readOnly := range []bool{false, true} {
			change := func(o *Options) { o.ReadOnly, o.Clock = readOnly, clock }
			log := mustOpen(t, m.mem.ProcessCrash(), change, noHints)
			hints := mustOpen(t, m.mem.ProcessCrash(), change)
			if log.hinted || !hints.hinted {
				t.Fatalf("seed %d: hints were used: %v and %v", seed, log.hinted, hints.hinted)
			}
			if a, b := known(t, log), known(t, hints); a != b {
				t.Fatalf("seed %d: the log says\n%s\nand the hints\n%s", seed, a, b)
			}
			mustClose(t, log)
			mustClose(t, hints)
		}
	}
}

// mustCheck returns the first problem that Check finds.
func mustCheck(t testing.TB, fsys vfs.FS) error {
	t.Helper()
	r, err := Check("db", fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		return &r.Problems[0]
	}
	return nil
}

// newHinted is a store that has died, with hints and without a snapshot of its index, and what it holds.
func newHinted(t testing.TB) indexed {
	t.Helper()
	x := newIndexed(t, false)
	s := mustOpen(t, x.mem, shortSegments)
	mustSet(t, s, "raw 1", "again")
	x.content["raw 1"] = "again"
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "raw 2", "again")
	x.content["raw 2"] = "again"
	hintAll(t, s)
	x.mem = x.mem.ProcessCrash()
	x.mem.Remove("db/" + snapshotName)
	if n := len(hintsOf(t, x.mem)); n < 4 {
		t.Fatalf("there are %d hints", n)
	}
	return x
}

func TestHintDamagedAnywhere(t *testing.T) {
	x := newHinted(t)
	name := hintsOf(t, x.mem)[1]
	good := read(t, x.mem, name)
	try := func(what string, b []byte) {
		t.Helper()
		image := x.mem.ProcessCrash()
		if write(t, image, name, b); b == nil {
			image.Remove("db/" + name)
		}
		x.holds(t, image, what)
		image.Remove("db/" + snapshotName)
		s := mustOpen(t, image)
		id, _ := parseHintName(name)
		if seg := s.log.set.Load().byID[id]; seg.hinted {
			t.Fatalf("%s: it was used", what)
		}
		mustSet(t, s, "more", "1")
		hintAll(t, s)
		mustClose(t, s)
		if now := read(t, image, name); !bytes.Equal(now, good) {
			t.Fatalf("%s: it was not made anew", what)
		}
	}
	step := 5
	switch {
	case longTest():
		step = 1
	case testing.Short():
		step = 11
	}
	for bit := 0; bit < len(good)*8; bit += step {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		try(fmt.Sprint("bit ", bit), bad)
	}
	for n := 0; n < len(good); n += step {
		try(fmt.Sprint("cut to ", n), good[:n:n])
	}
	try("longer", append(bytes.Clone(good), 0))
	try("missing", nil)
	for _, other := range hintsOf(t, x.mem) {
		if other != name {
			try("that of another segment, "+other, read(t, x.mem, other))
		}
	}
}

// TestHintOfAnotherSegment gives each of two segments of the same length the hint of the other.
func TestHintOfAnotherSegment(t *testing.T) {
	mem, clock := vfs.NewMem(), newTestClock()
	s := mustOpen(t, mem, func(o *Options) { o.Clock = clock })
	for i := range 4 { // the last two are still open in the manifest
		mustSet(t, s, fmt.Sprint("key ", i), fmt.Sprint("value ", i))
		if err := s.sealTail(); err != nil {
			t.Fatal(err)
		}
	}
	hintAll(t, s)
	mustClose(t, s)
	mem.Remove("db/" + snapshotName)
	one, two := "00000001.hint", "00000002.hint"
	a, b := read(t, mem, one), read(t, mem, two)
	if len(a) != len(b) || sizeOf(t, mem, "db/00000001.log") != sizeOf(t, mem, "db/00000002.log") {
		t.Fatal("the segments differ in length")
	}
	write(t, mem, one, b)
	write(t, mem, two, a)
	s = mustOpen(t, mem)
	for _, seg := range s.log.set.Load().ordered[:2] {
		if seg.hinted {
			t.Errorf("that of another was used for segment %s", seg.id)
		}
	}
	if !s.log.set.Load().ordered[2].hinted {
		t.Error("the next one was not used, and all began anew")
	}
	for i := range 4 {
		wantValue(t, s, fmt.Sprint("key ", i), fmt.Sprint("value ", i))
	}
	mustClose(t, s)
}

// forge gives a hint another body, with the checksum that it should have.
func forge(good, body []byte) []byte {
	h, err := parseHintTitle(good[:hintHead])
	if err != nil {
		panic(err)
	}
	h.Length, h.CRC = int64(len(body)), crc32.Checksum(body, castagnoli)
	return append(h.encode(), body...)
}

// TestHintThatCannotBe gives hints with a valid checksum that are not what the segment says: what cannot be is not used, and
// Check finds what can.
func TestHintThatCannotBe(t *testing.T) {
	x := newHinted(t)
	name := hintsOf(t, x.mem)[1]
	good := read(t, x.mem, name)
	if err := mustCheck(t, x.mem); err != nil {
		t.Fatal(err)
	}
	for what, body := range map[string][]byte{
		"cut":    good[hintHead : len(good)-1],
		"longer": append(bytes.Clone(good[hintHead:]), 0),
		"zeros":  make([]byte, len(good)-hintHead),
		"nines":  bytes.Repeat([]byte{0xff}, 400),
	} {
		image := x.mem.ProcessCrash()
		write(t, image, name, forge(good, body))
		x.holds(t, image, what)
		if err := mustCheck(t, image); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Check says %v", what, err)
		}
	}
	other := bytes.Clone(good)
	i := bytes.Index(other, []byte("raw "))
	other[i+4] ^= 1
	write(t, x.mem, name, forge(good, other[hintHead:]))
	if err := mustCheck(t, x.mem); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("another key: Check says %v", err)
	}
}

// TestDamagedValueBehindHint: what a hint says of a damaged record is believed; its value is not.
func TestDamagedValueBehindHint(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, shortSegments)
	mustSet(t, s, "one", "the value of one")
	mustSet(t, s, "two", "the value of two")
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "three", "3")
	if err := s.sealTail(); err != nil {
		t.Fatal(err)
	}
	hintAll(t, s)
	mustClose(t, s)
	mem.Remove("db/" + snapshotName)
	b := read(t, mem, "00000001.log")
	b[bytes.Index(b, []byte("value of one"))] ^= 1
	write(t, mem, "00000001.log", b)
	s = mustOpen(t, mem, shortSegments)
	if e, err := s.Get(nil, []byte("one")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the damaged value is %q, %v", e.Value, err)
	}
	wantValue(t, s, "two", "the value of two")
	mustClose(t, s)
	if err := mustCheck(t, mem); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Check says %v", err)
	}
}

// TestHintsGoWithTheirSegments: there is none of a segment that is not there.
func TestHintsGoWithTheirSegments(t *testing.T) {
	x := newHinted(t)
	write(t, x.mem, "000000ff.hint", []byte("left"))
	write(t, x.mem, hintTemp, []byte("left"))
	before := x.mem.ProcessCrash()
	mustClose(t, mustOpen(t, before, shortSegments))
	if !slices.Contains(hintsOf(t, before), "000000ff.hint") {
		t.Error("a store that was not written to was changed")
	}
	s := mustOpen(t, x.mem, shortSegments)
	mustSet(t, s, "raw 1", "2")
	if err := s.Shrink(); err != nil {
		t.Fatal(err)
	}
	hintAll(t, s)
	mustClose(t, s)
	names, err := x.mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if id, ok := parseHintName(name); ok && !slices.Contains(names, id.FileName()) || name == hintTemp {
			t.Errorf("there are %v", names)
		}
	}
	if len(hintsOf(t, x.mem)) == 0 {
		t.Error("the compacted segment has no hint")
	}
	x.mem.Remove("db/" + snapshotName)
	if s = mustOpen(t, x.mem); !s.hinted {
		t.Error("it is not used")
	}
	mustClose(t, s)
}

// TestHintOnFullDisk: where there is no room for a hint there is none, and nothing else comes of it.
func TestHintOnFullDisk(t *testing.T) {
	for _, kind := range []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpRename} {
		mem := vfs.NewMem()
		isHint := func(name string) bool {
			return strings.HasSuffix(name, hintTemp) || strings.HasSuffix(name, hintSuffix)
		}
		fsys := vfs.Inject(mem, &vfs.Fault{Kinds: kind, Match: isHint, N: 1, Forever: true, Err: vfs.ErrNoSpace})
		var told []error
		s := mustOpen(t, fsys, shortSegments, func(o *Options) { o.OnError = func(err error) { told = append(told, err) } })
		for i := range 50 {
			mustSet(t, s, fmt.Sprint("key ", i), strings.Repeat("x", 30))
		}
		if err := s.log.syncEnded(); err != nil {
			t.Fatal(err)
		}
		hintAll(t, s)
		hintAll(t, s)
		mustSet(t, s, "key 1", "more")
		mustClose(t, s)
		if len(told) != 1 || !errors.Is(told[0], ErrNoSpace) && kind != vfs.OpRename {
			t.Errorf("%v: reported %v", kind, told)
		}
		if names := hintsOf(t, mem); len(names) > 0 {
			t.Errorf("%v: there are %v", kind, names)
		}
	}
}

// TestHintText pins the form of a hint.
func TestHintText(t *testing.T) {
	var body []byte
	w := &hintWriter{title: hintTitle{ID: record.NewSegmentID(0x1a, 2), Salt: 0x1f0c9a3e5f3a91c2, Bytes: 0x4000000}, flush: func(b []byte) error { body = append(body, b...); return nil }}
	for _, e := range []entry{
		{Head: record.Head{Op: record.Set, Kind: record.Value, Seq: 300, Time: 5}, key: []byte("key"), value: []byte("value"), bytes: 40},
		{Head: record.Head{Op: record.Set, Kind: record.Value, Space: 1, Schema: 2, Seq: 301, Time: 6, Group: 3, Large: 4, Expiry: 200}, key: []byte("k"), value: []byte("value"), bytes: 41},
		{Head: record.Head{Op: record.Set, Kind: record.Schema, Seq: 301}, key: []byte("1"), value: []byte("json x"), bytes: 42},
		{Head: record.Head{Op: record.Part, Kind: record.Value, Seq: 302}, key: []byte("key"), value: []byte("part"), bytes: 43},
		{Head: record.Head{Op: record.Commit, Kind: record.System, Group: 3, Seq: 303}, value: []byte("1"), bytes: 44},
	} {
		if err := w.add(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.drain(); err != nil {
		t.Fatal(err)
	}
	want := "Sv\x00\x28\x00\xac\x02\x05\x03key" +
		"Sv\x0f\x29\x01\x01\x06\x02\x03\x04\xc8\x01\x01k" +
		"St\x10\x2a\x00\x00\x00\x01\x061json x" +
		"Pv\x00\x2b\x00\x01\x00\x07" +
		"Cs\x12\x2c\x00\x01\x00\x03\x00\x011"
	if string(body) != want {
		t.Errorf("it is written\n%q, want\n%q", body, want)
	}
	title := w.title.encode()
	if want := fmt.Sprintf("copal hint 1 segment 1a-2 salt 1f0c9a3e5f3a91c2 bytes 4000000 records 5 length %x crc %08x   ", len(body), crc32.Checksum(body, castagnoli)); len(title) != hintHead || !bytes.HasPrefix(title, []byte(want)) {
		t.Errorf("its first line is %q", title)
	}
	if h, err := parseHintTitle(title); err != nil || h != w.title {
		t.Errorf("it reads %+v, %v", h, err)
	}
	longest := hintTitle{ID: record.NewSegmentID(1<<32-1, 1<<32-1), Salt: 1<<64 - 1, Bytes: maxSegmentBytes, Records: maxSegmentBytes, Length: 2 * maxSegmentBytes, CRC: 1<<32 - 1}
	if h, err := parseHintTitle(longest.encode()); err != nil || h != longest {
		t.Errorf("the longest reads %+v, %v", h, err)
	}
}

// FuzzHint reads any bytes as a hint, and opens a store with them: it returns, and holds what it held if the checksum is wrong.
func FuzzHint(f *testing.F) {
	x := newHinted(f)
	name := hintsOf(f, x.mem)[1]
	good := read(f, x.mem, name)
	f.Add(good)
	f.Add(good[hintHead:])
	f.Add([]byte("Sv\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00"))
	f.Add([]byte("Sv\x10\x10\x00\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02key"))
	f.Add([]byte("Sv\x00\x00\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := parseHintTitle(good[:hintHead])
		r := newHintReader(h, bytes.NewReader(b), 100)
		at := int64(0)
		for {
			now, e, err := r.next()
			if err != nil {
				break
			}
			if now <= at || e.bytes == 0 || e.bytes < 0 || len(e.key) > e.bytes || len(e.value) > e.bytes {
				t.Fatalf("a record at %d after %d: %+v", now, at, e)
			}
			at = now
		}
		image := x.mem.ProcessCrash()
		if write(t, image, name, b); !bytes.Equal(b, good) {
			x.holds(t, image, "fuzzed")
		}
		image = x.mem.ProcessCrash()
		write(t, image, name, forge(good, b))
		if s, err := Open("db", testOptions(image)); err == nil {
			for key := range x.content {
				s.Get(nil, []byte(key))
			}
			s.Close()
		}
	})
}

// TestCrashWithHints crashes at every operation of a script in which hints are written.
func TestCrashWithHints(t *testing.T) {
	want := 5_000
	if longTest() {
		want = 500_000
	}
	if testing.Short() {
		want = 2_000
	}
	states, hinted := 0, 0
	for seed := uint64(1); states < want; seed++ {
		c := compactionCrasher(t, seed)
		options := c.options
		c.options = func(o *Options) { options(o); o.NoSnapshot = seed%3 > 0 }
		script := compactionScript(c.rng, 24)
		for i := range script {
			if i%3 == 2 {
				script[i] = step{kind: "hint"}
			}
			if script[i].kind == "snapshot" {
				script[i] = step{kind: "reopen"}
			}
		}
		c.run(vfs.NewCrashMem(), newOracle(nil), script, 0)
		states += c.states
		hinted += c.hinted
		if c.failure != "" {
			t.Fatalf("seed %d, after %d states: %s", seed, states, c.failure)
		}
	}
	if hinted < states/20 {
		t.Errorf("only %d of %d survivors were opened with hints", hinted, states)
	}
	t.Logf("%d crash states, %d with hints, 0 violations", states, hinted)
}

// TestHintsInTheBackground: housekeeping writes them, while others read and write, and after what is due.
func TestHintsInTheBackground(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, shortSegments, func(o *Options) { o.Inline = false })
	content := map[string]string{}
	for n := 0; len(hintsOf(t, mem)) < 5; n++ {
		key, value := fmt.Sprint("key ", n%3000), fmt.Sprint("value ", n)
		content[key] = value
		mustSet(t, s, key, value)
		if n%20 == 0 {
			if err := s.FSyncAll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustClose(t, s)
	mem.Remove("db/" + snapshotName)
	if err := mustCheck(t, mem); err != nil {
		t.Error(err)
	}
	s = mustOpen(t, mem)
	if !s.hinted {
		t.Error("they are not used")
	}
	s.wantSame(t, content)
	mustClose(t, s)
}

// A store whose log is not due to be compacted has hints, but for a few segments, also of what is mostly dead.
func TestMostlyDeadSegmentsAreHintedAtLast(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 4 << 10 })
	s.opts.Inline = false // no goroutine has begun, and what is asked is whether there is one
	for i := range 2000 {
		mustSet(t, s, fmt.Sprint("cold ", i), "value")
	}
	for i := range 1000 {
		mustSet(t, s, fmt.Sprint("hot ", i%20), "value")
	}
	hintAll(t, s)
	if s.due() {
		t.Fatal("compaction is due")
	}
	dead, without := 0, int64(0)
	for _, seg := range s.log.compactable() {
		if 2*seg.dead.Load() > seg.end.Load() {
			dead++
		}
		if !seg.hinted {
			without += seg.end.Load()
		}
	}
	if most := maxUnhinted * s.log.limit; dead < 8 || without > most || without == 0 {
		t.Errorf("%d bytes have no hint, at most %d; %d segments are mostly dead", without, most, dead)
	}
	s.opts.Inline = true
	mustClose(t, s)
}
