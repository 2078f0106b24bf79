package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/copaldb/copal/internal/files"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

const (
	handSalt  record.Salt = 0xfeed
	handStore uint64      = 0xbeef
)

// hand writes a store of one open segment that holds the given records, numbered
// from 1 where they have no number.
func hand(t testing.TB, records ...pending) *vfs.Mem {
	t.Helper()
	h := record.SegmentHeader{ID: record.NewSegmentID(1, 0), Salt: handSalt, Start: 1000, Store: handStore}
	text := h.Append(nil)
	for i, p := range records {
		if p.Seq == 0 {
			p.Seq = uint64(i) + 1
		}
		text = handSalt.Append(text, int64(len(text)), &p.Head, p.key, p.value)
	}
	return handBytes(t, text)
}

// handBytes writes a store of one open segment with the given contents.
func handBytes(t testing.TB, segment []byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	m := seglog.Manifest{Store: handStore, Edit: 1, Segments: []seglog.ManifestSegment{{ID: record.NewSegmentID(1, 0), Salt: handSalt, Bytes: 1}}, Writing: &seglog.Writing{}}
	if err := mem.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{seglog.ManifestName: m.Encode(), "00000001.log": segment} {
		f, err := mem.Open("db/"+name, vfs.Create)
		if err == nil {
			_, err = f.WriteAt(text, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return mem
}

func rec(op record.Op, kind record.Kind, key, value string, change ...func(*record.Head)) pending {
	p := pending{Head: record.Head{Op: op, Kind: kind}, key: []byte(key), value: []byte(value)}
	for _, f := range change {
		f(&p.Head)
	}
	return p
}

func group(n uint64) func(*record.Head) { return func(h *record.Head) { h.Group = n } }

func TestGroupCountsFromItsCommit(t *testing.T) {
	records := []pending{
		rec(record.Set, record.Value, "a", "old"),
		rec(record.Set, record.Value, "a", "new", group(2)),
		rec(record.Set, record.Value, "b", "between"), // of somebody else
		rec(record.Delete, record.Value, "b", "", group(2)),
		rec(record.Set, record.Value, "c", "new", group(2)),
		rec(record.Commit, record.System, "", "3", group(2)),
	}
	s := mustOpen(t, hand(t, records...))
	wantValue(t, s, "a", "new")
	wantValue(t, s, "b", absent)
	wantValue(t, s, "c", "new")
	s = mustOpen(t, hand(t, records[:5]...)) // without its commit
	wantValue(t, s, "a", "old")
	wantValue(t, s, "b", "between")
	wantValue(t, s, "c", absent)
	if n := s.Stats().Keys; n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	mustSet(t, s, "d", "later") // a tail of members without a commit takes appends
	mustClose(t, s)

	records[5].value = []byte("4")
	if _, err := Open("db", testOptions(hand(t, records...))); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("a commit that names more members than there are: %v", err)
	}
}

func TestRangeDeletesWhatIsOlder(t *testing.T) {
	s := mustOpen(t, hand(t,
		rec(record.Set, record.System, "map:users", "{}"),
		rec(record.Set, record.Value, "users:1", "x"),
		rec(record.Set, record.Value, "users", "raw"),
		rec(record.Set, record.Value, "other", "x", func(h *record.Head) { h.Space = 3 }),
		rec(record.Range, record.Value, "users", ""),
		rec(record.Set, record.Value, "users:2", "after"),
	))
	wantValue(t, s, "users:1", absent)
	wantValue(t, s, "users", absent)
	wantValue(t, s, "users:2", "after")
	if n := s.spaces[3].raw.Len(); n != 1 {
		t.Errorf("the other key space has %d keys", n)
	}
}

func TestKeySpacesAndKindsAreApart(t *testing.T) {
	s := mustOpen(t, hand(t,
		rec(record.Set, record.Value, "k", "zero"),
		rec(record.Set, record.Value, "k", "one", func(h *record.Head) { h.Space = 1 }),
		rec(record.Set, record.Element, "k", "element"),
		rec(record.Set, record.Meta, "m", "hash 4"),
		rec(record.Delete, record.Value, "m", ""), // a key has one entry, of whatever kind
		rec(record.Set, record.System, "later:thing", "of no interest"),
	))
	wantValue(t, s, "k", "zero")
	wantValue(t, s, "m", absent)
	if st := s.Stats(); st.Keys != 2 || st.Records != 6 {
		t.Errorf("%+v, want 2 keys in 6 records", st)
	}
}

func TestNewerRecordsAreRefused(t *testing.T) {
	for _, p := range []pending{
		rec('Z', record.Value, "k", ""),
		rec(record.Set, 'z', "k", ""),
		rec(record.Set, record.Value, "k", "", func(h *record.Head) { h.Other = " Anew" }),
	} {
		_, err := Open("db", testOptions(hand(t, p, rec(record.Set, record.Value, "after", ""))))
		if !errors.Is(err, seglog.ErrVersion) || errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%c%c%s: %v, want ErrVersion", p.Op, p.Kind, p.Other, err)
		}
	}
}

func TestSequenceWithoutGaps(t *testing.T) {
	for name, records := range map[string][]pending{
		"gap":   {rec(record.Set, record.Value, "a", ""), rec(record.Set, record.Value, "b", "", func(h *record.Head) { h.Seq = 3 })},
		"twice": {rec(record.Set, record.Value, "a", ""), rec(record.Set, record.Value, "b", "", func(h *record.Head) { h.Seq = 1 })},
	} {
		if _, err := Open("db", testOptions(hand(t, records...))); !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPartsThatAreNotThere(t *testing.T) {
	for name, list := range map[string]string{
		"no place": "5 1.ffffff", "no segment": "5 9.10", "not a list": "5 x", "another record": "5 1.", "too few": "3 1.5e", "nothing": "",
	} {
		set := rec(record.Set, record.Value, "big", list, func(h *record.Head) { h.Large = 5 })
		s := mustOpen(t, hand(t, set))
		_, err := s.Get(nil, []byte("big"))
		if !errors.Is(err, seglog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// TestReadOnlyBesideAWriter opens the store of a live writer at every state that its
// operations lead through.
func TestReadOnlyBesideAWriter(t *testing.T) { bothWays(t, readOnlyBesideAWriter) }

func readOnlyBesideAWriter(t *testing.T) {
	mem := vfs.NewCrashMem()
	s := mustOpen(t, mem, func(o *Options) { o.SegmentBytes = 300 })
	var written []string
	looks := 0
	mem.OnBoundary(func(op vfs.Op, phase vfs.Phase) {
		if op.Name == "db/"+seglog.LockName {
			return
		}
		r, err := Open("db", Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatalf("at %v: %v", op, err)
		}
		looks++
		for i, key := range written {
			wantValue(t, r, key, fmt.Sprint(i))
		}
		if err := r.Set(nil, []byte("k"), nil, 0, Process); err != seglog.ErrReadOnly {
			t.Fatalf("a read-only store takes a write: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
	for i := range 60 {
		key := fmt.Sprintf("key %d", i)
		mustSet(t, s, key, fmt.Sprint(i))
		written = append(written, key)
	}
	if looks < 100 || s.Stats().Segments < 5 {
		t.Errorf("only %d looks at %d segments", looks, s.Stats().Segments)
	}
}

func TestReadOnlyOfNothing(t *testing.T) {
	mem := vfs.NewMem()
	if _, err := Open("db", Options{FS: mem, ReadOnly: true}); err == nil {
		t.Error("a directory that is missing opens read-only")
	}
	if names, err := mem.List("."); err == nil && slices.Contains(names, "db") {
		t.Error("opening read-only has made the directory")
	}
}

func TestManifestMissing(t *testing.T) {
	mem := hand(t, rec(record.Set, record.Value, "k", "v"))
	if err := mem.Remove("db/" + seglog.ManifestName); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("db", testOptions(mem)); !errors.Is(err, seglog.ErrCorrupt) || !strings.Contains(err.Error(), seglog.ManifestName) {
		t.Errorf("Open: %v", err)
	}
}

// TestSegmentWithoutAManifest: a segment without a manifest may be somebody's data. Open refuses
// it, unless it holds no more than a header, and never changes it.
func TestSegmentWithoutAManifest(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for i := range 100 {
		mustSet(t, s, fmt.Sprint("key ", i), "value")
	}
	mustClose(t, s)
	whole, _, err := files.Read(s.opts.FS, "db/00000001.log", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	head := int(s.log.set.Load().bySlot[0].head)
	for what, x := range map[string]struct {
		text  string
		opens bool
		want  error
	}{
		"whole":                {string(whole), false, seglog.ErrCorrupt},
		"first record damaged": {strings.Replace(string(whole), "key 0", "kEy 0", 1), false, seglog.ErrCorrupt},
		"header damaged":       {strings.Replace(string(whole), "copal", "cOpal", 1), false, seglog.ErrCorrupt},
		"one torn record":      {string(whole[:head+10]), false, seglog.ErrCorrupt},
		"newer":                {strings.Replace(string(whole), "log 1", "log 2", 1), false, seglog.ErrCorrupt}, // its checksum is that of version 1
		"not ours":             {"not of ours\n" + strings.Repeat("x", 5000), false, seglog.ErrCorrupt},
		"header alone":         {string(whole[:head]), true, nil},
		"torn header":          {string(whole[:head/2]), true, nil},
		"empty":                {"", true, nil},
	} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Open("db/00000001.log", vfs.Create)
		if err == nil {
			_, err = f.WriteAt([]byte(x.text), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open("db", testOptions(mem))
		if (err == nil) != x.opens || err != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: Open: %v", what, err)
		}
		if after, _, _ := files.Read(mem, "db/00000001.log", 1<<20); string(after) != x.text {
			t.Errorf("%s: opening has changed the file", what)
		}
		if err == nil {
			mustSet(t, s, "x", "y")
			mustClose(t, s)
		}
	}
}

// FuzzRecovery: whatever a segment holds, the store opens or says that it is corrupt or
// newer, and what opens takes writes and opens again.
func FuzzRecovery(f *testing.F) {
	h := record.SegmentHeader{ID: record.NewSegmentID(1, 0), Salt: handSalt, Start: 1000, Store: handStore}
	head := h.Append(nil)
	add := func(records ...pending) {
		var tail []byte
		for i, p := range records {
			p.Seq = uint64(i) + 1
			tail = handSalt.Append(tail, int64(len(head)+len(tail)), &p.Head, p.key, p.value)
		}
		f.Add(tail)
	}
	add(rec(record.Set, record.Value, "a", "1"), rec(record.Delete, record.Value, "a", ""), rec(record.Set, record.Schema, "1", "json int"))
	add(rec(record.Set, record.Value, "a", "1", group(1)), rec(record.Commit, record.System, "", "1", group(1)))
	add(rec(record.Set, record.System, "map:m", "{}"), rec(record.Set, record.Value, "m:1", "x"), rec(record.Range, record.Value, "m", ""))
	add(rec(record.Set, record.Value, "big", "1 1.5e", func(h *record.Head) { h.Large = 1 }))
	f.Fuzz(func(t *testing.T, tail []byte) {
		for _, b := range [][]byte{tail, resealed(tail, int64(len(head)))} {
			mem := handBytes(t, append(bytes.Clone(head), b...))
			s, err := Open("db", testOptions(mem))
			if err != nil {
				if !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, seglog.ErrVersion) {
					t.Fatalf("Open: %v", err)
				}
				continue
			}
			for _, table := range s.Tables() {
				for item := range s.Items(table) {
					if item.Err != nil && !errors.Is(item.Err, seglog.ErrCorrupt) {
						t.Fatalf("reading: %v", item.Err)
					}
				}
			}
			keys := s.Stats().Keys
			_, err = s.Get(nil, []byte("fuzz"))
			if errors.Is(err, ErrNotFound) {
				keys++
			}
			mustSet(t, s, "fuzz", "x")
			mustClose(t, s)
			s = mustOpen(t, mem)
			wantValue(t, s, "fuzz", "x")
			if got := s.Stats().Keys; got != keys {
				t.Fatalf("%d keys, %d when opened again", keys, got)
			}
		}
	})
}

// resealed gives what has the form of a record, one after the other, the checksum that it should have.
func resealed(b []byte, offset int64) []byte {
	var out []byte
	for {
		h, n, err := record.Parse(b)
		if err != nil || h.Length(n) > len(b) {
			return append(out, b...)
		}
		total := h.Length(n)
		out = handSalt.Append(out, offset+int64(len(out)), &h, b[n:n+h.KeyBytes], b[n+h.KeyBytes+1:total-1])
		b = b[total:]
	}
}

// Damage that a recovery meets which has begun with a snapshot of the index makes it begin anew.
// The second reading knows, too, that the page cache has survived: what was acknowledged last is
// damaged, and not torn.
func TestSecondReadingKnowsTheCache(t *testing.T) { bothWays(t, secondReadingKnowsTheCache) }

func secondReadingKnowsTheCache(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, mem)
	mustSet(t, s, "in the snapshot", "1")
	if err := s.takeSnapshot(nil); err != nil {
		t.Fatal(err)
	}
	name, at := s.log.tail.path, s.log.tail.end.Load()+20
	if s.log.ring != nil {
		name, at = s.log.ring.path, seglog.RingHead+at
	}
	mustSet(t, s, "last", "acknowledged")
	dead := mem.ProcessCrash()
	wantValue(t, mustOpen(t, dead.ProcessCrash()), "last", "acknowledged")
	change(t, dead, name, func(f vfs.File) error {
		_, err := f.WriteAt([]byte("~"), at)
		return err
	})
	readings := 0
	look := &stepFS{FS: dead, opening: func(name string) {
		if filepath.Base(name) == seglog.MarkName {
			readings++
		}
	}}
	if s, err := Open("db", testOptions(look)); !errors.Is(err, seglog.ErrCorrupt) {
		t.Errorf("Open: %v, it has dropped %d bytes", err, s.torn)
	}
	if readings != 2 {
		t.Errorf("the log was read %d times", readings)
	}
	dead.SetCacheID("another life, in which the last record may be torn")
	wantValue(t, mustOpen(t, dead), "last", absent)
}
