package engine

import (
	"bytes"
	"errors"
	"testing"

	"github.com/copaldb/copal/internal/logtest"
	"github.com/copaldb/copal/internal/record"
	"github.com/copaldb/copal/internal/seglog"
	"github.com/copaldb/copal/internal/vfs"
)

// TestReplayBySequenceNumber replays records to tables that know something already.
func TestReplayBySequenceNumber(t *testing.T) {
	s := mustOpen(t, vfs.NewMem())
	for _, v := range []string{"first", "second", "third"} {
		mustSet(t, s, "k", v)
	}
	var places []seglog.Address // of the three records
	var entries []seglog.Record
	table := s.spaces[0].raw
	seg := s.log.Segment(0)
	for at := seg.Head; at < seg.End.Load(); {
		e, err := seg.Read(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		places, entries = append(places, seglog.AddressOf(0, at)), append(entries, e)
		at += int64(e.Bytes)
	}
	now := func() string {
		h, err := table.find(table.hash([]byte("k")), []byte("k"))
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range places {
			if h.address == a {
				return string(entries[i].Value)
			}
		}
		return "none"
	}
	replay := func(op record.Op, seq uint64, at seglog.Address, want string) {
		t.Helper()
		e := seglog.Record{Head: record.Head{Op: op, Kind: record.Value, Seq: seq}, Key: []byte("k")}
		if op == record.Range {
			e.Key = nil
		}
		if err := s.replay(e, at); err != nil {
			t.Fatal(err)
		}
		if err := s.settleRanges(s.ranges); err != nil {
			t.Fatal(err)
		}
		s.ranges = nil
		if got := now(); got != want {
			t.Errorf("after %c with number %d: %s, want %s", op, seq, got, want)
		}
		if n := table.Len(); (n == 0) != (want == "none") || n > 1 {
			t.Errorf("after %c with number %d: %d keys", op, seq, n)
		}
	}
	replay(record.Set, 1, places[0], "third")  // older
	replay(record.Delete, 2, 0, "third")       // older
	replay(record.Range, 2, 0, "third")        // older
	replay(record.Delete, 3, 0, "third")       // cannot be; the entry's own number
	replay(record.Set, 3, places[2], "third")  // the same record in the same place
	replay(record.Set, 3, places[1], "second") // and in another: there it is from now on
	replay(record.Set, 4, places[0], "first")  // newer
	replay(record.Delete, 5, 0, "none")        // newer
	replay(record.Set, 1, places[0], "first")  // nothing is known
	replay(record.Range, 2, 0, "none")         // newer
	mustClose(t, s)
}

func TestRangeDeletesWhatIsOlder(t *testing.T) {
	s := mustOpen(t, logtest.Hand(t,
		logtest.Rec(record.Set, record.System, "map:users", "{}"),
		logtest.Rec(record.Set, record.Value, "users:1", "x"),
		logtest.Rec(record.Set, record.Value, "users", "raw"),
		logtest.Rec(record.Set, record.Value, "other", "x", func(h *record.Head) { h.Space = 3 }),
		logtest.Rec(record.Range, record.Value, "users", ""),
		logtest.Rec(record.Set, record.Value, "users:2", "after"),
	))
	wantValue(t, s, "users:1", absent)
	wantValue(t, s, "users", absent)
	wantValue(t, s, "users:2", "after")
	if n := s.spaces[3].raw.Len(); n != 1 {
		t.Errorf("the other key space has %d keys", n)
	}
}

func TestKeySpacesAndKindsAreApart(t *testing.T) {
	s := mustOpen(t, logtest.Hand(t,
		logtest.Rec(record.Set, record.Value, "k", "zero"),
		logtest.Rec(record.Set, record.Value, "k", "one", func(h *record.Head) { h.Space = 1 }),
		logtest.Rec(record.Set, record.Element, "k", "element"),
		logtest.Rec(record.Set, record.Meta, "m", "hash 4"),
		logtest.Rec(record.Delete, record.Value, "m", ""), // a key has one entry, of whatever kind
		logtest.Rec(record.Set, record.System, "later:thing", "of no interest"),
	))
	wantValue(t, s, "k", "zero")
	wantValue(t, s, "m", absent)
	if st := s.Stats(); st.Keys != 2 || st.Records != 6 {
		t.Errorf("%+v, want 2 keys in 6 records", st)
	}
}

// FuzzRecovery: whatever a segment holds, the store opens or says that it is corrupt or newer, and
// a store that opens takes writes and opens again.
func FuzzRecovery(f *testing.F) {
	h := record.SegmentHeader{ID: record.NewSegmentID(1, 0), Salt: logtest.HandSalt, Start: 1000, Store: logtest.HandStore}
	head := h.Append(nil)
	add := func(records ...logtest.HandRecord) {
		var tail []byte
		for i, p := range records {
			p.Seq = uint64(i) + 1
			tail = logtest.HandSalt.Append(tail, int64(len(head)+len(tail)), &p.Head, []byte(p.Key), []byte(p.Value))
		}
		f.Add(tail)
	}
	add(logtest.Rec(record.Set, record.Value, "a", "1"), logtest.Rec(record.Delete, record.Value, "a", ""), logtest.Rec(record.Set, record.Schema, "1", "json int"))
	add(logtest.Rec(record.Set, record.Value, "a", "1", logtest.InGroup(1)), logtest.Rec(record.Commit, record.System, "", "1", logtest.InGroup(1)))
	add(logtest.Rec(record.Set, record.System, "map:m", "{}"), logtest.Rec(record.Set, record.Value, "m:1", "x"), logtest.Rec(record.Range, record.Value, "m", ""))
	add(logtest.Rec(record.Set, record.Value, "big", "1 1.5e", func(h *record.Head) { h.Large = 1 }))
	f.Fuzz(func(t *testing.T, tail []byte) {
		for _, b := range [][]byte{tail, resealed(tail, int64(len(head)))} {
			mem := logtest.HandBytes(t, append(bytes.Clone(head), b...))
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

// resealed gives bytes in the form of records, one after the other, the right checksums.
func resealed(b []byte, offset int64) []byte {
	var out []byte
	for {
		h, n, err := record.Parse(b)
		if err != nil || h.Length(n) > len(b) {
			return append(out, b...)
		}
		total := h.Length(n)
		out = logtest.HandSalt.Append(out, offset+int64(len(out)), &h, b[n:n+h.KeyBytes], b[n+h.KeyBytes+1:total-1])
		b = b[total:]
	}
}
