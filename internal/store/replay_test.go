package store

import (
	"testing"

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
	seg := s.log.segment(0)
	for at := seg.head; at < seg.end.Load(); {
		e, err := seg.read(at, nil)
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
